"""Pairs, their differences, and what these show."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw import stats
from cudabw.measuring.pairing import (
    difference_of,
    launches_to_repay,
    mirrored,
    paired_difference,
    seconds_over,
    slope_of,
    verdict_of,
)
from cudabw.results.launch import Difference, Mode, Verdict

TIMES = st.floats(1e-9, 1e-3)


def rounds_of(members, rounds, seed=0):
    order = list(mirrored(members, rounds, np.random.default_rng(seed)))
    size = 2 * len(members)
    return [order[start : start + size] for start in range(0, len(order), size)]


def test_each_round_goes_through_all_members_and_back():
    rounds = rounds_of("abcdef", 20)
    assert len(rounds) == 20
    for order in rounds:
        assert sorted(order[:6]) == list("abcdef")
        assert order[6:] == order[:6][::-1]


def test_rounds_differ_and_the_seed_decides_how():
    assert len({"".join(order) for order in rounds_of("abcdef", 20)}) > 10
    assert rounds_of("abcdef", 5, seed=1) == rounds_of("abcdef", 5, seed=1) != rounds_of("abcdef", 5, seed=2)


@given(st.integers(0, 1000), st.floats(0, 1e-6), st.floats(-1e-6, 1e-6))
def test_a_steady_drift_leaves_no_trace_in_the_difference(seed, drift, difference):
    samples = {"a": [], "b": [], "c": []}
    for position, member in enumerate(mirrored("abc", 4, np.random.default_rng(seed))):
        samples[member].append(1e-5 + drift * position + difference * (member == "a"))
    assert paired_difference(samples["a"], samples["b"]) == pytest.approx(difference, abs=1e-18)


def test_the_difference_is_the_median_over_rounds():
    # Rounds differ by 1, by 2 and, disturbed, by 50.
    assert paired_difference([2, 2, 3, 3, 100, 4], [1, 1, 1, 1, 2, 2]) == 2


@pytest.mark.parametrize(("samples", "baseline"), [([], []), ([1.0], [1.0]), ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0])])
def test_samples_without_a_whole_round_have_no_difference(samples, baseline):
    with pytest.raises(ValueError, match="rounds hold two samples each"):
        paired_difference(samples, baseline)


@given(TIMES.map(lambda time: -time), TIMES)
def test_no_difference_is_seen_where_the_interval_holds_zero(low, high):
    assert verdict_of(stats.Interval(low, high)) is Verdict.NONE
    assert verdict_of(stats.Interval(0, high)) is Verdict.NONE
    assert verdict_of(stats.Interval(low, 0)) is Verdict.NONE


@given(TIMES, TIMES)
def test_a_difference_is_seen_where_the_interval_is_on_one_side(one, other):
    low, high = sorted((one, other))
    assert verdict_of(stats.Interval(low, high)) is Verdict.MORE
    assert verdict_of(stats.Interval(-high, -low)) is Verdict.LESS


def test_one_trial_has_a_difference_and_no_verdict():
    found = difference_of(Mode.BARE, [[3.0, 3.0]], [[1.0, 1.0]])
    assert found == Difference(Mode.BARE, 2.0, None, None, Verdict.UNKNOWN, (2.0,))


@given(st.lists(TIMES, min_size=2, max_size=12))
def test_a_mode_does_not_differ_from_itself(times):
    trials = [(time, time) for time in times]
    found = difference_of(Mode.BARE, trials, trials)
    assert (found.median, found.low, found.high, found.verdict) == (0, 0, 0, Verdict.NONE)


@given(st.lists(TIMES, min_size=8, max_size=12))
def test_what_holds_in_every_one_of_eight_trials_is_seen(costs):
    dearer = [(1e-5 + cost,) * 2 for cost in costs]
    base = [(1e-5,) * 2] * len(costs)
    more, less = difference_of(Mode.BARE, dearer, base), difference_of(Mode.BARE, base, dearer)
    assert (more.verdict, less.verdict) == (Verdict.MORE, Verdict.LESS)
    assert more.low <= more.median <= more.high
    assert less.median == -more.median


def test_the_slope_is_the_cost_of_one_more_argument():
    found = slope_of("buffer", {0: (5.0, 4.0), 16: (37.0, 52.0), 4: (13.0, 16.0), 1: (7.0, 7.0)})
    assert (found.arg_type, found.args) == ("buffer", (0, 1, 4, 16))
    assert found.samples_s == pytest.approx((2.0, 3.0))
    assert found.median == pytest.approx(2.5)


def test_a_slope_over_one_trial_has_no_interval():
    found = slope_of("int32", {0: (1.0,), 4: (3.0, 9.0)})
    assert found.samples_s == pytest.approx((0.5,))
    assert (found.low, found.high, found.verdict) == (None, None, Verdict.UNKNOWN)


def test_a_time_over_trials_is_the_median_of_their_medians():
    found = seconds_over([(1, 2, 9), (4, 4, 4), (3, 3, 0)])
    assert (found.median, found.min, found.max) == (3, 0, 9)
    assert found.low < 3 < found.high


def test_no_time_ends_below_zero_however_far_two_trials_scatter():
    found = seconds_over([(1.0, 1.0), (3.0, 3.0)])
    assert (found.low, found.median) == (0.0, 2.0)
    assert found.high > 10


def difference(median, verdict=Verdict.MORE):
    return Difference(Mode.PREPARED, median, median, median, verdict, (median,))


@pytest.mark.parametrize(("cost", "saving", "launches"), [(10.0, 2.0, 5), (10.1, 2.0, 6), (1.0, 2.0, 1)])
def test_preparing_is_repaid_by_whole_launches(cost, saving, launches):
    assert launches_to_repay(cost, difference(saving)) == launches
    assert math.ceil(cost / saving) == launches


@pytest.mark.parametrize("verdict", [Verdict.NONE, Verdict.LESS, Verdict.UNKNOWN])
def test_preparing_is_never_repaid_by_a_saving_that_was_not_seen(verdict):
    assert launches_to_repay(1.0, difference(2.0, verdict)) is None
