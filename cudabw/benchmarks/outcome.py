"""What a benchmark hands back: results of all its cases, and why it ended early if it did."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from cudabw.errors import CudabwError, Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cudabw.results.cpu_speed import CpuSpeed
    from cudabw.results.latency import SmallCopies
    from cudabw.results.launch_sets import LaunchOverhead
    from cudabw.results.model import Case

_Found = TypeVar("_Found", "LaunchOverhead", "SmallCopies", "CpuSpeed")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a benchmark.

    Attributes:
        cases: One for each case, in the order of the plan.
        trials_done: Trials begun and ended, for progress.
        interrupted: The signal that stopped it.
        error: What made going on pointless, such as a lost device.
        launch_overhead: What launches showed beyond their cases.
        small_copies: What small copies did.
        cpu_speed: Which CPUs the host's times were taken on.
        warnings: What disturbs the figures, one sentence each.
    """

    cases: tuple[Case, ...] = ()
    trials_done: int = 0
    interrupted: Interrupted | None = None
    error: CudabwError | None = None
    launch_overhead: LaunchOverhead | None = None
    small_copies: SmallCopies | None = None
    cpu_speed: CpuSpeed | None = None
    warnings: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether it ended before everything was measured."""
        return self.interrupted is not None or self.error is not None

    @property
    def ended_because(self) -> str | None:
        """Why it ended early, in words."""
        return "interrupted" if self.interrupted else str(self.error) if self.error else None

    def extended(self, cases: Iterable[Case]) -> Outcome:
        """The outcome with more cases."""
        return replace(self, cases=(*self.cases, *cases))

    def merged(self, other: Outcome) -> Outcome:
        """This outcome followed by another's."""
        return replace(
            other,
            cases=self.cases + other.cases,
            trials_done=self.trials_done + other.trials_done,
            launch_overhead=_sum(self.launch_overhead, other.launch_overhead),
            small_copies=_sum(self.small_copies, other.small_copies),
            cpu_speed=_sum(self.cpu_speed, other.cpu_speed),
            warnings=tuple(dict.fromkeys(self.warnings + other.warnings)),
        )


def _sum(first: _Found | None, second: _Found | None) -> _Found | None:
    """Both together; one alone where the other is missing."""
    return first or second if first is None or second is None else first + second


Keep: TypeAlias = "Callable[[Callable[[], Outcome]], None]"
"""Called after each trial with a function that gives the results so far."""


def keep_nothing(so_far: Callable[[], Outcome]) -> None:
    """Nobody keeps the results so far."""


def keep_after(outcome: Outcome, keep: Keep) -> Keep:
    """Keep what follows an outcome together with it."""
    return lambda so_far: keep(lambda: outcome.merged(so_far()))


@dataclass(frozen=True, slots=True)
class Ending:
    """How taking a benchmark's trials ended.

    Attributes:
        because: Why it ended early, in words; None if everything was taken.
        interrupted: The signal that stopped it.
        error: What made going on pointless.
    """

    because: str | None = None
    interrupted: Interrupted | None = None
    error: CudabwError | None = None


UNFINISHED: Final = Ending("the run had not finished")
"""Of results that are written while the run still goes on."""


def take_to_the_end(take: Callable[[], str | None]) -> Ending:
    """Take the trials, so that what is finished can be kept whatever happens.

    Args:
        take: Returns why it ended early, if it did, or raises.
    """
    try:
        return Ending(take())
    except Interrupted as error:
        return Ending("interrupted", interrupted=error)
    except CudabwError as error:
        return Ending(str(error), error=error)
