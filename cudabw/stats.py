"""Pure functions on samples: quantiles, intervals for a median, and the difference between two sets.

Samples are one-dimensional and in whatever unit the caller has; results are in the same unit. Every
function raises :class:`ValueError` for samples that are empty or not finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

_MEDIAN_TO_MEAN: Final = math.sqrt(math.pi / 2)
"""Standard error of the median over that of the mean, for many normal samples (the efficiency is 2/pi)."""

_EXPANSION_DOF: Final = 1e4
"""From here on the expansion is exact to double precision, and the continued fraction is slow and loses digits."""

_LEAST_PROBABILITY: Final = 1e-100
"""Below it, the square of a t with one degree of freedom comes near the largest double."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval, in the unit of the samples.

    Raises:
        ValueError: An end is NaN, or low is above high.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"an interval needs low <= high, not {self.low} and {self.high}")


def median(samples: ArrayLike) -> float:
    """Give the middle sample, or the mean of the two in the middle.

    Raises:
        ValueError: The samples are empty, not finite, or not one-dimensional.
    """
    return float(np.median(_as_samples(samples)))


def mean(samples: ArrayLike) -> float:
    """Give the mean, exact for equal samples: it would be rounded otherwise.

    Raises:
        ValueError: The samples are empty, not finite, or not one-dimensional.
    """
    values = _as_samples(samples)
    return float(values[0] + (values - values[0]).mean())


def quantile(samples: ArrayLike, q: float) -> float:
    """Give the q-quantile, interpolated linearly between order statistics.

    Source: method 7 of Hyndman and Fan, "Sample quantiles in statistical packages", 1996; NumPy's default.

    Args:
        samples: One or more finite numbers.
        q: From 0, the smallest sample, to 1, the largest.

    Raises:
        ValueError: The samples are empty, not finite, or not one-dimensional; or q is outside 0 to 1.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
    return float(np.quantile(_as_samples(samples), q, method="linear"))


def student_t_quantile(p: float, dof: float) -> float:
    """Give the p-quantile of Student's t distribution, within 1e-10 (relative above 1).

    Solves ``P(T > t) = I_x(dof/2, 1/2) / 2`` with ``x = dof / (dof + t^2)`` by Newton's method from t = 0. The
    distribution function is concave for t > 0, so each step stays below the root and no bracket is needed.

    Sources: Abramowitz and Stegun, 26.7.1 (the distribution), 26.7.5 (the expansion for many degrees of freedom).

    Args:
        p: A probability, from 1e-100 and below 1.
        dof: Degrees of freedom, 1 or more; need not be whole, may be infinite.

    Raises:
        ValueError: p or dof is out of range.
    """
    if not _LEAST_PROBABILITY <= p < 1:
        raise ValueError(f"a probability for a quantile lies between {_LEAST_PROBABILITY} and 1, not at {p}")
    if not dof >= 1:
        raise ValueError(f"Student's t needs 1 or more degrees of freedom here, not {dof}")
    if p == 0.5:
        return 0.0
    upper = min(p, 1 - p)
    t = _expand_upper_t(upper, dof) if dof >= _EXPANSION_DOF else _solve_upper_t(upper, dof)
    return math.copysign(t, p - 0.5)


def median_interval(samples: ArrayLike, confidence: float = 0.99, *, floor: float = 0.0) -> Interval | None:
    """Give an interval for the median of what the samples are drawn from, such as independent trial medians.

    With enough samples (8 for 99 %) its ends are the order statistics ``k`` from either side, k as large as
    ``1 - 2 P(Binomial(n, 1/2) < k) >= confidence`` allows. That holds for every distribution.
    Source: David and Nagaraja, "Order Statistics", 3rd edition, section 7.1.

    With fewer, even smallest to largest falls short of the confidence, so something must be assumed: that trial
    medians, each taken over many batches, are near normal. Then it is ``median +- t * c * s / sqrt(n)`` with
    n - 1 degrees of freedom and ``c = sqrt(pi/2)``, the ratio of the median's standard error to the mean's for many
    samples. For few the ratio is smaller (1 for two, 1.09 for four), so the interval errs on the wide side. It is
    not cut at 0, where two samples far apart may well take it. Skewed samples are covered a little less often
    (five exponential ones: 98.8 %).

    Args:
        samples: Independent draws.
        confidence: Above 0 and below 1.
        floor: Each end is at least this far from the median: the resolution of the clock, in the samples' unit.

    Returns:
        The interval, or None for one sample, which says nothing about spread.

    Raises:
        ValueError: The samples are empty or not finite, or confidence or floor is out of range.
    """
    values = np.sort(_as_samples(samples))
    _require_confidence(confidence)
    _require_floor(floor)
    if values.size < 2:
        return None
    centre = float(np.median(values))
    rank = _order_statistic_rank(values.size, confidence)
    if rank:
        return _widen(centre, float(values[rank - 1]), float(values[-rank]), floor)
    t = student_t_quantile((1 + confidence) / 2, values.size - 1)
    half_width = t * _MEDIAN_TO_MEAN * math.sqrt(_mean_and_variance(values)[1] / values.size)
    return _widen(centre, centre - half_width, centre + half_width, floor)


def welch_interval(a: ArrayLike, b: ArrayLike, confidence: float = 0.99, *, floor: float = 0.0) -> Interval:
    """Give an interval for ``mean(b) - mean(a)`` without assuming that both vary alike.

    Where neither varies, the interval is the difference itself, widened by the floor.
    Source: Welch, "The generalization of Student's problem when several different population variances are
    involved", 1947, with Satterthwaite's degrees of freedom.

    Args:
        a: Two or more independent draws; logarithms where a ratio is asked for.
        b: Likewise; the number may differ.
        confidence: Above 0 and below 1.
        floor: Each end is at least this far from the difference, in the samples' unit.

    Raises:
        ValueError: Fewer than two samples, samples that are not finite, or confidence or floor out of range.
    """
    first, second = _as_samples(a), _as_samples(b)
    _require_confidence(confidence)
    _require_floor(floor)
    if min(first.size, second.size) < 2:
        raise ValueError(f"Welch's interval needs two samples on each side, not {first.size} and {second.size}")
    mean_a, variance_a = _mean_and_variance(first)
    mean_b, variance_b = _mean_and_variance(second)
    difference = mean_b - mean_a
    squared_a, squared_b = variance_a / first.size, variance_b / second.size
    squared = squared_a + squared_b
    if squared == 0:
        return _widen(difference, difference, difference, floor)
    # Shares rather than squares of variances, which would underflow for samples in nanoseconds.
    dof = 1 / ((squared_a / squared) ** 2 / (first.size - 1) + (squared_b / squared) ** 2 / (second.size - 1))
    half_width = student_t_quantile((1 + confidence) / 2, dof) * math.sqrt(squared)
    return _widen(difference, difference - half_width, difference + half_width, floor)


def prediction_interval(
    earlier: Sequence[ArrayLike], new: ArrayLike, confidence: float = 0.99, *, floor: float = 0.0
) -> Interval:
    """Give an interval for how far the mean of a new run has moved from what the means of earlier runs are draws of.

    It is ``mean(new) - M +- t * sqrt(s^2 (1 + 1/n) + w^2 max(0, 1/k - K))`` with n - 1 degrees of freedom. M and s are
    mean and standard deviation of the n earlier runs' means, w^2 is the variance within runs, pooled over all of them
    and the new one, k is how many trials the new run has, and K is the mean of 1/k of the earlier ones. 0 lies outside
    where the new run would be a surprise as one more of them. Levels of runs and trials in a run must be near normal.

    Source: Hahn and Meeker, "Statistical Intervals", 1991 (the normal prediction interval for one observation), for
    the term with s^2. The other: a run's mean varies by r^2 + w^2/k, where r^2 is from run to run, so s^2 stands for
    r^2 + w^2 K, to which w^2 (1/k - K) is wanting where the new run has fewer trials. As w^2 is known better than by
    n - 1 degrees of freedom, the interval errs on the wide side.

    Args:
        earlier: The trials of each of two or more runs, one or more each; logarithms where a ratio is asked for.
        new: The trials of one more.
        confidence: Above 0 and below 1.
        floor: Each end is at least this far from the difference, in the trials' unit.

    Raises:
        ValueError: Fewer than two runs, trials that are none or not finite, or confidence or floor out of range.
    """
    runs, latest = [_as_samples(run) for run in earlier], _as_samples(new)
    _require_confidence(confidence)
    _require_floor(floor)
    if len(runs) < 2:
        raise ValueError(f"a prediction needs two runs, not {len(runs)}")
    level, variance = _mean_and_variance(np.array([mean(run) for run in runs]))
    fewer = max(0.0, 1 / latest.size - math.fsum(1 / run.size for run in runs) / len(runs))
    squared = variance * (1 + 1 / len(runs)) + _pooled_variance([*runs, latest]) * fewer
    half_width = student_t_quantile((1 + confidence) / 2, len(runs) - 1) * math.sqrt(squared)
    difference = mean(latest) - level
    return _widen(difference, difference - half_width, difference + half_width, floor)


def relative_spread(interval: Interval, centre: float) -> float:
    """Give the farther end's distance from the centre over the centre: 0.02 reads "within 2 % of it".

    Raises:
        ValueError: The centre is 0 or not finite.
    """
    if centre == 0 or not math.isfinite(centre):
        raise ValueError(f"a relative spread needs a finite centre other than 0, not {centre}")
    return max(interval.high - centre, centre - interval.low) / abs(centre)


def _as_samples(samples: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"samples must have one dimension, not {values.ndim}")
    if values.size == 0:
        raise ValueError("there are no samples")
    if not np.isfinite(values).all():
        raise ValueError(f"samples must be finite; {np.count_nonzero(~np.isfinite(values))} of {values.size} are not")
    return values


def _require_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies strictly between 0 and 1, not at {confidence}")


def _require_floor(floor: float) -> None:
    if not (math.isfinite(floor) and floor >= 0):
        raise ValueError(f"the least half-width must be finite and not negative, not {floor}")


def _mean_and_variance(values: NDArray[np.float64]) -> tuple[float, float]:
    """Give the mean and the unbiased variance, both exact for equal samples."""
    return mean(values), float((values - values[0]).var(ddof=1))


def _pooled_variance(groups: Sequence[NDArray[np.float64]]) -> float:
    """Give the variance within groups, each weighed by its degrees of freedom; 0 where all have a single sample."""
    several = [(group.size - 1, _mean_and_variance(group)[1]) for group in groups if group.size > 1]
    return math.fsum(dof * variance for dof, variance in several) / max(1, sum(dof for dof, _ in several))


def _order_statistic_rank(n: int, confidence: float) -> int:
    """Give the largest k for which the k-th samples from either end hold the confidence, or 0."""
    # Whole numbers throughout: 2**-n has no floating-point form from 1075 samples on.
    allowed = math.floor((1 - Fraction(confidence)) * 2 ** (n - 1))
    rank, choose, below = 0, 1, 1
    while below <= allowed:
        rank += 1
        choose = choose * (n - rank + 1) // rank
        below += choose
    return rank


def _widen(centre: float, low: float, high: float, floor: float) -> Interval:
    return Interval(min(low, centre - floor), max(high, centre + floor))


def _solve_upper_t(upper: float, dof: float) -> float:
    log_density = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - 0.5 * math.log(dof * math.pi)
    t = 0.0
    for _ in range(500):
        x, y = dof / (dof + t * t), t * t / (dof + t * t)
        excess = _incomplete_beta(dof / 2, 0.5, x, y) / 2 - upper
        step = excess / math.exp(log_density - (dof + 1) / 2 * math.log1p(t * t / dof))
        t += step
        if step <= 1e-14 * t:
            break
    return t


def _expand_upper_t(upper: float, dof: float) -> float:
    # min(p, 1 - p) keeps its digits in the lower tail, so ask there and turn the sign.
    z = -NormalDist().inv_cdf(upper)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + (first + (second + third / dof) / dof) / dof


def _incomplete_beta(a: float, b: float, x: float, y: float) -> float:
    """Give the regularised incomplete beta function ``I_x(a, b)``, with ``y = 1 - x`` given at full precision.

    Source: NIST Digital Library of Mathematical Functions, 8.17.22 (continued fraction) and 8.17.4 (reflection,
    used where the fraction would converge slowly).
    """
    if x <= 0 or y <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, y, x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(y)
    return math.exp(log_front) / (a * _beta_fraction(a, b, x))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Give ``1 + d1/(1 + d2/(1 + ...))`` of DLMF 8.17.22 by the modified Lentz method (Thompson and Barnett, 1986)."""
    value = c = 1.0
    d = 0.0
    for i in range(1, 1000):
        m = i // 2
        term = (
            m * (b - m) * x / ((a + i - 1) * (a + i))
            if i % 2 == 0
            else -(a + m) * (a + b + m) * x / ((a + i - 1) * (a + i))
        )
        d = 1 / (1 + term * d)
        c = 1 + term / c
        value *= c * d
        if abs(c * d - 1) < 3e-16:
            break
    return value
