"""Two ways of doing the same thing, compared in pairs: A B B A.

Taken one after the other and then in reverse, every member of a round has the same mean position in time, so that a
steady drift of the machine, and whatever the first of a round pays, fall on all of them alike.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from cudabw import stats
from cudabw.measuring.agreement import count_outliers
from cudabw.measuring.sampling import CONFIDENCE
from cudabw.results.launch import Difference, Mode, Seconds, Verdict
from cudabw.results.launch_sets import Slope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Member = TypeVar("Member")


def mirrored(members: Sequence[Member], rounds: int, random: np.random.Generator) -> Iterator[Member]:
    """Every member in shuffled order and then in the reverse of it, round after round."""
    for _ in range(rounds):
        order = [members[index] for index in random.permutation(len(members))]
        yield from order
        yield from reversed(order)


def paired_difference(samples: Sequence[float], baseline: Sequence[float]) -> float:
    """How much more ``samples`` are than ``baseline``: the median over rounds, each of two samples.

    Raises:
        ValueError: They are not of the same rounds, or there is no whole round.
    """
    if len(samples) != len(baseline) or not samples or len(samples) % 2:
        raise ValueError(f"rounds hold two samples each on both sides, not {len(samples)} and {len(baseline)} in all")
    each = np.asarray(samples) - np.asarray(baseline)
    return stats.median((each[0::2] + each[1::2]) / 2)


def difference_of(over: Mode, samples: Sequence[Sequence[float]], baseline: Sequence[Sequence[float]]) -> Difference:
    """The difference over trials, each with its rounds."""
    differences = tuple(paired_difference(*pair) for pair in zip(samples, baseline, strict=True))
    median, interval = _median_and_interval(differences)
    return Difference(over, median, *_ends(interval), verdict_of(interval), differences)


def verdict_of(interval: stats.Interval | None) -> Verdict:
    """What a difference with this interval shows; None is the interval of a single trial."""
    if interval is None:
        return Verdict.UNKNOWN
    if interval.low > 0:
        return Verdict.MORE
    return Verdict.LESS if interval.high < 0 else Verdict.NONE


def slope_of(arg_type: str, differences: Mapping[int, Sequence[float]]) -> Slope:
    """What one more argument adds to a difference: a line of least squares through each trial's differences.

    Args:
        arg_type: The kind of arguments.
        differences: One for each trial, by the number of arguments; at least two numbers. Trials that some of them
            lack are left out.
    """
    counts = sorted(differences)
    trials = zip(*(differences[count] for count in counts), strict=False)
    slopes = tuple(float(np.polyfit(counts, trial, 1)[0]) for trial in trials)
    median, interval = _median_and_interval(slopes)
    return Slope(arg_type, tuple(counts), median, *_ends(interval), verdict_of(interval), slopes)


def seconds_over(trials: Sequence[Sequence[float]], tick_s: float = 0.0) -> Seconds:
    """A time over trials: the median of the trials' medians, its 99 % interval, and how all samples lie.

    Args:
        trials: The samples of each.
        tick_s: What the clock can tell of a sample; the interval is never narrower.
    """
    median, interval = _median_and_interval([stats.median(samples) for samples in trials], tick_s)
    samples = [sample for trial in trials for sample in trial]
    low, high = _ends(interval)
    return Seconds(
        median,
        None if low is None else max(0.0, low),  # few trials that scatter widely leave open what no time can be
        high,
        min(samples),
        max(samples),
        p5=stats.quantile(samples, 0.05),
        p95=stats.quantile(samples, 0.95),
        n=len(samples),
        outliers=count_outliers(trials, tick_s),
    )


def launches_to_repay(cost_s: float, difference: Difference) -> int | None:
    """Launches after which a cost is repaid by a difference for each; None where no saving was seen."""
    if difference.verdict is not Verdict.MORE:
        return None
    return math.ceil(cost_s / difference.median)


def _median_and_interval(draws: Sequence[float], tick_s: float = 0.0) -> tuple[float, stats.Interval | None]:
    return stats.median(draws), stats.median_interval(draws, CONFIDENCE, floor=tick_s)


def _ends(interval: stats.Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)
