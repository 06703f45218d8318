"""Whether the GPU was slowed down while a batch ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

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
