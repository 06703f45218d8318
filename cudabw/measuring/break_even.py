"""After how many copies pinning has paid, from what was measured of memory and of copies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from cudabw.results.model import Pages, State
from cudabw.results.setup_cost import BreakEven, Change, Repaid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cudabw.results.launch import Seconds
    from cudabw.results.model import CaseResult, RunResult
    from cudabw.results.setup_cost import SetupCase

_CHANGES: Final = {
    "pinned": Change.ALLOCATE,
    "mapped": Change.ALLOCATE,
    "write-combined": Change.ALLOCATE,
    "registered": Change.REGISTER,
}
LEAST_SAVING: Final = 1e-3
"""A copy that takes less by no more than this share of one of pageable memory is no faster."""

_DIRECTIONS: Final = ("h2d", "d2h")


@dataclass(frozen=True, slots=True)
class _Span:
    """A figure and how far off it may be; both ends are the figure's own where that is not known."""

    median: float
    low: float
    high: float
    known: bool = True

    def __sub__(self, other: _Span) -> _Span:
        return _Span(
            self.median - other.median, self.low - other.high, self.high - other.low, self.known and other.known
        )


def break_evens(result: RunResult) -> tuple[BreakEven, ...]:
    """The break-even of each kind that pins memory, at each size and in each direction.

    Where copies, or what the memory costs, was not measured, there is none.
    """
    setups = {(case.kind, case.size_bytes): case for case in result.setup_cases if case.state is State.OK}
    copies = [case for case in result.bandwidth_cases if case.state.reliable and case.pages is Pages.WARM]
    nodes = dict.fromkeys(case.numa_node for case in copies)
    return tuple(
        found
        for (kind, size), setup in setups.items()
        for direction in _DIRECTIONS
        for node in nodes
        if kind in _CHANGES
        for found in _break_even(setup, setups.get(("pageable", size)), _along(copies, direction, size, node))
    )


def _along(copies: Iterable[CaseResult], direction: str, size: int, node: int | None) -> list[CaseResult]:
    wanted = (direction, size, node)
    return [case for case in copies if (case.direction, case.size_bytes, case.numa_node) == wanted]


def _break_even(setup: SetupCase, pageable: SetupCase | None, copies: Sequence[CaseResult]) -> Iterator[BreakEven]:
    change = _CHANGES[setup.kind]
    baseline = next((case for case in copies if (case.kind, case.engine) == ("pageable", "driver")), None)
    ours = min((case for case in copies if case.kind == setup.kind), key=lambda case: _copy(case).median, default=None)
    if baseline is None or ours is None or (change is Change.ALLOCATE and pageable is None):
        return
    saved = _copy(baseline) - _copy(ours)
    least = LEAST_SAVING * _copy(baseline).median
    found = partial(
        BreakEven, setup.kind, ours.engine, ours.direction, setup.size_bytes, change, numa_node=ours.numa_node
    )
    extra = _extra(setup, pageable, change)
    if saved.known and saved.high <= least:
        yield found(Repaid.NEVER)
    elif not (saved.known and extra.known) or saved.low <= least:
        yield found(Repaid.UNKNOWN)
    else:
        ends = ((extra.median, saved.median), (extra.low, saved.high), (extra.high, saved.low))
        yield found(Repaid.AFTER, *(math.ceil(max(0.0, cost) / each) for cost, each in ends))


def _extra(setup: SetupCase, pageable: SetupCase | None, change: Change) -> _Span:
    """What pinning costs more than leaving memory pageable."""
    if change is Change.REGISTER or pageable is None:
        return _span(setup.registration_s)
    return _span(setup.total_s) - _span(pageable.total_s)


def _span(seconds: Seconds | None) -> _Span:
    assert seconds is not None  # noqa: S101 - the case is ok; for the type checker
    median = seconds.median
    low, high = (median if end is None else end for end in (seconds.low, seconds.high))
    return _Span(median, low, high, known=seconds.low is not None)


def _copy(case: CaseResult) -> _Span:
    """The seconds of one copy."""
    rate = case.rate_bytes_per_s
    assert rate is not None  # noqa: S101 - the case is ok; for the type checker
    median, low, high = (case.size_bytes / (end or rate.median) for end in (rate.median, rate.high, rate.low))
    return _Span(median, low, high, known=rate.low is not None)
