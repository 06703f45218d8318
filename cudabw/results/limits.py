"""Limits: what a figure must reach or must not exceed, and whether it does.

A limit is decided by the whole 99 % interval of a figure: met if also the worse end meets it, not met if even the
better end misses it. Between the two nothing can be told, nor can it from one trial, which has no interval, or from
the emulated device.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from cudabw.results.latency import LatencyCase, SmallCopiesCase
from cudabw.results.launch import NO_ARGUMENTS, LaunchCase
from cudabw.results.model import CaseResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cudabw.results.launch import Seconds
    from cudabw.results.launch_sets import Slope
    from cudabw.results.model import Case, Rate, RunResult


class Bound(StrEnum):
    """What is bounded, and from which side."""

    MIN_RATE = "min_rate_bytes_per_s"
    """A rate, from below."""
    MIN_LINK = "min_link_fraction"
    """The share of the link, from below."""
    MAX_TIME = "max_seconds"
    """The time that the call of a launch takes, from above."""
    MAX_PER_ARGUMENT = "max_seconds_per_argument"
    """What converting each further argument costs, from above."""


class LimitState(StrEnum):
    """What became of a limit. Every state but ``PASS`` carries a reason."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound on the figures of some cases.

    Attributes:
        cases: A pattern for the ids of the cases, as :func:`fnmatch.fnmatchcase` reads it.
        limit: In the unit that the bound names.
    """

    cases: str
    bound: Bound
    limit: float


@dataclass(frozen=True, slots=True)
class LimitResult:
    """A limit on one figure. The figure, its interval and the limit are in the unit that the bound names.

    Attributes:
        cases: The limit's pattern.
        of: Whose figure: the id of a case, or of a kind of arguments (``launch_overhead/buffer``) for what each further
            one costs; null where the pattern matches nothing that has such a figure.
        median: The figure; null where there is none.
        low: Lower end of its 99 % interval; null without a figure and with a single trial.
        high: Upper end of it.
        reason: Why it does not pass; null where it does.
    """

    cases: str
    of: str | None
    bound: Bound
    limit: float
    state: LimitState
    reason: str | None = None
    median: float | None = None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        """Hold the contract of the states: a reason if and only if it does not pass."""
        if (self.state is LimitState.PASS) == (self.reason is not None):
            raise ValueError(f"limit {self.cases}: a reason belongs to every state but pass, not to {self.state}")


@dataclass(frozen=True, slots=True)
class _Figure:
    """What a limit is held against, or why there is none."""

    of: str
    found: Rate | Seconds | Slope | None
    missing: str = ""
    scale: float = 1.0


def judge(result: RunResult, limits: Iterable[Limit]) -> tuple[LimitResult, ...]:
    """Hold a run against limits.

    Args:
        result: The run; also one that ended early.
        limits: In the order of the outcome.

    Returns:
        For each limit one result for each figure that it bounds, and one that cannot tell where it bounds none.
    """
    return tuple(found for limit in limits for found in _judge(limit, result))


def _judge(limit: Limit, result: RunResult) -> Iterable[LimitResult]:
    cases = [case for case in result.cases if fnmatchcase(case.id, limit.cases)]
    figures = list(_FIGURES[limit.bound](cases, result))
    emulated = result.device is not None and result.device.emulated
    for figure in figures:
        yield _decide(limit, figure, emulated=emulated)
    if not figures:
        reason = f"matches no case with {_WANTED[limit.bound]}" if result.cases else "nothing was measured"
        yield LimitResult(limit.cases, None, limit.bound, limit.limit, LimitState.CANNOT_TELL, reason)


def _decide(limit: Limit, figure: _Figure, *, emulated: bool) -> LimitResult:
    found, scale = figure.found, figure.scale
    if found is None:
        return LimitResult(
            limit.cases, figure.of, limit.bound, limit.limit, LimitState.CANNOT_TELL, figure.missing or "not measured"
        )
    low, high = (None if end is None else end * scale for end in (found.low, found.high))
    state, reason = _verdict(limit, low, high, emulated=emulated)
    return LimitResult(limit.cases, figure.of, limit.bound, limit.limit, state, reason, found.median * scale, low, high)


def _verdict(limit: Limit, low: float | None, high: float | None, *, emulated: bool) -> tuple[LimitState, str | None]:
    if emulated:
        return LimitState.CANNOT_TELL, "the emulated device is no GPU"
    if low is None or high is None:
        return LimitState.CANNOT_TELL, "one trial has no interval"
    from_below = limit.bound in (Bound.MIN_RATE, Bound.MIN_LINK)
    worse_meets, better_meets = (
        (low >= limit.limit, high >= limit.limit) if from_below else (high <= limit.limit, low <= limit.limit)
    )
    if worse_meets:
        return LimitState.PASS, None
    if better_meets:
        return LimitState.CANNOT_TELL, "the interval lies on both sides of the limit; more trials narrow it"
    return LimitState.FAIL, "the whole interval misses the limit"


def _rates(cases: Sequence[Case], _result: RunResult) -> Iterable[_Figure]:
    for case in cases:
        if isinstance(case, CaseResult):
            yield _Figure(case.id, case.rate_bytes_per_s, _why_missing(case))


def _link_shares(cases: Sequence[Case], _result: RunResult) -> Iterable[_Figure]:
    for case in cases:
        if isinstance(case, CaseResult):
            rate, share = case.rate_bytes_per_s, case.link_fraction
            if rate is None or share is None:
                yield _Figure(case.id, None, _why_missing(case) or "no share of a link is known")
            else:
                yield _Figure(case.id, rate, scale=share / rate.median)


def _times(cases: Sequence[Case], _result: RunResult) -> Iterable[_Figure]:
    for case in cases:
        if isinstance(case, LaunchCase):
            yield _Figure(case.id, case.submit_s, _why_missing(case))
        elif isinstance(case, LatencyCase):
            yield _Figure(case.id, case.seconds, _why_missing(case))
        elif isinstance(case, SmallCopiesCase):
            yield _Figure(case.id, case.per_copy_s, _why_missing(case))


def _slopes(cases: Sequence[Case], result: RunResult) -> Iterable[_Figure]:
    slopes = {} if result.launch_overhead is None else {one.arg_type: one for one in result.launch_overhead.slopes}
    for case in {case.arg_type: case for case in _launches(cases) if case.arg_type != NO_ARGUMENTS}.values():
        missing = "needs two numbers of arguments, each prepared and converted"
        yield _Figure(f"{case.benchmark}/{case.arg_type}", slopes.get(case.arg_type), missing)


def _launches(cases: Sequence[Case]) -> Iterable[LaunchCase]:
    return (case for case in cases if isinstance(case, LaunchCase))


def _why_missing(case: Case) -> str:
    return "" if case.reason is None else f"{case.state.replace('_', ' ')}: {case.reason}"


_FIGURES: Final[Mapping[Bound, Callable[[Sequence[Case], RunResult], Iterable[_Figure]]]] = {
    Bound.MIN_RATE: _rates,
    Bound.MIN_LINK: _link_shares,
    Bound.MAX_TIME: _times,
    Bound.MAX_PER_ARGUMENT: _slopes,
}

_WANTED: Final = {
    Bound.MIN_RATE: "a rate",
    Bound.MIN_LINK: "a rate",
    Bound.MAX_TIME: "a time",
    Bound.MAX_PER_ARGUMENT: "launches with arguments",
}
