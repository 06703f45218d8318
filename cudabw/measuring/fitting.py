"""Lines through curves: what a copy costs whatever its size, and what each further byte costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from cudabw import stats
from cudabw.results.fits import Fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cudabw.results.model import CaseResult, Pages

FEWEST_SIZES: Final = 4
LEAST_SPAN: Final = 16
"""A shorter curve, or one of fewer sizes, does not tell start-up from rate."""

MOST_OFF: Final = 0.25
"""A line that misses a point by more than this share of it does not describe the curve."""

LEAST_STARTUP: Final = 0.01
"""A start-up below this share of the shortest time is not told from none, however well the line fits."""

_DIRECTIONS: Final = ("h2d", "d2h", "d2d")
"""Of copies that run alone: of two at once, neither has a start-up of its own."""


@dataclass(frozen=True, slots=True)
class Line:
    """``seconds = startup_s + size * seconds_per_byte``; neither is negative.

    Attributes:
        largest_residual: The largest distance of a point from the line, as a share of the point.
    """

    startup_s: float
    seconds_per_byte: float
    largest_residual: float


def fit_line(sizes: Sequence[float], seconds: Sequence[float]) -> Line:
    """Give the line that minimises the sum of the squared relative distances.

    Relative, because times span orders of magnitude and are as uncertain as they are long: otherwise the largest
    size alone would decide.

    Args:
        sizes: Bytes, two or more different ones.
        seconds: The time of each, above 0.
    """
    n, t = np.asarray(sizes, np.float64), np.asarray(seconds, np.float64)
    weighted = np.stack((1 / t, n / t))
    # Seconds and seconds per byte are many orders of magnitude apart.
    scale = np.linalg.norm(weighted, axis=1)
    startup_s, per_byte = np.linalg.lstsq(weighted.T / scale, np.ones_like(t), rcond=None)[0] / scale
    if min(startup_s, per_byte) < 0:
        # The best line without the negative part goes through one of the axes.
        startup_s, per_byte = (weighted.sum(axis=1) / scale**2) * ((0, 1) if startup_s < 0 else (1, 0))
    off = np.abs((startup_s + n * per_byte - t) / t)
    return Line(float(startup_s), float(per_byte), float(off.max()))


def fits_of(cases: Iterable[CaseResult]) -> tuple[Fit, ...]:
    """The fit of each curve (memory x engine x direction) that is long enough, in the order of the cases."""
    curves: dict[tuple[str, str, str, Pages, int | None], dict[int, float]] = {}
    for case in cases:
        if case.state.reliable and case.direction in _DIRECTIONS:
            key = (case.kind, case.engine, case.direction, case.pages, case.numa_node)
            curve = curves.setdefault(key, {})
            curve[case.size_bytes] = stats.median([stats.median(trial.samples_s) for trial in case.trials])
    return tuple(_fit(*names, points) for names, points in curves.items() if _is_long(points))


def _is_long(points: Mapping[int, float]) -> bool:
    return len(points) >= FEWEST_SIZES and max(points) >= LEAST_SPAN * min(points)


def _fit(kind: str, engine: str, direction: str, pages: Pages, node: int | None, points: Mapping[int, float]) -> Fit:
    sizes = sorted(points)
    line = fit_line(sizes, [points[size] for size in sizes])
    off = line.largest_residual
    fit = partial(Fit, kind, engine, direction, tuple(sizes), largest_residual=off, pages=pages, numa_node=node)
    if off > MOST_OFF or not line.seconds_per_byte:
        why = "the time does not grow with the size" if not line.seconds_per_byte else f"the best is off by {off:.0%}"
        return fit(reason=f"no line fits: {why}")
    rate = 1 / line.seconds_per_byte
    if line.startup_s <= max(off, LEAST_STARTUP) * points[sizes[0]]:
        return fit(rate_bytes_per_s=rate)
    return fit(startup_s=line.startup_s, rate_bytes_per_s=rate, half_rate_bytes=line.startup_s * rate)
