"""How much is done: options that exclude each other, exit codes, and what the tables say."""

import pytest

CLOCK = {"h2d": 1e6, "d2h": 1e6}  # a batch is then one copy
BANDWIDTH = ("bandwidth", "--backend", "emulated", "--pinned", "--size", "4KiB", "--direction", "h2d")
LAUNCHES = ("launch-overhead", "--backend", "emulated", "--args", "0")
COMMANDS = (("bandwidth",), ("latency",), ("launch-overhead",), ("run", "smoke"))


@pytest.mark.parametrize("start", COMMANDS)
@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--quick", "--rigorous"], "--quick and --rigorous"),
        (["--trials", "3", "--quick"], "--quick and --trials"),
        (["--rigorous", "--trials", "3"], "--rigorous and --trials"),
    ],
)
def test_options_that_contradict_each_other_are_refused(command, no_start, start, flags, named):  # noqa: ARG001
    done = command(*start, *flags)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"cudabw: error: {named} contradict each other\ncudabw: hint: Choose one of them.\n"


@pytest.mark.parametrize("start", COMMANDS)
def test_strictness_with_trials_needs_a_precision(command, no_start, start):  # noqa: ARG001
    done = command(*start, "--trials", "3", "--strict")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "cudabw: error: --strict with --trials needs to know what is precise enough\ncudabw: hint: Add --precision.\n"
    )


@pytest.mark.parametrize("precision", ["0", "-1", "101", "half"])
def test_a_precision_that_cannot_be_meant_is_refused(command, no_start, precision):  # noqa: ARG001
    done = command("bandwidth", "--precision", precision)
    assert (done.code, done.out) == (2, "")
    assert "percentage" in done.err


UNCONVERGED = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

Memory   Size  h2d GB/s     ±  Clock  Note
───────────────────────────────────────────
pinned  4 KiB   0.00105  14 %  event  1

Median of 3 trials; ± is its 99 % interval.
[1] unconverged: the 99 % interval is wider than ± 0.5 % of the median (3 trials)
"""


def test_an_unconverged_figure_is_shown_and_fails_only_strictly(command, emulate):
    emulate(clock=CLOCK | {"noise": 0.1, "seed": 1})
    done = command(*BANDWIDTH, "--quick")
    assert (done.code, done.out, done.err) == (0, UNCONVERGED, "")
    strict = command(*BANDWIDTH, "--quick", "--strict")
    assert (strict.code, strict.out) == (4, UNCONVERGED)


def test_a_precise_figure_is_no_failure_strictly_either(command, emulate):
    emulate(clock=CLOCK)
    assert command(*BANDWIDTH, "--strict").code == 0


THROTTLED = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

Memory   Size  h2d GB/s    ±  Clock  Note
──────────────────────────────────────────
pinned  4 KiB   0.00100  0 %  event  1 2

Median of 3 trials; ± is its 99 % interval.
[1] throttled: the GPU was slowed down in 12 of 12 batches, also when repeated (hw_slowdown)
[2] 12 batches were repeated, because the GPU was slowed down (hw_slowdown)
"""


def test_a_throttled_figure_is_shown_with_what_slowed_it_down(command, emulate):
    emulate(clock=CLOCK, faults=[{"throttle": "hw_slowdown"}])
    done = command(*BANDWIDTH, "--quick")
    assert (done.code, done.out, done.err) == (0, THROTTLED, "")
    assert command(*BANDWIDTH, "--quick", "--strict").code == 4


@pytest.mark.parametrize(
    ("flags", "trials", "code"),
    [
        (["--quick"], 3, 0),
        (["--trials", "2"], 2, 0),
        (["--trials", "2", "--precision", "0.000001%"], 2, 0),
        (["--trials", "2", "--precision", "0.000001%", "--strict"], 2, 4),
        (["--time-budget", "1ms"], 1, 0),
        (["--time-budget", "1ms", "--rigorous"], 1, 0),
    ],
)
def test_options_have_their_effect_on_launches(document, flags, trials, code):
    done = document(*LAUNCHES, *flags)
    assert {len(case["trials"]) for case in done.json["cases"]} == {trials}
    assert done.code == code


def test_flags_take_the_place_of_a_suite_s_effort(document, emulate, tmp_path):
    emulate(clock=CLOCK)
    suite = tmp_path / "suite.toml"
    suite.write_text(
        'version = 1\nbackend = "emulated"\n[[bandwidth]]\nkinds = ["pinned"]\nsizes = [4096]\ntrials = 2\n'
        '[[bandwidth]]\nkinds = ["mapped"]\nsizes = [4096]\neffort = "quick"\n'
    )
    counts = {case["kind"]: len(case["trials"]) for case in document("run", suite).json["cases"]}
    assert counts == {"pinned": 2, "mapped": 3}
    for flags, trials in ((["--trials", "4"], 4), (["--rigorous"], 12)):
        assert {len(case["trials"]) for case in document("run", suite, *flags).json["cases"]} == {trials}


def test_a_plan_says_until_when_there_are_more_trials(command, tmp_path):
    suite = tmp_path / "suite.toml"
    suite.write_text("version = 1\n[[bandwidth]]\n[[launch_overhead]]\nprecision = 2\n")
    out = command("run", suite, "--dry-run").out
    assert "trials or more; about " in out
    assert (
        "\nMore trials, while there is time, until intervals are within ± 0.5 % in section 1, ± 2 % in section 2.\n"
    ) in out
    assert "More trials" not in command("run", suite, "--dry-run", "--quick").out
