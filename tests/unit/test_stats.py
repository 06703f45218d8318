"""Quantiles and intervals: exact cases, published tables, laws, and how often an interval covers the truth."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cudabw import stats
from cudabw.stats import Interval

RATES = st.floats(1e-3, 1e6)
SAMPLES = st.lists(RATES, min_size=1, max_size=40)
SEVERAL = st.lists(RATES, min_size=2, max_size=40)
CONFIDENCES = st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999])


def test_an_interval_refuses_ends_in_the_wrong_order_or_nan():
    assert Interval(1.0, 1.0) == Interval(low=1.0, high=1.0)
    for low, high in ((2.0, 1.0), (math.nan, 1.0), (0.0, math.nan)):
        with pytest.raises(ValueError, match="low <= high"):
            Interval(low, high)


@pytest.mark.parametrize(("samples", "middle"), [([3.0], 3.0), ([5, 1, 3], 3.0), ([4, 1, 3, 2], 2.5)])
def test_the_median_is_the_middle(samples, middle):
    assert stats.median(samples) == middle
    assert stats.median(np.array(samples)) == middle


@pytest.mark.parametrize(("q", "value"), [(0, 1.0), (0.1, 1.4), (0.25, 2.0), (0.5, 3.0), (0.9, 4.6), (1, 5.0)])
def test_quantiles_are_interpolated_linearly(q, value):
    assert stats.quantile([5, 3, 1, 2, 4], q) == pytest.approx(value, rel=1e-15)


@given(SAMPLES, st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise_with_q_within_the_samples(samples, one, other):
    low, high = (stats.quantile(samples, q) for q in sorted((one, other)))
    slack = 1e-12 * max(samples)
    assert min(samples) - slack <= low <= high + slack
    assert high <= max(samples) + slack
    assert stats.quantile(samples, 0.5) == pytest.approx(stats.median(samples), rel=1e-12)


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
def test_a_quantile_outside_0_to_1_is_refused(q):
    with pytest.raises(ValueError, match="between 0 and 1"):
        stats.quantile([1.0], q)


# NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, and any printed table.
@pytest.mark.parametrize(
    ("p", "dof", "t"),
    [
        (0.995, 1, 63.6567),
        (0.995, 2, 9.9248),
        (0.995, 3, 5.8409),
        (0.995, 4, 4.6041),
        (0.995, 6, 3.7074),
        (0.975, 9, 2.2622),
        (0.975, 30, 2.0423),
        (0.95, 5, 2.0150),
        (0.9, 10, 1.3722),
        (0.75, 1, 1.0),
        (0.975, 100, 1.9840),
        (0.975, math.inf, 1.9600),
    ],
)
def test_t_quantiles_agree_with_the_printed_table(p, dof, t):
    assert stats.student_t_quantile(p, dof) == pytest.approx(t, abs=5.1e-5)


def cauchy_quantile(p: float) -> float:
    return math.tan(math.pi * (p - 0.5))


def two_dof_quantile(p: float) -> float:
    return (2 * p - 1) / math.sqrt(2 * p * (1 - p))


def four_dof_quantile(p: float) -> float:
    """Shaw, "Sampling Student's t distribution", Journal of Computational Finance 9(4), 2006."""
    alpha = 4 * p * (1 - p)
    q = math.cos(math.acos(math.sqrt(alpha)) / 3) / math.sqrt(alpha)
    return math.copysign(2 * math.sqrt(q - 1), p - 0.5)


@pytest.mark.parametrize(
    ("dof", "exact"),
    [(1, cauchy_quantile), (2, two_dof_quantile), (4, four_dof_quantile), (math.inf, NormalDist().inv_cdf)],
)
@pytest.mark.parametrize("p", [1e-6, 0.0005, 0.005, 0.1, 0.4, 0.6, 0.9, 0.975, 0.995, 0.9995, 0.999999])
def test_t_quantiles_agree_with_the_closed_forms(dof, exact, p):
    assert stats.student_t_quantile(p, dof) == pytest.approx(exact(p), rel=1e-9)


@given(st.floats(1, 50), st.floats(0.001, 0.999))
def test_the_density_integrated_up_to_the_quantile_gives_p_back(dof, p):
    t = stats.student_t_quantile(p, dof)
    # With t = sqrt(dof) tan(angle) the density becomes a smooth power of a cosine on a finite interval.
    nodes, weights = np.polynomial.legendre.leggauss(80)
    reach = math.atan(t / math.sqrt(dof))
    heights = np.cos(reach * (nodes + 1) / 2) ** (dof - 1)
    scale = math.exp(math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2)) / math.sqrt(math.pi)
    assert 0.5 + scale * reach / 2 * float(weights @ heights) == pytest.approx(p, abs=1e-10)


@given(st.floats(1, 1e6), st.floats(0.0001, 0.4999))
def test_t_quantiles_are_symmetric(dof, p):
    assert stats.student_t_quantile(p, dof) == pytest.approx(-stats.student_t_quantile(1 - p, dof), rel=1e-9)
    assert stats.student_t_quantile(0.5, dof) == 0


@given(st.floats(1, 1e6), st.floats(0.5, 0.9999), st.floats(0.5, 0.9999))
def test_t_quantiles_rise_with_p_and_fall_towards_the_normal_ones(dof, one, other):
    low, high = sorted((one, other))
    assume(high - low > 1e-9)
    assert stats.student_t_quantile(low, dof) < stats.student_t_quantile(high, dof)
    assert stats.student_t_quantile(high, dof) >= stats.student_t_quantile(high, dof * 1.5) - 1e-12
    assert stats.student_t_quantile(high, dof) >= NormalDist().inv_cdf(high) - 1e-12


@pytest.mark.parametrize("p", [0.6, 0.975, 0.995, 0.999999])
def test_the_expansion_for_many_degrees_of_freedom_joins_without_a_step(p):
    below, above = stats.student_t_quantile(p, 1e4 * (1 - 1e-9)), stats.student_t_quantile(p, 1e4)
    assert below == pytest.approx(above, rel=1e-10)


@pytest.mark.parametrize("upper", [0.4, 0.16, 0.1])
def test_each_term_of_the_expansion_counts_where_degrees_of_freedom_are_few(upper):
    # From 10,000 on, where it is used, a wrong last term would hide in rounding. Here the term left out is 6e-10.
    assert stats._expand_upper_t(upper, 100) == pytest.approx(stats._solve_upper_t(upper, 100), abs=1e-9)


@given(st.lists(RATES, min_size=2, max_size=3), st.floats(0, 1e-12))
def test_welch_never_falls_below_one_degree_of_freedom(a, step):
    stats.welch_interval(a, [1.0, 1.0 + step])
    stats.welch_interval([0.0, step], a)


def test_extreme_t_quantiles_are_finite_and_right():
    assert stats.student_t_quantile(1e-100, 1) == pytest.approx(-1e100 / math.pi, rel=1e-9)


@pytest.mark.parametrize("p", [0, 1, -0.5, 1.5, 1e-101, math.nan])
def test_a_probability_out_of_range_is_refused(p):
    with pytest.raises(ValueError, match="probability"):
        stats.student_t_quantile(p, 5)


@pytest.mark.parametrize("dof", [0, 0.5, -1, math.nan])
def test_too_few_degrees_of_freedom_are_refused(dof):
    with pytest.raises(ValueError, match="degrees of freedom"):
        stats.student_t_quantile(0.9, dof)


def test_one_sample_has_no_interval():
    assert stats.median_interval([55.4]) is None


# Ranks for 99 %: P(Binomial(n, 1/2) < k) is 1/256 at n=8, k=1; 13/4096 at n=12, k=2; and so on.
@pytest.mark.parametrize(
    ("n", "confidence", "low", "high"),
    [
        (8, 0.99, 1, 8),
        (11, 0.99, 1, 11),
        (12, 0.99, 2, 11),
        (15, 0.99, 3, 13),
        (20, 0.99, 4, 17),
        (6, 0.95, 1, 6),
        (9, 0.95, 2, 8),
        (2, 0.5, 1, 2),
        (3, 0.75, 1, 3),
        (2000, 0.99, 942, 1059),
    ],
)
def test_many_samples_give_the_order_statistics_of_the_printed_table(n, confidence, low, high):
    shuffled = np.random.default_rng(7).permutation(np.arange(1, n + 1))
    assert stats.median_interval(shuffled, confidence) == Interval(low, high)


def test_an_outlier_moves_the_end_it_stands_at_and_no_more():
    samples = [10.0, 11, 12, 13, 14, 15, 16, 1e6]
    assert stats.median_interval(samples) == Interval(10.0, 1e6)


@pytest.mark.parametrize(
    ("samples", "t"), [([1.0, 2, 3, 4, 5], 4.60409487), ([9.0, 11], 63.65674116), ([1.0, 5, 2], 9.92484320)]
)
def test_few_samples_give_the_t_interval_of_the_median(samples, t):
    half_width = t * math.sqrt(math.pi / 2) * np.std(samples, ddof=1) / math.sqrt(len(samples))
    interval = stats.median_interval(samples)
    assert interval is not None
    assert interval.low == pytest.approx(np.median(samples) - half_width, abs=1e-6)
    assert interval.high == pytest.approx(np.median(samples) + half_width, abs=1e-6)


def test_seven_samples_still_use_t_at_99_percent():
    interval = stats.median_interval([1.0, 2, 3, 4, 5, 6, 7])
    assert interval is not None
    assert interval.high - 4 == pytest.approx(3.70742802 * math.sqrt(math.pi / 2) * math.sqrt(14 / 3 / 7), rel=1e-8)


@pytest.mark.parametrize("n", [2, 3, 7, 8, 30])
def test_equal_samples_give_no_width_or_that_of_the_floor(n):
    assert stats.median_interval([0.1] * n) == Interval(0.1, 0.1)
    assert stats.median_interval([2.0] * n, floor=0.5) == Interval(1.5, 2.5)


def test_the_floor_widens_only_the_end_that_is_too_near():
    samples = [10.0, 10, 10, 10, 10, 10, 10, 14]
    assert stats.median_interval(samples, floor=1.0) == Interval(9.0, 14.0)
    assert stats.median_interval([-sample for sample in samples], floor=1.0) == Interval(-14.0, -9.0)


@given(SEVERAL, CONFIDENCES, st.floats(0, 1e3))
def test_an_interval_contains_the_median_and_its_floor(samples, confidence, floor):
    interval = stats.median_interval(samples, confidence, floor=floor)
    assert interval is not None
    middle = stats.median(samples)
    assert interval.low <= middle - floor
    assert interval.high >= middle + floor


@given(SEVERAL, CONFIDENCES, st.sampled_from([1e-9, 0.5, 3.0, 1e9]), st.floats(0, 10))
def test_an_interval_scales_with_its_samples(samples, confidence, scale, floor):
    interval = stats.median_interval(samples, confidence, floor=floor)
    scaled = stats.median_interval([scale * sample for sample in samples], confidence, floor=scale * floor)
    assert interval is not None
    assert scaled is not None
    slack = 1e-9 * scale * max(abs(interval.low), abs(interval.high))
    assert scaled.low == pytest.approx(scale * interval.low, abs=slack)
    assert scaled.high == pytest.approx(scale * interval.high, abs=slack)


@given(SEVERAL)
def test_more_confidence_never_narrows_order_statistics_or_t(samples):
    # 0.99 and 0.999 share a form below 8 and from 11 samples on; between, the form changes.
    assume(not 8 <= len(samples) <= 10)
    wide, narrow = stats.median_interval(samples, 0.999), stats.median_interval(samples, 0.99)
    assert wide is not None
    assert narrow is not None
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@given(st.permutations([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]), st.integers(2, 9))
def test_the_order_of_samples_does_not_matter(samples, n):
    drawn = samples[:n]
    assert stats.median_interval(drawn) == stats.median_interval(sorted(drawn))


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(0.0, 1.0, n)


def exponential(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.exponential(1.0, n) - math.log(2)


def lognormal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.lognormal(0.0, 2.0, n) - 1.0


def covered(draw, n: int, confidence: float, draws: int) -> float:
    rng = np.random.default_rng(20_240_817)
    intervals = [stats.median_interval(draw(rng, n), confidence) for _ in range(draws)]
    return sum(interval is not None and interval.low <= 0 <= interval.high for interval in intervals) / draws


def five_sigma(coverage: float, draws: int) -> float:
    return 5 * math.sqrt(coverage * (1 - coverage) / draws)


@pytest.mark.parametrize("draw", [normal, exponential, lognormal])
@pytest.mark.parametrize(
    ("n", "confidence", "exact"),
    [(8, 0.99, 1 - 2 / 2**8), (12, 0.99, 1 - 26 / 2**12), (9, 0.95, 1 - 20 / 2**9), (6, 0.9, 1 - 2 / 2**6)],
)
def test_order_statistics_cover_the_median_of_any_distribution_as_often_as_computed(draw, n, confidence, exact):
    assert exact >= confidence
    assert covered(draw, n, confidence, 3000) == pytest.approx(exact, abs=five_sigma(exact, 3000))


@pytest.mark.parametrize("n", [2, 3, 5, 7])
def test_t_intervals_cover_a_normal_median_at_least_as_often_as_asked(n):
    assert covered(normal, n, 0.99, 3000) >= 0.99 - five_sigma(0.99, 3000)


@pytest.mark.parametrize("n", [3, 5, 7])
def test_t_intervals_cover_a_skewed_median_nearly_as_often(n):
    assert covered(exponential, n, 0.99, 3000) >= 0.98 - five_sigma(0.98, 3000)


def test_a_t_interval_is_not_needlessly_wide():
    assert covered(normal, 4, 0.9, 3000) < 0.96


# By hand: means 2 and 5, squared errors 1/3 and 2/3 of the means, dof = 1 / ((1/3)^2 / 2 + (2/3)^2 / 3) = 54/11.
def test_welch_agrees_with_a_case_done_by_hand():
    half_width = stats.student_t_quantile(0.995, 54 / 11)
    interval = stats.welch_interval([1.0, 2, 3], [3.0, 5, 7, 5])
    assert interval.low == pytest.approx(3 - half_width, rel=1e-12)
    assert interval.high == pytest.approx(3 + half_width, rel=1e-12)


def test_welch_with_one_side_constant_has_the_degrees_of_freedom_of_the_other():
    interval = stats.welch_interval([0.1, 0.1, 0.1], [1.1, 2.1, 3.1, 4.1, 5.1])
    half_width = 4.6040948713 * math.sqrt(2.5 / 5)
    assert interval.low == pytest.approx(3 - half_width, rel=1e-8)
    assert interval.high == pytest.approx(3 + half_width, rel=1e-8)


def test_welch_without_any_spread_gives_the_difference_or_the_floor():
    assert stats.welch_interval([0.1] * 3, [0.1] * 7) == Interval(0.0, 0.0)
    assert stats.welch_interval([1.0] * 3, [3.0] * 3, floor=0.5) == Interval(1.5, 2.5)


def test_welch_survives_variances_whose_squares_underflow():
    interval = stats.welch_interval([1e-90, 2e-90, 3e-90], [3e-90, 5e-90, 7e-90, 5e-90])
    assert interval.high == pytest.approx(1e-90 * (3 + stats.student_t_quantile(0.995, 54 / 11)), rel=1e-12)


@given(SEVERAL, SEVERAL, CONFIDENCES)
def test_welch_holds_the_difference_and_turns_with_its_sides(a, b, confidence):
    forth, back = stats.welch_interval(a, b, confidence), stats.welch_interval(b, a, confidence)
    difference = float(np.mean(b) - np.mean(a))
    slack = 1e-9 * max(*a, *b)
    assert forth.low - slack <= difference <= forth.high + slack
    assert forth.low == pytest.approx(-back.high, abs=slack, rel=1e-9)
    assert forth.high == pytest.approx(-back.low, abs=slack, rel=1e-9)


@given(SEVERAL, SEVERAL)
def test_welch_widens_with_confidence(a, b):
    narrow, wide = stats.welch_interval(a, b, 0.95), stats.welch_interval(a, b, 0.99)
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@given(SEVERAL, SEVERAL, st.sampled_from([1e-9, 0.5, 1e9]))
def test_welch_scales_with_its_samples(a, b, scale):
    interval = stats.welch_interval(a, b)
    scaled = stats.welch_interval([scale * sample for sample in a], [scale * sample for sample in b])
    # Rounding leaves a last digit in equal samples, hence a slack of the samples' own size.
    slack = 1e-9 * scale * max(*a, *b, abs(interval.low), abs(interval.high))
    assert scaled.low == pytest.approx(scale * interval.low, abs=slack)
    assert scaled.high == pytest.approx(scale * interval.high, abs=slack)


@pytest.mark.parametrize(("n_a", "n_b", "spread"), [(5, 5, 1.0), (4, 12, 5.0), (10, 3, 0.2)])
def test_welch_covers_a_normal_difference_about_as_often_as_asked(n_a, n_b, spread):
    rng = np.random.default_rng(31)
    hits = 0
    for _ in range(3000):
        interval = stats.welch_interval(rng.normal(1, 1, n_a), rng.normal(3, spread, n_b), 0.95)
        hits += interval.low <= 2 <= interval.high
    # Welch's interval is approximate: within a percentage point of what was asked, beside the noise of the draws.
    assert hits / 3000 == pytest.approx(0.95, abs=0.01 + five_sigma(0.95, 3000))


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([1.0, 2.0], [1.0])])
def test_welch_needs_two_samples_on_each_side(a, b):
    with pytest.raises(ValueError, match=f"two samples on each side, not {len(a)} and {len(b)}"):
        stats.welch_interval(a, b)


@pytest.mark.parametrize(
    ("low", "high", "centre", "spread"),
    [(54.0, 56.0, 55.0, 1 / 55), (54.0, 60.0, 55.0, 5 / 55), (40.0, 56.0, 50.0, 0.2), (-3.0, -1.0, -2.0, 0.5)],
)
def test_the_relative_spread_reaches_the_farther_end(low, high, centre, spread):
    assert stats.relative_spread(Interval(low, high), centre) == pytest.approx(spread, rel=1e-15)


@pytest.mark.parametrize("centre", [0.0, math.nan, math.inf])
def test_a_spread_around_nothing_is_refused(centre):
    with pytest.raises(ValueError, match="finite centre other than 0"):
        stats.relative_spread(Interval(-1.0, 1.0), centre)


ON_SAMPLES = [
    stats.median,
    lambda samples: stats.quantile(samples, 0.5),
    stats.median_interval,
    lambda samples: stats.welch_interval(samples, [1.0, 2.0]),
    lambda samples: stats.welch_interval([1.0, 2.0], samples),
]


@pytest.mark.parametrize("function", ON_SAMPLES)
@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        ([], "no samples"),
        ([1.0, math.nan, 2.0], "finite; 1 of 3"),
        ([math.inf, -math.inf], "finite; 2 of 2"),
        ([[1.0, 2.0]], "one dimension, not 2"),
        (1.0, "one dimension, not 0"),
    ],
)
def test_samples_that_say_nothing_are_refused(function, samples, reason):
    with pytest.raises(ValueError, match=reason):
        function(samples)


@pytest.mark.parametrize("confidence", [0, 1, 99, -0.5, math.nan])
def test_a_confidence_out_of_range_is_refused(confidence):
    for samples in ([1.0], [1.0, 2.0]):
        with pytest.raises(ValueError, match="confidence"):
            stats.median_interval(samples, confidence)
    with pytest.raises(ValueError, match="confidence"):
        stats.welch_interval([1.0, 2.0], [1.0, 2.0], confidence)


@pytest.mark.parametrize("floor", [-1e-9, math.nan, math.inf])
def test_a_floor_out_of_range_is_refused(floor):
    for samples in ([1.0], [1.0, 2.0]):
        with pytest.raises(ValueError, match="half-width"):
            stats.median_interval(samples, floor=floor)
    with pytest.raises(ValueError, match="half-width"):
        stats.welch_interval([1.0, 2.0], [1.0, 2.0], floor=floor)


def test_samples_are_left_as_they_were():
    samples = np.array([3.0, 1.0, 2.0])
    stats.median_interval(samples)
    stats.welch_interval(samples, samples)
    assert samples.tolist() == [3.0, 1.0, 2.0]


# mean


@given(RATES, st.integers(1, 9))
def test_the_mean_of_equal_samples_is_exactly_one_of_them(sample, number):
    assert stats.mean([sample] * number) == sample


@given(st.lists(RATES, min_size=1, max_size=20))
def test_the_mean_is_the_sum_over_the_number(samples):
    assert stats.mean(samples) == pytest.approx(math.fsum(samples) / len(samples), rel=1e-12, abs=1e-12 * max(samples))


@pytest.mark.parametrize("samples", [[], [math.nan], [[1.0]]])
def test_there_is_no_mean_of_what_says_nothing(samples):
    with pytest.raises(ValueError, match="sample"):
        stats.mean(samples)


# prediction_interval

T_OF_2 = 9.92484320091807
"""The 0.995-quantile of Student's t with two degrees of freedom."""


def singles(*samples):
    """Runs of one trial each."""
    return [[sample] for sample in samples]


@pytest.mark.parametrize(
    ("earlier", "new", "squared"),
    [
        # Means 1, 2, 3: a variance of 1. Without trials within runs there is nothing else.
        (singles(1.0, 2.0, 3.0), [5.0], 4 / 3),
        # As many trials, and more.
        ([[0.0, 2.0], [1.0, 3.0], [2.0, 4.0]], [4.0, 6.0], 4 / 3),
        ([[0.0, 2.0], [1.0, 3.0], [2.0, 4.0]], [4.0, 5.0, 6.0], 4 / 3),
        # One trial instead of two; within runs the variance is 2.
        ([[0.0, 2.0], [1.0, 3.0], [2.0, 4.0]], [5.0], 4 / 3 + 2 * (1 - 1 / 2)),
        # The new run's own trials count in it: (2 + 2 + 0 + 8) / 4 degrees of freedom.
        ([[0.0, 2.0], [1.0, 3.0], [3.0]], [3.0, 7.0], 4 / 3),
        ([[0.0, 2.0, 1.0], [1.0, 3.0, 2.0], [3.0] * 3], [3.0, 7.0], 4 / 3 + (2 + 2 + 8) / 7 * (1 / 2 - 1 / 3)),
        # Numbers of trials differ: the mean of 1, 1/2 and 1/4 is 7/12, which 1 exceeds and 1/2 does not.
        ([[1.0], [1.0, 3.0], [2.0, 2.0, 4.0, 4.0]], [5.0], 4 / 3 + (2 + 4) / 4 * (1 - 7 / 12)),
        ([[1.0], [1.0, 3.0], [2.0, 2.0, 4.0, 4.0]], [5.0, 5.0], 4 / 3),
    ],
)
def test_a_prediction_agrees_with_cases_done_by_hand(earlier, new, squared):
    interval = stats.prediction_interval(earlier, new)
    half_width = T_OF_2 * math.sqrt(squared)
    assert [interval.low, interval.high] == pytest.approx([3 - half_width, 3 + half_width], rel=1e-9)


def test_a_prediction_from_runs_without_spread_is_the_difference_widened_by_the_floor():
    for new in ([0.3], [0.3] * 2, [0.3] * 4):
        earlier = [[0.1] * 3, [0.1] * 2, [0.1] * 3]
        assert stats.prediction_interval(earlier, new) == Interval(0.3 - 0.1, 0.3 - 0.1)
        assert stats.prediction_interval(earlier, new, floor=0.5) == Interval(0.3 - 0.1 - 0.5, 0.3 - 0.1 + 0.5)


RUNS = st.lists(st.lists(RATES, min_size=1, max_size=5), min_size=2, max_size=6)


@given(RUNS, st.lists(RATES, min_size=5, max_size=8))
def test_a_prediction_for_as_many_trials_is_one_from_the_means(earlier, new):
    found = stats.prediction_interval(earlier, new)
    of_means = stats.prediction_interval(singles(*map(np.mean, earlier)), [np.mean(new)])
    slack = 1e-9 * max(map(max, [*earlier, new]))
    assert [found.low, found.high] == pytest.approx([of_means.low, of_means.high], abs=slack, rel=1e-6)


@given(RUNS, RATES, st.integers(1, 8), CONFIDENCES)
def test_a_prediction_narrows_with_trials_and_never_below_its_floor(earlier, new, trials, confidence):
    few, more = (stats.prediction_interval(earlier, [new] * number, confidence) for number in (trials, trials + 1))
    slack = 1e-9 * max(new, *map(max, earlier))
    assert few.low <= more.low + slack
    assert few.high >= more.high - slack
    floored = stats.prediction_interval(earlier, [new] * trials, confidence, floor=1.0)
    assert floored.high - floored.low >= max(2.0, few.high - few.low) - slack


@pytest.mark.parametrize("between", [0.0, 0.3, 3.0])
@pytest.mark.parametrize(("old_trials", "new_trials"), [(1, 1), (40, 10), (40, 2), (5, 1), (10, 40)])
def test_one_more_run_lies_outside_no_oftener_than_promised(between, old_trials, new_trials):
    random = np.random.default_rng(1)
    missed = 0
    for _ in range(1000):
        levels = between * random.standard_normal((7, 1))
        earlier = levels[:6] + random.standard_normal((6, old_trials))
        interval = stats.prediction_interval(earlier, levels[6] + random.standard_normal(new_trials), 0.95)
        missed += not interval.low <= 0 <= interval.high
    assert missed / 1000 <= 0.05 + five_sigma(0.95, 1000)
    if new_trials == old_trials:
        assert missed / 1000 == pytest.approx(0.05, abs=five_sigma(0.95, 1000))


@pytest.mark.parametrize(
    ("earlier", "new"), [([[1.0, 2.0]], [1.0]), ([], [1.0]), ([[1.0], []], [1.0]), (singles(1.0, 2.0), [math.nan])]
)
def test_a_prediction_refuses_what_says_nothing(earlier, new):
    with pytest.raises(ValueError, match=r"two runs|samples"):
        stats.prediction_interval(earlier, new)


def test_a_prediction_refuses_a_confidence_or_floor_out_of_range():
    with pytest.raises(ValueError, match="confidence"):
        stats.prediction_interval(singles(1.0, 2.0), [1.0], 1.0)
    with pytest.raises(ValueError, match="half-width"):
        stats.prediction_interval(singles(1.0, 2.0), [1.0], floor=-1.0)
