"""How much is done, by level and by what was asked for in its place."""

import pytest

from cudabw.benchmarks import bandwidth_plan, latency_plan, launch_overhead
from cudabw.measuring.effort import Effort, Level, effort_of

LEVELS = {Level.DEFAULT: Effort(5, 100, 0.005, 8.0, sure=5), Level.QUICK: Effort(3, 3, 0.005, None, sure=3)}


def test_a_level_is_what_it_is():
    assert effort_of(LEVELS) == LEVELS[Level.DEFAULT]
    assert effort_of(LEVELS, Level.QUICK) == LEVELS[Level.QUICK]


def test_trials_are_exactly_as_many_and_nothing_is_asked_of_them():
    assert effort_of(LEVELS, trials=7) == Effort(7, 7, None, None, sure=7)
    assert effort_of(LEVELS, trials=7).fixed


def test_a_precision_takes_the_place_of_the_level_s_and_judges_given_trials():
    assert effort_of(LEVELS, precision=0.1) == Effort(5, 100, 0.1, 8.0, sure=5)
    assert effort_of(LEVELS, trials=7, precision=0.1) == Effort(7, 7, 0.1, None, sure=7)


def test_a_budget_that_is_asked_for_leaves_only_the_first_trial_of_each_case_sure():
    assert effort_of(LEVELS, budget_s=2.0) == Effort(5, 100, 0.005, 2.0, sure=1)
    assert effort_of(LEVELS, trials=7, budget_s=2.0) == Effort(7, 7, None, 2.0, sure=1)


@pytest.mark.parametrize("numbers", [(0, 5, 0), (5, 4, 5), (5, 9, 6), (5, 9, 0)])
def test_numbers_that_contradict_each_other_are_refused(numbers):
    least, most, sure = numbers
    with pytest.raises(ValueError, match="sure <= least <= most"):
        Effort(least, most, None, None, sure)


@pytest.mark.parametrize(
    ("most", "trials", "otherwise", "why"),
    [
        (1, 1, None, "1 trial"),
        (9, 9, "interrupted", "9 trials"),
        (9, 8, "interrupted", "interrupted"),
        (9, 8, None, "time budget"),
    ],
)
def test_trials_end_at_the_most_or_by_what_is_named_or_at_the_budget(most, trials, otherwise, why):
    assert Effort(1, most, None, None, sure=1).ended_because(trials, otherwise) == why


def test_too_few_trials_are_said_with_the_reason():
    effort = Effort(5, 9, None, None, sure=1)
    assert list(effort.shortfall(4, "interrupted")) == ["4 of 5 trials: interrupted"]
    assert list(effort.shortfall(5, "interrupted")) == []


@pytest.mark.parametrize("levels", [bandwidth_plan.EFFORTS, latency_plan.EFFORTS, launch_overhead.EFFORTS])
def test_each_level_does_more_than_the_one_before(levels):
    quick, default, rigorous = (levels[level] for level in Level)
    assert quick.least < default.least < rigorous.least
    assert quick.most < default.most < rigorous.most
    assert quick.precision == default.precision > rigorous.precision
    assert default.budget_s < rigorous.budget_s
    assert (quick.fixed, default.fixed, rigorous.fixed) == (True, False, False)
