"""What small copies cost: one at a time, and many at once in several ways."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from cudabw.benchmarks.failures import failing, require_time
from cudabw.benchmarks.latency_plan import OneCopy
from cudabw.benchmarks.latency_results import CaseDraws, small_copies_of
from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.outcome import (
    Ending,
    Keep,
    Outcome,
    keep_nothing,
    take_to_the_end,
)
from cudabw.benchmarks.places import Places
from cudabw.benchmarks.scattered import ScatteredBlocks, area_of, host_bytes_of
from cudabw.benchmarks.space import require_room, require_space
from cudabw.benchmarks.taking import take_in_turn
from cudabw.benchmarks.transfers import SCRATCH_BYTES, Transfer, transfer_class
from cudabw.copying.copy_list import CopyList
from cudabw.copying.many_copies import BatchCopy, GraphCopy, LoopedCopies
from cudabw.copying.scatter_copy import ScatterCopier
from cudabw.measuring.full_speed import FullSpeed
from cudabw.measuring.quiet import collector_off, disturbances
from cudabw.measuring.sampling import Rounds
from cudabw.measuring.slowdown import SlowdownWatch, no_slowdowns
from cudabw.measuring.ticks import Ticks
from cudabw.measuring.timing import BatchTimer, choose_times, gate_for
from cudabw.measuring.turns import TurnTimer, choose_turns
from cudabw.measuring.verification import Pattern, stamp_of
from cudabw.results.latency import CopyTrial, Pace, Way
from cudabw.results.model import Clock
from cudabw.runtime.memory import PageableBuffer
from cudabw.runtime.resources import resources
from cudabw.system.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from cudabw.benchmarks.latency_plan import Cell, LatencyPlan
    from cudabw.benchmarks.taking import Taking
    from cudabw.copying.scatter_copy import ScatterCopy
    from cudabw.measuring.slowdown import Slowdowns
    from cudabw.measuring.turns import BareWork
    from cudabw.results.latency import LatencyCase, SmallCopiesCase
    from cudabw.runtime.buffer import Buffer
    from cudabw.runtime.device import Device
    from cudabw.runtime.stream import Stream

BATCHES_PER_TRIAL = 2
# Of queued copies: hundreds of the smallest. An empty pair of events takes 1.5 us on an H200 (design, section 4).
BATCH_SECONDS = 0.5e-3


class Memory(Protocol):
    """Fresh memory of one cell, whose bytes are changed before each batch and checked after it."""

    @property
    def host_buffers(self) -> tuple[Buffer, ...]:
        """The host memory that is copied from or to."""

    def confirm(self) -> str:
        """What the driver says the host memory is."""

    def change(self, stamp: int) -> None:
        """Make every page of the source new."""

    def verify(self, stamp: int) -> None:
        """Compare the destination with what the source holds."""


def run_latency(
    device: Device,
    plans: Sequence[LatencyPlan],
    observer: Observer = Observer(),  # noqa: B008 - frozen
    *,
    slowdowns: Slowdowns = no_slowdowns,
    keep: Keep = keep_nothing,
    places: Places = Places(Placement()),  # noqa: B008 - frozen
) -> Outcome:
    """Measure the small copies of all plans.

    Args:
        device: The device.
        plans: What to measure, plan after plan.
        observer: Hears of progress and of what disturbs the times, and may stop the run between batches.
        slowdowns: Says what slows the GPU down; asked after each trial.
        keep: Called after each trial.
        places: Says where host memory and this thread are.

    Returns:
        One result for each case, also for those that failed, and why the run ended early if it did.
    """
    warnings = disturbances()
    for warning in warnings:
        observer.notify(warning)
    return take_in_turn(
        plans,
        observer,
        keep,
        least=lambda plan: len(plan.cells()) * plan.effort.least,
        measure=lambda plan, taking: _Run(device, plan, taking, slowdowns, places).measure(),
        skipped=skipped_latency,
        warnings=warnings,
    )


def skipped_latency(plans: Sequence[LatencyPlan], because: str) -> list[LatencyCase | SmallCopiesCase]:
    """The results of plans that were never begun."""
    return [CaseDraws(case, plan.effort).result(because) for plan in plans for case in plan.cases()]


class _Run:
    """The measurement of one plan on one device."""

    def __init__(self, device: Device, plan: LatencyPlan, taking: Taking, slowdowns: Slowdowns, places: Places) -> None:
        self._device = device
        self._places = places
        self._plan = plan
        self._slowdowns = SlowdownWatch(slowdowns)
        self._full_speed = FullSpeed(device.driver.now)
        self._taking = taking
        self._random = np.random.default_rng(plan.seed)
        self._cells = {cell: [CaseDraws(case, plan.effort) for case in cell.cases()] for cell in plan.cells()}
        self._batch = 0
        self._copier: ScatterCopier | None = None

    def measure(self) -> Outcome:
        """Measure round after round, and keep what is finished whatever happens."""
        return self._outcome(take_to_the_end(self._take_all))

    def _outcome(self, ending: Ending) -> Outcome:
        cases = tuple(draws.result(ending.because) for cell in self._cells.values() for draws in cell)
        return Outcome(
            cases=cases,
            trials_done=self._taking.taken,
            interrupted=ending.interrupted,
            error=ending.error,
            small_copies=small_copies_of(cases),
            cpu_speed=self._full_speed.found(),
        )

    def _take_all(self) -> str | None:
        with resources() as owned:
            self._set_up(owned)
            return self._take_rounds()

    def _set_up(self, owned: ExitStack) -> None:
        device = self._device
        self._owned = owned
        self._pattern = owned.enter_context(closing(Pattern(self._plan.seed)))
        self._stream = owned.enter_context(device.stream())
        self._scratch = owned.enter_context(PageableBuffer(device, SCRATCH_BYTES))
        self._batches = owned.enter_context(BatchTimer(device, gate_for(self._stream, owned)))
        self._turns = TurnTimer(device)
        self._ticks = Ticks(device, self._stream)

    def _take_rounds(self) -> str | None:
        """Take the trials; returns why they ended early, if they did."""
        effort = self._plan.effort
        rounds = Rounds([*self._cells], effort, self._random, enough=self._enough)
        return self._taking.take(rounds, effort, lambda cell: cell.label, self._take_trial, self._outcome)

    def _enough(self, cell: Cell) -> bool:
        return all(draws.enough for draws in self._cells[cell])

    def _take_trial(self, cell: Cell) -> None:
        """One trial of each case of a cell, in shuffled order and with the same memory."""
        wanted = [draws for draws in self._cells[cell] if not draws.failure.happened]
        if not wanted:
            return
        with failing(self._device, *(draws.failure for draws in wanted)), resources() as owned, collector_off():
            memory = self._memory(cell, owned)
            says = memory.confirm()
            for index in self._random.permutation(len(wanted)):
                draws = wanted[index]
                draws.driver_says = says
                with failing(self._device, draws.failure):
                    draws.trials.append(self._take_undisturbed(draws, memory))

    def _take_undisturbed(self, draws: CaseDraws, memory: Memory) -> CopyTrial:
        """A trial of a case; again while the GPU is slowed down, or the CPU was, a few times."""
        take = partial(self._slowdowns.over, partial(self._take_case, draws, memory))
        with self._full_speed.held():
            return draws.slow.take(partial(self._full_speed.take, take))

    def _memory(self, cell: Cell, owned: ExitStack) -> Memory:
        if isinstance(cell, OneCopy):
            require_space(self._device, cell.kind, cell.size_bytes)
            make = transfer_class(cell.kind, cell.direction)
            return make(
                self._device, self._stream, self._pattern, self._scratch, cell.kind, cell.size_bytes, owned, _bare_copy
            )
        area = area_of(cell)
        on_host = host_bytes_of(cell) + (area if self._device.driver.emulated else 0)
        require_room(self._device, cell.kind, on_host=on_host, on_device=area)
        return ScatteredBlocks(self._device, self._stream, self._pattern, cell, self._random, owned)

    def _take_case(self, draws: CaseDraws, memory: Memory) -> CopyTrial:
        with resources() as owned:
            work, build_s = self._prepare(draws.planned.how, memory, owned)
            if draws.times is None:
                draws.times = self._calibrate(draws, work)
            samples = []
            # None is left out: each begins with work that is not timed, which warms up what a batch could.
            for _ in range(BATCHES_PER_TRIAL):
                self._taking.observer.check_interrupt()
                self._batch += 1
                memory.change(stamp_of(self._batch))
                sample = self._time(draws, work, draws.times)
                memory.verify(stamp_of(self._batch))
                assert draws.clock is not None  # noqa: S101 - timed just now; for the type checker
                require_time(sample[0], draws.clock, "Choose a larger --size.")
                samples.append(sample)
        seconds, submits = zip(*samples, strict=True)
        submit_s = tuple(submit for submit in submits if submit is not None)
        return CopyTrial(draws.times, seconds, submit_s, build_s, **self._places.found(memory.host_buffers))

    def _prepare(self, how: Pace | Way, memory: Memory, owned: ExitStack) -> tuple[BareWork, float | None]:
        """The work, and the seconds that preparing it took where there is something to prepare."""
        if isinstance(memory, Transfer):
            assert isinstance(memory.work, LoopedCopies)  # noqa: S101 - as made above; for the type checker
            return memory.work, None
        assert isinstance(memory, ScatteredBlocks)  # noqa: S101 - likewise
        if how is Way.LOOP:
            return LoopedCopies(memory.copies), None
        prepare = self._preparing(how)
        now = self._device.driver.now
        start = now()
        work = prepare(memory.copies)
        build_s = now() - start
        if not isinstance(work, BatchCopy):
            owned.enter_context(work)
        return work, build_s

    def _preparing(self, how: Pace | Way) -> Callable[[CopyList], BatchCopy | GraphCopy | ScatterCopy]:
        if how is Way.BATCH:
            return BatchCopy
        if how is Way.GRAPH:
            return GraphCopy
        if self._copier is None:
            self._copier = self._owned.enter_context(ScatterCopier(self._device))
        return self._copier.prepare

    def _calibrate(self, draws: CaseDraws, work: BareWork) -> int:
        """How often a batch does the work: it is done twice, the first time of which also wakes the link."""
        for _ in range(2):
            seconds, _ = self._time(draws, work, 1)
        if draws.planned.how is Pace.QUEUED:
            return choose_times(seconds, BATCH_SECONDS)
        return choose_turns(seconds * draws.planned.cell.copies)

    def _time(self, draws: CaseDraws, work: BareWork, times: int) -> tuple[float, float | None]:
        """Seconds of one copy, and of its submitting call where it is waited for."""
        if draws.planned.how is Pace.QUEUED:
            timing = self._batches.time(work, times)
            draws.clock, draws.gated = timing.clock, timing.gated
            draws.tick_s = self._ticks.of(timing.clock)
            return timing.seconds, None
        draws.clock, draws.gated, draws.tick_s = Clock.HOST, False, self._ticks.of(Clock.HOST)
        turns = self._turns.time(work, times)
        copies = draws.planned.cell.copies
        return turns.done_s / copies, turns.submit_s / copies


def _bare_copy(dst: Buffer, src: Buffer, stream: Stream) -> LoopedCopies:
    return LoopedCopies(CopyList([(dst, src)], stream))
