"""The files of ``-o`` while a run goes on, on a clock of the test's own."""

import json
from dataclasses import replace

import pytest

from cudabw.cli.outputs import COST_SHARE, LEAST_INTERVAL_S, RENDERERS, ResultFiles
from cudabw.cli.parameters import OUTPUT_SUFFIXES
from cudabw.errors import UsageError
from cudabw.results.model import RunResult

STARTED = RunResult(("bandwidth",), "2026-01-02T03:04:05Z", "1.0")
FINISHED = replace(STARTED, finished="2026-01-02T03:04:06Z")


class Clock:
    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def told():
    return []


@pytest.fixture
def make_files(clock, told):
    return lambda *paths: ResultFiles(paths, told.append, clock)


@pytest.fixture
def full_disk(monkeypatch):
    """Makes writing fail for files of some name, when it is called."""
    write_whole = ResultFiles.__init__.__globals__["write_whole"]

    def fill(name):
        def write(path, data):
            if path.name == name:
                raise OSError(28, "No space left on device")
            write_whole(path, data)

        monkeypatch.setattr("cudabw.cli.outputs.write_whole", write)

    return fill


def warnings_of(path):
    return json.loads(path.read_text())["warnings"]


def so_far(number):
    return lambda: replace(STARTED, warnings=(str(number),))


def test_there_is_a_renderer_for_each_suffix_that_the_option_takes():
    assert tuple(RENDERERS) == OUTPUT_SUFFIXES


def test_what_a_file_held_is_replaced_at_the_start_by_a_run_that_is_not_finished(make_files, tmp_path):
    path = tmp_path / "run.json"
    path.write_text("an old run")
    make_files(path).begin(STARTED)
    document = json.loads(path.read_text())
    assert (document["finished"], document["cases"]) == (None, [])


def test_the_results_so_far_are_written_at_most_once_a_second(make_files, clock, tmp_path):
    path = tmp_path / "run.json"
    files = make_files(path)
    files.begin(STARTED)
    written = []
    for number in range(6):
        files.keep(so_far(number))
        written += [number] if warnings_of(path) == [str(number)] else []
        clock.time += LEAST_INTERVAL_S / 2
    assert written == [2, 4]


def test_writing_that_takes_long_is_done_the_more_rarely(make_files, clock, tmp_path):
    path = tmp_path / "run.json"
    files = make_files(path)
    files.begin(STARTED)
    clock.time += LEAST_INTERVAL_S

    def slow():
        clock.time += 3.0
        return STARTED

    files.keep(slow)
    clock.time += 3.0 / COST_SHARE - 0.1
    files.keep(lambda: pytest.fail("it is too early"))
    clock.time += 0.2
    files.keep(so_far("late"))
    assert warnings_of(path) == ["late"]


def test_without_files_nothing_is_computed(make_files, clock):
    files = make_files()
    files.begin(STARTED)
    clock.time += 10
    files.keep(lambda: pytest.fail("nobody reads it"))
    assert files.finish(FINISHED) == []


def test_a_file_that_cannot_be_written_is_said_before_measuring_and_no_other_is_changed(make_files, tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "none" / "bad.csv"
    good.write_text("old")
    with pytest.raises(UsageError, match=rf"-o {bad} cannot be written: No such file or directory") as caught:
        make_files(good, bad).begin(STARTED)
    assert caught.value.exit_code == 2
    assert good.read_text() == "old"


def test_a_disk_that_fills_is_said_once_and_costs_the_other_files_nothing(make_files, full_disk, clock, told, tmp_path):
    bad, good = tmp_path / "bad.json", tmp_path / "good.json"
    files = make_files(bad, good)
    files.begin(STARTED)
    full_disk("bad.json")
    for number in range(2):
        clock.time += LEAST_INTERVAL_S
        files.keep(so_far(number))
        assert warnings_of(good) == [str(number)]
    assert told == [f"{bad} could not be written: No space left on device; measuring goes on"]
    assert files.finish(FINISHED) == [f"{bad} could not be written: No space left on device"]
    assert json.loads(good.read_text())["finished"] == FINISHED.finished
    assert warnings_of(bad) == [], "what was there before is there still"


def test_a_pipe_gets_the_results_once_at_the_end(make_files, clock, tmp_path, monkeypatch):
    path = tmp_path / "null.csv"
    path.symlink_to("/dev/null")
    written = []
    monkeypatch.setattr("cudabw.cli.outputs.write_whole", lambda _, data: written.append(data))
    files = make_files(path)
    files.begin(STARTED)
    clock.time += 5
    files.keep(so_far(1))
    assert written == []
    files.finish(FINISHED)
    assert len(written) == 1


def test_every_format_says_that_a_run_had_not_finished(make_files, tmp_path):
    paths = [tmp_path / f"run{suffix}" for suffix in OUTPUT_SUFFIXES]
    make_files(*paths).begin(STARTED)
    assert json.loads(paths[0].read_text())["finished"] is None
    header, *rows = paths[1].read_text().splitlines()
    assert "run.finished" in header.split(",")
    assert rows == []
    assert paths[2].read_text().startswith("The run had not finished when this was written.\n")
