"""Which trial comes next, when the time is over, and what all trials say together."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw import stats
from cudabw.measuring.effort import Effort
from cudabw.measuring.judging import judge
from cudabw.measuring.sampling import Budget, Rounds, rate_over
from cudabw.results.model import Rate, State, Trial

MIB = 1 << 20


class HandClock:
    def __init__(self):
        self.time = 1000.0

    def __call__(self):
        return self.time


def fixed(trials):
    return Effort(trials, trials, precision=None, budget_s=None, sure=trials)


def rounds(cases, effort, enough=lambda _: False, seed=0, budget=None):
    return Rounds(cases, effort, np.random.default_rng(seed), enough, budget)


def order(cases, trials, seed=0):
    return list(rounds(cases, fixed(trials), seed=seed))


# The order


@given(count=st.integers(0, 12), trials=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
def test_every_round_has_every_case_once(count, trials, seed):
    cases = [f"case {number}" for number in range(count)]
    drawn = order(cases, trials, seed)
    assert len(drawn) == count * trials
    for start in range(0, len(drawn), count or 1):
        assert sorted(drawn[start : start + count]) == sorted(cases)


def test_equal_cases_are_drawn_as_often_as_they_are_given():
    assert order(["same", "same"], 2) == ["same"] * 4


def test_the_same_seed_gives_the_same_order_and_another_seed_another():
    cases = list(range(8))
    assert order(cases, 3, seed=5) == order(cases, 3, seed=5)
    assert order(cases, 3, seed=5) != order(cases, 3, seed=6)


def test_rounds_differ_in_their_order():
    drawn = order(list(range(8)), 2)
    assert drawn[:8] != drawn[8:]


def test_every_case_comes_first_as_often_as_any_other():
    firsts = np.bincount([order(range(4), 1, seed)[0] for seed in range(400)], minlength=4)
    assert firsts.min() > 60


# When a case has enough


def test_a_case_that_has_enough_drops_out_after_its_least_trials_and_the_others_go_on():
    taken = Counter()
    for case in rounds("abc", Effort(3, 10, 0.01, None, sure=3), enough=lambda case: case == "a" or taken[case] >= 5):
        taken[case] += 1
    assert taken == {"a": 3, "b": 5, "c": 5}


def test_nothing_goes_beyond_the_most_trials():
    assert Counter(rounds("ab", Effort(1, 4, 0.01, None, sure=1))) == {"a": 4, "b": 4}


def test_further_trials_are_announced_round_by_round():
    taken = rounds("abc", Effort(1, 3, 0.01, None, sure=1), enough=lambda case: case == "a")
    seen = [taken.added for _ in taken]
    assert seen == [0, 0, 0, 2, 2, 4, 4]


# The time


def timed(seconds, effort, enough=lambda _: False):
    """Trials of each case, each of which takes its seconds, and the seconds of all."""
    clock = HandClock()
    taken = Counter()
    going = rounds(list(seconds), effort, enough, budget=Budget(effort.budget_s, clock))
    for case in going:
        taken[case] += 1
        clock.time += seconds[case]
    return taken, clock.time - 1000.0, going.cut


def test_a_budget_allows_what_ends_in_time():
    clock = HandClock()
    budget = Budget(2.5, clock)
    assert budget.allows(2.5)
    assert not budget.allows(2.6)
    clock.time += 2.5
    assert not budget.allows(0.0)
    assert Budget(None, clock).allows(1e300)


def test_when_the_time_is_used_up_no_case_has_had_to_wait_for_another():
    taken, seconds, cut = timed(dict.fromkeys(range(7), 1.0), Effort(1, 100, 0.01, 24.0, sure=1))
    assert max(taken.values()) - min(taken.values()) <= 1
    assert (sum(taken.values()), seconds, cut) == (24, 24.0, True)


def test_the_sure_trials_are_taken_however_long_they_take():
    assert timed({"a": 10.0, "b": 10.0}, Effort(5, 100, 0.01, 8.0, sure=5)) == ({"a": 5, "b": 5}, 100.0, True)
    assert timed({"a": 10.0, "b": 10.0}, Effort(5, 100, 0.01, 8.0, sure=1)) == ({"a": 1, "b": 1}, 20.0, True)


def test_a_trial_that_would_not_end_in_time_is_not_begun_and_leaves_its_time_to_shorter_ones():
    taken, seconds, cut = timed({"long": 6.0, "short": 1.0}, Effort(1, 100, 0.01, 10.5, sure=1))
    assert (taken["long"], taken["short"], cut) == (1, 4, True)
    assert seconds == 10.0


def test_converged_cases_leave_their_time_to_the_others():
    taken, _, cut = timed({"a": 1.0, "b": 1.0}, Effort(2, 100, 0.01, 10.5, sure=2), enough=lambda case: case == "a")
    assert (taken, cut) == ({"a": 2, "b": 8}, True)


def test_time_that_was_not_needed_cuts_nothing():
    assert timed({"a": 1.0}, Effort(2, 100, 0.01, 10.0, sure=1), enough=lambda _: True) == ({"a": 2}, 2.0, False)


# What trials say together


def test_a_rate_is_the_median_of_the_trials_medians():
    trials = [Trial(4, (1e-3, 2e-3, 4e-3)), Trial(4, (1e-3, 1e-3, 8e-3)), Trial(4, (4e-3, 4e-3, 4e-3))]
    rate = rate_over(trials, MIB)
    assert rate.median == MIB / 2e-3
    assert rate.min == MIB / 8e-3
    assert rate.max == MIB / 1e-3


def test_a_single_trial_has_no_interval():
    exact = MIB / 2e-3
    assert rate_over([Trial(1, (2e-3,))], MIB) == Rate(exact, None, None, exact, exact, exact, exact, 1, None)


def test_equal_trials_have_an_interval_of_no_width():
    exact = MIB / 2e-3
    assert rate_over([Trial(1, (2e-3, 2e-3))] * 5, MIB) == Rate(*[exact] * 7, n=10, outliers=None)


def test_the_interval_is_of_the_trials_and_holds_99_percent():
    # Ten trials hold 99 % from the slowest to the fastest, and only 97.9 % without those two.
    seconds = [1e-3 * trial for trial in range(1, 11)]
    trials = [Trial(1, (each, each, each / 2)) for each in seconds]
    rate = rate_over(trials, MIB)
    assert (rate.low, rate.high) == (MIB / max(seconds), MIB / min(seconds))
    assert rate.max == MIB / 0.5e-3
    assert rate.median == pytest.approx((MIB / 5e-3 + MIB / 6e-3) / 2)


@given(
    st.lists(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=6).map(tuple), min_size=1, max_size=12),
    st.integers(1, 1 << 48),
)
def test_the_parts_of_a_rate_are_in_order(samples, nbytes):
    rate = rate_over([Trial(1, each) for each in samples], nbytes)
    medians = [nbytes / stats.median(each) for each in samples]
    assert rate.min <= rate.max
    assert rate.median == pytest.approx(float(np.median(medians)))
    assert rate.min * (1 - 1e-12) <= rate.median <= rate.max * (1 + 1e-12)
    if len(samples) > 1:
        assert rate.low <= rate.median <= rate.high
    else:
        assert (rate.low, rate.high) == (None, None)


def test_no_interval_is_narrower_than_a_tick_of_the_clock():
    # Batches of 4 x 2 ms: a tick of 8 us is 0.1 % of one.
    rate = rate_over([Trial(4, (2e-3, 2e-3))] * 5, MIB, tick_s=8e-6)
    assert rate.low == pytest.approx(rate.median * math.exp(-0.001), rel=1e-12)
    assert rate.high == pytest.approx(rate.median * math.exp(0.001), rel=1e-12)


@given(
    st.lists(st.floats(1e-6, 1e-3), min_size=4, max_size=40),
    st.integers(1, 5),
    st.integers(1, 1 << 40),
)
def test_the_quantiles_are_those_of_all_samples(samples, trials, nbytes):
    parts = [tuple(samples[at::trials]) for at in range(trials)]
    rate = rate_over([Trial(1, part) for part in parts if part], nbytes)
    rates = sorted(nbytes / seconds for seconds in samples)
    # Linear interpolation between order statistics, written out.
    for value, q in ((rate.p5, 0.05), (rate.p95, 0.95)):
        below = math.floor(q * (len(rates) - 1))
        above = min(below + 1, len(rates) - 1)
        expected = rates[below] + (q * (len(rates) - 1) - below) * (rates[above] - rates[below])
        assert value == pytest.approx(expected, rel=1e-9)
    assert rate.n == len(samples)


def test_seventy_percent_of_samples_on_one_tick_and_thirty_on_the_next_flag_nothing():
    tick = 32e-9
    on_ticks = [1000 * tick] * 7 + [1001 * tick] * 3
    random = np.random.default_rng(3)
    trials = [Trial(1, tuple(random.permutation(on_ticks))) for _ in range(20)]
    rate = rate_over(trials, MIB, tick)
    assert (rate.outliers, rate.n) == (0, 200)
    medians = [stats.median(trial.samples_s) for trial in trials]
    found = judge(rate, medians, tick_s=tick, precision=0.005, ended_because="20 trials")
    assert found == (State.OK, None)
    # Without the floor every sample on the second tick would stand apart.
    assert rate_over(trials, MIB).outliers == 60


@pytest.mark.parametrize("scatter", [0.3, 1.0, 2.0])
def test_stopping_when_the_interval_is_narrow_leaves_it_honest(scatter):
    random = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        draws = []

        def precise(_case, draws=draws):
            interval = stats.median_interval(draws)
            middle = stats.median(draws)
            return max(interval.high - middle, middle - interval.low) <= 1.0

        for _case in rounds(["case"], Effort(5, 100, 0.01, None, sure=5), enough=precise):
            draws.append(scatter * random.normal())  # noqa: PERF401 - the rule looks at them meanwhile
        interval = stats.median_interval(draws)
        held += interval.low <= 0 <= interval.high
    assert held >= 0.97 * 400
