"""Signals, sent to whole processes at moments that they announce themselves."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import cudabw
from cudabw.results.reading import read_result

ROOT = Path(cudabw.__file__).parents[1]
INHERITED = ("PATH", "HOME", "TMPDIR")
# Far beyond what any step here takes; only a failure waits for it.
PATIENCE = 120

# Each batch takes long enough for a signal to meet it, and 300 trials longer than anyone's patience.
SLOW = {"clock": {"h2d": 1e6}, "faults": [{"function": "cuMemcpyHtoDAsync", "delay_s": 0.02}]}
THREE_KINDS = ("--pinned", "--mapped", "--write-combined", "--direction", "h2d", "--size", "4KiB", "--trials", "100")


class Measurement:
    """``cudabw bandwidth`` in a process whose stderr is a terminal, where it shows how far it is."""

    def __init__(self, *arguments, emulated):
        self._arguments = ("bandwidth", "--backend", "emulated", *arguments)
        self._settings = {"CUDABW_EMULATED": json.dumps(emulated), "TERM": "xterm-256color", "COLUMNS": "200"}
        self._shown = ""
        self._changed = threading.Condition()

    def __enter__(self):
        self._master, terminal = pty.openpty()
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cudabw", *self._arguments],
            env=inherited | {"PYTHONPATH": str(ROOT)} | self._settings,
            stdout=subprocess.PIPE,
            stderr=terminal,
        )
        os.close(terminal)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._reader.join(PATIENCE)
        os.close(self._master)

    def _read(self):
        try:
            while piece := os.read(self._master, 4096):
                with self._changed:
                    self._shown += piece.decode(errors="replace")
                    self._changed.notify_all()
        except OSError:  # Linux says so when the last writer is gone
            pass

    def await_text(self, pattern):
        with self._changed:
            assert self._changed.wait_for(lambda: re.search(pattern, self._shown), PATIENCE), self._shown

    def send(self, number):
        self._process.send_signal(number)

    def ended(self):
        """The exit code and what is on stdout."""
        out, _ = self._process.communicate(timeout=PATIENCE)
        self._reader.join(PATIENCE)
        return self._process.returncode, out.decode()

    @property
    def shown(self):
        return self._shown


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_run_and_keeps_what_is_finished(number, code):
    with Measurement(*THREE_KINDS, "--json", emulated=SLOW) as measurement:
        measurement.await_text(r"\b[1-9]\d*/300\b")
        measurement.send(number)
        ended, out = measurement.ended()
    document = json.loads(out, parse_constant=pytest.fail)
    assert ended == code
    assert document["interrupted"] is True
    assert document["error"] == {"type": "Interrupted", "message": "interrupted", "hint": "", "exit_code": code}
    finished = [case for case in document["cases"] if case["state"] == "ok"]
    assert finished
    for case in finished:
        assert case["rate_bytes_per_s"]["median"] == pytest.approx(1e6, rel=1e-6)
        assert case["notes"] == [f"{len(case['trials'])} of 100 trials: interrupted"]
    rest = {(case["state"], case["reason"]) for case in document["cases"] if case not in finished}
    assert rest <= {("failed", "interrupted")}
    assert "cudabw: stopping as soon as what runs is done; a second signal ends at once" in measurement.shown


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_every_file_with_what_is_finished(number, code, tmp_path):
    files = [tmp_path / name for name in ("run.json", "run.csv", "run.md")]
    outputs = [argument for path in files for argument in ("-o", str(path))]
    with Measurement(*THREE_KINDS, *outputs, emulated=SLOW) as measurement:
        measurement.await_text(r"\b[1-9]\d*/300\b")
        measurement.send(number)
        ended, out = measurement.ended()
    assert ended == code
    assert "0.00100" in out
    run = read_result(files[0])
    assert (run.interrupted, run.error.exit_code, run.finished is not None) == (True, code, True)
    finished = [case for case in run.cases if case.rate_bytes_per_s is not None]
    assert finished
    assert files[1].read_text().count(",ok,") == len(finished)
    assert files[2].read_text().startswith("The run ended early: interrupted\n")


def test_a_process_that_is_killed_leaves_the_results_so_far_marked_as_unfinished(tmp_path):
    path = tmp_path / "run.json"
    path.write_text("an old run")
    with Measurement(*THREE_KINDS, "-o", str(path), emulated=SLOW) as measurement:
        measurement.await_text(r"\b[1-9]\d*/300\b")
        # The file appears whole each time, so that it can be read at any moment.
        deadline = time.monotonic() + PATIENCE
        while not (cases := read_result(path).cases):
            assert time.monotonic() < deadline
        measurement.send(signal.SIGKILL)
        assert measurement.ended() == (-signal.SIGKILL, "")
    run = read_result(path)
    assert (run.finished, run.interrupted, run.error) == (None, False, None)
    assert len(run.cases) == len(cases) == 3
    for case in run.cases:
        if case.trials:
            assert case.notes == (f"{len(case.trials)} of 100 trials: the run had not finished",)
        else:
            assert (case.state, case.reason) == ("failed", "the run had not finished")


def test_an_interrupted_table_shows_what_is_finished():
    with Measurement(*THREE_KINDS, emulated=SLOW) as measurement:
        measurement.await_text(r"\b[1-9]\d*/300\b")
        measurement.send(signal.SIGINT)
        ended, out = measurement.ended()
    assert ended == 130
    assert "0.00100" in out
    assert re.search(r"^\[\d\] \d+ of 100 trials: interrupted$", out, re.MULTILINE)
    assert "cudabw: error: interrupted" in measurement.shown


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [(signal.SIGINT, signal.SIGINT, 130), (signal.SIGTERM, signal.SIGTERM, 143), (signal.SIGINT, signal.SIGTERM, 143)],
)
def test_a_second_signal_ends_at_once_while_the_driver_holds_the_main_thread(first, second, code):
    hanging = {"faults": [{"function": "cuMemcpyHtoDAsync", "hang": True}]}
    with Measurement("--pinned", "--direction", "h2d", "--size", "4KiB", emulated=hanging) as measurement:
        # What is measured is shown just before its first copy, from which there is no return.
        measurement.await_text("pinned h2d 4 KiB")
        measurement.send(first)
        measurement.await_text("a second signal ends at once")
        measurement.send(second)
        assert measurement.ended() == (code, "")
    assert measurement.shown.endswith("\x1b[?25h"), "the cursor is back"


def test_a_driver_that_hangs_as_it_starts_is_announced_and_a_signal_ends_the_run():
    hanging = {"faults": [{"function": "cuInit", "hang": True}]}
    with Measurement("--json", emulated=hanging) as measurement:
        measurement.await_text(r"cudabw: Starting the driver: cuInit has not returned for \d+ s; still waiting\.")
        measurement.send(signal.SIGINT)
        ended, out = measurement.ended()
    document = json.loads(out)
    assert ended == 130
    assert (document["interrupted"], document["error"]["type"], document["cases"]) == (True, "Interrupted", [])
