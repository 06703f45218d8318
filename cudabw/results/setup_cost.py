"""What it costs to have memory ready, and when pinning it has paid: frozen values, part of a run's results.

Times are seconds by the host's clock. A figure is the median over trials, each with fresh memory, with its 99 %
interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from cudabw.results.model import Clock, State, require_contract

if TYPE_CHECKING:
    from cudabw.results.launch import Seconds

BENCHMARK = "setup_cost"


@dataclass(frozen=True, slots=True)
class SetupTrial:
    """One draw: memory from nothing to nothing.

    Attributes:
        allocate_s: Getting it. Of pinned, mapped and write-combined memory this pins it; of pageable memory the system
            gives no page yet.
        touch_s: Writing to every page of it for the first time, from one thread.
        register_s: Pinning memory that is there already; null for kinds that are not registered.
        unregister_s: Unpinning it.
        free_s: Giving it back.
    """

    allocate_s: float
    touch_s: float
    register_s: float | None
    unregister_s: float | None
    free_s: float

    @property
    def registration_s(self) -> float:
        """Pinning and unpinning what is there already."""
        return (self.register_s or 0.0) + (self.unregister_s or 0.0)

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.allocate_s + self.touch_s + self.registration_s + self.free_s


@dataclass(frozen=True, slots=True)
class SetupCase:
    """What memory of one kind and size costs besides its copies; attributes as of :class:`SetupTrial`.

    Attributes:
        named: Whether a flag or a suite named this kind.
        registration_s: Pinning and unpinning what is there already, together.
        total_s: All of it together.
    """

    id: str
    benchmark: str
    kind: str
    size_bytes: int
    state: State
    reason: str | None = None
    named: bool = False
    clock: Clock = Clock.HOST
    allocate_s: Seconds | None = None
    touch_s: Seconds | None = None
    register_s: Seconds | None = None
    unregister_s: Seconds | None = None
    registration_s: Seconds | None = None
    free_s: Seconds | None = None
    total_s: Seconds | None = None
    notes: tuple[str, ...] = ()
    trials: tuple[SetupTrial, ...] = ()

    def __post_init__(self) -> None:
        """Hold the contract of the states."""
        require_contract(self.id, self.state, self.reason, self.total_s)


class Change(StrEnum):
    """What somebody does who pins memory."""

    ALLOCATE = "allocate"
    """Allocate memory of this kind instead of pageable memory."""
    REGISTER = "register"
    """Register pageable memory that is there already, and unregister it in the end."""


class Repaid(StrEnum):
    """Whether pinning pays."""

    AFTER = "after"
    """After a number of copies."""
    NEVER = "never"
    """Copies are no faster."""
    UNKNOWN = "not known"
    """The intervals of the copies overlap, or there is none."""


@dataclass(frozen=True, slots=True)
class BreakEven:
    """After how many copies of one size pinning has paid.

    That is what it costs more to have such memory ready, over what each copy takes less than one of pageable memory by
    the driver.

    Attributes:
        kind: Kind of the pinned memory.
        engine: What copies it: the fastest that was measured.
        direction: Which way.
        size_bytes: Of the memory, and of each copy.
        change: What is done to have it pinned.
        repaid: Whether it pays.
        copies: After how many copies; 0 where it costs no more. Null unless ``repaid`` is ``after``.
        fewest: Likewise, at the favourable ends of all intervals.
        most: Likewise, at the other ends.
        numa_node: The NUMA node that the copied memory was put on; null where none was asked for.
    """

    kind: str
    engine: str
    direction: str
    size_bytes: int
    change: Change
    repaid: Repaid
    copies: int | None = None
    fewest: int | None = None
    most: int | None = None
    numa_node: int | None = None
