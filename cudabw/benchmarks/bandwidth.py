"""Bandwidth between host and device: kind x engine x direction x size."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from cudabw.benchmarks.bandwidth_draws import CaseDraws
from cudabw.benchmarks.bandwidth_plan import BOTH, LOCAL, STAGED
from cudabw.benchmarks.both_ways import BothWays
from cudabw.benchmarks.engines import Engines
from cudabw.benchmarks.failures import failing, require_time
from cudabw.benchmarks.naming import with_lost_named
from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.outcome import (
    Outcome,
    keep_nothing,
    take_to_the_end,
)
from cudabw.benchmarks.places import Places
from cudabw.benchmarks.remarks import remarks, staging_threads
from cudabw.benchmarks.space import require_space
from cudabw.benchmarks.taking import take_in_turn
from cudabw.benchmarks.transfers import SCRATCH_BYTES, Transfer, transfer_class
from cudabw.errors import CudabwError, Interrupted
from cudabw.measuring.pairs import FEWEST_TIMES, Pair, PairTimer
from cudabw.measuring.sampling import Budget, Rounds
from cudabw.measuring.slowdown import MOST_REPEATS, SlowdownWatch, no_slowdowns
from cudabw.measuring.ticks import LEAST_TICKS, Ticks
from cudabw.measuring.timing import BatchTimer, Timing, choose_times, gate_for
from cudabw.measuring.verification import Pattern, stamp_of
from cudabw.results.model import Trial
from cudabw.runtime.memory import PageableBuffer
from cudabw.runtime.resources import resources
from cudabw.system.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager, ExitStack

    from cudabw.benchmarks.bandwidth_plan import BandwidthCase, BandwidthPlan
    from cudabw.benchmarks.outcome import Ending, Keep
    from cudabw.benchmarks.taking import Taking
    from cudabw.measuring.slowdown import Slowdowns
    from cudabw.measuring.timing import Work
    from cudabw.results.model import CaseResult
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
    slowdowns: Slowdowns = no_slowdowns,
    keep: Keep = keep_nothing,
    places: Places = Places(Placement()),  # noqa: B008 - frozen
) -> Outcome:
    """Measure the cases of all plans.

    Args:
        device: The device.
        plans: What to measure; their cases are measured plan after plan.
        observer: Hears of progress, and may stop the run between batches.
        sample_link: Called while traffic runs between host and device.
        slowdowns: Says what slows the GPU down; asked while traffic runs and after it.
        keep: Called after each trial.
        places: Puts host memory on NUMA nodes.

    Returns:
        One result for each case, also for those that failed, and why the run ended early if it did.
    """
    return take_in_turn(
        plans,
        observer,
        keep,
        least=lambda plan: len(plan.cases()) * plan.effort.least,
        measure=lambda plan, taking: _Run(device, plan, taking, sample_link, slowdowns, places).measure(),
        skipped=_skipped,
    )


def _skipped(plans: Sequence[BandwidthPlan], because: str) -> list[CaseResult]:
    draws = [CaseDraws(case, plan.effort) for plan in plans for case in plan.cases()]
    return [result for draw in draws for result in draw.results(because)]


class _Run:
    """The measurement of one plan's cases on one device."""

    def __init__(
        self,
        device: Device,
        plan: BandwidthPlan,
        taking: Taking,
        sample_link: Callable[[], None],
        slowdowns: Slowdowns,
        places: Places,
    ) -> None:
        self._device = device
        self._plan = plan
        self._effort = plan.effort
        self._taking = taking
        self._sample_link = sample_link
        self._slowdowns = SlowdownWatch(slowdowns)
        self._places = places
        self._crossing = False
        self._draws = [CaseDraws(case, self._effort) for case in plan.cases()]

    def measure(self) -> Outcome:
        """Measure round after round, and keep what is finished whatever happens."""
        return self._outcome(take_to_the_end(self._take_all))

    def _outcome(self, ending: Ending) -> Outcome:
        cases = tuple(result for draw in self._draws for result in draw.results(ending.because))
        return Outcome(
            cases=with_lost_named(self._plan, cases),
            trials_done=self._taking.taken,
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
        self._ticks = Ticks(device, self._stream)
        self._timer = owned.enter_context(BatchTimer(device, gate, self._while_running))
        self._second_stream = owned.enter_context(device.stream())
        self._pair_timer = owned.enter_context(PairTimer(device, gate, self._while_running))

    def _while_running(self) -> None:
        if self._crossing:  # else the link is idle
            self._sample_link()
        self._slowdowns.look()

    def _take_rounds(self) -> str | None:
        """Take the trials; returns why they ended early, if they did."""
        random, budget = np.random.default_rng(self._plan.seed), Budget(self._effort.budget_s)
        for draws in self._draws:
            if draws.case.engine == STAGED:
                self._calibrate_engine(draws)
        rounds = Rounds(self._draws, self._effort, random, enough=lambda draws: draws.enough, budget=budget)
        return self._taking.take(rounds, self._effort, lambda draws: draws.case.label, self._take_trial, self._outcome)

    def _calibrate_engine(self, draws: CaseDraws) -> None:
        """Do beforehand what would make the first trial longer than the next, which the budget takes to be as long."""
        try:
            with self._placed(draws):
                self._engines.calibrate(draws.case)
        except Interrupted:
            raise
        except CudabwError:
            pass  # its first trial meets it again, and the case then says so

    def _placed(self, draws: CaseDraws) -> AbstractContextManager[object]:
        """Where the memory of a case is to be; what has no room there is refused."""
        case, placement = draws.case, self._places.placement
        number = draws.numa_node = self._places.number_of(case)
        node = None if number is None else placement.node(number)
        require_space(self._device, case.kind, case.size_bytes * case.copies_at_once, case.staging, node)
        return placement.placed_on(number)

    def _take_trial(self, draws: CaseDraws) -> None:
        if draws.failure.happened:
            return
        case = draws.case
        self._crossing = case.direction != LOCAL
        with failing(self._device, draws.failure), self._placed(draws), resources() as owned:
            transfer = self._transfer(case, owned)
            draws.driver_says = transfer.confirm()
            draws.remarks = tuple(remarks(case, transfer.work, self._device))
            draws.threads = staging_threads(transfer.work)
            draws.trials.append(self._take_batches(draws, transfer))

    def _transfer(self, case: BandwidthCase, owned: ExitStack) -> Transfer | BothWays:
        if case.direction == BOTH:
            streams = (self._stream, self._second_stream)
            return BothWays(self._device, streams, self._pattern, self._scratch, case.kind, case.size_bytes, owned)
        make = transfer_class(case.kind, case.direction, case.pages)
        prepare = self._engines.preparing(case)
        where = (self._device, self._stream, self._pattern, self._scratch)
        return make(*where, case.kind, case.size_bytes, owned, prepare, case.pages)

    def _take_batches(self, draws: CaseDraws, transfer: Transfer | BothWays) -> tuple[Trial, ...]:
        """A trial of each of the case's results."""
        if draws.times is None:
            draws.times = self._calibrate(transfer.work)
        take = partial(self._take_batch, draws, transfer)
        numbers = count()
        take(next(numbers))  # warms up: it is changed, timed and verified like the others, and left out
        kept: list[tuple[float, ...]] = []
        repeated: list[tuple[float, ...]] = []
        throttled = 0
        while len(kept) < BATCHES_PER_TRIAL:
            sample, slowed_by = self._slowdowns.over(partial(take, next(numbers)))
            draws.slowed_by.update(dict.fromkeys(slowed_by))
            again = bool(slowed_by) and len(repeated) < MOST_REPEATS
            throttled += bool(slowed_by) and not again
            (repeated if again else kept).append(sample)
        found = self._places.found(transfer.host_buffers)
        return tuple(
            Trial(
                draws.times,
                samples,
                transfer.allocation_s,
                tuple(sample[at] for sample in repeated),
                throttled,
                **found,
            )
            for at, samples in enumerate(zip(*kept, strict=True))
        )

    def _take_batch(self, draws: CaseDraws, transfer: Transfer | BothWays, number: int) -> tuple[float, ...]:
        """Seconds of one copy, for each of the case's results."""
        assert draws.times is not None  # noqa: S101 - calibrated before; for the type checker
        self._taking.observer.check_interrupt()
        transfer.change(stamp_of(number))
        draws.timing = self._time(transfer.work, draws.times)
        transfer.verify(stamp_of(number))
        draws.tick_s = self._ticks.of(draws.timing.clock)
        seconds = (draws.timing.seconds, *draws.timing.parts)
        require_time(min(seconds), draws.timing.clock, "Choose a larger --size.")
        return seconds

    def _time(self, work: Work | Pair, times: int) -> Timing:
        return self._pair_timer.time(work, times) if isinstance(work, Pair) else self._timer.time(work, times)

    def _calibrate(self, work: Work | Pair) -> int:
        """How many copies make a batch: two are timed, the first of which also wakes the link."""
        if not work.repeatable:
            return 1
        alone = work.first if isinstance(work, Pair) else work
        for _ in range(2):
            timing = self._timer.time(alone, 1)
        least_s = LEAST_TICKS * self._ticks.of(timing.clock)
        if isinstance(work, Pair):
            # Longer, so that the moments in which only one of the two runs weigh little.
            return max(FEWEST_TIMES, choose_times(timing.seconds, max(least_s, UNGATED_BATCH_SECONDS)))
        batch_s = BATCH_SECONDS if timing.gated else UNGATED_BATCH_SECONDS
        return choose_times(timing.seconds, max(least_s, batch_s))
