"""The machine in results, and the doctor, on a real GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cudabw
from cudabw.system.doctor import CHECKS

pytestmark = pytest.mark.gpu


def run(*arguments, code=0):
    environment = {**os.environ, "PYTHONPATH": str(Path(cudabw.__file__).parents[1])}
    command = [sys.executable, "-m", "cudabw", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode in (code, 0), done.stderr
    return json.loads(done.stdout)


def test_a_result_tells_how_the_gpu_ran_before_and_after():
    result = run("bandwidth", "--pinned", "--trials", "1", "--tag", "a=b")
    gpu, software = result["environment"]["gpu"], result["environment"]["software"]
    assert result["tags"] == {"a": "b"}
    assert software["libcuda"] is not None
    for reading in (gpu["before"], gpu["after"]):
        assert reading is None or reading["sm_mhz"] is None or 0 < reading["sm_mhz"] < 10_000
    link = result["device"]["link"]
    if link["ceiling_bytes_per_s"] is not None:
        assert all(case["link_fraction"] <= 1 for case in result["cases"])


def test_every_check_is_made_and_the_driver_is_well():
    document = run("doctor", code=1)
    assert list(dict.fromkeys(finding["check"] for finding in document["findings"])) == [check.name for check in CHECKS]
    verdicts = {finding["check"]: finding["verdict"] for finding in document["findings"]}
    assert (verdicts["driver"], document["error"]) == ("ok", None)
    assert not [finding for finding in document["findings"] if finding["seen"].startswith("the look failed")]
