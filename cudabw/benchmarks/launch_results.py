"""From the samples of launches to results: figures, differences, the stage split, and what voids a row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING, Any, Final

from cudabw import stats
from cudabw.benchmarks.failures import Failure
from cudabw.measuring.judging import Judgement, converged, judge
from cudabw.measuring.pairing import difference_of, launches_to_repay, paired_difference, seconds_over, slope_of
from cudabw.measuring.slowdown import SlowTrials
from cudabw.results.launch import BENCHMARK, Counts, Difference, LaunchCase, LaunchTrial, Mode
from cudabw.results.launch_sets import ArgumentSetResult, SetTrial, Slope, StageSplit
from cudabw.results.model import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cudabw.benchmarks.launch_arguments import ArgumentSet
    from cudabw.measuring.bursts import Burst
    from cudabw.measuring.effort import Effort
    from cudabw.results.launch import Seconds

BASELINES: Final[Mapping[Mode, Mode]] = {
    Mode.PREPARED: Mode.BARE,
    Mode.PACKED: Mode.PREPARED,
    Mode.CONVERTED: Mode.PREPARED,
    Mode.SPECIALISED: Mode.CONVERTED,
    Mode.REBOUND: Mode.PREPARED,
}
"""What each mode is compared with."""

STAGES: Final = ("convert", "ownership", "pack", "driver")

TOLERANCE: Final = 0.1
"""How far the sum of the stages may be from the whole, as a share of it."""

BACK_PRESSURE: Final = 1.5
"""When the second half of a burst takes this much longer than the first, something held the calls."""


@dataclass(slots=True)
class SetDraws:
    """What is known of a set of arguments while it is measured.

    Attributes:
        arguments: The set.
        effort: How much is done for it.
        tick_s: Of the host's clock.
        modes: The trials of each mode.
        trials: The rest of the same trials.
        failure: Of a trial.
        device_gated: Whether a gate kept the time to queue out of the device's time.
        slow: Its trials in which the GPU was slowed down.
    """

    arguments: ArgumentSet
    effort: Effort
    tick_s: float = 0.0
    modes: dict[Mode, list[LaunchTrial]] = field(init=False)
    trials: list[SetTrial] = field(default_factory=list)
    failure: Failure = field(default_factory=Failure)
    device_gated: bool | None = None
    slow: SlowTrials = field(default_factory=SlowTrials)

    def __post_init__(self) -> None:
        self.modes = {mode: [] for mode in self.arguments.modes}

    def add(self, bursts: Mapping[Mode, Sequence[Burst]], trial: SetTrial, launches_per_burst: int) -> None:
        """One more trial of all modes."""
        for mode, trials in self.modes.items():
            trials.append(_trial(bursts[mode], launches_per_burst))
        self.trials.append(trial)

    @property
    def measured(self) -> bool:
        """Whether there are trials, and no failure that puts them in doubt."""
        return bool(self.trials) and not self.failure.doubted

    @property
    def enough(self) -> bool:
        """Whether a further trial would not change what the set is worth: the call is precise in every mode."""
        precision = self.effort.precision
        if self.failure.happened or precision is None or not self.trials:
            return True
        return all(
            self._void_because(mode) is not None or converged(self._submit_s(mode), precision) for mode in self.modes
        )

    def cases(self, ended_because: str | None) -> list[LaunchCase]:
        """The result of each mode; without a trial, it failed for the reason that ended the run."""
        return [self._case(mode, ended_because) for mode in self.modes]

    def _case(self, mode: Mode, ended_because: str | None) -> LaunchCase:
        state, reason = self._state(mode, ended_because)
        counts = self._counts(mode)
        return LaunchCase(
            id=f"{self.arguments.id}/{mode}",
            benchmark=BENCHMARK,
            arg_type=self.arguments.arg_type,
            args=self.arguments.count,
            mode=mode,
            state=state,
            reason=reason,
            named=self.arguments.named,
            conversions_per_launch=counts.conversions / counts.launches if counts.launches else None,
            waits_per_launch=counts.waits / counts.launches if counts.launches else None,
            trials=tuple(self.modes[mode]),
            **(self._figures(mode, ended_because) if state.measured else {}),
        )

    def _state(self, mode: Mode, ended_because: str | None) -> tuple[State, str | None]:
        if not self.measured:
            return self.failure.without_figure(ended_because)
        void_because = self._void_because(mode)
        return self._worth(mode, ended_because) if void_because is None else (State.FAILED, void_because)

    def _worth(self, mode: Mode, ended_because: str | None) -> Judgement:
        trials = self.modes[mode]
        return judge(
            self._submit_s(mode),
            [stats.median(trial.submit_s) for trial in trials],
            tick_s=self._tick_s(mode),
            precision=self.effort.precision,
            ended_because=self.effort.ended_because(len(self.trials), self.failure.reason or ended_because),
            throttled=self.slow.throttled(len(self.trials)),
        )

    def _submit_s(self, mode: Mode) -> Seconds:
        return seconds_over([trial.submit_s for trial in self.modes[mode]], self._tick_s(mode))

    def _tick_s(self, mode: Mode) -> float:
        """What the clock can tell of one launch, of which it sees a burst."""
        return self.tick_s / self.modes[mode][0].launches_per_burst

    def _figures(self, mode: Mode, ended_because: str | None) -> dict[str, Any]:
        trials = self.modes[mode]
        return {
            "submit_s": self._submit_s(mode),
            "sustained_s": seconds_over([trial.sustained_s for trial in trials], self._tick_s(mode)),
            "synchronised_s": seconds_over([trial.synchronised_s for trial in trials]),
            "difference": self.difference(mode),
            "notes": tuple(self._notes(trials, ended_because)),
        }

    def _counts(self, mode: Mode) -> Counts:
        return reduce(add, (trial.counts for trial in self.modes[mode]), Counts())

    def _void_because(self, mode: Mode) -> str | None:
        """Why the counts say that something else was timed; None if they are as they should be."""
        counts = self._counts(mode)
        expected = self.arguments.modes[mode] * counts.launches
        if counts.waits:
            return f"{counts.waits} waits for memory in {counts.launches} launches, where none was due"
        if counts.conversions != expected:
            return f"{counts.conversions} conversions in {counts.launches} launches, where {expected} were due"
        return None

    def difference(self, mode: Mode) -> Difference | None:
        """The paired difference of a mode to its baseline; None where one of them is void or not measured."""
        over = BASELINES.get(mode)
        if over is None or not self.measured or self._void_because(mode) or self._void_because(over):
            return None
        ours, baseline = ([trial.submit_s for trial in self.modes[which]] for which in (mode, over))
        return difference_of(over, ours, baseline)

    def _notes(self, trials: Sequence[LaunchTrial], ended_because: str | None) -> Iterable[str]:
        yield from self.effort.shortfall(len(trials), self.failure.reason or ended_because)
        yield from self.slow.notes()
        halves = [trial.second_half for trial in trials if trial.second_half is not None]
        if halves and (ratio := stats.median(halves)) > BACK_PRESSURE:
            yield f"back-pressure: the second half of a burst took {ratio:.1f} times as long to submit as the first"

    def result(self) -> ArgumentSetResult:
        """What is known of the set, whatever the mode."""
        arguments, trials = self.arguments, self.trials
        blind = arguments.count == 0
        found = ArgumentSetResult(arguments.id, arguments.arg_type, arguments.count, blind, trials=tuple(trials))
        if not self.measured:
            return found
        prepare_s = seconds_over([trial.prepare_s for trial in trials])
        headline = self.difference(Mode.CONVERTED)
        return replace(
            found,
            device_s=seconds_over([trial.device_s for trial in trials]),
            device_gated=self.device_gated,
            module_load_s=seconds_over([[trial.module_load_s] for trial in trials]),
            first_launch_s=seconds_over([[trial.first_launch_s] for trial in trials]),
            prepare_s=prepare_s,
            repaid_after=launches_to_repay(prepare_s.median, headline) if headline else None,
            stages=self._stages(),
        )

    def _stages(self) -> StageSplit | None:
        if self._void_because(Mode.CONVERTED):
            return None
        whole = [trial.submit_s for trial in self.modes[Mode.CONVERTED]]
        total_s = seconds_over(whole).median
        through = {stage: [getattr(trial, f"through_{stage}_s") for trial in self.trials] for stage in STAGES}
        stages = {"call_s": _added(whole, [trial.direct_s for trial in self.trials])}
        stages["convert_s"] = seconds_over(through["convert"])
        for before, stage in pairwise(STAGES):
            stages[f"{stage}_s"] = _added(through[stage], through[before])
        sum_s = sum(stage.median for stage in stages.values())
        return StageSplit(**stages, sum_s=sum_s, total_s=total_s, adds_up=abs(sum_s - total_s) <= TOLERANCE * total_s)


def _added(longer: Sequence[Sequence[float]], shorter: Sequence[Sequence[float]]) -> Seconds:
    """What one way takes more than another, in the pairs of each trial."""
    return seconds_over([[paired_difference(one, other)] for one, other in zip(longer, shorter, strict=True)])


def _trial(bursts: Sequence[Burst], launches_per_burst: int) -> LaunchTrial:
    halves = [burst.second_half for burst in bursts if burst.second_half is not None]
    return LaunchTrial(
        launches_per_burst=launches_per_burst,
        submit_s=tuple(burst.submit_s for burst in bursts),
        sustained_s=tuple(burst.sustained_s for burst in bursts),
        synchronised_s=tuple(burst.synchronised_s for burst in bursts),
        second_half=stats.median(halves) if halves else None,
        counts=reduce(add, (burst.counts for burst in bursts)),
    )


def slopes_of(draws: Sequence[SetDraws]) -> tuple[Slope, ...]:
    """What one more argument costs, for each kind that was measured with several numbers of them."""
    found = []
    for arg_type in dict.fromkeys(draw.arguments.arg_type for draw in draws if draw.arguments.count):
        members = [draw for draw in draws if draw.arguments.arg_type == arg_type or not draw.arguments.count]
        differences = {
            draw.arguments.count: difference.samples_s
            for draw in members
            if (difference := draw.difference(Mode.CONVERTED)) is not None
        }
        if len(differences) > 1:
            found.append(slope_of(arg_type, differences))
    return tuple(found)
