"""The data of a run: frozen values that every report, file and API call shares.

Times are seconds, sizes bytes, rates bytes per second, fractions between 0 and 1.
A result is the same whether it was measured on a GPU, on the emulated device or read from a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from cudabw.results.cpu_speed import CpuSpeed
    from cudabw.results.fits import Fit
    from cudabw.results.latency import LatencyCase, SmallCopies, SmallCopiesCase
    from cudabw.results.launch import LaunchCase
    from cudabw.results.launch_sets import LaunchOverhead
    from cudabw.results.limits import LimitResult
    from cudabw.results.setup_cost import BreakEven, SetupCase

SCHEMA_VERSION = 1


class State(StrEnum):
    """What became of a case. Every state but ``OK`` carries a reason; the first four carry a figure."""

    OK = "ok"
    UNCONVERGED = "unconverged"
    """The interval is wider than the precision that was asked for."""
    UNSTABLE = "unstable"
    """The trials disagree: they drift, or fall into two groups."""
    THROTTLED = "throttled"
    """The GPU was slowed down, also when batches were repeated."""
    SUSPECT = "suspect"
    """The figure is above what the link can carry."""
    UNSUPPORTED = "unsupported"
    REFUSED = "refused"
    FAILED = "failed"
    WRONG_DATA = "wrong_data"

    @property
    def measured(self) -> bool:
        """Whether a case in this state has a figure, which is shown."""
        return self in (State.OK, State.UNCONVERGED, State.UNSTABLE, State.THROTTLED)

    @property
    def reliable(self) -> bool:
        """Whether something may be concluded from the figure, as far as its interval allows."""
        return self in (State.OK, State.UNCONVERGED)

    @property
    def failure(self) -> bool:
        """Whether a case in this state fails the run, whoever asked for it."""
        return self in (State.FAILED, State.WRONG_DATA, State.SUSPECT)


def require_contract(case: str, state: State, reason: str | None, figure: object, what: str = "time") -> None:
    """Hold the contract of the states: a figure if and only if measured, a reason if and only if not ok.

    Args:
        case: Its id.
        state: Of it.
        reason: Of the state.
        figure: The headline; None where there is none.
        what: The figure is.

    Raises:
        ValueError: A case does not hold it.
    """
    if state.measured != (figure is not None):
        raise ValueError(f"case {case}: a {what} belongs to what was measured, and there to every state: {state}")
    if (state is State.OK) == (reason is not None):
        raise ValueError(f"case {case}: a reason belongs to every state but ok, not to {state}")


class Clock(StrEnum):
    """Which clock timed a sample: two CUDA events on the stream, or the host around a synchronisation."""

    EVENT = "event"
    HOST = "host"


class Pages(StrEnum):
    """The state of the pages of host memory when a copy begins."""

    WARM = "warm"
    """Written before, as the system gives them."""
    FIRST_TOUCH = "first-touch"
    """Not given yet: the system gives each page when the copy first writes to it."""
    HUGE = "huge-pages"
    """Written before, and transparent huge pages all."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A bridge on the way from a device to the host.

    Attributes:
        pci: Its PCI address.
        generation: PCIe generation of its link.
        width: Number of lanes of its link.
        source: Where they were read.
    """

    pci: str
    generation: int
    width: int
    source: str = "sysfs"


@dataclass(frozen=True, slots=True)
class Link:
    """The PCI Express link between host and device, as it was while traffic ran.

    Attributes:
        generation: PCIe generation of the device's own link, 1 to 7.
        width: Number of lanes of the device's own link.
        ceiling_bytes_per_s: What the way to the host can carry after line coding, before protocol overhead: the
            device's own link, or a bridge above it that carries less.
        source: Where generation and width were read: ``nvml`` or ``sysfs``. Where copies take another way than
            PCIe, and so nothing else is known, which: ``integrated``, ``nvlink-c2c`` or ``coherent``.
        narrowest_hop: The bridge that sets the ceiling; null where the device's own link does.
    """

    generation: int | None = None
    width: int | None = None
    ceiling_bytes_per_s: float | None = None
    source: str | None = None
    narrowest_hop: Hop | None = None


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """The device that was measured.

    Attributes:
        link: The link while traffic ran; in a list of devices, at that moment.
        max_link: The best that the link can be.
        numa_node: The NUMA node that it is at; null where that is not known, and for the emulated device.
    """

    ordinal: int
    name: str
    uuid: str | None
    pci: str | None
    emulated: bool
    memory_bytes: int | None = None
    link: Link = field(default_factory=Link)
    max_link: Link = field(default_factory=Link)
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate over the trials of one case, in bytes per second.

    Attributes:
        median: Median of the trials' medians, the headline.
        low: Lower end of its 99 % interval; null with a single trial.
        high: Upper end of it.
        min: Slowest sample of all.
        max: Fastest sample of all.
        p5: The rate that 5 % of the samples are slower than.
        p95: The rate that 5 % of the samples are faster than.
        n: How many samples there are.
        outliers: How many of them are far from the others of their trial; null where there are too few to tell.
    """

    median: float
    low: float | None
    high: float | None
    min: float
    max: float
    p5: float | None = None
    p95: float | None = None
    n: int | None = None
    outliers: int | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """One draw with allocations of its own.

    Attributes:
        copies_per_batch: Copies timed as one interval.
        samples_s: Seconds per copy, one for each batch.
        allocation_s: Seconds that allocating (and pinning) the host memory took; never part of a sample.
        repeated_s: Seconds per copy of batches that were taken again, because the GPU was slowed down; in no figure.
        throttled: How many of ``samples_s`` were taken while it was, because repeating did not help.
        pages_on: Where the host memory was, as the system said after the last batch: numbers of pages by NUMA node,
            of a sample of pages; null where it does not say.
        thread_node: The NUMA node that the submitting thread ran on then.
    """

    copies_per_batch: int
    samples_s: tuple[float, ...]
    allocation_s: float | None = None
    repeated_s: tuple[float, ...] = ()
    throttled: int = 0
    pages_on: Mapping[str, int] | None = None
    thread_node: int | None = None


def pages_by_node(trials: Sequence[Trial]) -> dict[int, int]:
    """Numbers of the pages that were looked at in some trials, by the NUMA node they were on, in its order."""
    pages: Counter[int] = Counter()
    for trial in trials:
        pages.update({int(node): count for node, count in (trial.pages_on or {}).items()})
    return dict(sorted(pages.items()))


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One measured cell: kind x engine x direction x size.

    Attributes:
        named: Whether a flag or a suite named this case, so that its absence is the run's failure.
        gated: Whether a gate kept the time to queue out of the samples.
        host_held: Whether submitting a batch was seen to hold the host while it ran.
        verified: Whether the destination held the source's bytes after every batch.
        tick_s: Seconds of one tick of the clock, below which no two batches can be told apart; 0 for an exact clock.
        driver_says: What the driver itself answered about the host memory, for example ``page-locked, mapped``.
        pages: The state of the host memory's pages.
        threads: How many threads staged the copies; null where none did.
        notes: Facts a reader needs beside the figure, such as ``stopped at the time budget``.
        numa_node: The NUMA node that was asked for; null where none was. Where the memory then was, each trial says.
    """

    id: str
    benchmark: str
    kind: str
    engine: str
    direction: str
    size_bytes: int
    state: State
    reason: str | None = None
    named: bool = False
    clock: Clock | None = None
    gated: bool | None = None
    host_held: bool | None = None
    verified: bool | None = None
    rate_bytes_per_s: Rate | None = None
    link_fraction: float | None = None
    tick_s: float | None = None
    driver_says: str | None = None
    pages: Pages = Pages.WARM
    threads: int | None = None
    notes: tuple[str, ...] = ()
    trials: tuple[Trial, ...] = ()
    numa_node: int | None = None

    def __post_init__(self) -> None:
        """Hold the contract of the states."""
        require_contract(self.id, self.state, self.reason, self.rate_bytes_per_s, "rate")

    @property
    def pages_on(self) -> Mapping[int, int]:
        """Numbers of the pages that were looked at in all trials, by the NUMA node they were on, in its order."""
        return pages_by_node(self.trials)


Case: TypeAlias = "CaseResult | LaunchCase | LatencyCase | SmallCopiesCase | SetupCase"
"""The result of one case, of whatever benchmark."""


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a run ended early or never began."""

    type: str
    message: str
    hint: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """A whole run, as written by ``--json``.

    Attributes:
        command: The command and its arguments, without the program's own name.
        started: UTC time in ISO 8601.
        finished: UTC time in ISO 8601; null in results that were kept while the run still went on.
        device: Null where no device could be opened.
        environment: What the figures were taken under, as ``docs/environment.md`` explains.
        tags: What the user calls this run, by ``--tag``.
        cases: Of all benchmarks of the run.
        launch_overhead: What launches showed beyond their cases; not in the document where none were measured.
        small_copies: What many small copies did, likewise.
        cpu_speed: Which CPUs the host's times were taken on; not in the document where no thread was held on one.
        limits: Whether the limits that a suite sets are met.
        fits: Of each curve of bandwidth over sizes that is long enough; not in the document where there are none.
        break_even: After how many copies pinning has paid; not in the document where that was not measured.
        warnings: What may distort the figures, one sentence each.
        interrupted: Whether a signal ended the run early.
        error: Why the run ended early or never began.
    """

    command: tuple[str, ...]
    started: str
    tool_version: str
    device: DeviceInfo | None = None
    environment: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    cases: tuple[Case, ...] = ()
    launch_overhead: LaunchOverhead | None = None
    small_copies: SmallCopies | None = None
    cpu_speed: CpuSpeed | None = None
    limits: tuple[LimitResult, ...] = ()
    fits: tuple[Fit, ...] = ()
    break_even: tuple[BreakEven, ...] = ()
    warnings: tuple[str, ...] = ()
    interrupted: bool = False
    error: RunError | None = None
    finished: str | None = None

    @property
    def bandwidth_cases(self) -> tuple[CaseResult, ...]:
        """The cases that moved bytes."""
        return tuple(case for case in self.cases if isinstance(case, CaseResult))

    @property
    def launch_cases(self) -> tuple[LaunchCase, ...]:
        """The cases that launched kernels."""
        from cudabw.results.launch import LaunchCase

        return tuple(case for case in self.cases if isinstance(case, LaunchCase))

    @property
    def latency_cases(self) -> tuple[LatencyCase, ...]:
        """The cases of one copy at a time."""
        from cudabw.results.latency import LatencyCase

        return tuple(case for case in self.cases if isinstance(case, LatencyCase))

    @property
    def small_copies_cases(self) -> tuple[SmallCopiesCase, ...]:
        """The cases of many copies at once."""
        from cudabw.results.latency import SmallCopiesCase

        return tuple(case for case in self.cases if isinstance(case, SmallCopiesCase))

    @property
    def setup_cases(self) -> tuple[SetupCase, ...]:
        """The cases that had memory ready."""
        from cudabw.results.setup_cost import SetupCase

        return tuple(case for case in self.cases if isinstance(case, SetupCase))
