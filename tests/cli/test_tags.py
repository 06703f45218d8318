"""``--tag`` on every command that measures."""

import json

import pytest

from cudabw.benchmarks import running
from cudabw.results.model import RunResult

COMMANDS = {
    "bandwidth": ("bandwidth", "--pinned", "--size", "4KiB", "--trials", "1"),
    "launch-overhead": ("launch-overhead", "--args", "1", "--trials", "1"),
    "latency": ("latency", "--pinned", "--size", "64", "--trials", "1"),
    "run": ("run", "smoke", "--size", "4KiB", "--trials", "1"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_tags_are_kept_with_the_results(document, emulate, name):
    emulate(clock={"h2d": 50e9, "d2h": 25e9})
    done = document(*COMMANDS[name], "--backend", "emulated", "--tag", "node=a7", "--tag", "note=a = b", "--tag", "x=")
    assert done.json["tags"] == {"node": "a7", "note": "a = b", "x": ""}


def test_without_tags_there_is_an_empty_object(document, emulate):
    emulate(clock={"h2d": 50e9, "d2h": 25e9})
    assert document(*COMMANDS["bandwidth"], "--backend", "emulated").json["tags"] == {}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("tag", ["node", "=a7", "", "no de=1", "-n=1", "n=a\nb", "n=\udcff", "n\u00f6de=1"])
@pytest.mark.usefixtures("no_start")
def test_a_bad_tag_is_quoted_and_refused_before_a_driver_is_touched(command, name, tag):
    done = command(*COMMANDS[name], "--tag", tag)
    assert (done.code, done.out) == (2, "")
    assert f"Invalid value for '--tag': {tag!r} is no tag: KEY=VALUE" in done.err


@pytest.mark.usefixtures("no_start")
def test_a_tag_has_one_value(command):
    done = command(*COMMANDS["bandwidth"], "--tag", "a=1", "--tag", "a=2")
    assert (done.code, done.out) == (2, "")
    assert "Invalid value for '--tag': 'a' cannot be both '1' and '2'" in done.err


def test_a_file_has_the_tags_from_the_first_moment_on(command, emulate, monkeypatch, tmp_path):
    emulate(clock={"h2d": 50e9, "d2h": 25e9})
    path, seen = tmp_path / "result.json", []

    def run_plans(*arguments, **settings):
        seen.append(json.loads(path.read_text()))
        settings["observer"].keep(lambda: RunResult(("kept",), "", ""))
        seen.append(json.loads(path.read_text()))
        return real(*arguments, **settings)

    real = running.run_plans
    monkeypatch.setattr("cudabw.cli.outputs.LEAST_INTERVAL_S", 0.0)
    monkeypatch.setattr(running, "run_plans", run_plans)
    command(*COMMANDS["bandwidth"], "--backend", "emulated", "--tag", "node=a7", "-o", path)
    seen.append(json.loads(path.read_text()))
    assert seen[1]["command"] == ["kept"]
    assert [document["tags"] for document in seen] == [{"node": "a7"}] * 3
