"""Whether trials agree, and which samples stand apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.measuring.agreement import count_outliers, disagreement

DRAWS = {
    "normal": lambda random, n: 1 + 0.05 * random.normal(size=n),
    "uniform": lambda random, n: 1 + 0.2 * random.uniform(size=n),
    "exponential": lambda random, n: 1 + 0.1 * random.exponential(size=n),
    "lognormal": lambda random, n: np.exp(0.2 * random.normal(size=n)),
}


# Outliers


def test_a_sample_far_from_its_trial_stands_apart():
    trials = [(1.0, 1.01, 0.99, 1.02)] * 4
    assert count_outliers(trials, 0.0) == 0
    assert count_outliers([*trials, (1.0, 1.01, 0.99, 1.2)], 0.0) == 1


def test_samples_are_measured_against_their_own_trial_so_that_trials_may_differ():
    assert count_outliers([(base, base + 0.01, base - 0.01, base) for base in (1.0, 2.0, 3.0)], 0.0) == 0


def test_few_samples_cannot_tell():
    assert count_outliers([(1.0, 1.0, 1.0, 9.0), (1.0,) * 7], 0.0) is None
    assert count_outliers([(1.0, 1.0, 1.0, 9.0), (1.0,) * 8], 0.0) == 1


@given(st.integers(12, 60), st.integers(0, 60), st.floats(1e-9, 1e-3))
def test_neighbouring_ticks_never_stand_apart(count, late, tick):
    samples = [1000 * tick] * count + [1001 * tick] * late
    assert count_outliers([samples], tick) == 0


def test_normal_samples_rarely_stand_apart():
    random = np.random.default_rng(1)
    counted = [count_outliers(random.normal(1, 0.01, size=(5, 4)), 0.0) for _ in range(500)]
    assert sum(counted) / (500 * 20) < 0.004


# Drift


def test_trials_that_steadily_take_longer_drift():
    rising = [1 + 0.01 * number for number in range(12)]
    assert disagreement(rising, 0.0) == "drift: the last 6 trials took 6 % more time than the first 6"
    assert disagreement(rising[::-1], 0.0) == "drift: the last 6 trials took 6 % less time than the first 6"


def test_with_many_trials_the_outer_thirds_are_compared():
    medians = [1.0] * 10 + [1.05, 0.95] * 5 + [1.1] * 10
    assert disagreement(medians, 0.0) == "drift: the last 10 trials took 10 % more time than the first 10"


@pytest.mark.parametrize(
    ("medians", "floor"),
    [
        ([0.0] * 12, 0.0),  # the clock does not move
        ([1 + 0.01 * number for number in range(11)], 0.0),  # too few
        ([1 + 0.0005 * number for number in range(12)], 0.0),  # within 1 %
        ([1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.05, 1.06, 1.07, 1.08, 1.09, 1.1], 0.0),  # the thirds touch
        ([1.0] * 6 + [1.05] * 6, 0.06),  # within a tick
    ],
)
def test_what_is_no_drift(medians, floor):
    assert disagreement(medians, floor) is None


# Groups


def test_trials_that_fall_into_two_groups_are_said():
    medians = [1.0, 1.2, 1.01, 1.2, 1.0, 1.2, 1.01, 1.2, 1.0]
    assert disagreement(medians, 0.0) == "two groups: 4 of 9 trials took 20 % more time than the others"


@pytest.mark.parametrize(
    ("medians", "floor"),
    [
        ([1.0, 1.2, 1.0, 1.2, 1.0, 1.2, 1.0], 0.0),  # three are no group
        ([1.0, 1.009, 1.0, 1.009, 1.0, 1.009, 1.0, 1.009], 0.0),  # within 1 %
        ([1.0, 1.2, 1.1, 1.3, 1.0, 1.2, 1.1, 1.3], 0.0),  # as far apart as wide
        ([1.0, 1.2, 1.0, 1.2, 1.0, 1.2, 1.0, 1.2], 0.1),  # two ticks
    ],
)
def test_what_is_no_pair_of_groups(medians, floor):
    assert disagreement(medians, floor) is None


@pytest.mark.parametrize("n", [5, 8, 10, 12, 20, 40])
@pytest.mark.parametrize("name", DRAWS)
def test_independent_draws_of_one_distribution_rarely_disagree(name, n):
    random = np.random.default_rng(n)
    said = [disagreement(list(DRAWS[name](random, n)), 0.0) for _ in range(1000)]
    assert sum(found is not None for found in said) <= 12  # 1.2 %
