"""Bandwidth between host and device: kind x engine x direction x size."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from cudabw.benchmarks.bandwidth_plan import BOTH, LOCAL, TOTAL
from cudabw.benchmarks.both_ways import BothWays
from cudabw.benchmarks.engines import Engines
from cudabw.benchmarks.naming import with_lost_named
from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.outcome import (
    UNFINISHED,
    Outcome,
    failure_of,
    keep_after,
    keep_nothing,
    require_alive,
    take_to_the_end,
)
from cudabw.benchmarks.places import Places, whereabouts
from cudabw.benchmarks.remarks import remarks, traffic
from cudabw.benchmarks.space import require_space
from cudabw.benchmarks.transfers import SCRATCH_BYTES, Transfer, transfer_class
from cudabw.errors import CudabwError, Interrupted
from cudabw.measuring.pairs import FEWEST_TIMES, Pair, PairTimer
from cudabw.measuring.sampling import Budget, interleave, rate_over
from cudabw.measuring.timing import BatchTimer, Timing, choose_times, gate_for
from cudabw.measuring.verification import Pattern, stamp_of
from cudabw.results.model import CaseResult, Clock, Link, State, Trial
from cudabw.runtime.memory import PageableBuffer
from cudabw.runtime.resources import resources
from cudabw.system.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import ExitStack

    from cudabw.benchmarks.bandwidth_plan import BandwidthCase, BandwidthPlan
    from cudabw.benchmarks.outcome import Ending, Keep
    from cudabw.measuring.timing import Work
    from cudabw.results.model import Rate
    from cudabw.runtime.device import Device

BATCHES_PER_TRIAL = 4
# An empty pair of events takes 1.5 to 1.8 us on an H200 (design, section 4): 0.05 % of this.
BATCH_SECONDS = 4e-3
# Without a gate the time to queue is in the interval, and work that the CPU takes part in varies more.
UNGATED_BATCH_SECONDS = 20e-3


def run_bandwidth(
    device: Device,
    plans: Sequence[BandwidthPlan],
    observer: Observer = Observer(),  # noqa: B008 - frozen
    *,
    sample_link: Callable[[], None] = lambda: None,
    keep: Keep = keep_nothing,
    places: Places = Places(Placement()),  # noqa: B008 - frozen
) -> Outcome:
    """Measure the cases of all plans.

    Args:
        device: The device.
        plans: What to measure; their cases are measured plan after plan.
        observer: Hears of progress, and may stop the run between batches.
        sample_link: Called while traffic runs.
        keep: Called after each trial.
        places: Puts host memory on NUMA nodes.

    Returns:
        One result for each case, also for those that failed, and why the run ended early if it did.
    """
    total = sum(len(plan.cases()) * plan.trials for plan in plans)
    outcome = Outcome()
    for plan in plans:
        if outcome.ended:
            draws = [_Draws(case, plan.trials) for case in plan.cases()]
            outcome = outcome.extended(result for draw in draws for result in draw.results(outcome.ended_because))
            continue
        kept = keep_after(outcome, keep)
        run = _Run(device, plan, observer, sample_link, kept, places, done=outcome.trials_done, total=total)
        outcome = outcome.merged(run.measure())
    return outcome


@dataclass(slots=True)
class _Draws:
    """What is known of a case while it is measured."""

    case: BandwidthCase
    wanted: int
    trials: list[tuple[Trial, ...]] = field(default_factory=list)
    times: int | None = None
    timing: Timing | None = None
    driver_says: str | None = None
    remarks: tuple[str, ...] = ()
    numa_node: int | None = None
    state: State = State.OK
    reason: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.case.node, int):
            self.numa_node = self.case.node

    def fail(self, error: CudabwError) -> None:
        self.state, self.reason = failure_of(error)

    def results(self, ended_because: str | None) -> Iterator[CaseResult]:
        """The case's results; one without a trial of its own failed for the reason that ended the run."""
        for number, direction in enumerate(self.case.results):
            yield self._result(direction, [trial[number] for trial in self.trials], ended_because)

    def _result(self, direction: str, trials: list[Trial], ended_because: str | None) -> CaseResult:
        case = self.case
        # Wrong data or a failure of its own puts every earlier figure of a case in doubt. What ended the whole run,
        # such as a lost device, or memory refused later, does not.
        doubted = self.state is State.WRONG_DATA or (self.state is State.FAILED and ended_because is None)
        state = State.OK if trials and not doubted else self.state
        reason = self.reason
        if state is State.OK and not trials:
            state, reason = State.FAILED, ended_because or "not measured"
        measured = state is State.OK
        rate = rate_over(trials, case.size_bytes) if measured else None
        return CaseResult(
            id=case.id_of(direction),
            benchmark="bandwidth",
            kind=case.kind,
            engine=case.engine,
            direction=direction,
            size_bytes=case.size_bytes,
            state=state,
            reason=None if measured else reason,
            named=case.named,
            clock=self.timing.clock if self.timing else None,
            gated=self.timing.gated if self.timing else None,
            host_held=self.timing.host_held if self.timing else None,
            verified=True if measured else False if state is State.WRONG_DATA else None,
            rate_bytes_per_s=rate,
            driver_says=self.driver_says,
            notes=self._notes(rate, trials, ended_because) if rate else (),
            trials=tuple(trials),
            numa_node=self.numa_node,
        )

    def _notes(self, rate: Rate, trials: Sequence[Trial], ended_because: str | None) -> tuple[str, ...]:
        notes = [*self.remarks, *traffic(self.case, rate), *whereabouts(self.numa_node, trials)]
        if len(self.trials) < self.wanted:
            why = self.reason or ended_because or "time budget"
            notes.append(f"{len(self.trials)} of {self.wanted} trials: {why}")
        if self.timing and self.timing.clock is Clock.EVENT and not self.timing.gated:
            notes.append("no gate on this device: the time to queue may be in the figure")
        return tuple(notes)


class _Run:
    """The measurement of one plan's cases on one device."""

    def __init__(
        self,
        device: Device,
        plan: BandwidthPlan,
        observer: Observer,
        sample_link: Callable[[], None],
        keep: Keep,
        places: Places,
        *,
        done: int,
        total: int,
    ) -> None:
        self._device = device
        self._plan = plan
        self._observer = observer
        self._sample_link = sample_link
        self._keep = keep
        self._places = places
        self._start = self._done = done
        self._total = total
        self._draws = [_Draws(case, plan.trials) for case in plan.cases()]

    def measure(self) -> Outcome:
        """Measure round after round, and keep what is finished whatever happens."""
        return self._outcome(take_to_the_end(self._take_all))

    def _outcome(self, ending: Ending) -> Outcome:
        cases = tuple(result for draw in self._draws for result in draw.results(ending.because))
        return Outcome(
            cases=with_lost_named(self._plan, cases),
            trials_done=self._done - self._start,
            interrupted=ending.interrupted,
            error=ending.error,
        )

    def _take_all(self) -> str | None:
        with resources() as owned:
            self._set_up(owned)
            return self._take_rounds()

    def _set_up(self, owned: ExitStack) -> None:
        device = self._device
        self._pattern = owned.enter_context(closing(Pattern(self._plan.seed)))
        self._stream = owned.enter_context(device.stream())
        self._scratch = owned.enter_context(PageableBuffer(device, SCRATCH_BYTES))
        self._engines = Engines(device, self._plan.staging, owned)
        gate = gate_for(self._stream, owned)
        self._timer = owned.enter_context(BatchTimer(device, gate, self._sample_link))
        self._second_stream = owned.enter_context(device.stream())
        self._pair_timer = owned.enter_context(PairTimer(device, gate, self._sample_link))

    def _take_rounds(self) -> str | None:
        """Take the trials; returns why they ended early, if they did."""
        budget = Budget(self._plan.time_budget_s)
        random = np.random.default_rng(self._plan.seed)
        for number, draws in interleave(self._draws, self._plan.trials, random):
            if number > 0 and budget.over():
                return f"time budget of {self._plan.time_budget_s:g} s"
            self._observer.progress(self._done, self._total, draws.case.label)
            if draws.state is State.OK:
                self._take_trial(draws)
            self._done += 1
            self._keep(lambda: self._outcome(UNFINISHED))
        self._observer.progress(self._done, self._total, "")
        return None

    def _take_trial(self, draws: _Draws) -> None:
        case = draws.case
        placement = self._places.placement
        try:
            number = draws.numa_node = self._places.number_of(case)
            node = None if number is None else placement.node(number)
            require_space(self._device, case.kind, case.size_bytes * case.copies_at_once, case.staging, node)
            with placement.placed_on(number), resources() as owned:
                transfer = self._transfer(case, owned)
                draws.driver_says = transfer.confirm()
                draws.remarks = tuple(remarks(case, transfer.work, self._device))
                draws.trials.append(self._take_batches(draws, transfer))
        except Interrupted:
            raise
        except CudabwError as error:
            draws.fail(error)
            require_alive(self._device, error)

    def _transfer(self, case: BandwidthCase, owned: ExitStack) -> Transfer | BothWays:
        if case.direction == BOTH:
            streams = (self._stream, self._second_stream)
            return BothWays(self._device, streams, self._pattern, self._scratch, case.kind, case.size_bytes, owned)
        make = transfer_class(case.kind, case.direction)
        prepare = self._engines.preparing(case)
        return make(
            self._device, self._stream, self._pattern, self._scratch, case.kind, case.size_bytes, owned, prepare
        )

    def _take_batches(self, draws: _Draws, transfer: Transfer | BothWays) -> tuple[Trial, ...]:
        """A trial of each of the case's results."""
        if draws.times is None:
            draws.times = self._calibrate(transfer.work)
        samples = []
        # The batch before the first warms up: it is changed, timed and verified like the others, and left out.
        for batch in range(BATCHES_PER_TRIAL + 1):
            self._observer.check_interrupt()
            transfer.change(stamp_of(batch))
            draws.timing = self._time(transfer.work, draws.times)
            transfer.verify(stamp_of(batch))
            samples.append(_positive(draws.timing, draws.times))
        found = self._places.found(transfer.host_buffers)
        return tuple(
            Trial(draws.times, taken, transfer.allocation_s, **found) for taken in zip(*samples[1:], strict=True)
        )

    def _time(self, work: Work | Pair, times: int) -> Timing:
        return self._pair_timer.time(work, times) if isinstance(work, Pair) else self._timer.time(work, times)

    def _calibrate(self, work: Work | Pair) -> int:
        """How many copies make a batch: two are timed, the first of which also wakes the link."""
        if not work.repeatable:
            return 1
        alone = work.first if isinstance(work, Pair) else work
        for _ in range(2):
            timing = self._timer.time(alone, 1)
        if isinstance(work, Pair):
            # Longer, so that the moments in which only one of the two runs weigh little.
            return max(FEWEST_TIMES, choose_times(timing.seconds, UNGATED_BATCH_SECONDS))
        return choose_times(timing.seconds, BATCH_SECONDS if timing.gated else UNGATED_BATCH_SECONDS)


def _positive(timing: Timing, times: int) -> tuple[float, ...]:
    seconds = (timing.seconds, *timing.parts)
    if min(seconds) > 0:
        return seconds
    raise CudabwError(
        f"{times} copies took no time by the {timing.clock} clock, so there is no rate",
        hint="Choose a larger --size.",
    )


def with_link(case: CaseResult, link: Link) -> CaseResult:
    """The case with its share of what the link can carry, where both are known and it used the link one way."""
    if case.direction in (LOCAL, TOTAL) or case.rate_bytes_per_s is None or not link.ceiling_bytes_per_s:
        return case
    return replace(case, link_fraction=case.rate_bytes_per_s.median / link.ceiling_bytes_per_s)
