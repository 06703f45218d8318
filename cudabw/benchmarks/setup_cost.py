"""What it costs to have memory ready: allocate, touch, register, unregister and free it, for each kind and size."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cudabw.benchmarks.failures import Failure, failing
from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.outcome import Outcome, keep_nothing, take_to_the_end
from cudabw.benchmarks.space import require_room, setup_device_bytes
from cudabw.benchmarks.taking import take_in_turn
from cudabw.measuring.judging import OK
from cudabw.measuring.pairing import seconds_over
from cudabw.measuring.quiet import collector_off
from cudabw.measuring.sampling import Rounds
from cudabw.measuring.verification import touch
from cudabw.results.setup_cost import BENCHMARK, SetupCase, SetupTrial
from cudabw.runtime.memory import (
    ManagedBuffer,
    MappedBuffer,
    PageableBuffer,
    PinnedBuffer,
    RegisteredBuffer,
    WriteCombinedBuffer,
)
from cudabw.runtime.resources import resources
from cudabw.units import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cudabw.benchmarks.bandwidth_plan import BandwidthPlan
    from cudabw.benchmarks.outcome import Ending, Keep
    from cudabw.benchmarks.taking import Taking
    from cudabw.measuring.effort import Effort
    from cudabw.results.launch import Seconds
    from cudabw.runtime.buffer import Buffer
    from cudabw.runtime.device import Device

# Registered memory is pageable memory until it is registered.
_ALLOCATE: Mapping[str, Callable[[Device, int], Buffer]] = {
    "pageable": PageableBuffer,
    "pinned": PinnedBuffer,
    "mapped": MappedBuffer,
    "write-combined": WriteCombinedBuffer,
    "registered": PageableBuffer,
    "managed": ManagedBuffer,
}


_STEPS = ("allocate_s", "touch_s", "register_s", "unregister_s", "registration_s", "free_s", "total_s")


@dataclass(frozen=True, slots=True)
class Setup:
    """One kind and size to have ready."""

    kind: str
    size_bytes: int
    named: bool = False

    @property
    def id(self) -> str:
        """Stable name of the case, the same in every run."""
        return f"setup-cost/{self.kind}/{self.size_bytes}"

    @property
    def label(self) -> str:
        """What a person reads while it is measured."""
        return f"set up {self.kind} {format_size(self.size_bytes)}"


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """What to have ready and how often.

    Attributes:
        setups: Each once.
        effort: How much is done for each; the number of trials, each with fresh memory, is fixed.
        seed: Seeds their order.
    """

    setups: Sequence[Setup]
    effort: Effort
    seed: int = 0


def setup_plans(plans: Iterable[BandwidthPlan]) -> tuple[SetupPlan, ...]:
    """What each plan of copies asks to have ready: nothing, or all that no plan before it has."""
    seen: set[str] = set()
    found = []
    for plan in plans:
        wanted = [Setup(kind, size, kind in plan.named) for kind in plan.setup_kinds for size in plan.sizes]
        new = tuple(setup for setup in wanted if setup.id not in seen)
        seen |= {setup.id for setup in new}
        found.append(SetupPlan(new, _fixed(plan.effort), plan.seed))
    return tuple(found)


def _fixed(effort: Effort) -> Effort:
    """As many trials as copies get at least, in as much time: more of them would not make set-up figures precise."""
    return replace(effort, most=effort.least, precision=None)


def run_setup_cost(
    device: Device,
    plans: Sequence[SetupPlan],
    observer: Observer = Observer(),  # noqa: B008 - frozen
    *,
    keep: Keep = keep_nothing,
) -> Outcome:
    """Measure what it costs to have memory ready.

    Args:
        device: The device.
        plans: What to measure, plan after plan.
        observer: Hears of progress, and may stop the run between trials.
        keep: Called after each trial.

    Returns:
        One result for each setup, also for those that failed, and why the run ended early if it did.
    """
    return take_in_turn(
        plans,
        observer,
        keep,
        least=lambda plan: len(plan.setups) * plan.effort.least,
        measure=lambda plan, taking: _Run(device, plan, taking).measure(),
        skipped=skipped_setups,
    )


def skipped_setups(plans: Iterable[SetupPlan], because: str) -> list[SetupCase]:
    """The results of plans that were never begun."""
    return [_Draws(setup, plan.effort).result(because) for plan in plans for setup in plan.setups]


@dataclass(slots=True)
class _Draws:
    """What is known of a setup while it is measured."""

    setup: Setup
    effort: Effort
    trials: list[SetupTrial] = field(default_factory=list)
    failure: Failure = field(default_factory=Failure)

    def result(self, ended_because: str | None) -> SetupCase:
        """The case; one without a trial of its own failed for the reason that ended the run."""
        measured = bool(self.trials) and not self.failure.doubted
        state, reason = OK if measured else self.failure.without_figure(ended_because)
        figures: dict[str, Any] = {step: _seconds(self.trials, step) for step in _STEPS} if measured else {}
        return SetupCase(
            id=self.setup.id,
            benchmark=BENCHMARK,
            kind=self.setup.kind,
            size_bytes=self.setup.size_bytes,
            state=state,
            reason=reason,
            named=self.setup.named,
            notes=tuple(self._notes(ended_because)) if measured else (),
            trials=tuple(self.trials),
            **figures,
        )

    def _notes(self, ended_because: str | None) -> Iterable[str]:
        return self.effort.shortfall(len(self.trials), self.failure.reason or ended_because)


def _seconds(trials: Sequence[SetupTrial], step: str) -> Seconds | None:
    if trials[0].register_s is None and step in ("register_s", "unregister_s", "registration_s"):
        return None
    return seconds_over([[getattr(trial, step)] for trial in trials])


class _Run:
    """The measurement of one plan on one device."""

    def __init__(self, device: Device, plan: SetupPlan, taking: Taking) -> None:
        self._device = device
        self._plan = plan
        self._taking = taking
        self._draws = [_Draws(setup, plan.effort) for setup in plan.setups]

    def measure(self) -> Outcome:
        """Measure round after round, and keep what is finished whatever happens."""
        return self._outcome(take_to_the_end(self._take_rounds))

    def _outcome(self, ending: Ending) -> Outcome:
        return Outcome(
            cases=tuple(draws.result(ending.because) for draws in self._draws),
            trials_done=self._taking.taken,
            interrupted=ending.interrupted,
            error=ending.error,
        )

    def _take_rounds(self) -> str | None:
        """Take the trials; returns why they ended early, if they did."""
        effort, random = self._plan.effort, np.random.default_rng(self._plan.seed)
        rounds = Rounds(self._draws, effort, random, enough=lambda _: True)
        return self._taking.take(rounds, effort, lambda draws: draws.setup.label, self._take_trial, self._outcome)

    def _take_trial(self, draws: _Draws) -> None:
        self._taking.observer.check_interrupt()
        if draws.failure.happened:
            return
        kind, nbytes = draws.setup.kind, draws.setup.size_bytes
        with failing(self._device, draws.failure):
            require_room(self._device, kind, on_host=nbytes, on_device=setup_device_bytes(kind, nbytes))
            draws.trials.append(self._steps(draws.setup))

    def _steps(self, setup: Setup) -> SetupTrial:
        device, nbytes, watch = self._device, setup.size_bytes, _Stopwatch(self._device)
        with resources() as owned, collector_off():
            with watch:
                memory = _ALLOCATE[setup.kind](device, nbytes)
            owned.enter_context(memory)
            allocate_s = watch.seconds
            pages = memory.array()
            with watch:
                touch(pages)
            touch_s = watch.seconds
            # The memory is not freed before its last view is gone.
            del pages
            register_s, unregister_s = self._register(memory, watch) if setup.kind == "registered" else (None, None)
            with watch:
                memory.close()
        return SetupTrial(allocate_s, touch_s, register_s, unregister_s, free_s=watch.seconds)

    def _register(self, memory: Buffer, watch: _Stopwatch) -> tuple[float, float]:
        pages = memory.array()
        with watch:
            registered = RegisteredBuffer(self._device, pages)
        register_s = watch.seconds
        with watch:
            registered.close()
        return register_s, watch.seconds


class _Stopwatch:
    """Takes the seconds of a ``with`` block by the host's clock; no work of the device is waited for in it."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._now = device.driver.now
        self._start = 0.0
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._device.synchronize()
        self._start = self._now()

    def __exit__(self, *_: object) -> None:
        self.seconds = self._now() - self._start
