"""What a measured figure is worth."""

import pytest

from cudabw.measuring.judging import converged, judge
from cudabw.results.launch import Seconds
from cudabw.results.model import Rate, State

DRIFT = [1 + 0.01 * number for number in range(12)]


def rate(spread):
    return Rate(100.0, 100.0 * (1 - spread), 100.0 * (1 + spread / 2), 90.0, 110.0)


def judged(figure, medians=(1.0,) * 5, **known):
    return judge(figure, medians, **{"tick_s": 0.0, "precision": 0.005, "ended_because": "5 trials"} | known)


@pytest.mark.parametrize(("spread", "is_converged"), [(0.0, True), (0.0049, True), (0.0051, False)])
def test_both_ends_must_be_within_the_precision(spread, is_converged):
    assert converged(rate(spread), 0.005) is is_converged
    assert converged(Seconds(1.0, 1.0 - spread / 2, 1.0 + spread, 0.9, 1.1), 0.005) is is_converged


def test_a_figure_without_an_interval_is_not_converged():
    assert not converged(Rate(100.0, None, None, 90.0, 110.0), 0.5)


def test_a_precise_figure_is_ok_without_a_reason():
    assert judged(rate(0.004)) == (State.OK, None)


def test_a_wide_interval_is_unconverged_and_says_why_there_are_no_more_trials():
    reason = "the 99 % interval is wider than ± 0.5 % of the median (time budget of 8 s)"
    assert judged(rate(0.1), ended_because="time budget of 8 s") == (State.UNCONVERGED, reason)


def test_one_trial_is_unconverged():
    alone = Rate(100.0, None, None, 90.0, 110.0)
    assert judged(alone, [1.0]) == (State.UNCONVERGED, "one trial has no interval (5 trials)")


def test_without_a_precision_nothing_is_unconverged():
    assert judged(rate(0.5), precision=None) == (State.OK, None)
    assert judged(rate(0.5), precision=None, coarse="too few ticks") == (State.OK, None)


def test_a_clock_that_is_too_coarse_is_unconverged_even_where_the_interval_is_narrow():
    assert judged(rate(0.0), coarse="too few ticks") == (State.UNCONVERGED, "too few ticks")


def test_trials_that_disagree_are_unstable_whether_precise_or_not():
    for figure, precision in ((rate(0.0), 0.005), (rate(0.5), 0.005), (rate(0.5), None)):
        state, reason = judged(figure, DRIFT, precision=precision)
        assert (state, reason[:5]) == (State.UNSTABLE, "drift")


def test_what_slowed_the_gpu_down_explains_all_else():
    assert judged(rate(0.5), DRIFT, throttled="hot") == (State.THROTTLED, "hot")
