"""What the bandwidth benchmark can measure, and what a run of it is asked to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cudabw.copying import driver_copy, kernel_copy, staged_copy
from cudabw.measuring.effort import Effort, Level, effort_of
from cudabw.results.model import Pages
from cudabw.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DRIVER: Final = driver_copy.ENGINE
KERNEL: Final = kernel_copy.ENGINE
STAGED: Final = staged_copy.ENGINE
ENGINES: Final = (DRIVER, KERNEL, STAGED)

DEFAULT_KINDS: Final = ("pageable", "pinned", "mapped")
KINDS: Final = (*DEFAULT_KINDS, "write-combined", "registered", "managed")
DIRECTIONS: Final = ("h2d", "d2h")
LOCAL: Final = "d2d"
BOTH: Final = "bidirectional"
TOTAL: Final = f"{BOTH}-total"
ALL_DIRECTIONS: Final = (*DIRECTIONS, BOTH, LOCAL)
_ALL_WAYS: Final = (*DIRECTIONS, BOTH)

CELLS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "pageable": {DRIVER: DIRECTIONS, STAGED: DIRECTIONS},
    "pinned": {DRIVER: _ALL_WAYS},
    "mapped": {DRIVER: _ALL_WAYS, KERNEL: DIRECTIONS},
    "write-combined": {DRIVER: _ALL_WAYS},
    "registered": {DRIVER: _ALL_WAYS},
    "managed": {DRIVER: DIRECTIONS},
    "device": {DRIVER: (LOCAL,)},
}
"""The directions in which each engine of each kind of memory goes."""

PAGE_STATES: Final[Mapping[Pages, Sequence[str]]] = {
    Pages.WARM: (*_ALL_WAYS, LOCAL),
    # A source holds bytes, so that its pages are there.
    Pages.FIRST_TOUCH: ("d2h",),
    Pages.HUGE: DIRECTIONS,
}
"""The directions in which each state of pages makes sense; those but the first are states of pageable memory."""

# Mapped memory is there for kernels to reach; what copies of it by the driver reach, pinned memory shows as well.
_USUAL_ENGINES: Final = {"mapped": KERNEL}

DEFAULT_SIZE: Final = 64 << 20

PRECISION: Final = 0.005
EFFORTS: Final[Mapping[Level, Effort]] = {
    Level.QUICK: Effort(least=3, most=3, precision=PRECISION, budget_s=None, sure=3),
    # Five trials of the usual six cases take 7.5 s on an H200; with the rest of the command it stays below 10.
    Level.DEFAULT: Effort(least=5, most=100, precision=PRECISION, budget_s=8.0, sure=5),
    Level.RIGOROUS: Effort(least=12, most=500, precision=0.001, budget_s=120.0, sure=12),
}
"""What each level means. Three trials are the fewest whose interval says anything; from twelve on, also drift and two
groups are told."""

AUTO: Final = "auto"
ALL: Final = "all"

# Each piece of a staged copy takes a turn of the interpreter: with smaller slots, they alone take seconds.
SMALLEST_SLOT: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Staging:
    """How the staged engine is to do its work.

    Attributes:
        threads: How many copy; None to find out.
        slot: Bytes of a pinned slot; None to find out.
    """

    threads: int | None = None
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class BandwidthCase:
    """One cell to measure.

    Attributes:
        staging: For the staged engine; None for any other.
        node: The NUMA node that host memory and thread are put on: its number, ``auto`` for the device's, or ``all``
            where it is not known which there are. None leaves both where they are.
        pages: The state of the host memory's pages.
    """

    kind: str
    direction: str
    size_bytes: int
    named: bool = False
    engine: str = DRIVER
    staging: Staging | None = None
    node: int | str | None = None
    pages: Pages = Pages.WARM

    @property
    def id(self) -> str:
        """Stable name of the case, the same in every run."""
        return self.id_of(self.direction)

    def id_of(self, direction: str) -> str:
        """Stable name of one of its results."""
        pages = "" if self.pages is Pages.WARM else f"/{self.pages}"
        node = "" if self.node is None else f"/node{self.node}" if isinstance(self.node, int) else f"/node-{self.node}"
        return f"bandwidth/{self.kind}/{self.engine}/{direction}/{self.size_bytes}{pages}{node}"

    @property
    def results(self) -> tuple[str, ...]:
        """The directions of its results: what both directions at once reach together, and each of them."""
        return (TOTAL, *(f"{BOTH}-{way}" for way in DIRECTIONS)) if self.direction == BOTH else (self.direction,)

    @property
    def copies_at_once(self) -> int:
        """How many copies, with memory of their own, run at the same time."""
        return 2 if self.direction == BOTH else 1

    @property
    def label(self) -> str:
        """What a person reads while it is measured."""
        pages = "" if self.pages is Pages.WARM else f" {self.pages}"
        engine = "" if self.engine == DRIVER else f" {self.engine}"
        node = "" if self.node is None else f" node {self.node}"
        return f"{self.kind}{pages}{engine} {self.direction} {format_size(self.size_bytes)}{node}"


@dataclass(frozen=True, slots=True)
class BandwidthPlan:
    """What to measure and how often.

    Attributes:
        kinds: Kinds of host memory; device memory comes beside them where the directions ask for it.
        directions: Of ``ALL_DIRECTIONS``.
        sizes: Bytes of one copy.
        trials: Take exactly as many independent draws of each case; None for as many as the level says.
        time_budget_s: Seconds after which no further trial begins, though each case gets at least one; None for the
            level's, which never prevents the level's least trials.
        named: The kinds and engines that were asked for by name, so that one that cannot be had is the run's failure.
        sizes_named: Whether the sizes were, so that one that nothing could be measured at is.
        seed: Seeds the bytes and the order of the cases.
        engines: Of ``ENGINES``; none takes each kind's usual one.
        staging: For the staged engine.
        nodes: The NUMA nodes that host memory and thread are put on, as of :class:`BandwidthCase`.
        nodes_named: Whether they were asked for by name, so that one that nothing could be measured on is the run's
            failure.
        level: How much is done for each figure.
        precision: How far intervals may reach from their medians, as a share; None for the level's.
        pages: States of pageable memory's pages to measure besides the usual one.
        setup_kinds: Kinds of host memory of which to measure besides what it costs to have them ready, at each size.
    """

    kinds: Sequence[str] = DEFAULT_KINDS
    directions: Sequence[str] = DIRECTIONS
    sizes: Sequence[int] = (DEFAULT_SIZE,)
    trials: int | None = None
    time_budget_s: float | None = None
    named: frozenset[str] = frozenset()
    sizes_named: bool = False
    seed: int = 0
    engines: Sequence[str] = ()
    staging: Staging = Staging()
    nodes: Sequence[int | str | None] = (None,)
    nodes_named: bool = False
    pages: Sequence[Pages] = ()
    setup_kinds: Sequence[str] = ()
    level: Level = Level.DEFAULT
    precision: float | None = None

    @property
    def effort(self) -> Effort:
        """When a case has enough trials."""
        return effort_of(EFFORTS, self.level, trials=self.trials, precision=self.precision, budget_s=self.time_budget_s)

    def cases(self) -> tuple[BandwidthCase, ...]:
        """Every case, in the order of the table; what does not go together is no case."""
        return tuple(
            self._case(kind, engine, size, direction, node, pages)
            for kind in (*self.kinds, "device")
            for pages in (Pages.WARM, *(self.pages if kind == "pageable" else ()))
            for engine in CELLS[kind]
            for size in self.sizes
            for node in (self.nodes if kind != "device" else (None,))
            for direction in self.directions
            if direction in CELLS[kind][engine] and engine in self._engines(kind, direction)
            if direction in PAGE_STATES[pages]
        )

    def _engines(self, kind: str, direction: str) -> Iterable[str]:
        if self.engines:
            return self.engines
        usual = _USUAL_ENGINES.get(kind, DRIVER)
        return (usual if direction in CELLS[kind][usual] else DRIVER,)

    def _case(
        self, kind: str, engine: str, size: int, direction: str, node: int | str | None, pages: Pages
    ) -> BandwidthCase:
        # Every kind goes by the driver, so that naming it names no case.
        named = kind in self.named or engine in self.named - {DRIVER} or direction == LOCAL or pages is not Pages.WARM
        staging = self.staging if engine == STAGED else None
        return BandwidthCase(kind, direction, size, named, engine, staging, node, pages)


def require_sense(plan: BandwidthPlan) -> None:
    """Do nothing unless something that was asked for goes with nothing else that was.

    Raises:
        ValueError: Says what it is, and what it goes with.
    """
    cases = plan.cases()
    measured = {word for case in cases for word in (case.kind, case.engine, case.direction)}
    for word in (*sorted(plan.named), *plan.directions):
        if word not in measured:
            raise ValueError(f"{word} goes with none of the other choices: {_partners(word)}")
    if any(node is not None for node in plan.nodes) and all(case.node is None for case in cases):
        raise ValueError("a NUMA node is for host memory, of which nothing is chosen")
    for pages in plan.pages:
        if all(case.pages is not pages for case in cases):
            ways = ", ".join(PAGE_STATES[pages])
            raise ValueError(f"{pages} goes with none of the other choices: it is of pageable memory ({ways})")
    if plan.staging != Staging() and STAGED not in measured:
        raise ValueError(f"threads and slot are of the {STAGED} engine, which is not chosen")
    if plan.staging.slot is not None and plan.staging.slot < SMALLEST_SLOT:
        raise ValueError(f"a slot has {format_size(SMALLEST_SLOT)} or more, not {format_size(plan.staging.slot)}")


def page_states(*, first_touch: bool, huge_pages: bool) -> tuple[Pages, ...]:
    """The states of pages that two switches ask for besides the usual one."""
    asked = {Pages.FIRST_TOUCH: first_touch, Pages.HUGE: huge_pages}
    return tuple(pages for pages, wanted in asked.items() if wanted)


def _partners(word: str) -> str:
    """What a kind, an engine or a direction goes with, in words."""
    cells = [(kind, engine, ways) for kind, engines in CELLS.items() for engine, ways in engines.items()]
    if word in CELLS:
        by = (f"by {engine} ({', '.join(ways)})" for kind, engine, ways in cells if kind == word)
        return f"it is copied {' or '.join(by)}"
    if word in ENGINES:
        of = (f"{kind} memory ({', '.join(ways)})" for kind, engine, ways in cells if engine == word)
        return f"it copies {' or '.join(of)}"
    kinds: dict[str, list[str]] = {}
    for kind, engine, ways in cells:
        if word in ways:
            kinds.setdefault(engine, []).append(kind)
    by = (f"{', '.join(some)} memory by {engine}" for engine, some in kinds.items())
    return f"it is for {'; '.join(by)}"
