"""Faster, slower, the same, or inconclusive and why."""

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from cudabw.benchmarks.api import measure_bandwidth
from cudabw.results.compare import Reason, Verdict, change_of, compare, comparisons_to_json
from cudabw.results.cpu_speed import CpuSpeed
from cudabw.results.facts import environment_facts
from cudabw.results.headline import label_of
from cudabw.results.launch import Counts, LaunchCase, LaunchTrial, Mode, Seconds
from cudabw.results.model import CaseResult, Clock, DeviceInfo, Link, Pages, Rate, RunResult, State, Trial
from cudabw.results.setup_cost import SetupCase, SetupTrial

GPU = DeviceInfo(0, "NVIDIA H200", "GPU-1", None, emulated=False, link=Link(5, 16, 63e9, "nvml"))
SIZE = 64 << 20


def copies(*rates, samples=1, **fields):
    """A case with a trial of each rate in GB/s, all samples of which are the same."""
    trials = tuple(Trial(1, (SIZE / rate / 1e9,) * samples) for rate in rates)
    rate = Rate(float(np.median(rates)) * 1e9, None, None, 1.0, 1.0)
    made = {"clock": Clock.EVENT, "rate_bytes_per_s": rate, "trials": trials, "state": State.OK}
    return CaseResult(**{"id": "a", "benchmark": "bandwidth", "kind": "pinned", "engine": "driver",
                         "direction": "h2d", "size_bytes": SIZE} | made | fields)  # fmt: skip


def launches(*seconds):
    trials = tuple(LaunchTrial(10, (each,), (each,), (each,), None, Counts(10)) for each in seconds)
    submit = Seconds(float(np.median(seconds)), None, None, 0.0, 1.0)
    return LaunchCase("l", "launch_overhead", "buffer", 4, Mode.BARE, State.OK, submit_s=submit, trials=trials)


REFUSED = copies(1.0, state=State.REFUSED, reason="no room", rate_bytes_per_s=None, trials=())


def judged(old, new):
    change = change_of([old], new, between_runs=False)
    return change.verdict, change.reason


# One run against another


@pytest.mark.parametrize(
    ("old", "new", "verdict", "reason"),
    [
        ((50.0, 50.1, 49.9), (50.0, 50.05, 49.95), Verdict.SAME, Reason.WITHIN_MARGIN),
        # A change that is certain, and too small to matter.
        ((50.0, 50.01, 49.99), (49.5, 49.51, 49.49), Verdict.SAME, Reason.WITHIN_MARGIN),
        ((50.0, 50.1, 49.9), (47.5, 47.6, 47.4), Verdict.SLOWER, Reason.BEYOND_MARGIN),
        ((50.0, 50.1, 49.9), (53.0, 53.1, 52.9), Verdict.FASTER, Reason.BEYOND_MARGIN),
        ((50.0, 50.1, 49.9), (49.0, 49.1, 48.9), Verdict.INCONCLUSIVE, Reason.NEAR_MARGIN),
        ((50.0, 50.1, 49.9), (51.0, 51.1, 50.9), Verdict.INCONCLUSIVE, Reason.NEAR_MARGIN),
        ((50.0, 40.0, 60.0), (50.0, 41.0, 59.0), Verdict.INCONCLUSIVE, Reason.TOO_WIDE),
        ((50.0,), (25.0, 25.0), Verdict.INCONCLUSIVE, Reason.ONE_TRIAL),
        ((50.0, 50.0), (25.0,), Verdict.INCONCLUSIVE, Reason.ONE_TRIAL),
        ((50.0, 50.0), (50.0, 50.0), Verdict.SAME, Reason.WITHIN_MARGIN),
    ],
)
def test_where_the_interval_lies_decides(old, new, verdict, reason):
    assert judged(copies(*old), copies(*new)) == (verdict, reason)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((50.0, 50.1, 49.9), (47.5, 47.6, 47.4)),
        ((50.0, 50.1, 49.9), (53.0, 53.1, 52.9)),
    ],
)
def test_one_earlier_run_does_not_show_how_far_the_hosts_clock_differs_between_runs(old, new):
    host = partial(copies, clock=Clock.HOST)
    assert judged(host(*old), host(*new)) == (Verdict.INCONCLUSIVE, Reason.ONE_RUN)
    assert judged(host(*old), host(*old)) == (Verdict.SAME, Reason.WITHIN_MARGIN)
    several = [host(*(rate + shift for rate in old)) for shift in (0, 0.01, -0.01, 0.02)]
    assert change_of(several, host(*new), between_runs=True).reason is Reason.BEYOND_MARGIN


def test_a_launch_that_takes_less_time_has_more_speed():
    change = change_of([launches(4e-6, 4.001e-6)], launches(2e-6, 2.0005e-6), between_runs=False)
    assert (change.verdict, change.reason, change.quantity) == (Verdict.INCONCLUSIVE, Reason.ONE_RUN, "s")
    several = [launches(4e-6, 4.001e-6), launches(4.002e-6, 4.001e-6), launches(4e-6, 4e-6)]
    assert change_of(several, launches(2e-6, 2e-6), between_runs=True).verdict is Verdict.FASTER
    assert change.speed == pytest.approx(2.0)
    assert (change.old, change.new) == (pytest.approx(4.0005e-6), pytest.approx(2.00025e-6))
    same_as_rates = change_of([copies(1 / 4, 1 / 4.001)], copies(1 / 2, 1 / 2.0005), between_runs=False)
    assert [change.low, change.high] == pytest.approx([same_as_rates.low, same_as_rates.high])


def setups(*seconds):
    trials = tuple(SetupTrial(each / 2, each / 4, None, None, each / 4) for each in seconds)
    total = Seconds(float(np.median(seconds)), None, None, 0.0, 1.0)
    return SetupCase("s", "setup_cost", "pinned", SIZE, State.OK, total_s=total, trials=trials)


def test_memory_that_takes_less_time_to_have_ready_is_faster():
    several = [setups(0.4, 0.4001), setups(0.4002, 0.4001), setups(0.4, 0.4)]
    change = change_of(several, setups(0.2, 0.2), between_runs=True)
    assert (change.verdict, change.quantity, change.label) == (Verdict.FASTER, "s", "set up pinned 64 MiB")
    assert change.speed == pytest.approx(2.0, rel=1e-3)


def test_the_state_of_pages_is_part_of_what_a_case_is_called():
    assert label_of(copies(1.0, kind="pageable", pages=Pages.HUGE)) == "pageable huge-pages h2d 64 MiB"


@pytest.mark.parametrize(
    ("asked", "number", "label"),
    [
        ("", None, "pinned h2d 64 MiB"),
        ("/node1", 1, "pinned h2d 64 MiB on node 1"),
        ("/node-auto", 1, "pinned h2d 64 MiB on the device's node"),
        ("/node-auto", None, "pinned h2d 64 MiB on the device's node"),
        ("/node-all", None, "pinned h2d 64 MiB on each node"),
    ],
)
def test_the_node_that_was_asked_for_is_part_of_what_a_case_is_called_also_where_it_is_not_known(asked, number, label):
    assert label_of(copies(1.0, id=f"bandwidth/pinned/driver/h2d/67108864{asked}", numa_node=number)) == label


def test_both_directions_at_once_are_called_by_words():
    assert label_of(copies(1.0, direction="bidirectional-total")) == "pinned both ways total 64 MiB"


def test_the_interval_is_welchs_on_logarithms():
    old, new = (math.log(40.0), math.log(44.0)), (math.log(36.0), math.log(39.6))
    change = change_of([copies(40.0, 44.0)], copies(36.0, 39.6), between_runs=False)
    # Equal spreads and two trials each: two degrees of freedom.
    half_width = 9.92484320091807 * math.sqrt((old[1] - old[0]) ** 2 / 4 + (new[1] - new[0]) ** 2 / 4)
    assert change.speed == pytest.approx(0.9)
    assert [change.low, change.high] == pytest.approx([0.9 * math.exp(-half_width), 0.9 * math.exp(half_width)])


def test_many_samples_in_a_trial_do_not_stand_for_many_trials():
    old, new = copies(50.0, 55.0, samples=1000), copies(47.0, 52.0, samples=1000)
    assert judged(old, new) == (Verdict.INCONCLUSIVE, Reason.TOO_WIDE)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (REFUSED, copies(50.0, 50.0), Reason.NOT_MEASURED),
        (copies(50.0, 50.0), REFUSED, Reason.NOT_MEASURED),
        (REFUSED, REFUSED, Reason.NOT_MEASURED),
        (copies(50.0, 50.0), copies(25.0, 25.0, clock=Clock.HOST), Reason.OTHER_CLOCK),
        (launches(1e-6, 1e-6), launches(0.0, 1e-6), Reason.NO_TIME),
        # Of a file that was made by hand.
        (copies(50.0, 50.0), copies(50.0, trials=()), Reason.NOT_MEASURED),
        (copies(50.0, 50.0), copies(50.0, trials=(Trial(1, ()), Trial(1, (0.0,)))), Reason.NOT_MEASURED),
    ],
)
def test_what_cannot_be_compared_says_why(old, new, reason):
    change = change_of([old], new, between_runs=False)
    assert (change.verdict, change.reason) == (Verdict.INCONCLUSIVE, reason)
    assert (change.speed, change.low, change.high) == (None, None, None)


def on_ticks(microseconds, *, per_batch=1):
    """Trials all of which took as long, by a clock with a tick of 1 us."""
    trial = Trial(per_batch, (microseconds * 1e-6,))
    rate = Rate(SIZE / microseconds * 1e6, None, None, 1.0, 1.0)
    return copies(1.0, tick_s=1e-6, rate_bytes_per_s=rate, trials=(trial,) * 5)


@pytest.mark.parametrize("between_runs", [False, True])
def test_no_change_is_known_better_than_by_the_ticks_of_both_clocks(between_runs):
    change = change_of([on_ticks(20), on_ticks(20)], on_ticks(21), between_runs=between_runs)
    assert (change.verdict, change.reason) == (Verdict.INCONCLUSIVE, Reason.TOO_WIDE)
    factor = (1 + 1 / 20) * (1 + 1 / 21)
    assert [change.speed, change.low, change.high] == pytest.approx([20 / 21, 20 / 21 / factor, 20 / 21 * factor])


@pytest.mark.parametrize("between_runs", [False, True])
def test_a_batch_of_many_ticks_tells_more_of_a_copy(between_runs):
    old = [on_ticks(20, per_batch=100), on_ticks(20, per_batch=100)]
    change = change_of(old, on_ticks(21, per_batch=100), between_runs=between_runs)
    assert (change.verdict, change.reason) == (Verdict.SLOWER, Reason.BEYOND_MARGIN)
    assert change.high == pytest.approx(20 / 21 * (1 + 1 / 2000) * (1 + 1 / 2100))


def test_of_earlier_runs_the_one_whose_clock_tells_least_counts():
    old = [on_ticks(20, per_batch=100), on_ticks(20, per_batch=50), replace(on_ticks(20), tick_s=None)]
    change = change_of(old, on_ticks(20, per_batch=100), between_runs=True)
    assert change.high == pytest.approx((1 + 1 / 1000) * (1 + 1 / 2000))


def test_trials_that_leave_everything_open_have_a_finite_interval():
    change = change_of([copies(1e-9, 1e9)], copies(1e-9, 1e9), between_runs=False)
    assert change.reason is Reason.TOO_WIDE
    assert math.isfinite(change.high)
    assert change.low > 0


# How often it is wrong


def drawn(random, spread, *, trials=5, mean=50.0):
    return copies(*(mean * np.exp(spread * random.standard_normal(trials))))


@pytest.mark.parametrize("spread", [0.003, 0.02, 0.05, 0.3])
def test_what_did_not_change_is_hardly_ever_called_faster_or_slower(spread):
    random = np.random.default_rng(7)
    wrong = sum(
        judged(drawn(random, spread), drawn(random, spread))[0] in (Verdict.FASTER, Verdict.SLOWER) for _ in range(1000)
    )
    assert wrong <= 10, "one in a hundred is what the interval promises"


# Each copy takes 4 ms, so that it is a batch; 0.3 % is what samples scatter by on an H200.
SLOW_COPIES = {"h2d": 1e6, "d2h": 1e6}
NOISE = 0.003


@pytest.fixture
def measured(monkeypatch):
    def measure(seed, *, slowed=1.0):
        clock = {name: rate / slowed for name, rate in SLOW_COPIES.items()} | {"noise": NOISE, "seed": seed}
        monkeypatch.setenv("CUDABW_EMULATED", json.dumps({"clock": clock}))
        return measure_bandwidth(backend="emulated", kinds=["pinned"], sizes=[4096])

    return measure


def verdicts(old, new):
    return [change.verdict for change in compare([old], new, old_name="old", new_name="new").cases]


def test_equal_runs_are_never_faster_or_slower_and_five_percent_is_seen(measured):
    slower = 0
    for seed in range(20):
        old = measured(seed)
        assert set(verdicts(old, measured(100 + seed))) <= {Verdict.SAME, Verdict.INCONCLUSIVE}
        slower += set(verdicts(old, measured(200 + seed, slowed=1.05))) == {Verdict.SLOWER}
    assert slower >= 19


# Several earlier runs


def against(old, new):
    change = change_of(old, new, between_runs=True)
    return change.verdict, change.reason


def test_what_changes_from_run_to_run_is_no_regression():
    earlier = [copies(*(rate * factor for factor in (1.0, 1.001, 0.999))) for rate in (50.0, 48.0, 52.0, 49.0, 51.0)]
    new = copies(47.0, 47.05, 46.95)
    assert judged(earlier[0], new) == (Verdict.SLOWER, Reason.BEYOND_MARGIN)
    assert against(earlier, new) == (Verdict.INCONCLUSIVE, Reason.TOO_WIDE)
    assert against(earlier, copies(30.0, 30.0, 30.0)) == (Verdict.SLOWER, Reason.BEYOND_MARGIN)


def test_the_figure_of_earlier_runs_is_their_median():
    change = change_of([copies(50.0), copies(52.0), copies(60.0)], copies(52.0), between_runs=True)
    assert change.old == pytest.approx(52e9)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ([copies(50.0, 50.0)], copies(25.0, 25.0), Reason.FEW_RUNS),
        ([copies(50.0, 50.0), REFUSED], copies(25.0, 25.0), Reason.FEW_RUNS),
        ([copies(50.0, 50.0), copies(50.0, 50.0, clock=Clock.HOST)], copies(25.0, 25.0), Reason.OTHER_CLOCK),
    ],
)
def test_earlier_runs_that_cannot_say_what_is_usual_are_no_verdict(old, new, reason):
    assert against(old, new) == (Verdict.INCONCLUSIVE, reason)


def test_runs_of_one_trial_are_draws_as_well():
    earlier = [copies(50.0 + 0.01 * number) for number in range(5)]
    assert against(earlier, copies(50.03)) == (Verdict.SAME, Reason.WITHIN_MARGIN)
    assert against(earlier, copies(47.0)) == (Verdict.SLOWER, Reason.BEYOND_MARGIN)


def test_one_more_run_of_many_that_scatter_is_hardly_ever_called_faster_or_slower():
    random = np.random.default_rng(7)
    wrong = 0
    for _ in range(1000):
        *earlier, new = (drawn(random, 0.001, mean=50 * np.exp(0.03 * random.standard_normal())) for _ in range(7))
        wrong += against(earlier, new)[0] in (Verdict.FASTER, Verdict.SLOWER)
    assert wrong <= 15, "one in a hundred is what the interval promises; three standard deviations more are chance"


@pytest.mark.parametrize("trials", [1, 2, 5, 10])
def test_a_much_slower_run_that_had_time_for_fewer_trials_is_slower(trials):
    random = np.random.default_rng(7)
    earlier = [drawn(random, 0.01, trials=10) for _ in range(4)]
    assert against(earlier, drawn(random, 0.01, trials=trials, mean=25.0)) == (Verdict.SLOWER, Reason.BEYOND_MARGIN)


def test_what_fewer_trials_add_is_in_the_interval():
    x = math.log(50.0)
    earlier = [copies(*(math.exp(x + level + step) for step in (-0.1, 0.1))) for level in (-0.01, 0.0, 0.01)]
    change = change_of(earlier, copies(50.0), between_runs=True)
    half_width = 9.92484320091807 * math.sqrt(0.01**2 * 4 / 3 + 0.02 * (1 - 1 / 2))
    assert [change.speed, change.low, change.high] == pytest.approx([1.0, math.exp(-half_width), math.exp(half_width)])


def test_a_run_of_fewer_trials_is_hardly_ever_called_faster_or_slower():
    random = np.random.default_rng(7)
    wrong = 0
    for _ in range(400):
        earlier = [drawn(random, 0.2, trials=40) for _ in range(6)]
        wrong += against(earlier, drawn(random, 0.2, trials=10))[0] in (Verdict.FASTER, Verdict.SLOWER)
    assert wrong <= 10, "one in a hundred is what the interval promises; three standard deviations more are chance"


# Whole runs


def run_of(*cases, device=GPU, version="1", cpu=None, variables=None, **software):
    environment = {"cpu": {"model": cpu}, "software": software, "variables": variables}
    return RunResult(("bandwidth",), "", version, device=device, environment=environment, cases=cases)


def test_cases_that_are_on_one_side_alone_are_named():
    old = run_of(copies(50.0, 50.0), copies(50.0, id="b", kind="mapped"))
    new = run_of(copies(50.0, 50.0, id="c", kind="managed"), copies(50.0, 50.0), launches(1e-6))
    found = compare([old], new, old_name="old", new_name="new")
    assert [change.id for change in found.cases] == ["a"]
    assert found.only_old == ("mapped h2d 64 MiB",)
    assert found.only_new == ("managed h2d 64 MiB", "launch bare, 4 buffer")


def facts_of(old, new):
    found = compare(old, new, old_name="old", new_name="new")
    return [(fact.name, fact.old, fact.new, fact.unlike) for fact in found.facts]


def test_facts_that_differ_are_listed_and_those_that_make_another_machine_are_marked():
    other = replace(GPU, name="NVIDIA A100", uuid="GPU-2", link=Link(4, 16, 31.5e9, "nvml"))
    old = run_of(cpu="EPYC", python="3.12", nvidia_driver=None, variables={}, os="Debian")
    new = run_of(device=other, version="2", cpu="Xeon", python="3.13", nvidia_driver="580", variables={"A": "1"},
                 os="Debian")  # fmt: skip
    assert facts_of([old], new) == [
        ("device", "NVIDIA H200", "NVIDIA A100", True),
        ("link", "PCIe Gen5 x16", "PCIe Gen4 x16", True),
        ("cpu", "EPYC", "Xeon", True),
        ("cudabw", "1", "2", False),
        ("uuid", "GPU-1", "GPU-2", False),
        ("python", "3.12", "3.13", False),
        ("variables", "none", "A=1", False),
    ]
    assert facts_of([old], old) == []


def test_what_is_another_from_moment_to_moment_is_no_fact():
    environment = {
        "gpu": {"mig": False, "other_processes": 3, "before": {"sm_mhz": 300}},
        "memory": {"available_bytes": 1 << 30},
        "host": {"container": None, "wsl": False},
        "cpu": "of another version",
    }
    assert environment_facts(environment) == {"mig": False, "wsl": False}


def test_a_card_is_not_taken_for_an_emulated_one_of_its_name():
    emulated = replace(GPU, emulated=True)
    assert [fact[0] for fact in facts_of([run_of()], run_of(device=emulated))] == ["device"]
    assert compare([run_of(device=emulated)], run_of(), old_name="", new_name="").emulated is True
    assert compare([run_of()], run_of(), old_name="", new_name="").emulated is False


def test_of_several_runs_each_other_value_is_listed():
    runs = [run_of(python="3.11"), run_of(python="3.12"), run_of(python="3.11")]
    assert facts_of(runs, run_of(python="3.12")) == [("python", "3.11 and 3.12", "3.12", False)]


def test_how_fast_the_cpu_was_is_compared_where_both_sides_tell():
    def with_probe(seconds):
        speed = CpuSpeed(cpus=(0,), usable=1, slow_at_first=0, probe_s=seconds, taken=1, repeated=0, kept=0)
        return replace(run_of(), cpu_speed=speed)

    def speed_of(old, new):
        return compare(old, new, old_name="old", new_name="new").cpu_speed

    assert speed_of([with_probe(40e-6)], with_probe(50e-6)) == pytest.approx(0.8)
    assert speed_of([with_probe(44e-6), run_of(), with_probe(40e-6), with_probe(30e-6)], with_probe(20e-6)) == 2.0
    assert speed_of([run_of()], with_probe(40e-6)) is None
    assert speed_of([with_probe(40e-6)], run_of()) is None


def test_a_run_that_never_began_has_nothing_to_compare():
    found = compare([run_of(device=None)], run_of(device=None), old_name="old", new_name="new")
    assert (found.cases, found.device, found.emulated, found.facts) == ((), None, False, ())


def test_the_document_holds_numbers_and_codes():
    found = compare([run_of(copies(50.0, 50.0))], run_of(copies(40.0, 40.0)), old_name="a", new_name="b")
    document = json.loads(comparisons_to_json([found]))
    assert (document["schema"], document["tool"]["name"]) == (1, "cudabw")
    (comparison,) = document["comparisons"]
    assert (comparison["old"], comparison["new"], comparison["old_runs"]) == ("a", "b", 1)
    (change,) = comparison["cases"]
    assert change == {
        "id": "a",
        "label": "pinned h2d 64 MiB",
        "quantity": "bytes/s",
        "old": pytest.approx(50e9),
        "new": pytest.approx(40e9),
        "old_states": ["ok"],
        "new_state": "ok",
        "verdict": "slower",
        "reason": "beyond_margin",
        "speed": pytest.approx(0.8),
        "low": pytest.approx(0.8),
        "high": pytest.approx(0.8),
    }


def test_the_states_of_both_sides_are_kept_and_change_no_verdict():
    unstable, throttled = (copies(50.0, 50.0, state=state, reason="why") for state in (State.UNSTABLE, State.THROTTLED))
    old = [copies(50.0, 50.0), unstable, REFUSED, unstable]
    change = change_of(old, throttled, between_runs=True)
    assert (change.verdict, change.reason) == (Verdict.SAME, Reason.WITHIN_MARGIN)
    assert change.old_states == (State.OK, State.UNSTABLE, State.REFUSED)
    assert change.new_state is State.THROTTLED


@pytest.mark.parametrize(("lost", "counts"), [(0.0, True), (0.1, True), (0.2, True), (0.21, False)])
def test_a_case_is_slower_by_what_it_lost_of_its_speed(lost, counts):
    change = change_of([copies(50.0, 50.0)], copies(39.99, 39.99), between_runs=False)
    assert change.is_slower_by(lost) is counts
    assert not change_of([copies(50.0, 50.0)], copies(60.0, 60.0), between_runs=False).is_slower_by(0.0)
