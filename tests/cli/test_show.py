"""``cudabw show``: a file as the run itself printed it."""

import json
import os

import pytest

import cudabw
from cudabw.results.reading import read_result

EMULATED = ("--backend", "emulated", "--trials", "2")
RUNS = {
    "bandwidth": ("bandwidth", *EMULATED, "--all", "--size", "4KiB,1MiB"),
    "directions": ("bandwidth", *EMULATED, "--pinned", "--direction", "bidirectional", "--direction", "d2d"),
    "refused": ("bandwidth", *EMULATED, "--pinned", "--size", "4KiB,200TiB"),
    "small copies": ("latency", *EMULATED, "--size", "64,4KiB", "--direction", "h2d"),
    "launches": ("launch-overhead", *EMULATED, "--args", "0,2"),
    "a suite": ("run", "smoke", "--trials", "2", "--size", "4KiB"),
}


@pytest.fixture(params=RUNS)
def measured(request, command, tmp_path):
    """A run of some command, and the files that it wrote."""
    files = {suffix: tmp_path / f"run.{suffix}" for suffix in ("json", "csv", "md")}
    done = command(*RUNS[request.param], *(argument for path in files.values() for argument in ("-o", path)))
    assert done.out
    return done, files


def test_what_is_shown_is_what_the_run_printed(command, measured):
    done, files = measured
    shown = command("show", files["json"])
    assert (shown.code, shown.out, shown.err) == (0, done.out, "")


def test_other_ways_to_show_are_what_the_run_wrote(command, measured):
    _, files = measured
    for option, suffix in (("--csv", "csv"), ("--markdown", "md"), ("--json", "json")):
        shown = command("show", files["json"], option)
        assert (shown.code, shown.out, shown.err) == (0, files[suffix].read_text(), "")


def test_histograms_show_every_case(command, measured):
    _, files = measured
    shown = command("show", files["json"], "--hist")
    assert shown.out.count("\n\n") == len(read_result(files["json"]).cases)
    assert all(len(line) <= 80 for line in shown.out.splitlines() if "#" in line)


RUN = {"clock": {"h2d": 50e9, "d2h": 25e9}}
SMALL = ("bandwidth", *EMULATED, "--pinned", "--size", "4KiB")


@pytest.fixture
def document(emulate, command):
    emulate(**RUN)
    return command(*SMALL, "--json").out


def test_stdin_is_a_file_too(spawn, document, command):
    table = command(*SMALL).out
    shown = spawn("show", "-", input=document.encode(), environment={"PYTHONIOENCODING": "utf-8"})
    assert (shown.returncode, shown.stdout.decode(), shown.stderr) == (0, table, b"")


def test_a_closed_stdin_is_an_error_in_words(spawn):
    shown = spawn("show", "-", redirections="<&-")
    assert (shown.returncode, shown.stdout) == (2, b"")
    assert shown.stderr == b"cudabw: error: stdin is closed\n"


def test_what_the_reader_lacks_is_folded_in_tables_and_markdown_and_not_in_csv(spawn, document, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(document.replace("Emulated CUDA device", "C\\u00e2bl\\u00e9"))
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    for option in ((), ("--markdown",), ("--hist",), ("--json",)):
        shown = spawn("show", str(path), *option, environment=ascii_only)
        assert shown.returncode == 0
        assert shown.stdout.isascii()
    assert "Câblé" in spawn("show", str(path), "--csv", environment=ascii_only).stdout.decode()


@pytest.mark.parametrize("option", ["--csv", "--markdown", "--json"])
def test_data_has_no_colour_even_where_it_is_forced(spawn, document, option):
    shown = spawn("show", "-", option, input=document.encode(), environment={"FORCE_COLOR": "1"})
    assert shown.returncode == 0
    assert b"\x1b" not in shown.stdout


@pytest.mark.parametrize("option", [(), ("--csv",), ("--hist",)])
def test_outputs_that_cannot_be_written_end_as_everywhere(spawn, document, option, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(document)
    full = spawn("show", str(path), *option, redirections=">/dev/full")
    assert full.returncode == 1
    assert full.stderr == b"cudabw: error: the output could not be written: No space left on device\n"


@pytest.mark.parametrize("option", ["--json", "--csv", "--markdown", "--hist"])
def test_a_reader_that_left_is_141(spawn, document, option):
    reader, writer = os.pipe()
    os.close(reader)
    done = spawn("show", "-", option, input=document.encode(), stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"schema": 2, "tool": {"version": "9.0"}}', "is of schema 2, and cudabw {version} reads none above 1"),
        ('{"schema": 1, "devices": []}', "it is not the results of a run: there are no 'cases' in it"),
    ],
)
def test_a_file_that_holds_no_run_is_refused(command, tmp_path, text, message):
    path = tmp_path / "run.json"
    path.write_text(text)
    done = command("show", path)
    assert (done.code, done.out) == (2, "")
    assert message.format(version=cudabw.__version__) in done.err.splitlines()[0]


def test_a_newer_file_says_which_version_is_needed(command, tmp_path):
    path = tmp_path / "run.json"
    path.write_text('{"schema": 2, "tool": {"version": "9.0"}}')
    assert command("show", path).err.endswith("cudabw: hint: Read it with cudabw 9.0 or newer.\n")


def test_a_file_that_is_not_there_and_two_ways_at_once_are_usage_errors(command, tmp_path):
    done = command("show", tmp_path / "none.json")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"cudabw: error: {tmp_path}/none.json cannot be read: No such file or directory\n"
    done = command("show", tmp_path / "none.json", "--csv", "--hist")
    assert (done.code, done.err) == (2, "cudabw: error: results are shown in one way: --csv or --hist\n")


def test_a_run_that_did_not_come_to_its_end_says_so_on_stderr(command, document, tmp_path):
    path = tmp_path / "run.json"
    run = json.loads(document)
    path.write_text(json.dumps({**run, "finished": None}))
    done = command("show", path)
    assert done.code == 0
    assert done.err == f"cudabw: {path}: the run had not finished when this was written\n"
    error = {"type": "Interrupted", "message": "interrupted", "hint": "", "exit_code": 130}
    path.write_text(json.dumps({**run, "error": error, "interrupted": True}))
    assert command("show", path).err == f"cudabw: {path}: the run ended early: interrupted\n"
