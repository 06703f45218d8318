"""``cudabw launch-overhead``: whole commands."""

import threading

import pytest

from cudabw.results.launch import ARG_TYPES, MOST_ARGS

QUICK = ("launch-overhead", "--backend", "emulated", "--trials", "1")
CLOCK = {"launch_s": 3e-6, "submit_s": 1e-6, "kernel_s": 2e-6}
MODES = ["bare", "prepared", "packed", "converted", "specialised", "rebound"]


def test_the_table_goes_to_stdout_and_nothing_to_stderr(command, emulate):
    emulate(clock=CLOCK)
    done = command(*QUICK, "--args", "0,4")
    assert (done.code, done.err) == (0, "")
    title, headline, slope, *_ = done.out.splitlines()
    assert title == "Kernel launches from Python · device 0: EMULATED, not a GPU"
    assert headline.startswith("Converting 4 buffer arguments on each launch ")
    assert slope.startswith("Each further buffer argument")
    assert "0 (blind): blind to conversion, because there are no arguments to convert." in done.out
    rows = [line.split() for line in done.out.splitlines() if line.startswith(("4 buffer   ", " " * 11))]
    prepared = next(row for row in rows if row[0] == "prepared")
    # On this clock every call takes 4 us, and a kernel 2.
    assert prepared == ["prepared", "4.00", "–", "4.02", "6.00", "0", "0"]  # noqa: RUF001


def seconds(exact):
    """A time that was the same in all six bursts of the one trial."""
    ends = {"low": None, "high": None, "min": exact, "max": exact, "p5": exact, "p95": exact}
    return {"median": exact, **ends, "n": 6, "outliers": None}


def test_the_document_has_each_mode_of_each_set_with_its_samples(document, emulate):
    emulate(clock=CLOCK)
    done = document(*QUICK, "--args", "0,2", "--arg-type", "int32,struct")
    assert (done.code, done.err) == (0, "")
    run = done.json
    assert run["command"] == [*QUICK, "--args", "0,2", "--arg-type", "int32,struct", "--json"]
    assert list(run)[-2:] == ["cases", "launch_overhead"]
    assert [case["id"] for case in run["cases"]] == [
        *(f"launch_overhead/none/0/{mode}" for mode in MODES[:-1]),
        *(f"launch_overhead/{kind}/2/{mode}" for kind in ("int32", "struct") for mode in MODES),
    ]
    case = run["cases"][8]
    trials = case.pop("trials")
    assert case == {
        "id": "launch_overhead/int32/2/converted",
        "benchmark": "launch_overhead",
        "arg_type": "int32",
        "args": 2,
        "mode": "converted",
        "state": "ok",
        "reason": None,
        "named": True,
        "clock": "host",
        "submit_s": pytest.approx(seconds(4e-6)),
        "sustained_s": pytest.approx(case["sustained_s"]),
        "synchronised_s": pytest.approx(seconds(6e-6)),
        "conversions_per_launch": 2.0,
        "waits_per_launch": 0.0,
        "difference": case["difference"],
        "notes": [],
    }
    assert list(case["difference"]) == ["over", "median", "low", "high", "verdict", "samples_s"]
    assert (case["difference"]["over"], case["difference"]["verdict"]) == ("prepared", "not known from one trial")
    (trial,) = trials
    assert list(trial) == [
        "launches_per_burst",
        "submit_s",
        "sustained_s",
        "synchronised_s",
        "second_half",
        "counts",
    ]
    assert {len(trial[name]) for name in ("submit_s", "sustained_s", "synchronised_s")} == {6}
    launches = trial["counts"]["launches"]
    assert trial["counts"] == {"launches": launches, "conversions": 2 * launches, "stream_waits": 0, "host_waits": 0}


def test_the_document_tells_what_is_known_beyond_the_cases(document, emulate):
    emulate(clock=CLOCK)
    found = document(*QUICK, "--args", "0,2").json["launch_overhead"]
    assert list(found) == ["queue", "launches_per_burst", "collector", "sets", "slopes"]
    assert found["queue"] == {"launches": 1019, "tried": 1020}
    assert found["launches_per_burst"] == 125
    assert [(one["id"], one["blind"]) for one in found["sets"]] == [
        ("launch_overhead/none/0", True),
        ("launch_overhead/buffer/2", False),
    ]
    assert list(found["sets"][1]["stages"]) == [
        "call_s",
        "convert_s",
        "ownership_s",
        "pack_s",
        "driver_s",
        "sum_s",
        "total_s",
        "adds_up",
    ]
    assert [slope["arg_type"] for slope in found["slopes"]] == ["buffer"]


def test_lists_may_be_repeated(document):
    done = document(*QUICK, "--args", "1,2", "--args", "2,0", "--arg-type", "numpy", "--arg-type", "pointer")
    sets = [one["id"].removeprefix("launch_overhead/") for one in done.json["launch_overhead"]["sets"]]
    assert sets == ["numpy/1", "numpy/2", "none/0", "pointer/1", "pointer/2"]


@pytest.mark.parametrize("counts", ["-1", "1,-1", "", "1,,2", "1.5", "257", "two", "1 2", "9" * 5000])
def test_numbers_of_arguments_that_cannot_be_meant_are_refused(command, no_start, counts):  # noqa: ARG001
    done = command("launch-overhead", "--args", counts)
    assert (done.code, done.out) == (2, "")
    assert f"each is from 0 to {MOST_ARGS}, for example 0,1,4,16" in done.err


@pytest.mark.parametrize("kinds", ["nosuch", "buffer,nosuch", "", "Buffer", "none"])
def test_kinds_of_arguments_that_there_are_not_are_refused_with_those_there_are(command, no_start, kinds):  # noqa: ARG001
    done = command("launch-overhead", "--arg-type", kinds)
    assert (done.code, done.out) == (2, "")
    assert f"is no type of argument: it is one of {', '.join(ARG_TYPES)}" in " ".join(done.err.split())


@pytest.mark.parametrize("flags", [("--trials", "0"), ("--time-budget", "0"), ("--device", "-1"), ("--backend", "gpu")])
def test_other_flags_are_as_strict_as_everywhere(command, no_start, flags):  # noqa: ARG001
    assert command("launch-overhead", *flags).code == 2


def test_what_distorts_launches_is_told_on_stderr_and_in_the_document(document, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    done = document(*QUICK, "--args", "0")
    sentence = (
        "CUDA_LAUNCH_BLOCKING=1 makes every launch wait for its kernel, so launch times include the kernel's own."
    )
    assert done.err == f"cudabw: {sentence}\n"
    assert done.json["warnings"] == [sentence]


def test_other_threads_are_told_on_stderr_and_in_the_document(document):
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="loader 7")
    thread.start()
    try:
        done = document(*QUICK, "--args", "0")
    finally:
        over.set()
        thread.join()
    (warning,) = done.json["warnings"]
    assert "loader 7" in warning
    assert done.err == f"cudabw: {warning}\n"


def test_a_lost_device_keeps_what_was_measured(document, emulate):
    # A trial has some seven thousand launches.
    emulate(clock=CLOCK, faults=[{"function": "cuLaunchKernelEx", "lose_device": True, "nth": 20000}])
    done = document("launch-overhead", "--backend", "emulated", "--trials", "20", "--args", "1")
    assert done.code == 1
    assert "was lost" in done.json["error"]["message"]
    for case in done.json["cases"]:
        (note,) = case["notes"]
        assert case["state"] == "ok"
        assert note.startswith("2 of 20 trials: ")


DOUBTED = """\
Kernel launches from Python · device 0: EMULATED, not a GPU
Converting 1 buffer argument on each launch: no difference could be taken.

One launch in µs: the call (submit), in bursts (sustained), waited for (+ wait)
Arguments  Mode         Submit  ±  Sustained  + wait  Conv.  Waits  Note
─────────────────────────────────────────────────────────────────────────
1 buffer   bare         failed  –          –       –      0      0     1
           prepared     failed  –          –       –      0      0     1
           packed       failed  –          –       –      0      0     1
           converted    failed  –          –       –      1      0     1
           specialised  failed  –          –       –      2      0     1
           rebound      failed  –          –       –      1      0     1

[1] failed: cuModuleLoadData failed with CUDA_ERROR_INVALID_PTX (218). The driver rejects the kernel's PTX; update the driver, or report this when it is recent.
"""  # noqa: E501, RUF001


def test_a_failure_in_a_later_trial_leaves_no_figure_of_the_trials_before(command, document, emulate):
    emulate(clock=CLOCK, faults=[{"function": "cuModuleLoadData", "status": 218, "nth": 5}])
    done = command("launch-overhead", "--backend", "emulated", "--trials", "12", "--args", "1")
    assert (done.code, done.out, done.err) == (1, DOUBTED, "")
    found = document("launch-overhead", "--backend", "emulated", "--trials", "12", "--args", "1")
    assert found.code == 1
    assert {(case["state"], case["submit_s"], len(case["trials"])) for case in found.json["cases"]} == {
        ("failed", None, 3)
    }


@pytest.mark.parametrize("level", [(), ("--quick",)])
def test_a_clock_that_launches_do_not_move_gives_no_figures(document, emulate, level):
    emulate(clock={"h2d": 1e10, "d2h": 1e10})
    done = document("launch-overhead", "--backend", "emulated", "--args", "1", *level)
    assert done.code == 1
    assert {(case["state"], case["submit_s"]) for case in done.json["cases"]} == {("failed", None)}
    assert all(case["reason"].startswith("no time passed by the host clock") for case in done.json["cases"])


def test_a_refused_buffer_fails_only_what_was_named(document, emulate):
    emulate(faults=[{"function": "cuMemAlloc", "status": 2}])
    done = document(*QUICK, "--args", "0,1", "--arg-type", "buffer")
    assert done.code == 4
    assert {(case["args"], case["state"]) for case in done.json["cases"]} == {(0, "ok"), (1, "refused")}
    assert document(*QUICK, "--args", "0,1").code == 0


def test_without_a_driver_there_is_a_document_with_the_error(document, no_driver):  # noqa: ARG001
    done = document("launch-overhead", "--backend", "cuda")
    assert (done.code, done.json["cases"]) == (5, [])
    assert "launch_overhead" not in done.json


def test_a_suite_measures_launches_beside_copies(command, document, tmp_path):
    suite = tmp_path / "both.toml"
    suite.write_text(
        """
        version = 1
        backend = "emulated"
        [[launch_overhead]]
        args = [0, 2]
        arg_types = ["mixed"]
        trials = 1
        [[bandwidth]]
        kinds = ["pinned"]
        sizes = ["4KiB"]
        trials = 1
        """
    )
    done = document("run", suite)
    assert done.code == 0
    assert [case["benchmark"] for case in done.json["cases"]] == ["bandwidth"] * 2 + ["launch_overhead"] * 11
    shown = command("run", suite).out
    assert [line.split(" · ")[0] for line in shown.splitlines() if " · " in line] == [
        "Host ↔ device bandwidth",
        "Kernel launches from Python",
    ]
    planned = document("run", suite, "--dry-run").json
    assert {case["id"] for section in planned["sections"] for case in section["cases"]} == {
        case["id"] for case in done.json["cases"]
    }


PLAN = """\
#  Launches with  Arguments  Trials  Cases
───────────────────────────────────────────
1  none           0              12      5
1  mixed          1, 4           12     12
"""


def test_the_plan_of_a_suite_lists_launches(command, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    suite = tmp_path / "launches.toml"
    suite.write_text('version = 1\n[[launch_overhead]]\nargs = [0, 1, 4]\narg_types = ["mixed"]\n')
    done = command("run", suite, "--dry-run")
    assert done.code == 0
    assert PLAN in done.out
    assert "17 cases, 204 trials" in done.out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("args = []", "args: the list is empty"),
        ("args = 4", "args: needs a list of whole numbers such as [0, 4], not the number 4"),
        ("args = [-1]", "args: '-1' is not a number"),
        ("args = [257]", "args: 257 is too large: write 0 to 256"),
        ('arg_types = ["bufer"]', "arg_types: 'bufer' is not known (did you mean 'buffer'?)"),
        ("sizes = [1]", "unknown key 'sizes'"),
    ],
)
def test_a_section_that_cannot_be_meant_is_refused(command, tmp_path, line, message):
    suite = tmp_path / "wrong.toml"
    suite.write_text(f"version = 1\n[[launch_overhead]]\n{line}\n")
    done = command("run", suite)
    assert (done.code, done.out) == (2, "")
    assert f"[[launch_overhead]] section 1: {message}" in done.err


def test_a_set_that_an_earlier_section_measures_is_left_out(document, tmp_path):
    suite = tmp_path / "again.toml"
    section = '[[launch_overhead]]\nargs = [0, 1]\ntrials = 1\narg_types = ["{}"]\n'
    suite.write_text('version = 1\nbackend = "emulated"\n' + section.format("buffer") + section.format("int32"))
    ids = [case["id"] for case in document("run", suite).json["cases"]]
    assert len(ids) == len(set(ids)) == 5 + 6 + 6
