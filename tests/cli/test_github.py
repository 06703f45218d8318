"""``--github``: whole commands, as a step of GitHub Actions runs them."""

import importlib
import re
from pathlib import Path

import pytest

import cudabw
from cudabw.report.markdown import run_to_markdown
from cudabw.results.reading import read_result

SMALL = ("--backend", "emulated", "--trials", "2")
COMMANDS = {
    "bandwidth": ("bandwidth", *SMALL, "--pinned", "--size", "4KiB"),
    "launches": ("launch-overhead", *SMALL, "--args", "0"),
    "suite": ("run", "smoke", "--size", "4KiB", "--trials", "2"),
}
FAULT = {"faults": [{"copy": "corrupt", "direction": "h2d"}]}


@pytest.fixture
def summary(tmp_path, monkeypatch):
    """The summary of the step, in which an earlier step has written."""
    path = tmp_path / "summary.md"
    path.write_text("## Earlier\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    monkeypatch.chdir(tmp_path)
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_the_tables_are_added_to_the_summary_and_stdout_is_as_ever(command, summary, name):
    done = command(*COMMANDS[name], "--github", "-o", "run.json")
    assert (done.code, done.err) == (0, "")
    assert summary.read_text() == f"## Earlier\n{run_to_markdown(read_result('run.json'))}\n"
    assert command("show", "run.json").out == done.out


def test_what_failed_is_annotated_on_stderr_so_that_stdout_stays_one_document(document, emulate, summary):
    emulate(**FAULT)
    done = document(*COMMANDS["bandwidth"], "--direction", "h2d", "--github")
    assert done.code == 1
    (line,) = done.err.splitlines()
    assert line.startswith("::error title=pinned h2d 4 KiB%3A wrong data::")
    assert "wrong data" in summary.read_text()


def test_limits_that_cannot_be_told_are_annotated_and_in_the_summary(command, summary):
    suite = (
        'version = 1\nbackend = "emulated"\n[[bandwidth]]\nkinds = ["pinned"]\ndirections = ["h2d"]\n'
        'sizes = ["4KiB"]\ntrials = 1\n[[limits]]\ncases = "*"\nmin_gb_per_s = 1\n'
    )
    Path("limits.toml").write_text(suite)
    done = command("run", "limits.toml", "--github")
    assert done.code == 3
    said, annotation = done.err.splitlines()
    assert said == "cudabw: The one limit: cannot be told."
    assert re.fullmatch(
        r"::error title=Limit cannot be told%3A pinned h2d 4 KiB::Rate in GB/s, at least 1\.00; "
        r"measured: [\d.]+; the emulated device is no GPU\.",
        annotation,
    )
    assert "| pinned h2d 4 KiB | 1.00 |" in summary.read_text()


def test_a_run_that_never_began_is_said_in_the_summary(command, summary, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = command("bandwidth", "--backend", "emulated", "--device", "7", "--github")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("::error title=The run ended early::there is no device 7")
    assert "The run ended early: there is no device 7" in summary.read_text()


@pytest.mark.parametrize("arguments", [*COMMANDS.values(), ("compare", "a.json", "b.json")])
@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.usefixtures("no_start")
def test_outside_github_it_is_refused_before_anything_is_done(command, monkeypatch, arguments, value):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    if value is not None:
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", value)
    done = command(*arguments, "--github")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "cudabw: error: --github writes to the file that $GITHUB_STEP_SUMMARY names, and it is not set\n"
        "cudabw: hint: GitHub Actions sets it; elsewhere -o FILE.md writes the same.\n"
    )


@pytest.mark.usefixtures("no_start")
def test_a_summary_that_cannot_be_written_is_found_out_before_measuring(command, monkeypatch, tmp_path):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "none" / "summary"))
    done = command(*COMMANDS["bandwidth"], "--github")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("/none/summary cannot be written: No such file or directory\n")


def test_a_disk_that_fills_meanwhile_is_exit_1_and_the_rest_gets_its_results(command, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/dev/full")
    done = command(*COMMANDS["bandwidth"], "--github")
    assert done.code == 1
    assert done.err == "cudabw: error: /dev/full could not be written: No space left on device\n"
    assert "pinned" in done.out


def test_a_plan_is_nothing_to_summarise(command, summary):
    done = command("run", "smoke", "--dry-run", "--github")
    assert (done.code, done.out) == (2, "")
    assert "--dry-run measures nothing that --github could write" in done.err
    assert summary.read_text() == "## Earlier\n"


def test_a_comparison_adds_its_table_and_annotates_what_is_slower_than_it_may_be(command, emulate, summary):
    for name, rate in (("old", 50e9), ("new", 40e9)):
        emulate(clock={"h2d": rate, "d2h": 50e9, "noise": 0.001, "seed": 3})
        command("bandwidth", "--backend", "emulated", "--pinned", "--trials", "5", "-o", f"{name}.json")
    done = command("compare", "old.json", "new.json", "--force", "--github", "--fail-on", "slower")
    assert done.code == 3
    (line,) = done.err.splitlines()
    assert re.fullmatch(r"::error title=Slower%3A pinned h2d 64 MiB::80\.\d%25 of its earlier speed", line)
    assert "| pinned h2d 64 MiB |" in summary.read_text()
    assert command("compare", "old.json", "new.json", "--force", "--github").err == ""


ROOT = Path(cudabw.__file__).parents[1]


def test_every_command_of_the_recipes_is_one_that_this_version_takes():
    recipes = (ROOT / "docs" / "ci.md").read_text().split("```yaml")[1:]
    lines = re.findall(
        r"cudabw ((?:run|compare|bandwidth) [^\n`]+)", "".join(recipe.split("```")[0] for recipe in recipes)
    )
    assert len(lines) == 6
    for line in lines:
        name, *arguments = line.split()
        importlib.import_module(f"cudabw.cli.{name}").command.make_context(name, arguments)
