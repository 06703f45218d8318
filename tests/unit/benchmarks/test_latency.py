"""Small copies on the emulated device: exact times on the modelled clock, states, and what ends a run."""

import gc
import json
from dataclasses import replace
from itertools import pairwise

import pytest

from cudabw import measure_latency
from cudabw.benchmarks.latency import BATCHES_PER_TRIAL, run_latency, skipped_latency
from cudabw.benchmarks.latency_plan import LatencyPlan, ManyCopies, OneCopy
from cudabw.benchmarks.latency_results import small_copies_of
from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.places import Places
from cudabw.benchmarks.scattered import ScatteredBlocks
from cudabw.copying.many_copies import LoopedCopies
from cudabw.driver.emulated.clock import ModelledClock
from cudabw.driver.emulated.faults import Fault
from cudabw.driver.emulated.versions import Versioned
from cudabw.errors import Interrupted
from cudabw.results.files import to_json
from cudabw.results.latency import CopyTrial, LatencyCase, LoopSuffices, Pace, SmallCopiesCase, Way, WayPays
from cudabw.results.launch import Seconds
from cudabw.results.model import Clock, State

SUBMIT, LAUNCH, START, KERNEL = 1e-6, 3e-6, 2e-6, 4e-6
RATE = 1e9


def modelled_clock(**settings):
    rates = {"h2d": RATE, "d2h": RATE}
    defaults = {"submit_s": SUBMIT, "launch_s": LAUNCH, "latency_s": START, "kernel_s": KERNEL}
    return ModelledClock(rates, **defaults | settings)


@pytest.fixture
def modelled(make_device):
    return make_device(clock=modelled_clock())


def measure(device, observer=None, **plan):
    plan = {"kinds": ("pinned",), "directions": ("h2d",), "sizes": (1000,), "copies": 5, "trials": 2} | plan
    return run_latency(device, (LatencyPlan(**plan),), observer or Observer())


def one(outcome, **wanted):
    (found,) = (
        case for case in outcome.cases if all(getattr(case, name, None) == value for name, value in wanted.items())
    )
    return found


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
@pytest.mark.parametrize("size", [1, 64, 1000, 70000])
def test_one_copy_takes_what_the_clock_says(modelled, direction, size):
    outcome = measure(modelled, directions=(direction,), sizes=(size,))
    copy_s = START + size / RATE
    alone, queued = one(outcome, pace=Pace.END_TO_END), one(outcome, pace=Pace.QUEUED)
    assert alone.seconds.median == pytest.approx(SUBMIT + copy_s)
    assert alone.submit_s.median == pytest.approx(SUBMIT)
    assert (alone.clock, alone.gated) == (Clock.HOST, False)
    assert queued.seconds.median == pytest.approx(copy_s, rel=1e-4)  # events have single precision
    assert (queued.clock, queued.gated, queued.submit_s) == (Clock.EVENT, True, None)
    assert alone.driver_says.startswith("page-locked")


def test_a_pageable_copy_holds_the_host_and_is_timed_by_its_clock(modelled):
    outcome = measure(modelled, kinds=("pageable",))
    copy_s = START + 1000 / RATE
    alone, queued = one(outcome, pace=Pace.END_TO_END), one(outcome, pace=Pace.QUEUED)
    assert alone.submit_s.median == alone.seconds.median == pytest.approx(SUBMIT + copy_s)
    assert (queued.clock, queued.gated) == (Clock.HOST, False)
    assert queued.seconds.median == pytest.approx(SUBMIT + copy_s)
    assert [case.way for case in outcome.cases if isinstance(case, SmallCopiesCase)] == [Way.LOOP, Way.BATCH]


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_every_trial_says_where_its_host_memory_and_its_thread_were(modelled, two_nodes, direction):
    two_nodes.pages = lambda _: 1
    plan = LatencyPlan(kinds=("pageable", "pinned"), directions=(direction,), sizes=(1000,), copies=5, trials=2)
    cases = run_latency(modelled, (plan,), places=Places(two_nodes.placement)).cases
    assert {type(case) for case in cases} == {LatencyCase, SmallCopiesCase}
    for case in cases:
        assert [(list(trial.pages_on), trial.thread_node) for trial in case.trials] == [(["1"], 0)] * 2


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_many_copies_take_what_the_clock_says_in_each_way(modelled, direction):
    outcome = measure(modelled, directions=(direction,))
    copy_s = START + 1000 / RATE
    expected = {
        Way.LOOP: (SUBMIT + 5 * copy_s, 5 * SUBMIT),
        Way.BATCH: (SUBMIT + 5 * copy_s, SUBMIT),
        Way.GRAPH: (LAUNCH + SUBMIT + 5 * copy_s, LAUNCH + SUBMIT),
        Way.KERNEL: (LAUNCH + SUBMIT + KERNEL + 5 * 1000 / RATE, LAUNCH + SUBMIT),
    }
    for way, (whole, submit) in expected.items():
        case = one(outcome, way=way)
        assert case.per_copy_s.median == pytest.approx(whole / 5), way
        assert case.submit_s.median == pytest.approx(submit / 5), way
        assert (case.clock, case.verified, case.state) == (Clock.HOST, True, State.OK)
        assert (case.build_s is None) == (way is Way.LOOP)


def test_every_case_has_its_trials_and_samples(modelled):
    outcome = measure(modelled, trials=3)
    for case in outcome.cases:
        assert len(case.trials) == 3
        for trial in case.trials:
            assert len(trial.samples_s) == BATCHES_PER_TRIAL
            assert len(trial.submit_s) == (0 if getattr(case, "pace", None) is Pace.QUEUED else BATCHES_PER_TRIAL)
    assert (outcome.interrupted, outcome.error, outcome.trials_done) == (None, None, 6)


def test_cases_and_their_order_are_those_of_the_plan(modelled):
    plan = LatencyPlan(sizes=(4096, 1 << 20), directions=("d2h",), copies=2, trials=1)
    outcome = run_latency(modelled, (plan,))
    assert [case.id for case in outcome.cases] == [case.id for case in plan.cases()]
    assert [case.id for case in outcome.cases][:6] == [
        "latency/pinned/d2h/4096/end_to_end",
        "latency/pinned/d2h/4096/queued",
        "latency/pinned/d2h/1048576/end_to_end",
        "latency/pinned/d2h/1048576/queued",
        "latency/pageable/d2h/4096/end_to_end",
        "latency/pageable/d2h/4096/queued",
    ]
    many = [case.id for case in outcome.cases if isinstance(case, SmallCopiesCase)]
    numbers = (1, 2, 8, 32, 128)
    assert many == [
        *(f"small_copies/pinned/d2h/4096x{number}/{way}" for number in numbers for way in Way),
        *(f"small_copies/pageable/d2h/4096x{number}/{way}" for number in numbers for way in ("loop", "batch")),
    ]


def test_without_sizes_one_copy_is_made_of_every_size_and_many_of_a_few():
    cells = LatencyPlan(kinds=("pinned",), directions=("h2d",)).cells()
    assert [cell.size_bytes for cell in cells if isinstance(cell, OneCopy)] == [
        *(1, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20)
    ]
    many = [(cell.size_bytes, cell.copies) for cell in cells if isinstance(cell, ManyCopies)]
    assert many == [
        (64, 32),
        *((4 << 10, number) for number in (1, 2, 8, 32, 128)),
        *((size << 10, 32) for size in (16, 64, 256)),
    ]


def test_eight_trials_of_a_default_run_fit_its_time(make_device):
    """By about what copies cost on an H200; a third of the time is left to make and check the bytes."""
    rates = {"h2d": 55e9, "d2h": 55e9, "h2d/pageable": 9e9, "d2h/pageable": 15e9}
    device = make_device(clock=ModelledClock(rates, submit_s=2e-6, launch_s=2e-6, latency_s=3e-6, kernel_s=4e-6))
    start = device.driver.now()
    run_latency(device, (LatencyPlan(trials=1),))
    effort = LatencyPlan().effort
    assert effort.least * (device.driver.now() - start) < effort.budget_s * 2 / 3


def test_only_a_kind_that_was_named_is_missed_and_no_way_is():
    cases = LatencyPlan(named=frozenset({"pinned"}), sizes=(1,)).cases()
    assert {case.id.rpartition("/")[2] for case in cases if case.named} == {"end_to_end", "queued", "loop"}
    assert {case.kind for case in cases if case.named} == {"pinned"}


def test_a_driver_without_batches_lacks_that_way_alone(modelled, monkeypatch):
    monkeypatch.delattr(Versioned, "cuMemcpyBatchAsync")
    outcome = measure(modelled)
    case = one(outcome, way=Way.BATCH)
    assert (case.state, case.per_copy_s, case.trials) == (State.UNSUPPORTED, None, ())
    assert "cuMemcpyBatchAsync does not exist" in case.reason
    assert {other.state for other in outcome.cases if other is not case} == {State.OK}


@pytest.mark.parametrize(
    ("function", "ways"),
    [
        ("cuMemcpyBatchAsync", {Way.BATCH}),
        ("cuGraphInstantiate", {Way.GRAPH}),
        ("cuStreamBeginCapture", {Way.GRAPH}),
        ("cuGraphLaunch", {Way.GRAPH}),
        ("cuLaunchKernelEx", {Way.KERNEL}),
        ("cuModuleLoadData", {Way.KERNEL}),
    ],
)
def test_a_way_that_fails_fails_alone(make_device, function, ways):
    outcome = measure(make_device(clock=modelled_clock(), faults=[Fault(function=function, status=1)]))
    failed = {case.way: case for case in outcome.cases if case.state is State.FAILED}
    assert set(failed) == ways
    assert all("CUDA_ERROR_INVALID_VALUE" in case.reason for case in failed.values())
    assert outcome.error is None


def test_a_way_that_fails_after_its_first_trial_has_no_figure(make_device):
    faults = [Fault(function="cuMemcpyBatchAsync", status=1, nth=100)]
    case = one(measure(make_device(clock=modelled_clock(), faults=faults), trials=4), way=Way.BATCH)
    assert (case.state, case.per_copy_s) == (State.FAILED, None)


@pytest.mark.parametrize("copy", ["drop", "corrupt"])
@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_a_copy_that_carries_wrong_data_has_no_figure(make_device, copy, direction):
    # The kernel's table, a copy as well, is shorter.
    faults = [Fault(copy=copy, direction=direction, at_least_bytes=1000)]
    outcome = measure(make_device(clock=modelled_clock(), faults=faults), directions=(direction,))
    for case in outcome.cases:
        assert case.state is State.WRONG_DATA, case.id
        assert case.verified is False
        assert getattr(case, "seconds", None) is getattr(case, "per_copy_s", None) is None
        assert "where the source holds" in case.reason


def test_no_batch_carries_the_stamp_of_the_one_before(modelled, monkeypatch):
    stamps = []
    change = ScatteredBlocks.change
    monkeypatch.setattr(ScatteredBlocks, "change", lambda memory, stamp: (stamps.append(stamp), change(memory, stamp)))
    measure(modelled)
    assert len(stamps) == 2 * 4 * BATCHES_PER_TRIAL
    assert all(one != following for one, following in pairwise(stamps))


def test_refused_memory_refuses_the_cases_that_need_it(make_device):
    device = make_device(clock=modelled_clock(), faults=[Fault(function="cuMemHostAlloc", status=2, at_least_bytes=5)])
    outcome = measure(device, kinds=("pinned", "pageable"))
    assert {case.state for case in outcome.cases if case.kind == "pinned"} == {State.REFUSED}
    assert {case.state for case in outcome.cases if case.kind == "pageable"} == {State.OK}


def test_without_a_gate_the_row_says_so(make_device):
    faults = [Fault(function="cuStreamWaitValue32", status=801)]
    queued = one(measure(make_device(clock=modelled_clock(), faults=faults)), pace=Pace.QUEUED)
    assert queued.gated is False
    assert queued.notes == ("no gate on this device: the time to queue may be in the figure",)


def test_a_time_that_the_clock_does_not_see_is_no_figure(make_device):
    device = make_device(clock=ModelledClock({}))
    assert {(case.state, case.reason) for case in measure(device).cases} == {
        (State.FAILED, f"no time passed by the {clock} clock, so there is no figure. Choose a larger --size.")
        for clock in (Clock.HOST, Clock.EVENT)
    }


def test_a_lost_device_ends_the_run_and_is_named_once(make_device):
    faults = [Fault(function="cuMemcpyBatchAsync", status=719, nth=10)]
    outcome = measure(make_device(clock=modelled_clock(), faults=faults), trials=50)
    lost = "device 0 was lost: cuMemcpyBatchAsync failed with CUDA_ERROR_LAUNCH_FAILED (719)"
    assert str(outcome.error) == lost
    reasons = {case.reason for case in outcome.cases if case.state is State.FAILED}
    assert {reason.partition(". ")[0] for reason in reasons} <= {lost, lost.removeprefix("device 0 was lost: ")}


def test_an_interrupt_keeps_what_was_measured_and_skips_the_rest(modelled):
    calls = iter(range(10**6))

    def check():
        if next(calls) == 60:
            raise Interrupted(2)

    plans = (
        LatencyPlan(("pinned",), ("h2d",), (1000,), 5, trials=50),
        LatencyPlan(("pinned",), ("d2h",), (1000,), 5, trials=1),
    )
    outcome = run_latency(modelled, plans, Observer(check_interrupt=check))
    assert outcome.interrupted is not None
    assert {case.state for case in outcome.cases if case.direction == "h2d"} == {State.OK}
    assert {case.reason for case in outcome.cases if case.direction == "d2h"} == {"interrupted"}


def test_a_time_budget_leaves_each_cell_one_trial(modelled):
    outcome = measure(modelled, trials=1000, time_budget_s=1e-9)
    assert {len(case.trials) for case in outcome.cases} == {1}
    assert one(outcome, pace=Pace.QUEUED).notes == ("1 of 1000 trials: time budget of 1e-09 s",)


def test_without_a_number_of_trials_they_go_on_until_every_figure_is_precise(make_device):
    steady = measure(make_device(clock=modelled_clock()), trials=None)
    assert {(case.state, len(case.trials)) for case in steady.cases} == {(State.OK, 8)}
    noisy = measure(make_device(clock=modelled_clock(noise=0.3)), trials=None, precision=1e-6, time_budget_s=1.0)
    alone = one(noisy, pace=Pace.END_TO_END)
    assert alone.state is State.UNCONVERGED
    assert alone.seconds is not None
    assert "wider than ± 0.0001 % of the median" in alone.reason
    assert len({len(case.trials) for case in noisy.cases}) <= 2


def test_a_gpu_that_is_slowed_down_is_measured_again_and_then_said_to_be(modelled):
    plan = LatencyPlan(("pinned",), ("h2d",), (1000,), 5, trials=2)
    outcome = run_latency(modelled, (plan,), slowdowns=lambda: ("power cap",))
    for case in outcome.cases:
        assert (case.state, len(case.trials)) == (State.THROTTLED, 2)
        assert case.reason == "the GPU was slowed down in 2 of 2 trials, also when repeated (power cap)"
        assert case.notes[-1] == "4 trials were repeated, because the GPU was slowed down (power cap)"
    asked = iter([("power cap",)])
    outcome = run_latency(modelled, (plan,), slowdowns=lambda: next(asked, ()))
    assert {case.state for case in outcome.cases} == {State.OK}
    assert sum("1 trial was repeated" in note for case in outcome.cases for note in case.notes) == 1


def test_progress_counts_the_trials_of_all_cells(modelled):
    seen = []
    measure(modelled, Observer(progress=lambda *what: seen.append(what)))
    assert [(done, total) for done, total, _ in seen] == [(number, 4) for number in range(5)]
    assert {what for _, _, what in seen} == {"pinned h2d 1000 B", "pinned h2d 5 x 1000 B", ""}


def test_what_is_finished_can_be_kept_after_each_trial(modelled):
    kept = []
    plans = [LatencyPlan(("pinned",), (way,), (1000,), 5, trials=2) for way in ("h2d", "d2h")]
    run_latency(modelled, plans, keep=lambda so_far: kept.append(so_far()))
    assert len(kept) == 2 * 2 * 2
    assert {case.state for case in kept[0].cases} == {State.OK, State.FAILED}
    assert {case.reason for case in kept[0].cases} == {None, "the run had not finished"}
    last = kept[-1]
    assert {case.state for case in last.cases} == {State.OK}
    assert {case.direction for case in last.cases} == {"h2d", "d2h"}


def test_plans_that_were_never_begun_have_results_too():
    cases = skipped_latency((LatencyPlan(),), "interrupted")
    assert {(case.state, case.reason) for case in cases} == {(State.FAILED, "interrupted")}
    assert len(cases) == len(LatencyPlan().cases())


def test_nothing_is_left_on_the_device(modelled):
    free, locked = modelled.free_bytes, modelled.page_locked_bytes
    measure(modelled, kinds=("pinned", "pageable"), directions=("h2d", "d2h"))
    modelled.reap()
    assert (modelled.free_bytes, modelled.page_locked_bytes) == (free, locked)


# -- from where on which way pays ----------------------------------------------------------------------------------


def test_on_the_clock_each_way_pays_where_it_must(make_device):
    # A loop's calls take 4 us and a copy 2 us and a nanosecond for each byte: from 2 KiB on the calls are hidden.
    device = make_device(clock=modelled_clock(submit_s=4e-6, launch_s=0.0, kernel_s=0.0))
    outcome = measure(device, sizes=(64, 1024, 4096, 16384), trials=8)
    suffices = {found.way: found for found in outcome.small_copies.loop_suffices}
    assert suffices[Way.BATCH] == LoopSuffices("pinned", "h2d", Way.BATCH, 5, (64, 1024, 4096, 16384), 4096)
    assert suffices[Way.KERNEL].from_bytes is None
    pays = {found.way: found for found in outcome.small_copies.way_pays}
    assert pays[Way.KERNEL] == WayPays("pinned", "h2d", Way.KERNEL, 4096, (1, 2, 5, 8, 32, 128), 1)


def case_of(way, size, copies, low, high, kind="pinned"):
    seconds = Seconds((low + high) / 2, low, high, low, high)
    name = f"small_copies/{kind}/h2d/{size}x{copies}/{way}"
    # What disturbs one way does not disturb the other: where the ranges meet, some trials say so.
    each = (low, high) if way is Way.LOOP else (high, low)
    trials = tuple(CopyTrial(1, (value,)) for value in each * 4)
    return SmallCopiesCase(
        name, "small_copies", kind, "h2d", size, copies, way, State.OK, verified=True, per_copy_s=seconds, trials=trials
    )


def sizes_of(loops, batches):
    pairs = enumerate(zip(loops, batches, strict=True), start=1)
    return [
        case
        for size, (loop, batch) in pairs
        for case in (case_of(Way.LOOP, size, 9, *loop), case_of(Way.BATCH, size, 9, *batch))
    ]


@pytest.mark.parametrize(
    ("loops", "batches", "start"),
    [
        ([(3, 4), (3, 4), (3, 4)], [(1, 2), (1, 2), (1, 2)], None),
        ([(3, 4), (3, 4), (3, 4)], [(1, 2), (1, 3), (2, 9)], 2),
        ([(3, 4), (3, 4), (3, 4)], [(1, 5), (1, 2), (2, 9)], 3),
        ([(1, 2), (1, 2), (1, 2)], [(3, 4), (3, 4), (3, 4)], 1),
        ([(3, 4), (3, 4), (3, 4)], [(1, 5), (1, 5), (1, 2)], None),
    ],
)
def test_a_loop_suffices_from_where_on_no_way_is_faster_to_the_end(loops, batches, start):
    (found,) = small_copies_of(sizes_of(loops, batches)).loop_suffices
    assert found == LoopSuffices("pinned", "h2d", Way.BATCH, 9, (1, 2, 3), start)


@pytest.mark.parametrize(
    ("batches", "start"),
    [([(1, 2), (1, 2), (1, 2)], 1), ([(1, 3), (1, 2), (1, 2)], 2), ([(1, 2), (1, 2), (1, 3)], None)],
)
def test_a_way_pays_from_where_on_it_is_faster_than_the_loop_to_the_end(batches, start):
    loops = [(3, 4)] * 3
    cases = [replace(case, size_bytes=64, copies=case.size_bytes) for case in sizes_of(loops, batches)]
    (found,) = small_copies_of(cases).way_pays
    assert found == WayPays("pinned", "h2d", Way.BATCH, 64, (1, 2, 3), start)


def test_where_a_figure_is_missing_nothing_is_said_of_that_point():
    cases = sizes_of([(3, 4)] * 3, [(1, 2)] * 3)
    cases[1] = replace(cases[1], state=State.FAILED, reason="x", per_copy_s=None)
    (found,) = small_copies_of(cases).loop_suffices
    assert found.sizes == (2, 3)
    cases[3] = replace(cases[3], trials=cases[3].trials[:7])
    assert small_copies_of(cases).loop_suffices == ()
    assert small_copies_of([]) is None


def test_what_disturbs_loop_and_way_alike_does_not_hide_that_the_way_is_faster():
    loops, batches = [(2, 9)] * 2, [(1, 5)] * 2
    cases = sizes_of(loops, batches)
    together = [replace(case, trials=tuple(sorted(case.trials, key=lambda trial: trial.samples_s))) for case in cases]
    assert small_copies_of(cases).loop_suffices[0].from_bytes == 1
    assert small_copies_of(together).loop_suffices[0].from_bytes is None


# -- the public call -------------------------------------------------------------------------------------------------


def test_the_call_gives_a_result_that_is_strict_json():
    result = measure_latency(kinds=["pinned"], sizes=[64], copies=2, backend="emulated", trials=2, time_budget=60)
    assert {case.state for case in result.cases} == {State.OK}
    assert (len(result.latency_cases), len(result.small_copies_cases)) == (4, 8)
    document = json.loads(to_json(result))
    assert document["command"] == ["latency"]
    assert document["small_copies"] == {"loop_suffices": [], "way_pays": []}
    assert "launch_overhead" not in document


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kinds": ["mapped"]}, "unknown kind 'mapped'; choose from pinned, pageable"),
        ({"kinds": []}, "no kind given"),
        ({"directions": ["d2d"]}, "unknown direction 'd2d'; choose from h2d, d2h"),
        ({"sizes": [0]}, "sizes are positive"),
        ({"sizes": []}, "sizes are positive"),
        ({"copies": 0}, "copies are at least 1: 0"),
        ({"trials": 0}, "trials are at least 1"),
        ({"time_budget": 0}, "a time budget is above 0 seconds"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        measure_latency(backend="emulated", **arguments)
    with pytest.raises(TypeError):
        measure_latency(copies=1.5)


def test_the_garbage_collector_is_off_while_it_measures_and_as_it_was_afterwards(modelled, monkeypatch):
    seen = set()
    queue = LoopedCopies.queue
    monkeypatch.setattr(LoopedCopies, "queue", lambda work: (seen.add(gc.isenabled()), queue(work)))
    measure(modelled)
    assert seen == {False}
    assert gc.isenabled()
