"""Whether the GPU was slowed down while a batch ran, and what that means for a case."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from cudabw.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Slowdowns: TypeAlias = "Callable[[], tuple[str, ...]]"
"""Says what holds the GPU's clocks down now, in NVML's words; nothing where nothing does or nobody can tell."""

MOST_REPEATS = 4
"""How many batches of a trial are taken again at most: as many as it has. What lasts longer will not go away."""

Taken = TypeVar("Taken")


def no_slowdowns() -> tuple[str, ...]:
    """Nobody can tell."""
    return ()


class SlowdownWatch:
    """Asks while a batch runs and after it.

    Args:
        ask: What slows the GPU down now.
    """

    def __init__(self, ask: Slowdowns) -> None:
        self._ask = ask
        self._seen: dict[str, None] = {}

    def look(self) -> None:
        """Ask now; to be called while the batch runs."""
        self._seen.update(dict.fromkeys(self._ask()))

    def over(self, take: Callable[[], Taken]) -> tuple[Taken, tuple[str, ...]]:
        """Take a batch; gives what it gives, and what slowed the GPU down during or right after it."""
        self._seen = {}
        taken = take()
        self.look()
        return taken, tuple(self._seen)


@dataclass(slots=True)
class SlowTrials:
    """The trials of a case in which the GPU was slowed down.

    Attributes:
        slowed_by: What slowed it down.
        repeated: How many were taken again for that.
        kept: How many were kept all the same.
    """

    slowed_by: dict[str, None] = field(default_factory=dict)
    repeated: int = 0
    kept: int = 0

    def take(self, trial: Callable[[], tuple[Taken, tuple[str, ...]]]) -> Taken:
        """Take a trial, which also gives what slowed the GPU down in it; again while something did, a few times."""
        while True:
            taken, slowed_by = trial()
            if not self.repeats(slowed_by):
                return taken

    def repeats(self, slowed_by: Sequence[str]) -> bool:
        """Whether a trial is to be taken again because the GPU was slowed down by this, and count it."""
        if not slowed_by:
            return False
        self.slowed_by.update(dict.fromkeys(slowed_by))
        again = self.repeated < MOST_REPEATS
        self.repeated += again
        self.kept += not again
        return again

    def throttled(self, trials: int) -> str | None:
        """What slowed the GPU down in some of so many trials that were kept, in words; None where nothing did."""
        if not self.kept:
            return None
        return f"the GPU was slowed down in {self.kept} of {trials} trials, also when repeated ({self._causes})"

    def notes(self) -> Iterator[str]:
        """Says that trials were repeated, where some were."""
        if self.repeated:
            trials = format_count(self.repeated, "trial was", "trials were")
            yield f"{trials} repeated, because the GPU was slowed down ({self._causes})"

    @property
    def _causes(self) -> str:
        return ", ".join(self.slowed_by)
