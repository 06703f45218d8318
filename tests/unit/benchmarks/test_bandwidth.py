"""The bandwidth benchmark on a device."""

import math
from dataclasses import replace
from functools import partial

import pytest

from cudabw.benchmarks import engines
from cudabw.benchmarks.bandwidth import run_bandwidth
from cudabw.benchmarks.bandwidth_draws import with_link
from cudabw.benchmarks.bandwidth_plan import ENGINES, KINDS, BandwidthPlan, Staging
from cudabw.benchmarks.observer import Observer
from cudabw.copying.staged_copy import StagedCopier
from cudabw.driver.emulated import EmulatedDriver, Fault, ModelledClock
from cudabw.errors import Interrupted
from cudabw.measuring.sampling import rate_over
from cudabw.results.model import CaseResult, Clock, Link, Pages, Rate, State, Trial

MIB = 1 << 20


@pytest.fixture
def modelled(make_device):
    """A device with faults, on a modelled clock that is so slow that a batch is one copy."""

    def make(*faults, h2d=1e6, d2h=1e6):
        return make_device(faults=faults, clock=ModelledClock({"h2d": h2d, "d2h": d2h}))

    return make


def plan(*kinds, **settings):
    return BandwidthPlan(kinds or ("pinned",), **{"sizes": (4096,), "trials": 1} | settings)


def interrupting_after(calls):
    left = iter(range(calls))

    def check():
        if next(left, None) is None:
            raise Interrupted(2)

    return Observer(check_interrupt=check)


# Trials


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_carries_all_samples_of_all_trials_and_what_the_driver_says_of_its_memory(modelled, kind):
    outcome = run_bandwidth(modelled(h2d=2e6, d2h=1e6), [plan(kind, trials=2)])
    assert (outcome.trials_done, outcome.ended) == (4, False)
    for case, rate in zip(outcome.cases, (2e6, 1e6), strict=True):
        assert case.state is State.OK
        assert case.verified is True
        assert case.clock is (Clock.HOST if kind == "pageable" else Clock.EVENT)
        assert case.driver_says
        assert [len(trial.samples_s) for trial in case.trials] == [4, 4]
        assert case.rate_bytes_per_s.median == pytest.approx(rate, rel=1e-6)
    engine = "kernel" if kind == "mapped" else "driver"
    assert outcome.cases[0].id == f"bandwidth/{kind}/{engine}/h2d/4096"


@pytest.mark.parametrize(
    ("kind", "h2d", "copies"),
    [
        # 4 ms of gated copies; 20 ms of copies that hold the host; whole copies; at most 256.
        ("pinned", 50e9, math.ceil(4e-3 / (MIB / 50e9))),
        ("pinned", MIB / 4e-3, 1),
        ("pinned", MIB / 1.0, 1),
        ("pinned", 1e15, 256),
        ("pageable", 5e9, math.ceil(20e-3 / (MIB / 5e9))),
        ("managed", 50e9, 1),
    ],
)
def test_a_batch_has_as_many_copies_as_make_it_long(modelled, kind, h2d, copies):
    (case,) = run_bandwidth(modelled(h2d=h2d), [plan(kind, directions=("h2d",), sizes=(MIB,))]).cases
    assert case.trials[0].copies_per_batch == copies


def test_every_round_measures_each_case_once_in_an_order_of_its_own(modelled):
    heard = []
    wanted = plan(*KINDS, trials=4)
    outcome = run_bandwidth(modelled(), [wanted], Observer(progress=lambda *step: heard.append(step)))
    assert [step[:2] for step in heard] == [(done, 48) for done in range(49)]
    assert heard[-1] == (48, 48, "")
    labels = [step[2] for step in heard[:-1]]
    rounds = [labels[start : start + 12] for start in range(0, 48, 12)]
    assert all(sorted(order) == sorted(case.label for case in wanted.cases()) for order in rounds)
    assert len({tuple(order) for order in rounds}) == 4
    assert outcome.trials_done == 48


def test_the_seed_decides_the_order(modelled):
    def order(seed):
        heard = []
        observer = Observer(progress=lambda *step: heard.append(step[2]))
        run_bandwidth(modelled(), [plan("pinned", "mapped", "pageable", seed=seed)], observer)
        return heard

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(4)}) > 1


def test_every_trial_has_memory_of_its_own(modelled, monkeypatch):
    sizes = []
    original = EmulatedDriver.cuMemHostAlloc

    def spy(self, bytesize, flags):
        sizes.append(bytesize)
        return original(self, bytesize, flags)

    monkeypatch.setattr(EmulatedDriver, "cuMemHostAlloc", spy)
    run_bandwidth(modelled(), [plan("pinned", trials=3, directions=("h2d",))])
    assert sizes.count(4096) == 3


def test_allocating_is_timed_beside_the_samples_and_never_in_them(make_device, monkeypatch):
    clock = ModelledClock({"h2d": 50e9})
    device = make_device(clock=clock)
    original = EmulatedDriver.cuMemHostAlloc

    def slow(self, bytesize, flags):
        clock.advance(3.0)
        return original(self, bytesize, flags)

    monkeypatch.setattr(EmulatedDriver, "cuMemHostAlloc", slow)
    (case,) = run_bandwidth(device, [plan("pinned", directions=("h2d",))]).cases
    assert case.trials[0].allocation_s == pytest.approx(3.0)
    assert max(case.trials[0].samples_s) == pytest.approx(4096 / 50e9, rel=1e-6)


def test_the_link_is_read_while_traffic_runs(modelled):
    readings = []
    run_bandwidth(modelled(), [plan("pinned", directions=("h2d",))], sample_link=lambda: readings.append(1))
    assert len(readings) >= 5


def test_the_link_is_not_read_while_copies_within_the_device_leave_it_idle(modelled):
    readings = []
    mixed = plan("pinned", directions=("d2d", "h2d"))
    within = plan("pinned", directions=("d2d",))
    run_bandwidth(modelled(), [within], sample_link=lambda: readings.append("d2d"))
    assert readings == []
    run_bandwidth(modelled(), [mixed], sample_link=lambda: readings.append("mixed"))
    alone = len(readings)
    run_bandwidth(modelled(), [plan("pinned", directions=("h2d",))], sample_link=lambda: readings.append("h2d"))
    assert len(readings) == 2 * alone > 0


def test_copies_that_take_no_time_have_no_rate(modelled):
    (case,) = run_bandwidth(modelled(h2d=1e300), [plan("pinned", directions=("h2d",))]).cases
    assert case.state is State.FAILED
    assert case.reason == "no time passed by the event clock, so there is no figure. Choose a larger --size."


# Engines


@pytest.fixture
def few_threads(monkeypatch):
    """Stages without a look for what is fastest: two threads with slots of 64 KiB, from 1 MiB on."""
    monkeypatch.setattr(engines, "StagedCopier", partial(StagedCopier, at_least=MIB))
    return Staging(threads=1, slot=1 << 16)


def test_each_engine_has_a_rate_and_a_clock_of_its_own(make_device, few_threads):
    device = make_device(clock=ModelledClock({"h2d": 4e9, "h2d/kernel": 2e9, "h2d/pageable": 1e9}))
    wanted = plan("pageable", "mapped", directions=("h2d",), sizes=(MIB,), engines=ENGINES, staging=few_threads)
    cases = {(case.kind, case.engine): case for case in run_bandwidth(device, [wanted]).cases}
    assert {cell: (case.state, case.clock, case.gated, case.verified) for cell, case in cases.items()} == {
        ("pageable", "driver"): (State.OK, Clock.HOST, False, True),
        ("pageable", "staged"): (State.OK, Clock.HOST, False, True),
        ("mapped", "driver"): (State.OK, Clock.EVENT, True, True),
        ("mapped", "kernel"): (State.OK, Clock.EVENT, True, True),
    }
    rates = {cell: case.rate_bytes_per_s.median for cell, case in cases.items()}
    staged = rates.pop(("pageable", "staged"))
    assert rates == pytest.approx(
        {("pageable", "driver"): 1e9, ("mapped", "driver"): 4e9, ("mapped", "kernel"): 2e9}, rel=1e-6
    )
    # Two slots with a stream each, so that twice the rate of pinned memory is the most.
    assert 4e9 <= staged <= 8e9 * (1 + 1e-6)


def test_a_staged_case_says_how_it_was_staged_or_that_the_driver_did_it(modelled, few_threads):
    wanted = plan("pageable", directions=("d2h",), sizes=(MIB, MIB - 1), engines=("staged",), staging=few_threads)
    assert [case.notes for case in run_bandwidth(modelled(), [wanted]).cases] == [
        ("staged by 1 thread, slots of 64 KiB",),
        ("left to the driver: staging does not lead at this size",),
    ]


def test_staged_copies_are_calibrated_before_the_first_trial_which_tells_how_long_the_next_takes(
    modelled, few_threads, monkeypatch
):
    events, setting = [], StagedCopier.setting
    monkeypatch.setattr(StagedCopier, "setting", lambda *given: events.append("calibrated") or setting(*given))
    observer = Observer(progress=lambda *told: events.append(told[-1]))
    wanted = plan("pageable", "pinned", directions=("d2h",), sizes=(MIB, MIB - 1), engines=("staged", "driver"),
                  staging=few_threads)  # fmt: skip
    run_bandwidth(modelled(), [wanted], observer=observer)
    assert events[0] == "calibrated"
    assert events.count("calibrated") == 1, "a size that is too small to be staged needs no calibration"
    assert len(events) > 4


@pytest.mark.parametrize("engine", ["driver", "staged"])
def test_fresh_memory_is_copied_into_once_a_sample_by_any_engine(modelled, few_threads, engine):
    wanted = plan(
        "pageable",
        directions=("d2h",),
        sizes=(4 * MIB,),
        engines=(engine,),
        staging=few_threads if engine == "staged" else Staging(),
        pages=(Pages.FIRST_TOUCH,),
    )
    warm, fresh = run_bandwidth(modelled(d2h=1e12), [wanted]).cases
    assert (fresh.state, fresh.pages, fresh.verified) == (State.OK, Pages.FIRST_TOUCH, True)
    assert (warm.trials[0].copies_per_batch, fresh.trials[0].copies_per_batch) == (256, 1)
    assert fresh.notes == warm.notes
    assert (warm.threads, fresh.threads) == ((1, 1) if engine == "staged" else (None, None))


@pytest.mark.parametrize(("kind", "engine"), [("pageable", "staged"), ("mapped", "kernel")])
@pytest.mark.parametrize("fault", ["drop", "corrupt"])
@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_wrong_bytes_of_any_engine_are_never_a_figure(modelled, few_threads, kind, engine, fault, direction):
    device = modelled(Fault(copy=fault, direction=direction, at_least_bytes=1 << 16))
    wanted = plan(kind, directions=(direction,), sizes=(MIB,), engines=(engine,), staging=few_threads)
    (case,) = run_bandwidth(device, [wanted]).cases
    assert (case.state, case.verified, case.rate_bytes_per_s) == (State.WRONG_DATA, False, None)


@pytest.mark.parametrize(
    ("kind", "engine", "fault", "state"),
    [
        ("pageable", "staged", Fault(function="cuMemHostAlloc", status=2, at_least_bytes=1 << 16), State.REFUSED),
        ("mapped", "kernel", Fault(function="cuModuleLoadData", status=801), State.UNSUPPORTED),
    ],
)
def test_an_engine_that_cannot_work_is_said_in_its_case_and_the_others_are_measured(
    modelled, few_threads, kind, engine, fault, state
):
    wanted = plan(*(kind, "pinned"), directions=("h2d",), sizes=(MIB,), engines=(engine, "driver"), staging=few_threads)
    cases = run_bandwidth(modelled(fault), [wanted]).cases
    assert {case.engine: case.state for case in cases if case.kind == kind}[engine] is state


# Copies within the device


def local(device, *sizes):
    return run_bandwidth(device, [plan(directions=("d2d",), sizes=sizes)]).cases


def test_a_local_copy_is_a_case_of_device_memory_whose_rate_is_that_of_copied_bytes(make_device):
    (case,) = local(make_device(clock=ModelledClock({"d2d": 1000e9})), 16 * MIB)
    assert case.id == "bandwidth/device/driver/d2d/16777216"
    assert (case.state, case.clock, case.gated, case.verified) == (State.OK, Clock.EVENT, True, True)
    assert (case.named, case.driver_says) == (True, "memory of device 0")
    assert case.rate_bytes_per_s.median == pytest.approx(1000e9, rel=1e-3)
    assert case.notes == ("read + write traffic 2000 GB/s",)


def test_a_working_set_within_twice_the_second_level_cache_is_marked(make_device):
    cases = local(make_device(clock=ModelledClock({"d2d": 1e9})), 4 * MIB, 4 * MIB + 1)  # the cache has 4 MiB
    assert [case.notes for case in cases] == [
        (
            "cache: source and destination are within twice the L2 cache of 4 MiB",
            "read + write traffic 2.00 GB/s",
        ),
        ("read + write traffic 2.00 GB/s",),
    ]


def test_wrong_bytes_of_a_local_copy_are_never_a_figure(make_device):
    device = make_device(faults=[Fault(copy="corrupt", direction="d2d")], clock=ModelledClock({"d2d": 1e6}))
    (case,) = local(device, 4096)
    assert (case.state, case.verified, case.rate_bytes_per_s) == (State.WRONG_DATA, False, None)


def test_a_local_copy_has_no_share_of_the_link():
    case = replace(OK, kind="device", direction="d2d")
    assert with_link(case, Link(5, 16, 63e9, "nvml")) == case


# Both directions at once


def both(device, kind="pinned", **settings):
    return run_bandwidth(device, [plan(kind, directions=("bidirectional",), engines=("driver",), **settings)]).cases


@pytest.mark.parametrize("kind", ["pinned", "mapped", "write-combined", "registered"])
def test_both_directions_at_once_are_three_results_none_of_which_can_be_taken_for_another(make_device, kind):
    device = make_device(clock=ModelledClock({"h2d": 50e9, "d2h": 40e9}))
    cases = both(device, kind, sizes=(MIB,), trials=2)
    assert [case.id for case in cases] == [
        f"bandwidth/{kind}/driver/bidirectional-{result}/1048576" for result in ("total", "h2d", "d2h")
    ]
    assert [case.rate_bytes_per_s.median for case in cases] == pytest.approx([90e9, 50e9, 40e9], rel=1e-3)
    for case in cases:
        assert (case.state, case.clock, case.gated, case.verified) == (State.OK, Clock.EVENT, True, True)
        assert [len(trial.samples_s) for trial in case.trials] == [4, 4]
    assert device.page_locked_bytes == 0


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
@pytest.mark.parametrize("kind", ["pinned", "write-combined"])
def test_the_destinations_of_both_directions_are_verified(modelled, kind, direction):
    device = modelled(Fault(copy="corrupt", direction=direction))
    assert {case.state for case in both(device, kind)} == {State.WRONG_DATA}


def test_without_a_gate_both_directions_are_unsupported(modelled):
    device = modelled(Fault(function="cuStreamWaitValue32", status=801))
    cases = both(device)
    assert {case.state for case in cases} == {State.UNSUPPORTED}
    assert len(cases) == 3


def test_a_rate_just_above_what_the_link_can_carry_is_suspect_and_one_that_fills_it_is_not():
    full = OK.rate_bytes_per_s.median
    assert with_link(OK, Link(5, 16, full, "nvml")).link_fraction == 1
    above = with_link(OK, Link(5, 16, full * 0.999, "nvml"))
    assert (above.state, above.rate_bytes_per_s, above.link_fraction) == (State.SUSPECT, None, None)


def test_both_directions_need_room_for_two_copies(make_device, monkeypatch):
    asked = []
    monkeypatch.setattr("cudabw.benchmarks.bandwidth.require_space", lambda *given: asked.append(given[2]))
    both(make_device(clock=ModelledClock({"h2d": 1e6, "d2h": 1e6})), sizes=(4096,))
    assert asked == [8192]


def test_each_direction_has_a_share_of_the_link_and_their_total_has_none():
    link = Link(5, 16, 63e9, "nvml")
    assert with_link(replace(OK, direction="bidirectional-h2d"), link).link_fraction == 42 / 63
    assert with_link(replace(OK, direction="bidirectional-total"), link).link_fraction is None


# The time budget


def test_a_time_budget_is_each_plans_own(modelled):
    plans = [plan("pinned", trials=30, time_budget_s=1e-9), plan("mapped", trials=2)]
    cases = run_bandwidth(modelled(), plans).cases
    assert [len(case.trials) for case in cases] == [1, 1, 2, 2]
    assert [case.notes for case in cases] == [("1 of 30 trials: time budget of 1e-09 s",)] * 2 + [()] * 2


# What ends a run early


def test_an_interruption_between_batches_drops_the_unfinished_trial_and_keeps_the_others(modelled):
    # A check before each of the 5 batches of a trial: the first two trials are finished, the third is not.
    wanted = plan("pinned", "mapped", directions=("h2d",), trials=9)
    outcome = run_bandwidth(modelled(), [wanted], interrupting_after(2 * 5 + 3))
    assert outcome.interrupted.signal_number == 2
    assert [len(case.trials) for case in outcome.cases] == [1, 1]
    assert {case.notes for case in outcome.cases} == {("1 of 9 trials: interrupted",)}


def test_a_case_that_had_no_turn_before_the_interruption_failed_by_it(modelled):
    outcome = run_bandwidth(modelled(), [plan("pinned", directions=("h2d",))], interrupting_after(0))
    assert [(case.state, case.reason, case.verified) for case in outcome.cases] == [(State.FAILED, "interrupted", None)]


def test_plans_after_an_early_end_are_results_too(modelled):
    device = modelled(Fault(function="cuMemcpyHtoDAsync", status=719, nth=3))
    outcome = run_bandwidth(device, [plan("pinned", directions=("h2d",)), plan("mapped", "pageable")])
    assert [case.kind for case in outcome.cases] == ["pinned", "mapped", "mapped", "pageable", "pageable"]
    assert {case.state for case in outcome.cases} == {State.FAILED}
    assert {case.reason for case in outcome.cases[1:]} == {str(outcome.error)}
    assert str(outcome.error).startswith("device 0 was lost: cuMemcpyHtoDAsync failed with ")


@pytest.mark.parametrize(
    "fault",
    [
        None,
        Fault(copy="corrupt"),
        Fault(function="cuMemHostAlloc", status=2, at_least_bytes=4096),
        Fault(function="cuMemAlloc", status=2, nth=2),
        Fault(function="cuMemcpyHtoDAsync", status=1, nth=9),
        Fault(function="cuStreamWaitValue32", status=801),
    ],
)
@pytest.mark.parametrize("checks", [4, 10**6])
def test_however_it_ends_all_memory_is_given_back(modelled, fault, checks):
    device = modelled(*([fault] if fault else []))
    before = device.free_bytes
    run_bandwidth(device, [plan(*KINDS, trials=2)], interrupting_after(checks))
    assert (device.free_bytes, device.page_locked_bytes, device.closed_gates) == (before, 0, 0)


# The link


OK = CaseResult(
    "id", "bandwidth", "pinned", "driver", "h2d", 1, State.OK, rate_bytes_per_s=Rate(42e9, None, None, 1.0, 1.0)
)


def test_a_rate_on_a_known_link_is_a_fraction_of_it():
    assert with_link(OK, Link(5, 16, 63e9, "nvml")) == replace(OK, link_fraction=42 / 63)


@pytest.mark.parametrize("link", [Link(), Link(8, 16, None, "nvml")])
def test_without_a_ceiling_there_is_no_fraction(link):
    assert with_link(OK, link) == OK


def test_without_a_rate_there_is_no_fraction():
    refused = CaseResult("id", "bandwidth", "pinned", "driver", "h2d", 1, State.REFUSED, "no room")
    assert with_link(refused, Link(5, 16, 63e9, "nvml")) == refused


def test_a_trial_that_fails_puts_the_figures_before_it_in_doubt(modelled):
    device = modelled(Fault(function="cuMemHostUnregister", status=1, nth=1))
    (case,) = run_bandwidth(device, [plan("registered", directions=("h2d",), trials=2)]).cases
    assert (case.state, case.rate_bytes_per_s) == (State.FAILED, None)
    assert case.reason.startswith("cuMemHostUnregister failed with CUDA_ERROR_INVALID_VALUE (1)")
    assert len(case.trials) == 1


def test_an_interval_of_rates_never_reaches_below_zero():
    trials = [Trial(1, (seconds,)) for seconds in (1.0, 4.0)]
    rate = rate_over(trials, 1000)
    assert 0 < rate.low < rate.median < rate.high


@pytest.mark.parametrize("status", [700, 719, 999])
def test_a_status_that_ends_the_context_ends_the_run(modelled, status):
    device = modelled(Fault(function="cuMemcpyHtoDAsync", status=status, nth=40))
    outcome = run_bandwidth(device, [plan("pinned", "pageable", trials=2)])
    assert str(outcome.error).startswith("device 0 was lost: cuMemcpyHtoDAsync failed with ")
