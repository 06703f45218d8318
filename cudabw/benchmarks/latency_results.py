"""From the samples of small copies to results, and from where on a way to make many of them is worth it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cudabw import stats
from cudabw.benchmarks.failures import Failure
from cudabw.benchmarks.latency_plan import OneCopy
from cudabw.measuring.judging import Judgement, converged, judge
from cudabw.measuring.pairing import seconds_over
from cudabw.measuring.slowdown import SlowTrials
from cudabw.results.latency import (
    LATENCY,
    SMALL_COPIES,
    LatencyCase,
    LoopSuffices,
    Pace,
    SmallCopies,
    SmallCopiesCase,
    Way,
    WayPays,
)
from cudabw.results.model import Clock, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cudabw.benchmarks.latency_plan import PlannedLatency
    from cudabw.measuring.effort import Effort
    from cudabw.results.latency import CopyTrial
    from cudabw.results.launch import Seconds


@dataclass(slots=True)
class CaseDraws:
    """What is known of a case while it is measured.

    Attributes:
        planned: The case.
        effort: How much is done for it.
        times: How often a batch does the work; None before it was found.
        clock: That timed it.
        gated: Whether a gate kept the time to queue out.
        tick_s: Of the clock.
        driver_says: Of its memory.
        slow: Its trials in which the GPU was slowed down.
        failure: Of a trial.
    """

    planned: PlannedLatency
    effort: Effort
    trials: list[CopyTrial] = field(default_factory=list)
    times: int | None = None
    clock: Clock | None = None
    gated: bool | None = None
    tick_s: float | None = None
    driver_says: str | None = None
    slow: SlowTrials = field(default_factory=SlowTrials)
    failure: Failure = field(default_factory=Failure)

    @property
    def enough(self) -> bool:
        """Whether a further trial would not change what the case is worth."""
        precision = self.effort.precision
        if self.failure.happened or precision is None or not self.trials:
            return True
        return converged(self._seconds(), precision)

    def result(self, ended_because: str | None) -> LatencyCase | SmallCopiesCase:
        """The case's result; without a trial, it failed for the reason that ended the run."""
        measured = bool(self.trials) and not self.failure.doubted
        state, reason = self._worth(ended_because) if measured else self.failure.without_figure(ended_because)
        common: dict[str, Any] = {
            "id": self.planned.id,
            "kind": self.planned.cell.kind,
            "direction": self.planned.cell.direction,
            "size_bytes": self.planned.cell.size_bytes,
            "state": state,
            "reason": reason,
            "named": self.planned.named,
            "verified": True if measured else False if state is State.WRONG_DATA else None,
            "tick_s": self.tick_s,
            "submit_s": self._submit_s() if measured else None,
            "driver_says": self.driver_says,
            "notes": tuple(self._notes(ended_because)) if measured else (),
            "trials": tuple(self.trials),
        }
        seconds = self._seconds() if measured else None
        cell, how = self.planned.cell, self.planned.how
        if isinstance(cell, OneCopy):
            seen: dict[str, Any] = {"clock": self.clock, "gated": self.gated}
            return LatencyCase(benchmark=LATENCY, pace=Pace(how), seconds=seconds, **seen, **common)
        return SmallCopiesCase(
            benchmark=SMALL_COPIES,
            copies=cell.copies,
            way=Way(how),
            per_copy_s=seconds,
            build_s=_over([(trial.build_s,) for trial in self.trials if measured and trial.build_s is not None]),
            **common,
        )

    def _seconds(self) -> Seconds:
        return seconds_over([trial.samples_s for trial in self.trials], self._sample_tick_s)

    def _submit_s(self) -> Seconds | None:
        return _over([trial.submit_s for trial in self.trials if trial.submit_s], self._sample_tick_s)

    @property
    def _sample_tick_s(self) -> float:
        """What the clock can tell of one copy: of queued ones it sees a batch, of others a turn."""
        seen = self.times if self.planned.how is Pace.QUEUED else self.planned.cell.copies
        return (self.tick_s or 0.0) / (seen or 1)

    def _worth(self, ended_because: str | None) -> Judgement:
        return judge(
            self._seconds(),
            [stats.median(trial.samples_s) for trial in self.trials],
            tick_s=self._sample_tick_s,
            precision=self.effort.precision,
            ended_because=self.effort.ended_because(len(self.trials), self.failure.reason or ended_because),
            throttled=self.slow.throttled(len(self.trials)),
        )

    def _notes(self, ended_because: str | None) -> Iterator[str]:
        yield from self.effort.shortfall(len(self.trials), self.failure.reason or ended_because)
        yield from self.slow.notes()
        if self.clock is Clock.EVENT and not self.gated:
            yield "no gate on this device: the time to queue may be in the figure"


def _over(trials: Sequence[Sequence[float]], tick_s: float = 0.0) -> Seconds | None:
    return seconds_over(trials, tick_s) if trials else None


def small_copies_of(cases: Iterable[LatencyCase | SmallCopiesCase]) -> SmallCopies | None:
    """From where on which way to make many copies is worth it; None where many were not made."""
    many = [case for case in cases if isinstance(case, SmallCopiesCase)]
    if not many:
        return None
    return SmallCopies(
        tuple(found for row in _rows(many, lambda case: case.copies) for found in _loop_suffices(row)),
        tuple(found for row in _rows(many, lambda case: case.size_bytes) for found in _way_pays(row)),
    )


def _rows(cases: Iterable[SmallCopiesCase], same: Callable[[SmallCopiesCase], int]) -> Iterable[list[SmallCopiesCase]]:
    """The cases of one kind and direction that have something in common."""
    rows: dict[tuple[str, str, int], list[SmallCopiesCase]] = {}
    for case in cases:
        rows.setdefault((case.kind, case.direction, same(case)), []).append(case)
    return rows.values()


def _loop_suffices(row: Sequence[SmallCopiesCase]) -> Iterator[LoopSuffices]:
    first = row[0]
    for way, points in _compared(row, lambda case: case.size_bytes):
        start = _from_where_on((size, not faster) for size, faster in points)
        yield LoopSuffices(first.kind, first.direction, way, first.copies, tuple(size for size, _ in points), start)


def _way_pays(row: Sequence[SmallCopiesCase]) -> Iterator[WayPays]:
    first = row[0]
    for way, points in _compared(row, lambda case: case.copies):
        numbers = tuple(copies for copies, _ in points)
        yield WayPays(first.kind, first.direction, way, first.size_bytes, numbers, _from_where_on(points))


def _compared(
    row: Sequence[SmallCopiesCase], varied: Callable[[SmallCopiesCase], int]
) -> Iterator[tuple[Way, list[tuple[int, bool]]]]:
    """Each way but the loop, and at which points it is faster than the loop for sure; two points at least."""
    cases = {(case.way, varied(case)): case for case in row}
    for way in (way for way in Way if way is not Way.LOOP):
        compared = (
            (point, _is_faster(cases[way, point], loop))
            for (other, point), loop in sorted(cases.items(), key=lambda item: item[0][1])
            if other is Way.LOOP and (way, point) in cases
        )
        points = [(point, faster) for point, faster in compared if faster is not None]
        if len(points) > 1:
            yield way, points


def _is_faster(case: SmallCopiesCase, loop: SmallCopiesCase) -> bool | None:
    """Whether a way is faster than the loop for sure; None where that cannot be told.

    Both are taken in turns in each trial, so that what disturbs one mostly disturbs the other: it is their ratio in
    each trial that has an interval.
    """
    if not (case.state.measured and loop.state.measured) or len(case.trials) != len(loop.trials):
        return None
    ratios = [
        stats.median(ours.samples_s) / stats.median(its.samples_s)
        for ours, its in zip(loop.trials, case.trials, strict=True)
        if stats.median(its.samples_s) > 0 and stats.median(ours.samples_s) > 0
    ]
    interval = stats.median_interval([math.log(ratio) for ratio in ratios]) if ratios else None
    return None if interval is None else interval.low > 0


def _from_where_on(points: Iterable[tuple[int, bool]]) -> int | None:
    """The first of the points from which on it holds for all; None where it does not for the last."""
    start = None
    for point, holds in points:
        start = (point if start is None else start) if holds else None
    return start
