"""What launching a kernel from Python costs, and how much of it is converting the arguments again each time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from cudabw.benchmarks.failures import failing, require_time
from cudabw.benchmarks.launch_arguments import ArgumentSet, argument_sets
from cudabw.benchmarks.launch_modes import NullLaunches
from cudabw.benchmarks.launch_results import SetDraws, slopes_of
from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.outcome import Outcome, keep_nothing, take_to_the_end
from cudabw.benchmarks.taking import take_in_turn
from cudabw.measuring.bursts import FEWEST, Burst, BurstTimer, choose_burst
from cudabw.measuring.effort import Effort, Level, effort_of
from cudabw.measuring.full_speed import FullSpeed
from cudabw.measuring.pairing import mirrored
from cudabw.measuring.queue_depth import detect_queue_depth, most_in_a_burst
from cudabw.measuring.quiet import collector_off, describe_collector, disturbances
from cudabw.measuring.sampling import Rounds
from cudabw.measuring.slowdown import SlowdownWatch, no_slowdowns
from cudabw.measuring.timing import MOST_QUEUED, BatchTimer, gate_for
from cudabw.results.launch import NO_ARGUMENTS, Mode
from cudabw.results.launch_sets import LaunchOverhead, QueueDepth, SetTrial
from cudabw.results.model import Clock
from cudabw.runtime.resources import resources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import ExitStack

    from cudabw.benchmarks.outcome import Ending, Keep
    from cudabw.benchmarks.taking import Taking
    from cudabw.measuring.slowdown import Slowdowns
    from cudabw.results.launch import LaunchCase
    from cudabw.runtime.device import Device
    from cudabw.runtime.gate import Gate

Timed = TypeVar("Timed")

DEFAULT_COUNTS = (0, 1, 4, 16)
DEFAULT_TYPE = "buffer"
DEFAULT_SETS = (ArgumentSet("mixed", 4), *argument_sets((DEFAULT_TYPE,), DEFAULT_COUNTS))
PRECISION = 0.01
EFFORTS: Mapping[Level, Effort] = {
    Level.QUICK: Effort(least=3, most=3, precision=PRECISION, budget_s=None, sure=3),
    # From eight trials on, the 99 % interval assumes nothing about how they are distributed; with twelve, it also
    # leaves out the most extreme one on either side.
    Level.DEFAULT: Effort(least=12, most=100, precision=PRECISION, budget_s=8.0, sure=12),
    Level.RIGOROUS: Effort(least=24, most=500, precision=0.005, budget_s=120.0, sure=24),
}
"""What each level means."""
# Of all modes in shuffled order and back.
ROUNDS = 3
PREPARATIONS = 8
DEVICE_BATCHES = 3
# A burst is long against any host's own clock.
NO_TIME_HINT = "The clock of an emulated device needs the time of a launch (CUDABW_EMULATED: launch_s)."


@dataclass(frozen=True, slots=True)
class PlannedMode:
    """One case before it is measured."""

    arguments: ArgumentSet
    mode: Mode

    @property
    def id(self) -> str:
        """Stable name of the case, the same in every run."""
        return f"{self.arguments.id}/{self.mode}"

    @property
    def label(self) -> str:
        """What a person calls it."""
        return f"{self.arguments.label}, {self.mode}"

    @property
    def named(self) -> bool:
        """Whether a flag or a suite names its kind of arguments."""
        return self.arguments.named


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """What to launch and how often.

    Attributes:
        sets: The arguments; each set once.
        trials: Take exactly as many independent draws of each set, each with a freshly loaded kernel and fresh
            buffers; None for as many as the level says.
        time_budget_s: Seconds after which no further trial begins, though each set gets at least one; None for the
            level's, which never prevents the level's least trials.
        seed: Seeds the order of sets and modes.
        level: How much is done for each figure.
        precision: How far intervals may reach from their medians, as a share; None for the level's.
    """

    sets: Sequence[ArgumentSet] = DEFAULT_SETS
    trials: int | None = None
    time_budget_s: float | None = None
    seed: int = 0
    level: Level = Level.DEFAULT
    precision: float | None = None

    @property
    def effort(self) -> Effort:
        """When a set has enough trials."""
        return effort_of(EFFORTS, self.level, trials=self.trials, precision=self.precision, budget_s=self.time_budget_s)

    def cases(self) -> tuple[PlannedMode, ...]:
        """Every case, in the order of the table."""
        return tuple(PlannedMode(arguments, mode) for arguments in self.sets for mode in arguments.modes)


def sets_for(arg_types: Sequence[str] | None, counts: Sequence[int] | None) -> tuple[ArgumentSet, ...]:
    """The sets of arguments that kinds and numbers mean, where either may be left open."""
    if arg_types is None and counts is None:
        return DEFAULT_SETS
    return argument_sets(
        arg_types or (DEFAULT_TYPE,), DEFAULT_COUNTS if counts is None else counts, named=arg_types is not None
    )


def run_launch_overhead(
    device: Device,
    plans: Sequence[LaunchPlan],
    observer: Observer = Observer(),  # noqa: B008 - frozen
    *,
    slowdowns: Slowdowns = no_slowdowns,
    keep: Keep = keep_nothing,
) -> Outcome:
    """Measure the launches of all plans.

    Args:
        device: The device.
        plans: What to measure, plan after plan.
        observer: Hears of progress and of what disturbs the times, and may stop the run between bursts.
        slowdowns: Says what slows the GPU down; asked after each trial.
        keep: Called after each trial.

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
        least=lambda plan: len(plan.sets) * plan.effort.least,
        measure=lambda plan, taking: _Run(device, plan, taking, slowdowns).measure(),
        skipped=skipped_cases,
        warnings=warnings,
    )


def skipped_cases(plans: Sequence[LaunchPlan], because: str) -> list[LaunchCase]:
    """The results of plans that were never begun."""
    draws = [SetDraws(arguments, plan.effort) for plan in plans for arguments in plan.sets]
    return [case for draw in draws for case in draw.cases(because)]


class _Run:
    """The measurement of one plan on one device."""

    def __init__(self, device: Device, plan: LaunchPlan, taking: Taking, slowdowns: Slowdowns) -> None:
        self._device = device
        self._effort = plan.effort
        self._taking = taking
        self._slowdowns = SlowdownWatch(slowdowns)
        self._full_speed = FullSpeed(device.driver.now)
        self._random = np.random.default_rng(plan.seed)
        self._draws = [SetDraws(arguments, self._effort, device.driver.tick_s) for arguments in plan.sets]
        self._found: LaunchOverhead | None = None

    def measure(self) -> Outcome:
        """Measure round after round, and keep what is finished whatever happens."""
        return self._outcome(take_to_the_end(self._take_all))

    def _outcome(self, ending: Ending) -> Outcome:
        return Outcome(
            cases=tuple(case for draws in self._draws for case in draws.cases(ending.because)),
            trials_done=self._taking.taken,
            interrupted=ending.interrupted,
            error=ending.error,
            launch_overhead=self._summary(),
            cpu_speed=self._full_speed.found(),
        )

    def _summary(self) -> LaunchOverhead | None:
        if self._found is None:
            return None
        sets = tuple(draws.result() for draws in self._draws)
        return replace(self._found, sets=sets, slopes=slopes_of(self._draws))

    def _take_all(self) -> str | None:
        with resources() as owned:
            self._set_up(owned)
            return self._take_rounds()

    def _set_up(self, owned: ExitStack) -> None:
        self._stream = owned.enter_context(self._device.stream())
        gate = gate_for(self._stream, owned)
        self._batches = owned.enter_context(BatchTimer(self._device, gate))
        with resources() as probe:
            launches = NullLaunches(self._device, self._stream, ArgumentSet(NO_ARGUMENTS, 0), probe)
            depth = self._detect_depth(gate, launches)
            most = most_in_a_burst(depth)
            self._bursts = BurstTimer(self._stream, choose_burst(self._time_one(launches), most))
        self._batch = min(MOST_QUEUED, most)
        self._found = LaunchOverhead(depth, self._bursts.times, describe_collector())

    def _detect_depth(self, gate: Gate | None, launches: NullLaunches) -> QueueDepth:
        if gate is None:
            return QueueDepth(None, 0)
        # Not a whole launch: the one that does not fit would hold the device's lock as well.
        return detect_queue_depth(self._stream, gate, launches.prepared.launcher.launch)

    def _time_one(self, launches: NullLaunches) -> float:
        """Seconds of one launch, which a few have warmed up."""
        timer = BurstTimer(self._stream, FEWEST)
        return min(timer.time(launches.prepared.submit).submit_s for _ in range(3))

    def _take_rounds(self) -> str | None:
        """Take the trials; returns why they ended early, if they did."""
        rounds = Rounds(self._draws, self._effort, self._random, enough=lambda draws: draws.enough)
        return self._taking.take(
            rounds, self._effort, lambda draws: draws.arguments.label, self._take_trial, self._outcome
        )

    def _take_trial(self, draws: SetDraws) -> None:
        if draws.failure.happened:
            return
        draw = partial(self._slowdowns.over, partial(self._draw, draws))
        with failing(self._device, draws.failure):
            with self._full_speed.held():
                bursts, trial = draws.slow.take(draw)
            draws.add(bursts, trial, self._bursts.times)

    def _draw(self, draws: SetDraws) -> tuple[dict[Mode, list[Burst]], SetTrial]:
        with resources() as owned, collector_off():
            launches = NullLaunches(self._device, self._stream, draws.arguments, owned)
            bursts, stages = self._take_bursts(launches)
            return bursts, SetTrial(
                module_load_s=launches.module_load_s,
                first_launch_s=launches.first_launch_s,
                prepare_s=self._full_speed.take(partial(self._time_preparing, launches)),
                device_s=tuple(self._time_device(draws, launches) for _ in range(DEVICE_BATCHES)),
                **{name: tuple(samples) for name, samples in stages.items()},
            )

    def _take_bursts(self, launches: NullLaunches) -> tuple[dict[Mode, list[Burst]], dict[str, list[float]]]:
        """Bursts of every mode and stage, in the same rounds."""
        modes, stages = launches.modes(), launches.stages()
        for way in (*modes.values(), *stages.values()):
            way(2)
        self._stream.synchronize()
        bursts: dict[Mode, list[Burst]] = {mode: [] for mode in modes}
        calls: dict[str, list[float]] = {stage: [] for stage in stages}
        for name in mirrored([*modes, *stages], ROUNDS, self._random):
            self._taking.observer.check_interrupt()
            if isinstance(name, Mode):
                burst = self._at_full_speed(partial(self._bursts.time, modes[name]))
                require_time(burst.submit_s, Clock.HOST, NO_TIME_HINT)
                bursts[name].append(burst)
            else:
                calls[name].append(self._at_full_speed(partial(self._bursts.time_calls, stages[name])))
        return bursts, calls

    def _at_full_speed(self, burst: Callable[[], Timed]) -> Timed:
        return self._full_speed.take(burst, warm_up=burst)

    def _time_preparing(self, launches: NullLaunches) -> tuple[float, ...]:
        now, times = self._device.driver.now, []
        for _ in range(PREPARATIONS):
            start = now()
            launches.prepare()
            times.append(now() - start)
        return tuple(times)

    def _time_device(self, draws: SetDraws, launches: NullLaunches) -> float:
        timing = self._batches.time(launches.prepared, self._batch)
        draws.device_gated = timing.gated
        return timing.seconds
