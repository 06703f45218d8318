"""Which trial comes next, when the time is over, and what all trials say together."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw import stats
from cudabw.measuring.sampling import Budget, interleave, rate_over
from cudabw.results.model import Rate, Trial

MIB = 1 << 20


def order(cases, trials, seed=0):
    return list(interleave(cases, trials, np.random.default_rng(seed)))


@given(count=st.integers(0, 12), trials=st.integers(0, 6), seed=st.integers(0, 2**32 - 1))
def test_every_round_has_every_case_once(count, trials, seed):
    cases = [f"case {number}" for number in range(count)]
    drawn = order(cases, trials, seed)
    assert [number for number, _ in drawn] == [number for number in range(trials) for _ in cases]
    for number in range(trials):
        assert sorted(case for at, case in drawn if at == number) == sorted(cases)


def test_equal_cases_are_drawn_as_often_as_they_are_given():
    assert [case for _, case in order(["same", "same"], 2)] == ["same"] * 4


def test_the_same_seed_gives_the_same_order_and_another_seed_another():
    cases = list(range(8))
    assert order(cases, 3, seed=5) == order(cases, 3, seed=5)
    assert order(cases, 3, seed=5) != order(cases, 3, seed=6)


def test_rounds_differ_in_their_order():
    drawn = [case for _, case in order(list(range(8)), 2)]
    assert drawn[:8] != drawn[8:]


def test_every_case_comes_first_as_often_as_any_other():
    firsts = np.bincount([order(range(4), 1, seed)[0][1] for seed in range(400)], minlength=4)
    assert firsts.min() > 60


class HandClock:
    def __init__(self):
        self.time = 1000.0

    def __call__(self):
        return self.time


def test_a_budget_is_over_when_its_seconds_are_used_up():
    clock = HandClock()
    budget = Budget(2.5, clock)
    assert not budget.over()
    clock.time += 2.4
    assert not budget.over()
    clock.time = 1002.5
    assert budget.over()


def test_no_budget_is_never_over():
    clock = HandClock()
    budget = Budget(None, clock)
    clock.time = math.nextafter(math.inf, 0)
    assert not budget.over()


def test_a_budget_of_nothing_is_over_at_once():
    assert Budget(0, HandClock()).over()


def test_a_rate_is_the_median_of_the_trials_medians():
    trials = [Trial(4, (1e-3, 2e-3, 4e-3)), Trial(4, (1e-3, 1e-3, 8e-3)), Trial(4, (4e-3, 4e-3, 4e-3))]
    rate = rate_over(trials, MIB)
    assert rate.median == MIB / 2e-3
    assert rate.min == MIB / 8e-3
    assert rate.max == MIB / 1e-3


def test_a_single_trial_has_no_interval():
    assert rate_over([Trial(1, (2e-3,))], MIB) == Rate(MIB / 2e-3, None, None, MIB / 2e-3, MIB / 2e-3)


def test_equal_trials_have_an_interval_of_no_width():
    exact = MIB / 2e-3
    assert rate_over([Trial(1, (2e-3, 2e-3))] * 5, MIB) == Rate(exact, exact, exact, exact, exact)


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
