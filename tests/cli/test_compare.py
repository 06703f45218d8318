"""``cudabw compare``: files in, verdicts and exit codes out."""

import json

import pytest

SLOW = {"h2d": 1e6, "d2h": 1e6}


@pytest.fixture
def measure(command, emulate, tmp_path):
    """Measures on the emulated device and lets the results be those of a card; gives the file."""

    def run(name, *arguments, gpu="NVIDIA H200", slowed=1.0, seed=0, environment=(), **changes):
        clock = {key: rate / slowed for key, rate in SLOW.items()} | {"noise": 0.003, "seed": seed}
        emulate(clock=clock)
        small = ("--size", "4KiB", "--trials", "5", *(arguments or ("--pinned",)))
        document = json.loads(command("bandwidth", "--backend", "emulated", *small, "--json").out)
        if gpu is not None:
            document["device"] |= {"name": gpu, "emulated": False}
        document["environment"] |= dict(environment)
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(document | changes))
        return path

    return run


def words(done):
    """The verdict of each case, as the last column of the table has it."""
    rows = done.out.split("\n\n")[1].splitlines()[2:]
    return [row.rpartition("  ")[2] for row in rows]


def test_equal_runs_are_the_same_and_a_slowed_one_is_slower(command, measure):
    old, again, slowed = measure("old.json"), measure("again.json", seed=1), measure("slow.json", slowed=1.05, seed=2)
    done = command("compare", old, again)
    assert (done.code, done.err, words(done)) == (0, "", ["same", "same"])
    done = command("compare", old, slowed)
    assert (done.code, done.err, words(done)) == (0, "", ["slower", "slower"])
    assert done.out.startswith("slow.json against old.json · NVIDIA H200\n")
    assert "\n2 cases: 2 slower.\n" in done.out
    assert words(command("compare", slowed, old)) == ["faster", "faster"]


@pytest.mark.parametrize(
    ("wanted", "code"), [("slower", 3), ("slower=4", 3), ("slower=4.5%", 3), ("slower=6", 0), ("slower=0", 3)]
)
def test_a_regression_that_was_asked_about_is_3(command, measure, wanted, code):
    old, slowed = measure("old.json"), measure("slow.json", slowed=1.05, seed=2)
    assert command("compare", old, slowed, "--fail-on", wanted).code == code
    assert command("compare", slowed, old, "--fail-on", wanted).code == 0


@pytest.mark.parametrize("text", ["faster", "slower=", "slower=x", "slower=-1", "slower=100", "slower=1e1", ""])
def test_what_is_nothing_to_fail_on_is_refused(command, text):
    done = command("compare", "a.json", "b.json", "--fail-on", text)
    assert (done.code, done.out) == (2, "")
    assert f"{text!r} is nothing to fail on: write slower, or slower=PCT" in done.err


def test_several_new_runs_are_compared_one_after_the_other(command, measure):
    old, again, slowed = measure("old.json"), measure("again.json", seed=1), measure("slow.json", slowed=1.05, seed=2)
    done = command("compare", old, again, slowed, "--fail-on", "slower")
    assert done.code == 3
    first, second = done.out.split("\n\nslow.json against old.json")
    assert first.startswith("again.json against old.json")
    assert "2 slower" in second
    comparisons = json.loads(command("compare", old, again, slowed, "--json").out)["comparisons"]
    assert [[case["verdict"] for case in each["cases"]] for each in comparisons] == [["same"] * 2, ["slower"] * 2]


def test_a_directory_is_a_baseline_without_the_new_run_itself(command, measure):
    for number in range(4):
        measure(f"runs/{number}.json", seed=number)
    new = measure("runs/new.json", slowed=1.05, seed=9)
    done = command("compare", new.parent, new)
    assert done.code == 0
    assert words(done) == ["slower", "slower"]
    assert done.out.startswith("new.json against runs (4 runs) · NVIDIA H200\n")


def test_a_slower_run_that_had_time_for_fewer_trials_is_a_regression(command, measure):
    for number in range(4):
        measure(f"runs/{number}.json", seed=number)
    new = measure("new.json", "--pinned", "--trials", "2", slowed=1.2, seed=9)
    done = command("compare", new.parent / "runs", new, "--fail-on", "slower=10")
    assert (done.code, words(done)) == (3, ["slower", "slower"])


def test_a_throttled_case_is_judged_and_named(command, measure):
    old, new = measure("old.json"), measure("new.json", seed=1)
    document = json.loads(new.read_text())
    document["cases"][0] |= {"state": "throttled", "reason": "by a power cap"}
    new.write_text(json.dumps(document))
    done = command("compare", old, new)
    assert (done.code, words(done)) == (0, ["same", "same"])
    assert done.out.endswith("\nThrottled in new.json: pinned h2d 4 KiB.\n")
    (found,) = json.loads(command("compare", old, new, "--json").out)["comparisons"]
    assert [(case["old_states"], case["new_state"]) for case in found["cases"]] == [
        (["ok"], "throttled"),
        (["ok"], "ok"),
    ]


def test_a_directory_without_another_run_is_refused(command, measure):
    new = measure("runs/new.json")
    done = command("compare", new.parent, new)
    assert (done.code, done.out) == (2, "")
    assert (
        done.err == f"cudabw: error: {new.parent} holds no runs to compare with: there is no other .json file in it\n"
    )


def test_a_file_in_a_directory_that_is_no_run_is_named(command, measure):
    new = measure("new.json")
    (new.parent / "runs").mkdir()
    (new.parent / "runs" / "notes.json").write_text("{}")
    done = command("compare", new.parent / "runs", new)
    assert (done.code, done.out) == (2, "")
    assert f"{new.parent}/runs/notes.json: the document: 'schema' is missing" in done.err


def test_unlike_machines_are_compared_only_by_force(command, measure):
    old, new = (
        measure("old.json", environment={"cpu": {"model": "A"}}.items()),
        measure("new.json", gpu="NVIDIA A100", seed=1),
    )
    done = command("compare", old, new)
    assert (done.code, done.out) == (2, "")
    cpu = json.loads(new.read_text())["environment"]["cpu"]["model"]
    assert done.err == (
        "cudabw: error: new.json and old.json are of unlike machines: device was NVIDIA H200, is NVIDIA A100; "
        f"cpu was A, is {cpu}\ncudabw: hint: --force compares them all the same.\n"
    )
    forced = command("compare", old, new, "--force")
    assert (forced.code, words(forced)) == (0, ["same", "same"])
    assert "\nNot the same: device was NVIDIA H200, is NVIDIA A100.\n" in forced.out


def test_the_emulated_device_is_compared_only_by_force(command, measure):
    old, new = measure("old.json", gpu=None), measure("new.json", gpu=None, seed=1)
    done = command("compare", old, new)
    assert (done.code, done.out) == (2, "")
    assert "are of the emulated device, whose figures are those of host memory" in done.err
    forced = command("compare", old, new, "--force")
    assert (forced.code, words(forced)) == (0, ["same", "same"])
    assert "EMULATED, not a GPU" in forced.out


def test_other_software_is_listed_and_no_obstacle(command, measure):
    old, new = (
        measure("old.json", environment={"software": {"nvidia_driver": "580.1"}}.items()),
        measure("new.json", seed=1),
    )
    new.write_text(new.read_text().replace('"nvidia_driver": null', '"nvidia_driver": "590.2"'))
    done = command("compare", old, new)
    assert done.code == 0
    assert "\nNot the same: nvidia_driver was 580.1, is 590.2.\n" in done.out


def test_cases_of_one_file_alone_are_named(command, measure):
    old, new = measure("old.json", "--pinned", "--mapped"), measure("new.json", "--pinned", "--managed")
    done = command("compare", old, new)
    assert done.code == 0
    assert words(done) == ["same", "same"]
    assert "\nOnly in old.json: mapped kernel h2d 4 KiB; mapped kernel d2h 4 KiB.\n" in done.out
    assert done.out.endswith("\nOnly in new.json: managed h2d 4 KiB; managed d2h 4 KiB.\n")


def test_nothing_to_compare_is_no_success(command, measure):
    old, new = measure("old.json", "--mapped"), measure("new.json", "--pinned")
    done = command("compare", old, new)
    assert done.code == 4
    assert "\nNo case is in both.\n" in done.out
    single = measure("single.json", "--pinned", "--trials", "1")
    done = command("compare", new, single)
    assert done.code == 4
    assert words(done) == ["? one trial", "? one trial"]


def test_stdin_is_a_file_too(spawn, measure):
    old, new = measure("old.json"), measure("new.json", seed=1)
    done = spawn("compare", str(old), "-", input=new.read_bytes(), environment={"PYTHONIOENCODING": "utf-8"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().startswith("stdin against old.json")


def test_a_run_that_did_not_finish_is_compared_as_far_as_it_came(command, measure):
    old, new = measure("old.json", finished=None), measure("new.json", seed=1)
    done = command("compare", old, new)
    assert (done.code, words(done)) == (0, ["same", "same"])
    assert done.err == f"cudabw: {old}: the run had not finished when this was written\n"


def test_comparisons_are_shown_in_one_way(command, measure):
    old, new = measure("old.json"), measure("new.json", seed=1)
    assert command("compare", old, new, "--markdown").out.startswith("### new.json against old.json · NVIDIA H200\n\n|")
    done = command("compare", old, new, "--markdown", "--json")
    assert (done.code, done.err) == (2, "cudabw: error: comparisons are shown in one way: --markdown or --json\n")


@pytest.mark.parametrize("option", [(), ("--json",), ("--markdown",)])
def test_outputs_that_cannot_be_written_end_as_everywhere(spawn, measure, option):
    old, new = measure("old.json"), measure("new.json", seed=1)
    full = spawn("compare", str(old), str(new), *option, redirections=">/dev/full")
    assert full.returncode == 1
    assert full.stderr == b"cudabw: error: the output could not be written: No space left on device\n"
    plain = spawn("compare", str(old), str(new), *option, environment={"PYTHONIOENCODING": "ascii", "NO_COLOR": "1"})
    assert plain.returncode == 0
    assert plain.stdout.isascii()
    assert b"\x1b" not in plain.stdout
