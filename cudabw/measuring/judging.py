"""What a figure is worth: the state of a case that was measured, and why it is not simply ok."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from cudabw import stats
from cudabw.measuring.agreement import disagreement
from cudabw.results.model import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabw.results.launch import Seconds
    from cudabw.results.model import Rate

Judgement: TypeAlias = "tuple[State, str | None]"

OK: Judgement = (State.OK, None)


def converged(figure: Rate | Seconds, precision: float) -> bool:
    """Whether both ends of a figure's interval are within a share of its median."""
    if figure.low is None or figure.high is None or not figure.median:
        return False
    return stats.relative_spread(stats.Interval(figure.low, figure.high), figure.median) <= precision


def judge(
    figure: Rate | Seconds,
    medians_s: Sequence[float],
    *,
    tick_s: float,
    precision: float | None,
    ended_because: str,
    coarse: str | None = None,
    throttled: str | None = None,
) -> Judgement:
    """The state of a measured case, and the reason of any but ok.

    Of several that apply, the one that explains most: throttled, unstable, unconverged.

    Args:
        figure: Over the trials.
        medians_s: Seconds of each trial, in the order in which they were taken.
        tick_s: What the clock can tell of them.
        precision: What the interval was to be within; None if that was not asked for.
        ended_because: Why no further trial was taken.
        coarse: Why the clock is too coarse for any precision, if it is.
        throttled: What slowed the GPU down, in words, if it did.
    """
    if throttled is not None:
        return State.THROTTLED, throttled
    disagree = disagreement(medians_s, tick_s)
    if disagree is not None:
        return State.UNSTABLE, disagree
    if precision is None:
        return OK
    if coarse is not None:
        return State.UNCONVERGED, coarse
    if converged(figure, precision):
        return OK
    if figure.low is None:
        return State.UNCONVERGED, f"one trial has no interval ({ended_because})"
    return State.UNCONVERGED, f"the 99 % interval is wider than ± {100 * precision:g} % of the median ({ended_because})"
