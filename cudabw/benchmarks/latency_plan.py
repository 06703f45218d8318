"""What the latency benchmark can measure, and what a run of it is asked to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from cudabw.benchmarks.bandwidth_plan import DIRECTIONS
from cudabw.measuring.effort import Effort, Level, effort_of
from cudabw.results.latency import LATENCY, SMALL_COPIES, Pace, Way
from cudabw.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

KINDS: Final = ("pinned", "pageable")
DEFAULT_SIZES: Final = (1, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20)
DEFAULT_BLOCKS: Final = (64, 4 << 10, 16 << 10, 64 << 10, 256 << 10)
"""Of which many copies are made at once where no sizes were asked for: still smaller ones cost what these do."""
DEFAULT_COPIES: Final = 32

PRECISION: Final = 0.05
EFFORTS: Final[Mapping[Level, Effort]] = {
    Level.QUICK: Effort(least=3, most=3, precision=PRECISION, budget_s=None, sure=3),
    # From eight trials on, the 99 % interval assumes nothing about how they are distributed.
    Level.DEFAULT: Effort(least=8, most=100, precision=PRECISION, budget_s=8.0, sure=3),
    Level.RIGOROUS: Effort(least=24, most=500, precision=0.01, budget_s=120.0, sure=24),
}
"""What each level means."""

LARGEST_BLOCK: Final = 256 << 10
"""Larger copies are not made many at once: there the link is the limit, whatever the way."""

SWEEP_SIZE: Final = 4 << 10
"""The size at which the number of copies varies, where it is one of the sizes."""
SWEEP_COPIES: Final = (1, 2, 8, 32, 128)

WAYS: Final[Mapping[str, Sequence[Way]]] = {"pinned": tuple(Way), "pageable": (Way.LOOP, Way.BATCH)}
"""A kernel does not reach pageable memory; a graph would copy what its pages hold when it runs."""


@dataclass(frozen=True, slots=True)
class OneCopy:
    """Memory for one copy at a time."""

    kind: str
    direction: str
    size_bytes: int
    named: bool = False

    @property
    def copies(self) -> int:
        """How many copies are submitted before the host waits."""
        return 1

    @property
    def label(self) -> str:
        """What a person reads while it is measured."""
        return f"{self.kind} {self.direction} {format_size(self.size_bytes)}"

    def cases(self) -> tuple[PlannedLatency, ...]:
        """What is measured with it."""
        start = f"{LATENCY}/{self.kind}/{self.direction}/{self.size_bytes}"
        return tuple(PlannedLatency(self, pace, f"{start}/{pace}", self.named) for pace in Pace)


@dataclass(frozen=True, slots=True)
class ManyCopies:
    """Memory for many copies of scattered blocks."""

    kind: str
    direction: str
    size_bytes: int
    copies: int
    named: bool = False

    @property
    def label(self) -> str:
        """What a person reads while it is measured."""
        return f"{self.kind} {self.direction} {self.copies} x {format_size(self.size_bytes)}"

    def cases(self) -> tuple[PlannedLatency, ...]:
        """What is measured with it; a way that the driver lacks is not what a kind of memory was named for."""
        start = f"{SMALL_COPIES}/{self.kind}/{self.direction}/{self.size_bytes}x{self.copies}"
        return tuple(
            PlannedLatency(self, way, f"{start}/{way}", self.named and way is Way.LOOP) for way in WAYS[self.kind]
        )


Cell: TypeAlias = OneCopy | ManyCopies


@dataclass(frozen=True, slots=True)
class PlannedLatency:
    """One case before it is measured: a cell, and what is done in it.

    Attributes:
        id: Stable name of the case, the same in every run.
        named: Whether a flag or a suite named it.
    """

    cell: Cell
    how: Pace | Way
    id: str
    named: bool

    @property
    def kind(self) -> str:
        """Of the memory."""
        return self.cell.kind

    @property
    def label(self) -> str:
        """What a person calls it."""
        return f"{self.cell.label} {self.how}"


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """What to measure and how often.

    Attributes:
        kinds: Of ``KINDS``.
        directions: ``h2d``, ``d2h``.
        sizes: Bytes of one copy; up to ``LARGEST_BLOCK`` also of many. Without any, ``DEFAULT_SIZES`` of one copy and
            ``DEFAULT_BLOCKS`` of many.
        copies: How many copies are made at once at every size; at ``SWEEP_SIZE``, other numbers as well.
        trials: Take exactly as many independent draws of each cell; None for as many as the level says.
        time_budget_s: Seconds after which no further trial begins, though each cell gets at least one; None for the
            level's.
        named: The kinds that were asked for by name.
        seed: Seeds the bytes, the places of the blocks and the order of all.
        level: How much is done for each figure.
        precision: How far intervals may reach from their medians, as a share; None for the level's.
    """

    kinds: Sequence[str] = KINDS
    directions: Sequence[str] = DIRECTIONS
    sizes: Sequence[int] = ()
    copies: int = DEFAULT_COPIES
    trials: int | None = None
    time_budget_s: float | None = None
    named: frozenset[str] = frozenset()
    seed: int = 0
    level: Level = Level.DEFAULT
    precision: float | None = None

    @property
    def effort(self) -> Effort:
        """When a cell has enough trials."""
        return effort_of(EFFORTS, self.level, trials=self.trials, precision=self.precision, budget_s=self.time_budget_s)

    def cells(self) -> tuple[Cell, ...]:
        """Every cell, in the order of the tables."""
        ways = [(kind, way) for kind in self.kinds for way in self.directions]
        return (
            *(OneCopy(*way, size, way[0] in self.named) for way in ways for size in self.sizes or DEFAULT_SIZES),
            *(
                ManyCopies(*way, size, copies, way[0] in self.named)
                for way in ways
                for size, copies in self._small_copies()
            ),
        )

    def _small_copies(self) -> Iterator[tuple[int, int]]:
        """Sizes of blocks with how many of them."""
        for size in self.sizes or DEFAULT_BLOCKS:
            numbers = {self.copies, *(SWEEP_COPIES if size == SWEEP_SIZE else ())}
            if size <= LARGEST_BLOCK:
                yield from ((size, number) for number in sorted(numbers))

    def cases(self) -> tuple[PlannedLatency, ...]:
        """Every case, in the order of the tables."""
        return tuple(case for cell in self.cells() for case in cell.cases())
