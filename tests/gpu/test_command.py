"""The whole command on a real GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cudabw

pytestmark = pytest.mark.gpu


def run_bandwidth(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(Path(cudabw.__file__).parents[1])}
    command = [sys.executable, "-m", "cudabw", "bandwidth", "--json", "--backend", "cuda", *arguments]
    outcome = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout)


@pytest.mark.parametrize(
    ("arguments", "kinds", "nbytes", "trials"),
    [
        ((), ("pageable", "pinned", "mapped"), 64 << 20, 5),
        (
            ("--all", "--size", "1048577", "--trials", "2"),
            ("pageable", "pinned", "mapped", "write-combined", "registered", "managed"),
            (1 << 20) + 1,
            2,
        ),
    ],
    ids=["default", "all"],
)
def test_a_run_measures_and_verifies_every_case(arguments, kinds, nbytes, trials):
    result = run_bandwidth(*arguments)
    assert result["error"] is None
    assert result["device"]["emulated"] is False
    cases = result["cases"]
    assert sorted((case["kind"], case["direction"]) for case in cases) == sorted(
        (kind, direction) for kind in kinds for direction in ("h2d", "d2h")
    )
    for case in cases:
        # How precise the figures are is a matter of the machine.
        assert case["state"] in ("ok", "unconverged", "unstable"), case
        assert (case["verified"], case["size_bytes"]) == (True, nbytes)
        assert len(case["trials"]) >= trials
        assert all(seconds > 0 for trial in case["trials"] for seconds in trial["samples_s"])
        assert case["clock"] == ("host" if case["kind"] == "pageable" else "event")
        assert case["rate_bytes_per_s"]["median"] > 0
