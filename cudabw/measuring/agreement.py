"""Whether the trials of a case agree, and how many samples stand apart.

Nothing here removes anything: what is found is counted and said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from cudabw import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

OUTLIER_DISTANCES: Final = 10.0
"""How many times as far as usual a sample is off its trial's median to stand apart."""

FEWEST_SAMPLES: Final = 12
"""With fewer, the usual distance is not known well enough to say that a sample stands apart."""

AGREED: Final = 0.01
"""Trials that differ by less than this share of their median agree, whatever their pattern."""

_ROUNDING: Final = 1e-9
"""What lies closer together than this share of a sample is equal but for rounding."""

# Where trials come in no order, six and six fall apart like this in 2 of 924 cases.
FEWEST_AT_AN_END: Final = 6
# Draws of one distribution look like two such groups in fewer than 1 % of cases (simulated: docs/method.md).
FEWEST_IN_A_GROUP: Final = 4
GAP_OVER_WIDTH: Final = 2.0


def count_outliers(trials: Sequence[Sequence[float]], floor: float) -> int | None:
    """Count the samples that stand apart from the others of their trial; they stay where they are.

    The usual distance is the median of how far all samples are off the medians of their trials, and at least
    ``floor``: where most samples fall on one tick of the clock, those on the next do not stand apart.
    Source: the median absolute deviation of Hampel, "The influence curve and its role in robust estimation", 1974.

    Args:
        trials: The samples of each.
        floor: What the clock can tell, in the samples' unit.

    Returns:
        None for fewer than ``FEWEST_SAMPLES`` samples.
    """
    off = np.concatenate([np.abs(np.asarray(samples) - stats.median(samples)) for samples in trials])
    if off.size < FEWEST_SAMPLES:
        return None
    usual = max(float(np.median(off)), floor, _ROUNDING * abs(stats.median(trials[0])))
    return int(np.count_nonzero(off > OUTLIER_DISTANCES * usual))


def disagreement(medians: Sequence[float], floor: float) -> str | None:
    """Say how trials disagree, if they do: they drift, or they fall into two groups.

    Args:
        medians: Of the trials, in the order in which they were taken; above zero.
        floor: What the clock can tell, in the same unit: smaller differences are none.
    """
    return _drift(medians, floor) or _groups(medians, floor)


def _drift(medians: Sequence[float], floor: float) -> str | None:
    """The first and the last third of the trials, at least six each, do not overlap."""
    at_an_end = max(FEWEST_AT_AN_END, len(medians) // 3)
    if len(medians) < 2 * at_an_end:
        return None
    early, late = medians[:at_an_end], medians[-at_an_end:]
    gap = max(min(late) - max(early), min(early) - max(late))
    if gap <= floor:
        return None
    change = stats.median(late) / stats.median(early) - 1
    if abs(change) <= AGREED:
        return None
    return f"drift: the last {at_an_end} trials took {_share(change)} time than the first {at_an_end}"


def _groups(medians: Sequence[float], floor: float) -> str | None:
    """Two groups of at least four trials, more than twice as far apart as either is wide."""
    values = np.sort(np.asarray(medians))
    for split in range(FEWEST_IN_A_GROUP, len(values) - FEWEST_IN_A_GROUP + 1):
        low, high = values[:split], values[split:]
        width = max(float(np.ptp(low)), float(np.ptp(high)), floor)
        if high[0] - low[-1] > max(GAP_OVER_WIDTH * width, AGREED * float(np.median(values))):
            change = float(np.median(high) / np.median(low)) - 1
            return f"two groups: {len(high)} of {len(values)} trials took {_share(change)} time than the others"
    return None


def _share(change: float) -> str:
    return f"{abs(change):.0%}".replace("%", " %") + (" more" if change > 0 else " less")
