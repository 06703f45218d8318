"""``-o FILE``: what every measuring command writes beside what it prints."""

import csv
import io
import json
import os

import pytest

from cudabw.results.reading import read_result

CLOCK = {"h2d": 50e9, "d2h": 25e9}
SMALL = ("bandwidth", "--backend", "emulated", "--pinned", "--size", "4KiB", "--trials", "2")
LAUNCHES = ("launch-overhead", "--backend", "emulated", "--args", "1", "--trials", "2")

TABLE = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

Memory   Size  h2d GB/s    ±  d2h GB/s    ±  Clock
───────────────────────────────────────────────────
pinned  4 KiB      50.0  0 %      25.0  0 %  event

Median of 2 trials; ± is its 99 % interval.
"""

MARKDOWN = """\
### Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

| Memory | Size | h2d GB/s | ± | d2h GB/s | ± | Clock |
| --- | ---: | ---: | ---: | ---: | ---: | --- |
| pinned | 4 KiB | 50.0 | 0 % | 25.0 | 0 % | event |

Median of 2 trials; ± is its 99 % interval.

"""


def rows_of(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_each_file_holds_the_run_and_stdout_is_as_without_them(command, emulate, tmp_path):
    # A power of two, so that no rate is rounded.
    emulate(clock={"h2d": 2.0**35, "d2h": 2.0**34})
    files = [tmp_path / name for name in ("run.json", "run.csv", "RUN.MD")]
    done = command(*SMALL, *(argument for path in files for argument in ("-o", path)))
    assert (done.code, done.err) == (0, "")
    assert done.out == command(*SMALL).out
    run = read_result(files[0])
    assert [case.rate_bytes_per_s.median for case in run.cases] == [2.0**35, 2.0**34]
    assert run.finished >= run.started
    rows = rows_of(files[1])
    assert [(row["direction"], row["rate_bytes_per_s.median"]) for row in rows] == [
        ("h2d", str(2.0**35)),
        ("d2h", str(2.0**34)),
    ]
    assert {(row["device.emulated"], row["trials"], row["run.finished"]) for row in rows} == {
        ("true", "2", run.finished)
    }
    assert "| pinned | 4 KiB | 34.4 | 0 % | 17.2 | 0 % | event |" in files[2].read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["RUN.MD", "run.csv", "run.json"]


def test_markdown_is_the_table_and_where_it_comes_from(command, emulate, tmp_path):
    emulate(clock=CLOCK)
    path = tmp_path / "run.md"
    assert command(*SMALL, "--output", path).out == TABLE
    text = path.read_text()
    assert text.startswith(MARKDOWN)
    assert text.removeprefix(MARKDOWN).startswith("Emulated CUDA device (not a GPU); ")


@pytest.mark.parametrize("arguments", [SMALL, LAUNCHES, ("run", "smoke", "--size", "4KiB", "--trials", "1")])
def test_every_measuring_command_writes_files(command, tmp_path, arguments):
    path, rows = tmp_path / "run.json", tmp_path / "run.csv"
    done = command(*arguments, "-o", path, "-o", rows)
    assert done.code == 0
    run = read_result(path)
    assert run.command == (*arguments, "-o", str(path), "-o", str(rows))
    assert [row["id"] for row in rows_of(rows)] == [case.id for case in run.cases]


def test_a_dash_is_the_document_on_stdout(command, emulate, tmp_path):
    emulate(clock=CLOCK)
    path = tmp_path / "run.json"
    done = command(*SMALL, "-o", "-", "-o", path)
    assert done.out == path.read_text()
    assert json.loads(done.out)["cases"][0]["state"] == "ok"


@pytest.mark.parametrize("name", ["run", "run.txt", "run.json.gz", "", "json"])
def test_a_file_of_no_known_kind_is_refused_with_those_that_are(command, no_start, tmp_path, monkeypatch, name):  # noqa: ARG001 - a fixture
    monkeypatch.chdir(tmp_path)
    done = command(*SMALL, "-o", name)
    assert (done.code, done.out) == (2, "")
    assert f"'{name}' ends in none of .json, .csv, .md, which say how it is written" in done.err
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_said_before_a_driver_is_touched(command, no_start, tmp_path):  # noqa: ARG001 - a fixture
    path = tmp_path / "none" / "run.json"
    done = command(*SMALL, "-o", path)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"cudabw: error: -o {path} cannot be written: No such file or directory\n"
        "cudabw: hint: Nothing was measured; choose a file in a directory that can be written.\n"
    )


def test_a_usage_error_leaves_an_old_file_alone(command, tmp_path):
    path = tmp_path / "run.json"
    path.write_text("old")
    assert command("bandwidth", "--size", "0", "-o", path).code == 2
    assert command("run", "smoke", "--dry-run", "-o", path).code == 2
    assert path.read_text() == "old"


def test_a_dry_run_has_nothing_to_write(command, tmp_path):
    done = command("run", "smoke", "--dry-run", "-o", tmp_path / "plan.json")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "cudabw: error: --dry-run measures nothing that -o could write\ncudabw: hint: Print the plan with --json.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [(("--backend", "cuda"), 5, "NoDriverError"), (("--backend", "emulated", "--device", "9"), 2, "UsageError")],
)
def test_a_run_that_cannot_begin_leaves_its_error_in_the_file(command, no_driver, tmp_path, arguments, code, kind):  # noqa: ARG001 - a fixture
    path = tmp_path / "run.json"
    path.write_text("old")
    done = command("bandwidth", *arguments, "-o", path)
    assert (done.code, done.out) == (code, "")
    run = read_result(path)
    assert (run.error.type, run.error.exit_code, run.cases) == (kind, code, ())


@pytest.fixture
def full(tmp_path):
    """A file on a disk without room."""
    path = tmp_path / "full.json"
    path.symlink_to("/dev/full")
    return path


def test_a_full_disk_costs_the_exit_code_and_no_other_output(command, emulate, full, tmp_path):
    emulate(clock=CLOCK)
    path = tmp_path / "run.json"
    done = command(*SMALL, "-o", full, "-o", path)
    assert (done.code, done.out) == (1, TABLE)
    assert done.err == f"cudabw: error: {full} could not be written: No space left on device\n"
    assert read_result(path).error is None


def test_a_full_disk_does_not_hide_why_the_run_failed(command, no_driver, full):  # noqa: ARG001 - a fixture
    done = command("bandwidth", "--backend", "cuda", "-o", full)
    assert done.code == 5
    assert "could not be written: No space left on device" in done.err


def test_files_are_written_also_where_stdout_is_not(spawn, tmp_path):
    path = tmp_path / "run.json"
    done = spawn(*SMALL, "-o", path, redirections=">/dev/full")
    assert done.returncode == 1
    assert read_result(path).finished is not None


def test_files_are_written_also_where_the_reader_of_stdout_left(spawn, tmp_path):
    path = tmp_path / "run.json"
    reader, writer = os.pipe()
    os.close(reader)
    done = spawn(*SMALL, "-o", path, "--json", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
    assert read_result(path).finished is not None


LOCALES = [
    {"PYTHONIOENCODING": "utf-8"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"FORCE_COLOR": "1", "COLUMNS": "20", "TERM": "xterm-256color"},
    {"NO_COLOR": "1", "LC_ALL": "de_DE.UTF-8"},
]


@pytest.mark.parametrize("suffix", ["json", "csv", "md"])
def test_files_are_the_same_whatever_the_terminal_and_the_locale(spawn, tmp_path, suffix):
    texts = []
    for number, environment in enumerate(LOCALES):
        path = tmp_path / f"{number}.{suffix}"
        settings = {"CUDABW_EMULATED": json.dumps({"clock": CLOCK})} | environment
        assert spawn(*SMALL, "-o", path, environment=settings).returncode == 0
        texts.append(path.read_bytes())
    assert all(b"\x1b" not in text for text in texts)
    shapes = {without_the_moment(text.decode(), suffix) for text in texts}
    assert len(shapes) == 1


def without_the_moment(text, suffix):
    if suffix == "json":
        document = json.loads(text)
        return json.dumps({name: document[name] for name in ("device", "cases", "warnings", "error")})
    if suffix == "csv":
        return json.dumps([{**row, "run.started": "", "run.finished": ""} for row in csv.DictReader(io.StringIO(text))])
    return text[: text.rindex(",")]
