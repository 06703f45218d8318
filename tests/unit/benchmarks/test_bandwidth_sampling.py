"""How many trials a bandwidth case gets, what its figures are made of, and which state they are in."""

import math
import statistics

import pytest

from cudabw.benchmarks.bandwidth import run_bandwidth
from cudabw.benchmarks.bandwidth_draws import with_link
from cudabw.benchmarks.bandwidth_plan import BandwidthPlan
from cudabw.benchmarks.observer import Observer
from cudabw.driver.emulated import Fault, ModelledClock
from cudabw.measuring.effort import Level
from cudabw.results.model import Link, State

RATES = {"h2d": 1e6, "d2h": 1e6}  # so slow that a batch is one copy
WIDE = "the 99 % interval is wider than ± {} % of the median ({})"


def measure(device, *kinds, observer=None, slowdowns=None, **settings):
    asked = {"directions": ("h2d",), "sizes": (4096,)} | settings
    plan = BandwidthPlan(kinds or ("pinned",), **asked)
    extra = {} if slowdowns is None else {"slowdowns": slowdowns}
    return run_bandwidth(device, [plan], observer or Observer(), **extra).cases


@pytest.fixture
def noisy(make_device):
    """A device on a modelled clock with noise."""

    def make(noise, seed=1, **settings):
        return make_device(clock=ModelledClock(RATES, noise=noise, seed=seed, **settings))

    return make


# How many trials


def test_a_steady_case_is_done_after_its_least_trials(noisy):
    for level, trials in ((Level.QUICK, 3), (Level.DEFAULT, 5), (Level.RIGOROUS, 12)):
        (case,) = measure(noisy(0.0), level=level)
        assert (case.state, case.reason, len(case.trials)) == (State.OK, None, trials)


def test_a_noisy_case_goes_on_until_it_is_precise(noisy):
    (case,) = measure(noisy(0.02), precision=0.01)
    rate = case.rate_bytes_per_s
    assert case.state is State.OK
    assert len(case.trials) > 5
    assert max(rate.high - rate.median, rate.median - rate.low) / rate.median <= 0.01


def test_a_case_that_never_becomes_precise_shows_its_figure_and_says_so(noisy):
    (case,) = measure(noisy(0.2), level=Level.QUICK)
    assert (case.state, case.reason) == (State.UNCONVERGED, WIDE.format("0.5", "3 trials"))
    assert case.rate_bytes_per_s.low < case.rate_bytes_per_s.median
    (case,) = measure(noisy(0.2), precision=0.001)
    assert (len(case.trials), case.reason) == (100, WIDE.format("0.1", "100 trials"))


def test_the_time_budget_ends_it_and_is_the_reason(noisy):
    (case,) = measure(noisy(0.2), precision=0.001, time_budget_s=1e-3)
    assert (case.state, case.reason) == (State.UNCONVERGED, "one trial has no interval (time budget of 0.001 s)")
    assert case.notes == ("1 of 5 trials: time budget of 0.001 s",)


def test_a_steady_case_leaves_the_trials_to_a_noisy_one(make_device):
    device = make_device(clock=ModelledClock(RATES, noise=0.01, seed=1))
    cases = measure(device, "pinned", "write-combined", sizes=(4096, 8192), precision=0.012)
    counts = {len(case.trials) for case in cases}
    assert len(counts) > 1
    assert all(case.state is State.OK for case in cases)


def test_given_trials_are_taken_whatever_they_show(noisy):
    (case,) = measure(noisy(0.2), trials=7)
    assert (case.state, case.reason, len(case.trials)) == (State.OK, None, 7)
    (case,) = measure(noisy(0.2), trials=7, precision=0.01)
    assert (case.state, case.reason, len(case.trials)) == (State.UNCONVERGED, WIDE.format("1", "7 trials"), 7)


def test_the_progress_grows_by_the_trials_that_precision_asks_for(noisy):
    heard = []
    observer = Observer(progress=lambda *step: heard.append(step[:2]))
    (case,) = measure(noisy(0.02), precision=0.01, observer=observer)
    count = len(case.trials)
    assert heard[:5] == [(done, 5) for done in range(5)]
    assert heard[-1] == (count, count)
    assert all(done < total for done, total in heard[:-1])


# What figures are made of


def test_the_figures_of_few_trials_are_those_of_the_formulas(noisy):
    (case,) = measure(noisy(0.05), trials=5)
    medians = [4096 / statistics.median(trial.samples_s) for trial in case.trials]
    rate = case.rate_bytes_per_s
    assert rate.median == pytest.approx(statistics.median(medians))
    logarithms = [math.log(median) for median in medians]
    # Student's t for 99 % and 4 degrees of freedom, from a printed table.
    half_width = 4.604 * math.sqrt(math.pi / 2) * statistics.stdev(logarithms) / math.sqrt(5)
    assert math.log(rate.high / rate.median) == pytest.approx(half_width, rel=1e-3)
    assert math.log(rate.median / rate.low) == pytest.approx(half_width, rel=1e-3)


@pytest.mark.parametrize(("trials", "rank"), [(8, 1), (12, 2), (20, 4)])
def test_the_interval_of_many_trials_is_an_order_statistic_of_the_binomial_distribution(noisy, trials, rank):
    coverage = [
        1 - 2 * sum(math.comb(trials, below) for below in range(k)) / 2**trials for k in range(1, trials // 2 + 1)
    ]
    assert coverage[rank - 1] >= 0.99 > coverage[rank]
    (case,) = measure(noisy(0.05), trials=trials)
    medians = sorted(4096 / statistics.median(trial.samples_s) for trial in case.trials)
    assert case.rate_bytes_per_s.low == pytest.approx(medians[rank - 1])
    assert case.rate_bytes_per_s.high == pytest.approx(medians[-rank])


def test_quantiles_of_a_known_distribution_are_found(noisy):
    # A batch is one copy, so samples are lognormal as the clock's noise is.
    (case,) = measure(noisy(0.1), trials=250, sizes=(16384,))
    rate = case.rate_bytes_per_s
    assert rate.n == 1000
    assert rate.median == pytest.approx(1e6, rel=0.02)
    assert rate.p5 == pytest.approx(1e6 * math.exp(-0.1 * 1.6449), rel=0.03)
    assert rate.p95 == pytest.approx(1e6 * math.exp(0.1 * 1.6449), rel=0.03)
    assert rate.min < rate.p5 < rate.low < rate.median < rate.high < rate.p95 < rate.max


def test_the_interval_holds_the_true_rate_of_most_runs(noisy):
    held = 0
    for seed in range(60):
        (case,) = measure(noisy(0.05, seed), trials=8, sizes=(256,))
        held += case.rate_bytes_per_s.low <= 1e6 <= case.rate_bytes_per_s.high
    assert held >= 57  # 99.2 % of 60 are 59.5; fewer than 57 happen once in ten thousand


# The clock's tick


@pytest.mark.parametrize(("tick_s", "least"), [(0.0, 4), (10e-6, 4), (100e-6, 20), (500e-6, 100)])
def test_a_batch_lasts_at_least_200_ticks(make_device, tick_s, least):
    # Copies of 1 ms: 4 of them are 4 ms, and 200 ticks of 100 us are 20. Calibrating is as coarse as the clock.
    device = make_device(clock=ModelledClock({"h2d": 4.096e6}, tick_s=tick_s, submit_s=30e-6))
    (case,) = measure(device, trials=3)
    assert least <= case.trials[0].copies_per_batch <= 2 * least
    assert case.tick_s == pytest.approx(max(tick_s, 30e-6))  # what an empty pair takes bounds a finer tick


def test_a_clock_too_coarse_for_a_copy_that_cannot_be_repeated_is_a_condition_that_is_not_met(make_device):
    device = make_device(clock=ModelledClock({"h2d": 4.096e6}, tick_s=50e-6, submit_s=60e-6))
    (case,) = measure(device, "managed")
    assert (case.state, len(case.trials), case.tick_s) == (State.UNCONVERGED, 5, pytest.approx(50e-6))
    assert case.reason == "a batch of 1 lasts fewer than 200 ticks of the event clock (50.0 µs each)"


# Throttling


def slowed_at(*questions, reason="hw_slowdown"):
    return [Fault(throttle=reason, nth=number) for number in questions]


def throttled_device(make_device, faults):
    device = make_device(clock=ModelledClock(RATES), faults=faults)
    return device, device.driver.api.throttled_by


def test_a_batch_in_which_the_gpu_was_slowed_down_is_repeated_and_counted(make_device):
    # Two questions in the calibration's batches, two for the warm-up: the fifth is asked during the first batch.
    device, slowdowns = throttled_device(make_device, slowed_at(5))
    (case,) = measure(device, trials=2, slowdowns=slowdowns)
    assert [(len(trial.samples_s), len(trial.repeated_s), trial.throttled) for trial in case.trials] == [
        (4, 1, 0),
        (4, 0, 0),
    ]
    assert (case.state, case.rate_bytes_per_s.n) == (State.OK, 8)
    assert case.notes == ("1 batch was repeated, because the GPU was slowed down (hw_slowdown)",)


def test_a_gpu_that_stays_slow_is_measured_and_said_to_be_slow(make_device):
    device, slowdowns = throttled_device(make_device, [Fault(throttle="sw_power_cap"), Fault(throttle="hw_slowdown")])
    (case,) = measure(device, trials=2, slowdowns=slowdowns)
    assert case.state is State.THROTTLED
    assert case.rate_bytes_per_s.median == pytest.approx(1e6)
    assert case.reason == ("the GPU was slowed down in 8 of 8 batches, also when repeated (sw_power_cap, hw_slowdown)")
    assert case.notes == ("8 batches were repeated, because the GPU was slowed down (sw_power_cap, hw_slowdown)",)
    assert [(len(trial.repeated_s), trial.throttled) for trial in case.trials] == [(4, 4)] * 2


def test_copies_that_hold_the_host_are_asked_about_afterwards(make_device):
    device, slowdowns = throttled_device(make_device, slowed_at(2))
    (case,) = measure(device, "pageable", trials=1, slowdowns=slowdowns)
    assert [len(trial.repeated_s) for trial in case.trials] == [1]


def test_both_directions_at_once_repeat_the_same_batches(make_device):
    device, slowdowns = throttled_device(make_device, [Fault(throttle="hw_slowdown")])
    cases = measure(device, directions=("bidirectional",), trials=1, sizes=(1 << 20,), slowdowns=slowdowns)
    assert [len(case.trials[0].repeated_s) for case in cases] == [4, 4, 4]
    assert {case.state for case in cases} == {State.THROTTLED}


# Trials that disagree


def test_a_machine_that_becomes_slower_is_unstable(make_device, monkeypatch):
    clock = ModelledClock(RATES)
    trials = iter(range(10_000))
    original = ModelledClock.finish

    def slower_and_slower(self, work, stream_time, submitted_at, draw):
        end = original(self, work, stream_time, submitted_at, draw)
        return end + (next(trials) * 1e-5 if work.direction == "h2d" and work.nbytes == 4096 else 0.0)

    monkeypatch.setattr(ModelledClock, "finish", slower_and_slower)
    (case,) = measure(make_device(clock=clock), trials=12)
    assert case.state is State.UNSTABLE
    assert case.reason.startswith("drift: the last 6 trials took ")
    assert case.rate_bytes_per_s is not None


# Above the ceiling


def test_a_rate_above_what_the_link_can_carry_is_no_number(noisy):
    (case,) = measure(noisy(0.0), trials=2)
    suspect = with_link(case, Link(1, 1, 0.25e6, "sysfs"))
    assert (suspect.state, suspect.rate_bytes_per_s, suspect.link_fraction) == (State.SUSPECT, None, None)
    assert suspect.reason == (
        "0.00100 GB/s would be 400 % of what the link can carry (0.000250 GB/s), "
        "so the figure or what is known of the link is wrong"
    )
    assert with_link(case, Link(1, 1, 1.0e6, "sysfs")).state is State.OK
