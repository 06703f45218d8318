"""What is known of a case of the bandwidth benchmark while it is measured, and the results that it means."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cudabw import stats
from cudabw.benchmarks.bandwidth_plan import LOCAL, TOTAL
from cudabw.benchmarks.failures import Failure
from cudabw.benchmarks.places import whereabouts
from cudabw.benchmarks.remarks import traffic
from cudabw.measuring.judging import Judgement, converged, judge
from cudabw.measuring.sampling import rate_over
from cudabw.measuring.ticks import LEAST_TICKS
from cudabw.results.model import CaseResult, Clock, State
from cudabw.units import format_count, format_percent, format_rate, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudabw.benchmarks.bandwidth_plan import BandwidthCase
    from cudabw.measuring.effort import Effort
    from cudabw.measuring.timing import Timing
    from cudabw.results.model import Link, Rate, Trial


@dataclass(slots=True)
class CaseDraws:
    """What is known of a case while it is measured.

    Attributes:
        case: The case.
        effort: How much is done for it.
        trials: For each, one of each of the case's results.
        times: Copies in a batch; None before the first was calibrated.
        timing: Of the latest batch.
        tick_s: Of the clock that timed it.
        driver_says: Of its memory.
        threads: How many threads stage it; None where none do.
        remarks: Of the way it is copied.
        numa_node: That its memory is put on; None where none is asked for, or not yet known.
        slowed_by: What slowed the GPU down in batches that were repeated or kept.
        failure: Of a trial.
    """

    case: BandwidthCase
    effort: Effort
    trials: list[tuple[Trial, ...]] = field(default_factory=list)
    times: int | None = None
    timing: Timing | None = None
    tick_s: float | None = None
    driver_says: str | None = None
    threads: int | None = None
    remarks: tuple[str, ...] = ()
    numa_node: int | None = None
    slowed_by: dict[str, None] = field(default_factory=dict)
    failure: Failure = field(default_factory=Failure)

    def __post_init__(self) -> None:
        if isinstance(self.case.node, int):
            self.numa_node = self.case.node

    @property
    def enough(self) -> bool:
        """Whether a further trial would not change what the case is worth."""
        precision = self.effort.precision
        if self.failure.happened or precision is None or not self.trials or self._coarse() is not None:
            return True
        return all(converged(self._rate(trials), precision) for trials in zip(*self.trials, strict=True))

    def results(self, ended_because: str | None) -> Iterator[CaseResult]:
        """The case's results; one without a trial of its own failed for the reason that ended the run."""
        for number, direction in enumerate(self.case.results):
            yield self._result(direction, [trial[number] for trial in self.trials], ended_because)

    def _result(self, direction: str, trials: Sequence[Trial], ended_because: str | None) -> CaseResult:
        case = self.case
        rate = self._rate(trials) if trials and not self.failure.doubted else None
        lost = self.failure.without_figure(ended_because)
        state, reason = lost if rate is None else self._worth(rate, trials, ended_because)
        return CaseResult(
            id=case.id_of(direction),
            benchmark="bandwidth",
            kind=case.kind,
            engine=case.engine,
            direction=direction,
            size_bytes=case.size_bytes,
            state=state,
            reason=reason,
            named=case.named,
            clock=self.timing.clock if self.timing else None,
            gated=self.timing.gated if self.timing else None,
            host_held=self.timing.host_held if self.timing else None,
            verified=True if rate else False if state is State.WRONG_DATA else None,
            rate_bytes_per_s=rate,
            tick_s=self.tick_s,
            driver_says=self.driver_says,
            pages=case.pages,
            threads=self.threads,
            notes=tuple(self._notes(rate, trials, ended_because)) if rate else (),
            trials=tuple(trials),
            numa_node=self.numa_node,
        )

    def _rate(self, trials: Sequence[Trial]) -> Rate:
        return rate_over(trials, self.case.size_bytes, self.tick_s or 0.0)

    def _worth(self, rate: Rate, trials: Sequence[Trial], ended_because: str | None) -> Judgement:
        return judge(
            rate,
            [stats.median(trial.samples_s) for trial in trials],
            tick_s=(self.tick_s or 0.0) / trials[0].copies_per_batch,
            precision=self.effort.precision,
            ended_because=self.effort.ended_because(len(trials), self.failure.reason or ended_because),
            coarse=self._coarse(),
            throttled=self._throttled(trials),
        )

    def _coarse(self) -> str | None:
        """Why the clock is too coarse for a batch, if it is: only so many copies fit into one."""
        if self.timing is None or not self.tick_s or self.times is None:
            return None
        batch_s = self.times * max(trial.samples_s[0] for trial in self.trials[0])
        if batch_s >= LEAST_TICKS * self.tick_s:
            return None
        return (
            f"a batch of {self.times} lasts fewer than {LEAST_TICKS} ticks of the {self.timing.clock} clock "
            f"({format_seconds(self.tick_s)} each)"
        )

    def _throttled(self, trials: Sequence[Trial]) -> str | None:
        slowed = sum(trial.throttled for trial in trials)
        if not slowed:
            return None
        samples = sum(len(trial.samples_s) for trial in trials)
        return f"the GPU was slowed down in {slowed} of {samples} batches, also when repeated ({self._slowed_by})"

    @property
    def _slowed_by(self) -> str:
        return ", ".join(self.slowed_by)

    def _notes(self, rate: Rate, trials: Sequence[Trial], ended_because: str | None) -> Iterator[str]:
        yield from self.remarks
        yield from traffic(self.case, rate)
        yield from whereabouts(self.numa_node, trials)
        yield from self.effort.shortfall(len(trials), self.failure.reason or ended_because)
        if repeated := sum(len(trial.repeated_s) for trial in trials):
            batches = format_count(repeated, "batch was", "batches were")
            yield f"{batches} repeated, because the GPU was slowed down ({self._slowed_by})"
        if self.timing and self.timing.clock is Clock.EVENT and not self.timing.gated:
            yield "no gate on this device: the time to queue may be in the figure"


def with_link(case: CaseResult, link: Link) -> CaseResult:
    """The case with its share of what the link can carry, where both are known and it used the link one way.

    A rate above that is not shown: either it is wrong or what is known of the link.
    """
    if case.direction in (LOCAL, TOTAL) or case.rate_bytes_per_s is None or not link.ceiling_bytes_per_s:
        return case
    rate = case.rate_bytes_per_s.median
    fraction = rate / link.ceiling_bytes_per_s
    if fraction <= 1:
        return replace(case, link_fraction=fraction)
    return replace(
        case,
        state=State.SUSPECT,
        rate_bytes_per_s=None,
        reason=f"{format_rate(rate)} GB/s would be {format_percent(fraction)} of what the link can carry "
        f"({format_rate(link.ceiling_bytes_per_s)} GB/s), so the figure or what is known of the link is wrong",
    )
