"""What reaches stdout and stderr when they are pipes, files, terminals, full or closed."""

import io
import json
import os
import pty
import re
import subprocess
import threading

import pytest

from cudabw.cli.printing import write_result

SETTINGS = json.dumps({"clock": {"h2d": 50e9, "d2h": 25e9}})
MEASURE = ("bandwidth", "--backend", "emulated", "--size", "4KiB", "--trials", "1", "--pinned")
# More than a pipe holds, so that the reader's absence is noticed whenever it leaves.
LARGE = ("bandwidth", "--backend", "emulated", "--pinned", "--trials", "1", "--size", "3GiB:5GiB:+16MiB", "--json")

UNICODE = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

Memory   Size  h2d GB/s  ±  d2h GB/s  ±  Clock
───────────────────────────────────────────────
pinned  4 KiB      50.0  \u2013      25.0  \u2013  event

One trial.
"""

ASCII = """\
Host <-> device bandwidth | device 0: EMULATED, not a GPU (host memory)

Memory   Size  h2d GB/s  +/-  d2h GB/s  +/-  Clock
---------------------------------------------------
pinned  4 KiB      50.0    -      25.0    -  event

One trial.
"""


@pytest.fixture
def measure(spawn):
    """Runs the command in a process of its own on the modelled clock."""

    def run_process(*arguments, environment=None, **how):
        settings = {"CUDABW_EMULATED": SETTINGS} | (environment or {})
        return spawn(*(arguments or MEASURE), environment=settings, **how)

    return run_process


class Terminal:
    """A pseudo-terminal that is read until all of its writers are gone."""

    def __enter__(self):
        self._master, self.slave = pty.openpty()
        self._pieces = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def _read(self):
        try:
            while piece := os.read(self._master, 4096):
                self._pieces.append(piece)
        except OSError:  # Linux says so when the last writer is gone
            pass

    def __exit__(self, *_):
        os.close(self.slave)
        self._reader.join(timeout=60)
        os.close(self._master)
        self.shown = b"".join(self._pieces).decode().replace("\r\n", "\n")


# Encodings and locales


@pytest.mark.parametrize(
    ("environment", "encoding", "text"),
    [
        ({"PYTHONIOENCODING": "utf-8"}, "utf-8", UNICODE),
        ({"PYTHONUTF8": "1"}, "utf-8", UNICODE),
        ({"PYTHONIOENCODING": "ascii"}, "ascii", ASCII),
        ({"PYTHONIOENCODING": "latin-1"}, "latin-1", ASCII),
        ({"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, "ascii", ASCII),
        ({"LC_ALL": "C.UTF-8", "COLUMNS": "20"}, "utf-8", UNICODE),
    ],
)
def test_the_table_is_in_characters_that_the_reader_has_and_never_cut(measure, environment, encoding, text):
    done = measure(environment=environment)
    assert (done.returncode, done.stdout.decode(encoding), done.stderr) == (0, text, b"")


@pytest.mark.parametrize("environment", [{"LC_ALL": "C"}, {"LC_ALL": "nosuch_XX"}, {"PYTHONIOENCODING": "ascii"}])
def test_the_document_is_ascii_everywhere(measure, environment):
    done = measure(*MEASURE, "--json", environment=environment)
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert json.loads(done.stdout)["cases"][0]["rate_bytes_per_s"]["median"] == pytest.approx(50e9, rel=1e-6)


def decimal_comma_locales():
    try:
        names = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []
    return [name for name in names if re.match(r"(de|fr|es|it|nl|pl|pt|ru)_.*utf", name, re.IGNORECASE)]


def test_a_decimal_comma_changes_nothing(measure):
    names = decimal_comma_locales()
    if not names:
        pytest.skip("this system has no locale with a decimal comma")
    assert measure(environment={"LC_ALL": names[0]}).stdout.decode() == UNICODE


def test_what_the_readers_characters_lack_is_replaced(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", stream)
    write_result("Grafikkarte für Ärzte\n")
    assert stream.buffer.getvalue() == b"Grafikkarte f?r ?rzte\n"


# Colour and progress


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "xterm-256color", "COLORTERM": "truecolor"}])
def test_files_get_neither_escape_codes_nor_progress(measure, environment):
    done = measure(environment=environment | {"PYTHONIOENCODING": "utf-8"})
    assert (done.stdout.decode(), done.stderr) == (UNICODE, b"")


def test_forced_colour_changes_colour_alone_and_brings_no_progress_into_a_file(measure):
    done = measure(environment={"FORCE_COLOR": "1", "PYTHONIOENCODING": "utf-8"})
    assert b"\x1b[1m" in done.stdout
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout.decode())
    assert "\n".join(line.rstrip() for line in plain.split("\n")) == UNICODE
    assert done.stderr == b""


def test_forced_colour_leaves_the_document_alone(measure):
    json.loads(measure(*MEASURE, "--json", environment={"FORCE_COLOR": "1"}).stdout)


def test_a_terminal_on_stderr_shows_progress_and_stdout_stays_clean(measure):
    with Terminal() as terminal:
        done = measure(
            *MEASURE, "--json", stderr=terminal.slave, environment={"TERM": "xterm-256color", "COLUMNS": "100"}
        )
    assert json.loads(done.stdout)["error"] is None
    assert "2/2" in terminal.shown
    assert terminal.shown.endswith("\x1b[2K"), "the bar is wiped at the end"
    assert terminal.shown.rindex("\x1b[?25h") > terminal.shown.rindex("\x1b[?25l"), "the cursor is back"


def test_a_terminal_on_stdout_gets_colour_and_no_progress(measure):
    with Terminal() as terminal:
        done = measure(
            stdout=terminal.slave, environment={"TERM": "xterm-256color", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "\x1b[1mHost ↔ device bandwidth" in terminal.shown
    assert "\x1b[?25" not in terminal.shown


def test_no_color_on_a_terminal_leaves_no_colour(measure):
    with Terminal() as terminal:
        measure(
            stdout=terminal.slave, environment={"TERM": "xterm-256color", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
        )
    assert "EMULATED" in terminal.shown
    assert re.search(r"\x1b\[(?:\d+;)*3\d", terminal.shown) is None


# Outputs that cannot be written


@pytest.fixture
def unread():
    """The write end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize(
    "arguments", [MEASURE, (*MEASURE, "--json"), ["--help"], ["bandwidth", "--help"], ["--version"]]
)
def test_a_reader_that_left_is_141_and_no_traceback(measure, unread, arguments):
    done = measure(*arguments, stdout=unread)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_reader_that_leaves_after_the_first_byte_is_141_and_no_traceback(measure):
    reader, writer = os.pipe()
    finished = []

    def write():
        finished.append(measure(*LARGE, stdout=writer))
        os.close(writer)

    writing = threading.Thread(target=write)
    writing.start()
    first = os.read(reader, 1)
    os.close(reader)
    writing.join()
    assert first == b"{"
    assert [(done.returncode, done.stderr) for done in finished] == [(141, b"")]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")  # noqa: PTH110
@pytest.mark.parametrize("arguments", [MEASURE, (*MEASURE, "--json"), ["--help"], ["--version"]])
def test_a_full_disk_is_said_and_1(measure, arguments):
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = measure(*arguments, stdout=full)
    assert done.returncode == 1
    assert done.stderr == b"cudabw: error: the output could not be written: No space left on device\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")  # noqa: PTH110
def test_messages_that_cannot_be_written_cost_no_result(measure):
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = measure(stderr=full, environment={"PYTHONIOENCODING": "utf-8", "CUDA_LAUNCH_BLOCKING": "1"})
    assert (done.returncode, done.stdout.decode()) == (0, UNICODE)


def test_a_closed_stdout_is_said_before_measuring(measure):
    slow = json.dumps({"faults": [{"function": "cuInit", "hang": True}]})
    done = measure(environment={"CUDABW_EMULATED": slow}, redirections=">&-")
    assert done.returncode == 1
    assert done.stderr == b"cudabw: error: the output could not be written: stdout is closed\n"


def test_a_closed_stderr_costs_no_result(measure):
    done = measure(environment={"PYTHONIOENCODING": "utf-8", "CUDA_LAUNCH_BLOCKING": "1"}, redirections="2>&-")
    assert (done.returncode, done.stdout.decode()) == (0, UNICODE)


@pytest.mark.parametrize("arguments", [["--version"], ["bandwidth", "--help"], ["devices", "--backend", "emulated"]])
def test_what_is_printed_to_a_closed_stdout_is_said_to_be_lost(measure, arguments):
    done = measure(*arguments, redirections=">&-")
    assert done.returncode == 1
    assert done.stderr == b"cudabw: error: the output could not be written: stdout is closed\n"


def test_a_usage_error_with_both_closed_keeps_its_code(measure):
    assert measure("bandwidth", "--size", "0", redirections=">&- 2>&-").returncode == 2
