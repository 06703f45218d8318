"""The data of a measurement of small copies: frozen values, part of a run's results.

Times are seconds of one copy unless an attribute says otherwise. A figure is the median over trials of each trial's
median, with its 99 % interval; the samples that it comes from are in the trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from cudabw.results.model import Clock, State, require_contract

if TYPE_CHECKING:
    from cudabw.results.launch import Seconds

LATENCY = "latency"
SMALL_COPIES = "small_copies"


class Pace(StrEnum):
    """What one copy comes after."""

    END_TO_END = "end_to_end"
    """Nothing: it is submitted, and the host waits until it is done."""
    QUEUED = "queued"
    """Others like it, queued before and behind; one wait for all of them."""


class Way(StrEnum):
    """A way to make many copies."""

    LOOP = "loop"
    """A call of the driver for each."""
    BATCH = "batch"
    """One call for all of them, ``cuMemcpyBatchAsync``."""
    GRAPH = "graph"
    """A graph with a node for each, each after the one before, instantiated once and launched."""
    KERNEL = "kernel"
    """One kernel that reaches the host's memory itself and reads all addresses from a table on the device."""


@dataclass(frozen=True, slots=True)
class CopyTrial:
    """One draw with memory of its own.

    Attributes:
        times_per_batch: How often a batch does the work: a sample is the median of so many turns of submitting and
            waiting, or the mean over so many queued copies.
        samples_s: One for each batch.
        submit_s: Of the same turns, the submitting calls alone; empty where copies are queued.
        build_s: What was prepared once before, in seconds for all copies; null where there is nothing to prepare.
        pages_on: Where the host memory was, as the system said after the last batch: numbers of pages by NUMA node,
            of a sample of pages; null where it does not say.
        thread_node: The NUMA node that the submitting thread ran on then.
    """

    times_per_batch: int
    samples_s: tuple[float, ...]
    submit_s: tuple[float, ...] = ()
    build_s: float | None = None
    pages_on: Mapping[str, int] | None = None
    thread_node: int | None = None


@dataclass(frozen=True, slots=True)
class LatencyCase:
    """One copy: kind x direction x size x pace.

    Attributes:
        named: Whether a flag or a suite named this kind of memory.
        clock: Pageable copies hold the host, so that they are never queued but made in a row, by the host's clock.
        gated: Whether a gate kept the time to queue out of the samples.
        verified: Whether the destination held the source's bytes after every batch.
        tick_s: Seconds of one tick of the clock; 0 for an exact clock.
        seconds: Of one copy.
        submit_s: Of the submitting call alone; null where copies are queued.
        driver_says: What the driver itself answered about the host memory.
    """

    id: str
    benchmark: str
    kind: str
    direction: str
    size_bytes: int
    pace: Pace
    state: State
    reason: str | None = None
    named: bool = False
    clock: Clock | None = None
    gated: bool | None = None
    verified: bool | None = None
    tick_s: float | None = None
    seconds: Seconds | None = None
    submit_s: Seconds | None = None
    driver_says: str | None = None
    notes: tuple[str, ...] = ()
    trials: tuple[CopyTrial, ...] = ()

    def __post_init__(self) -> None:
        """Hold the contract of the states."""
        require_contract(self.id, self.state, self.reason, self.seconds)


@dataclass(frozen=True, slots=True)
class SmallCopiesCase:
    """Many copies of scattered blocks: kind x direction x size x number x way; submitted, and waited for.

    Attributes:
        size_bytes: Of one block.
        copies: How many blocks.
        named: Whether a flag or a suite named this kind of memory; no way is named.
        verified: Whether every block arrived, and nothing beside them was written, after every batch.
        tick_s: Seconds of one tick of the clock; 0 for an exact clock.
        per_copy_s: From submitting to the end of the wait, for each copy.
        submit_s: The submitting calls, for each copy.
        build_s: What is prepared once before, for all copies: the lists of a batch, capturing and instantiating a
            graph, the table of a kernel; null for a loop.
        driver_says: What the driver itself answered about the host memory.
    """

    id: str
    benchmark: str
    kind: str
    direction: str
    size_bytes: int
    copies: int
    way: Way
    state: State
    reason: str | None = None
    named: bool = False
    clock: Clock = Clock.HOST
    verified: bool | None = None
    tick_s: float | None = None
    per_copy_s: Seconds | None = None
    submit_s: Seconds | None = None
    build_s: Seconds | None = None
    driver_says: str | None = None
    notes: tuple[str, ...] = ()
    trials: tuple[CopyTrial, ...] = ()

    def __post_init__(self) -> None:
        """Hold the contract of the states."""
        require_contract(self.id, self.state, self.reason, self.per_copy_s)


@dataclass(frozen=True, slots=True)
class LoopSuffices:
    """From which size on no other way was seen to be faster than a loop of copies.

    A way is faster where the 99 % interval of its ratio to the loop, trial by trial, says so.

    Attributes:
        copies: The number of copies that it holds for.
        sizes: At which both have a figure, in bytes.
        from_bytes: The smallest of these from which on it is so; null where it is not even at the largest.
    """

    kind: str
    direction: str
    way: Way
    copies: int
    sizes: tuple[int, ...]
    from_bytes: int | None


@dataclass(frozen=True, slots=True)
class WayPays:
    """From how many copies on a way is faster than a loop: the interval of their ratio, trial by trial, says so.

    Attributes:
        size_bytes: The size that it holds for.
        copies: The numbers at which both have a figure.
        from_copies: The smallest of these from which on it is so; null where it is not even at the largest.
    """

    kind: str
    direction: str
    way: Way
    size_bytes: int
    copies: tuple[int, ...]
    from_copies: int | None


@dataclass(frozen=True, slots=True)
class SmallCopies:
    """What a run found out about small copies beyond its cases; nothing where one trial gives no interval."""

    loop_suffices: tuple[LoopSuffices, ...] = ()
    way_pays: tuple[WayPays, ...] = ()

    def __add__(self, later: SmallCopies) -> SmallCopies:
        """What both found."""
        return SmallCopies(self.loop_suffices + later.loop_suffices, self.way_pays + later.way_pays)
