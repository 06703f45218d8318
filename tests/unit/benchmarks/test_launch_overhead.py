"""Launches on the emulated device: exact times on the modelled clock, counts, what voids a row, and what ends a run."""

import gc
import json
import threading
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest

from cudabw import measure_launch_overhead
from cudabw.benchmarks import launch_arguments, launch_overhead
from cudabw.benchmarks.launch_arguments import ArgumentSet, argument_sets
from cudabw.benchmarks.launch_modes import NullLaunches
from cudabw.benchmarks.launch_overhead import (
    DEFAULT_SETS,
    ROUNDS,
    LaunchPlan,
    run_launch_overhead,
    sets_for,
    skipped_cases,
)
from cudabw.benchmarks.launch_results import SetDraws
from cudabw.benchmarks.observer import Observer
from cudabw.driver.emulated.clock import ModelledClock
from cudabw.driver.emulated.faults import Fault
from cudabw.errors import Interrupted
from cudabw.measuring import full_speed
from cudabw.measuring.bursts import Burst
from cudabw.measuring.effort import Level
from cudabw.measuring.queue_depth import detect_queue_depth
from cudabw.results.exit_code import exit_code
from cudabw.results.files import to_json
from cudabw.results.launch import ARG_TYPES, Counts, Mode, Verdict
from cudabw.results.launch_sets import ArgumentSetResult, QueueDepth, SetTrial
from cudabw.results.limits import Bound, Limit, LimitState, judge
from cudabw.results.model import DeviceInfo, RunResult, State
from cudabw.runtime.arguments import convert
from cudabw.runtime.memory import DeviceBuffer

CALL, KERNEL = 4e-6, 2e-6
CONVERSION = 1e-6


@pytest.fixture(autouse=True)
def short_search(monkeypatch):
    """The search for the queue's end stops early; what it finds is tested where it is done."""
    monkeypatch.setattr(launch_overhead, "detect_queue_depth", partial(detect_queue_depth, most=300))


@pytest.fixture
def clock():
    return ModelledClock({}, launch_s=3e-6, submit_s=1e-6, kernel_s=KERNEL)


@pytest.fixture
def modelled(make_device, clock):
    return make_device(clock=clock)


class SlowBuffer(DeviceBuffer):
    """Takes a microsecond of the modelled clock to convert."""

    clock = None


def convert_slowly(buffer):
    buffer.clock.advance(CONVERSION)
    return convert.dispatch(DeviceBuffer)(buffer)


convert.register(SlowBuffer, convert_slowly)


@pytest.fixture
def slow_conversion(monkeypatch, clock):
    monkeypatch.setattr(SlowBuffer, "clock", clock)
    monkeypatch.setattr(launch_arguments, "DeviceBuffer", SlowBuffer)


def measure(device, *sets, trials=2, observer=None, **plan):
    return run_launch_overhead(device, (LaunchPlan(sets, trials, **plan),), observer or Observer())


def by_mode(outcome, arg_type, count):
    return {case.mode: case for case in outcome.cases if (case.arg_type, case.args) == (arg_type, count)}


def buffers(*counts):
    return argument_sets(("buffer",), counts)


def test_every_figure_is_that_of_the_clock(modelled):
    outcome = measure(modelled, *buffers(4))
    found = outcome.launch_overhead
    burst = found.launches_per_burst
    assert burst == 125
    for case in outcome.cases:
        assert case.submit_s.median == pytest.approx(CALL)
        assert case.sustained_s.median == pytest.approx((burst * CALL + KERNEL) / burst)
        assert case.synchronised_s.median == pytest.approx(CALL + KERNEL)
    (one,) = found.sets
    assert one.device_s.median == pytest.approx(KERNEL, rel=1e-4)  # events have single precision
    assert one.first_launch_s.median == pytest.approx(CALL)
    assert (one.module_load_s.median, one.prepare_s.median) == (0, 0)
    assert one.device_gated is True
    assert (outcome.interrupted, outcome.error) == (None, None)


def test_modes_that_cost_the_same_have_no_difference(modelled):
    outcome = measure(modelled, *buffers(4), trials=8)
    for mode, case in by_mode(outcome, "buffer", 4).items():
        if mode is Mode.BARE:
            assert case.difference is None
        else:
            # The clock adds up fractions; no trial is off by more than the last of their digits.
            assert case.difference.median == pytest.approx(0, abs=1e-15)


@pytest.mark.usefixtures("slow_conversion")
def test_each_mode_pays_for_the_conversions_that_it_makes(modelled):
    outcome = measure(modelled, *buffers(4), trials=8)
    modes = by_mode(outcome, "buffer", 4)
    conversions = {mode: (case.submit_s.median - CALL) / CONVERSION for mode, case in modes.items()}
    assert conversions == pytest.approx(
        {"bare": 0, "prepared": 0, "packed": 0, "converted": 4, "specialised": 8, "rebound": 1}, abs=1e-6
    )
    headline = modes[Mode.CONVERTED].difference
    assert (headline.over, headline.verdict) == (Mode.PREPARED, Verdict.MORE)
    assert headline.samples_s == pytest.approx((4 * CONVERSION,) * 8)
    twice = modes[Mode.SPECIALISED].difference
    assert (twice.over, twice.verdict, twice.median) == (Mode.CONVERTED, Verdict.MORE, pytest.approx(4e-6))


@pytest.mark.usefixtures("slow_conversion")
def test_stages_add_up_and_conversion_is_in_its_own(modelled):
    (one,) = measure(modelled, *buffers(4)).launch_overhead.sets
    split = one.stages
    medians = [split.call_s, split.convert_s, split.ownership_s, split.pack_s, split.driver_s]
    assert [stage.median for stage in medians] == pytest.approx([0, 4 * CONVERSION, 0, 0, CALL], abs=1e-12)
    assert split.sum_s == pytest.approx(split.total_s) == pytest.approx(8e-6)
    assert split.adds_up
    assert one.prepare_s.median == pytest.approx(4 * CONVERSION)


def test_stages_that_do_not_add_up_are_flagged(modelled, clock, monkeypatch):
    stepwise = NullLaunches._convert_own_pack_launch

    def slowly(launches, times):
        stepwise(launches, times)
        clock.advance(0.11 * CALL * times)

    monkeypatch.setattr(NullLaunches, "_convert_own_pack_launch", slowly)
    (one,) = measure(modelled, *buffers(1)).launch_overhead.sets
    assert one.stages.sum_s == pytest.approx(1.11 * CALL)
    assert not one.stages.adds_up


@pytest.mark.usefixtures("slow_conversion")
def test_the_slope_is_the_cost_of_one_more_argument(modelled):
    outcome = measure(modelled, *buffers(0, 1, 4, 16))
    (slope,) = outcome.launch_overhead.slopes
    assert (slope.arg_type, slope.args, slope.verdict) == ("buffer", (0, 1, 4, 16), Verdict.MORE)
    assert slope.samples_s == pytest.approx((CONVERSION,) * 2)


def test_one_number_of_arguments_has_no_slope(modelled):
    assert measure(modelled, *buffers(4)).launch_overhead.slopes == ()


def test_without_arguments_the_set_is_blind_and_there_is_none_to_bind_anew(modelled):
    outcome = measure(modelled, *argument_sets(("buffer", "int32"), (0, 1)))
    assert [(one.id, one.blind) for one in outcome.launch_overhead.sets] == [
        ("launch_overhead/none/0", True),
        ("launch_overhead/buffer/1", False),
        ("launch_overhead/int32/1", False),
    ]
    assert Mode.REBOUND not in by_mode(outcome, "none", 0)
    assert Mode.REBOUND in by_mode(outcome, "buffer", 1)


@pytest.mark.parametrize("arg_type", ARG_TYPES)
def test_every_kind_of_argument_is_converted_as_often_as_it_should_be(device, arg_type):
    outcome = measure(device, *argument_sets((arg_type,), (1, 5)), trials=1)
    for count in (1, 5):
        modes = by_mode(outcome, arg_type, count)
        assert {case.state for case in modes.values()} == {State.OK}
        assert {mode: case.conversions_per_launch for mode, case in modes.items()} == {
            "bare": 0,
            "prepared": 0,
            "packed": 0,
            "converted": count,
            "specialised": 2 * count,
            "rebound": 1,
        }
        assert {case.waits_per_launch for case in modes.values()} == {0}


def test_all_samples_are_kept(device):
    outcome = measure(device, *buffers(1), trials=3)
    for case in outcome.cases:
        assert len(case.trials) == 3
        for trial in case.trials:
            assert {len(trial.submit_s), len(trial.sustained_s), len(trial.synchronised_s)} == {2 * ROUNDS}
            assert trial.counts.launches > 2 * ROUNDS * trial.launches_per_burst
    (one,) = outcome.launch_overhead.sets
    assert len(one.trials) == 3
    assert {len(trial.through_driver_s) for trial in one.trials} == {2 * ROUNDS}


def disturb_packed(monkeypatch, disturb):
    """The mode ``packed`` does something besides."""
    launch = NullLaunches._launch_packed

    def disturbed(launches, times):
        disturb(launches)
        launch(launches, times)

    monkeypatch.setattr(NullLaunches, "_launch_packed", disturbed)


def test_an_unexpected_wait_voids_the_row(device, monkeypatch):
    def use_elsewhere(launches):
        with launches._stream.device.stream() as other:
            launches.prepared.on(other)()
            # Its own stream takes the buffer back, and waits for the other one if that is still at work.
            other.submitted += 1
            for value in launches._values:
                value.ownership.ticket = other.submitted
            launches._launcher.own(launches._arguments)

    disturb_packed(monkeypatch, use_elsewhere)
    outcome = measure(device, *buffers(2), trials=1)
    modes = by_mode(outcome, "buffer", 2)
    assert modes[Mode.PACKED].state is State.FAILED
    assert "waits for memory in" in modes[Mode.PACKED].reason
    assert modes[Mode.PACKED].reason.endswith("where none was due")
    assert modes[Mode.PACKED].waits_per_launch > 0
    assert modes[Mode.PACKED].submit_s is None
    assert modes[Mode.PACKED].trials, "the samples stay for whoever looks into it"
    assert {case.state for mode, case in modes.items() if mode is not Mode.PACKED} == {State.OK}
    assert exit_code(RunResult(("launch-overhead",), "", "", cases=outcome.cases)) == 1


def test_an_unexpected_conversion_voids_the_row(device, monkeypatch):
    disturb_packed(monkeypatch, lambda launches: launches._launcher.convert(launches._values))
    case = by_mode(measure(device, *buffers(2), trials=1), "buffer", 2)[Mode.PACKED]
    launches = sum(trial.counts.launches for trial in case.trials)
    assert case.state is State.FAILED
    # Two halves of each burst, and each launch that is waited for.
    assert case.reason == f"{2 * 2 * ROUNDS * (2 + 8)} conversions in {launches} launches, where 0 were due"


@pytest.mark.parametrize(("void", "also_gone"), [(Mode.PREPARED, Mode.CONVERTED), (Mode.CONVERTED, Mode.SPECIALISED)])
def test_a_void_row_is_no_baseline(void, also_gone):
    draws = drawn(counts={void: Counts(10, 999, 0, 0)})
    cases = {case.mode: case for case in draws.cases(None)}
    assert (cases[void].state, cases[void].difference) == (State.FAILED, None)
    assert (cases[also_gone].state, cases[also_gone].difference) == (State.OK, None)
    assert cases[Mode.PREPARED if void is Mode.CONVERTED else Mode.SPECIALISED].difference is not None
    assert draws.result().repaid_after is None
    assert (draws.result().stages is None) == (void is Mode.CONVERTED)


def drawn(counts=None, **burst):
    """One buffer, with one trial made by hand."""
    arguments = ArgumentSet("buffer", 1)
    draws = SetDraws(arguments, LaunchPlan(trials=1).effort)
    bursts = {
        mode: [
            replace(Burst(1e-6, 1e-6, 1e-6, 1.0, (counts or {}).get(mode, Counts(10, 10 * conversions, 0, 0))), **burst)
        ]
        * 2
        for mode, conversions in arguments.modes.items()
    }
    samples = (1e-6, 1e-6)
    draws.add(bursts, SetTrial(1e-3, 1e-4, samples, samples, samples, samples, samples, samples, samples), 10)
    return draws


def test_back_pressure_is_flagged():
    (note,) = {case.notes for case in drawn(second_half=1.6).cases(None)}
    assert note == ("back-pressure: the second half of a burst took 1.6 times as long to submit as the first",)
    assert {case.notes for case in drawn(second_half=1.4).cases(None)} == {()}
    assert {case.notes for case in drawn(second_half=None).cases(None)} == {()}


def interrupt_after(calls):
    left = iter(range(calls))

    def check():
        if next(left, None) is None:
            raise Interrupted(2)

    return Observer(check_interrupt=check)


def test_an_interruption_keeps_what_is_finished(device):
    # A round of one buffer has six modes and five stages, twice.
    outcome = measure(device, *buffers(1, 2), trials=1, observer=interrupt_after(22 * ROUNDS + 5))
    states = {case.args: (case.state, case.reason) for case in outcome.cases}
    assert sorted(states.values()) == [(State.FAILED, "interrupted"), (State.OK, None)]
    assert outcome.interrupted is not None
    assert sorted(len(one.trials) for one in outcome.launch_overhead.sets) == [0, 1]


def test_each_burst_is_taken_on_a_cpu_at_full_speed_and_again_when_that_has_slowed_down(device, monkeypatch):
    monkeypatch.setattr(full_speed, "SLOW", 1e9)
    usual = measure(device, *buffers(1), trials=2).cpu_speed
    # Six modes and five stages, there and back, and all preparations at once.
    taken = 2 * (22 * ROUNDS + 1)
    assert (usual.taken, usual.repeated, usual.kept) == (taken, 0, 0)
    monkeypatch.setattr(full_speed, "SLOW", 0.0)
    outcome = measure(device, *buffers(1), trials=2)
    slow = outcome.cpu_speed
    assert (slow.taken, slow.repeated, slow.kept) == (taken, taken * full_speed.MOST_REPEATS, taken)
    assert {len(case.trials) for case in outcome.cases} == {2}
    assert {len(trial.submit_s) for case in outcome.cases for trial in case.trials} == {2 * ROUNDS}


def test_on_a_modelled_clock_no_cpu_is_slow_or_fast(modelled):
    assert measure(modelled, *buffers(1), trials=1).cpu_speed is None


def test_an_interruption_in_a_later_trial_is_noted(device):
    outcome = measure(device, *buffers(1), trials=3, observer=interrupt_after(2 * 22 * ROUNDS + 1))
    assert {case.state for case in outcome.cases} == {State.OK}
    # Beside it there may be that a busy machine was slower in the second halves of its bursts.
    assert all("2 of 3 trials: interrupted" in case.notes for case in outcome.cases)


def test_later_plans_of_an_interrupted_run_have_their_cases(device):
    plans = (LaunchPlan(buffers(1), 1), LaunchPlan(buffers(2), 1))
    outcome = run_launch_overhead(device, plans, interrupt_after(0))
    assert [case.args for case in outcome.cases] == [1] * 6 + [2] * 6
    assert {case.reason for case in outcome.cases} == {"interrupted"}


def test_cases_of_plans_that_were_never_begun_say_why():
    cases = skipped_cases((LaunchPlan(buffers(0, 1)),), "interrupted")
    assert {(case.state, case.reason) for case in cases} == {(State.FAILED, "interrupted")}
    assert len(cases) == 11


def test_a_set_that_is_refused_leaves_the_others(make_device):
    refusing = make_device(faults=[Fault(function="cuMemAlloc", status=2)])
    outcome = measure(refusing, *buffers(0, 1))
    assert {(case.args, case.state) for case in outcome.cases} == {(0, State.OK), (1, State.REFUSED)}
    assert outcome.error is None
    assert [len(one.trials) for one in outcome.launch_overhead.sets] == [2, 0]


def test_a_launch_that_fails_at_once_leaves_no_figures(make_device):
    outcome = measure(make_device(faults=[Fault(function="cuModuleLoadData", status=218)]), *buffers(1))
    assert outcome.launch_overhead is None
    assert {case.state for case in outcome.cases} == {State.FAILED}
    assert outcome.error is not None


# The probe of the queue loads a module first; a trial of one buffer allocates that and one to bind anew.
FOURTH_MODULE, FOURTH_BUFFER = 5, 7


def test_a_set_that_fails_in_a_later_trial_has_no_figure_and_the_others_do(make_device, clock):
    # Without arguments no memory is allocated.
    device = make_device(clock=clock, faults=[Fault(function="cuMemAlloc", status=1, nth=FOURTH_BUFFER)])
    outcome = measure(device, *buffers(0, 1), trials=12)
    failed = by_mode(outcome, "buffer", 1)
    for case in failed.values():
        assert case.state is State.FAILED
        assert case.reason.startswith("cuMemAlloc failed with CUDA_ERROR_INVALID_VALUE (1)")
        assert (case.submit_s, case.sustained_s, case.synchronised_s, case.difference) == (None,) * 4
        assert len(case.trials) == 3, "what was measured stays for whoever looks into it"
    assert {(case.state, len(case.trials)) for case in by_mode(outcome, "none", 0).values()} == {(State.OK, 12)}
    assert outcome.error is None
    assert exit_code(RunResult(("launch-overhead",), "", "", cases=outcome.cases)) == 1
    found = outcome.launch_overhead
    assert found.slopes == (), "one number of arguments is left"
    none, doubted = found.sets
    assert (none.device_s.n, len(none.trials), len(doubted.trials)) == (36, 12, 3)
    assert doubted == ArgumentSetResult("launch_overhead/buffer/1", "buffer", 1, blind=False, trials=doubted.trials)


def test_launches_that_fail_later_meet_no_limit(make_device):
    device = make_device(faults=[Fault(function="cuModuleLoadData", status=218, nth=FOURTH_MODULE)])
    run = RunResult(("launch-overhead",), "", "", DeviceInfo(0, "GPU", None, None, emulated=False))
    run = replace(run, cases=measure(device, *buffers(1), trials=12).cases)
    limits = judge(run, [Limit("launch_overhead/*", Bound.MAX_TIME, 1.0)])
    assert {found.state for found in limits} == {LimitState.CANNOT_TELL}


def test_a_buffer_that_is_refused_later_leaves_the_trials_before(make_device, clock):
    device = make_device(clock=clock, faults=[Fault(function="cuMemAlloc", status=2, nth=FOURTH_BUFFER)])
    outcome = measure(device, *buffers(1), trials=12)
    assert {(case.state, len(case.trials)) for case in outcome.cases} == {(State.OK, 3)}
    assert all(case.notes[0].startswith("3 of 12 trials: ") for case in outcome.cases)


def test_a_device_that_is_lost_leaves_the_trials_before(make_device, clock):
    device = make_device(clock=clock, faults=[Fault(function="cuModuleLoadData", status=719, nth=FOURTH_MODULE)])
    outcome = measure(device, *buffers(1), trials=12)
    assert {(case.state, len(case.trials)) for case in outcome.cases} == {(State.OK, 3)}
    assert str(outcome.error).startswith("device 0 was lost: ")


def test_launches_of_which_no_time_passes_have_no_figure(make_device):
    outcome = measure(make_device(clock=ModelledClock({"h2d": 1e10})), *buffers(1), trials=12)
    reason = (
        "no time passed by the host clock, so there is no figure. "
        "The clock of an emulated device needs the time of a launch (CUDABW_EMULATED: launch_s)."
    )
    assert {(case.state, case.reason, case.submit_s) for case in outcome.cases} == {(State.FAILED, reason, None)}
    assert outcome.launch_overhead.sets[0].device_s is None


def test_without_a_gate_the_queue_is_not_known_and_the_device_s_time_says_so(make_device):
    ungated = make_device(faults=[Fault(function="cuStreamWaitValue32", status=801)])
    found = measure(ungated, *buffers(1), trials=1).launch_overhead
    assert found.queue == QueueDepth(None, 0)
    assert found.sets[0].device_gated is False
    assert found.launches_per_burst <= 127


def test_the_time_budget_leaves_each_set_a_trial(device):
    outcome = measure(device, *buffers(0, 1), trials=1000, time_budget_s=1e-3)
    assert {len(case.trials) for case in outcome.cases} == {1}
    assert {case.notes for case in outcome.cases} == {("1 of 1000 trials: time budget of 0.001 s",)}


def test_the_collector_is_off_inside_a_trial_and_on_again(device, monkeypatch):
    seen = set()
    disturb_packed(monkeypatch, lambda _: seen.add(gc.isenabled()))
    gc.enable()
    found = measure(device, *buffers(1), trials=1).launch_overhead
    assert (seen, gc.isenabled()) == ({False}, True)
    assert found.collector == "off while timing"


def test_other_threads_are_told_of_at_once_and_in_the_results(device):
    heard, over = [], threading.Event()
    thread = threading.Thread(target=over.wait, name="loader 7")
    thread.start()
    try:
        outcome = measure(device, *buffers(0), trials=1, observer=Observer(notify=heard.append))
    finally:
        over.set()
        thread.join()
    assert tuple(heard) == outcome.warnings
    assert any("loader 7" in warning for warning in heard)


def test_progress_counts_trials_of_all_plans(device):
    heard = []
    plans = (LaunchPlan(buffers(0, 1), 2), LaunchPlan(buffers(2), 1))
    run_launch_overhead(device, plans, Observer(progress=lambda *told: heard.append(told)))
    assert [(done, total) for done, total, _ in heard] == [(n, 5) for n in (0, 1, 2, 3, 4, 4, 5)]
    assert heard[-2][2] == "2 buffer arguments"
    assert {label for _, _, label in heard} == {
        "no arguments",
        "1 buffer argument",
        "2 buffer arguments",
        "",
    }


def test_nothing_is_left_on_the_device(device):
    free = device.free_bytes
    measure(device, *buffers(16), trials=2)
    assert device.free_bytes == free
    assert device.closed_gates == 0


def test_the_default_is_a_mixed_set_and_a_sweep_over_buffers():
    assert [(one.arg_type, one.count) for one in DEFAULT_SETS] == [
        ("mixed", 4),
        ("none", 0),
        ("buffer", 1),
        ("buffer", 4),
        ("buffer", 16),
    ]
    assert sets_for(None, None) == DEFAULT_SETS
    assert sets_for(None, (2,)) == (ArgumentSet("buffer", 2),)
    assert [one.count for one in sets_for(("numpy",), None)] == [0, 1, 4, 16]
    assert sets_for(("numpy",), (2, 0)) == (ArgumentSet("numpy", 2, named=True), ArgumentSet("none", 0))


def test_mixed_arguments_are_three_buffers_and_an_int32(device):
    with ExitStack() as owned:
        values = ArgumentSet("mixed", 5).values(device, owned)
        assert [type(value) for value in values] == [DeviceBuffer] * 3 + [int, DeviceBuffer]


def test_the_python_call_measures_and_its_results_are_strict_json():
    result = measure_launch_overhead(args=[0, 1], arg_types=["int32"], backend="emulated", trials=1)
    document = json.loads(to_json(result))
    assert (result.error, exit_code(result), result.device.emulated) == (None, 0, True)
    assert [case["id"] for case in document["cases"]] == [case.id for case in result.launch_cases]
    assert result.bandwidth_cases == ()
    assert document["launch_overhead"]["sets"][1]["id"] == "launch_overhead/int32/1"


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"args": []}, ValueError, "from 0 to 256"),
        ({"args": [-1]}, ValueError, "from 0 to 256"),
        ({"args": [257]}, ValueError, "from 0 to 256"),
        ({"args": [1.5]}, TypeError, "integer"),
        ({"arg_types": []}, ValueError, "no argument type given"),
        ({"arg_types": ["nosuch"]}, ValueError, "unknown argument type 'nosuch'"),
        ({"trials": 0}, ValueError, "at least 1"),
        ({"time_budget": 0}, ValueError, "above 0"),
    ],
)
def test_a_python_call_that_cannot_be_meant_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        measure_launch_overhead(backend="emulated", **wrong)


@pytest.mark.parametrize(("arg_type", "count"), [("struct", 256), ("mixed", 256)])
def test_the_most_arguments_can_be_launched(device, arg_type, count):
    outcome = measure(device, *argument_sets((arg_type,), (count,)), trials=1)
    assert {case.state for case in outcome.cases} == {State.OK}


# How much is enough


def test_steady_launches_are_done_after_the_least_trials_of_their_level(modelled):
    for level, trials in ((Level.QUICK, 3), (Level.DEFAULT, 12)):
        outcome = measure(modelled, *buffers(0), trials=None, level=level)
        assert {(case.state, case.reason, len(case.trials)) for case in outcome.cases} == {(State.OK, None, trials)}
        assert {case.submit_s.n for case in outcome.cases} == {trials * 2 * ROUNDS}
        assert {case.submit_s.outliers for case in outcome.cases} == {0}


def test_launches_that_are_not_precise_say_so_with_their_figures(device):
    outcome = measure(device, *buffers(0), trials=2, precision=1e-9)
    reason = "the 99 % interval is wider than ± 1e-07 % of the median (2 trials)"
    assert {(case.state, case.reason) for case in outcome.cases} == {(State.UNCONVERGED, reason)}
    assert all(case.submit_s.low < case.submit_s.median for case in outcome.cases)


def test_a_trial_in_which_the_gpu_was_slowed_down_is_repeated_and_counted(make_device):
    device = make_device(faults=[Fault(throttle="hw_slowdown", nth=1)])
    outcome = run_launch_overhead(device, (LaunchPlan(buffers(0), 2),), slowdowns=device.driver.api.throttled_by)
    assert {(case.state, len(case.trials), case.notes[0]) for case in outcome.cases} == {
        (State.OK, 2, "1 trial was repeated, because the GPU was slowed down (hw_slowdown)")
    }


def test_launches_on_a_gpu_that_stays_slow_are_said_to_be_slow(make_device):
    device = make_device(faults=[Fault(throttle="hw_slowdown")])
    outcome = run_launch_overhead(device, (LaunchPlan(buffers(0), 2),), slowdowns=device.driver.api.throttled_by)
    reason = "the GPU was slowed down in 2 of 2 trials, also when repeated (hw_slowdown)"
    assert {(case.state, case.reason) for case in outcome.cases} == {(State.THROTTLED, reason)}
    assert all(case.submit_s and case.notes[0].startswith("4 trials were repeated") for case in outcome.cases)
