"""The data of a measurement of kernel launches: frozen values, part of a run's results.

Times are seconds of one launch unless an attribute says otherwise. A figure is the median over trials of each trial's
median, with its 99 % interval; the samples that it comes from are in the trials.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cudabw.results.model import Clock, State, require_contract

BENCHMARK = "launch_overhead"

NO_ARGUMENTS = "none"
ARG_TYPES = ("pointer", "int32", "uint32", "float32", "float64", "numpy", "buffer", "struct", "mixed")
"""Kinds of arguments: pointers, Python numbers, NumPy scalars, buffers, structures; or three buffers and an int32."""

MOST_ARGS = 256
"""Most arguments of a launch: kernels take 4096 bytes of parameters, and the largest argument here has 16."""


class Mode(StrEnum):
    """A way to launch the same kernel with the same arguments, grid and block."""

    BARE = "bare"
    """The driver's function alone, on packed arguments: the floor."""
    PREPARED = "prepared"
    """Arguments converted and packed once before."""
    PACKED = "packed"
    """Arguments converted once before, and packed on each launch."""
    CONVERTED = "converted"
    """Arguments converted on each launch: the everyday call."""
    SPECIALISED = "specialised"
    """The kernel specialised for its arguments, then called with them: each is converted twice."""
    REBOUND = "rebound"
    """A prepared launch, with one argument bound anew before each launch."""


class Verdict(StrEnum):
    """What a paired difference shows."""

    MORE = "costs more"
    LESS = "costs less"
    NONE = "no difference seen"
    UNKNOWN = "not known from one trial"


@dataclass(frozen=True, slots=True)
class Seconds:
    """A time over the trials of one case.

    Attributes:
        median: Median of the trials' medians.
        low: Lower end of its 99 % interval; null with a single trial.
        high: Upper end of it.
        min: Smallest sample of all.
        max: Largest sample of all.
        p5: The time that 5 % of the samples are below.
        p95: The time that 5 % of the samples are above.
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
class Difference:
    """The time of one mode less that of another, taken in pairs (A B B A) so that drift falls on both alike.

    Attributes:
        over: The mode that is subtracted.
        median: Median over trials.
        low: Lower end of its 99 % interval; null with a single trial.
        high: Upper end of it.
        verdict: Whether the interval lies on one side of zero.
        samples_s: One for each trial.
    """

    over: Mode
    median: float
    low: float | None
    high: float | None
    verdict: Verdict
    samples_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted while launches were timed.

    Attributes:
        launches: How many there were.
        conversions: Arguments converted from Python values.
        stream_waits: How often a stream had to wait for memory that another stream used.
        host_waits: How often the host had to.
    """

    launches: int = 0
    conversions: int = 0
    stream_waits: int = 0
    host_waits: int = 0

    @property
    def waits(self) -> int:
        """Waits of streams and of the host."""
        return self.stream_waits + self.host_waits

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.launches + other.launches,
            self.conversions + other.conversions,
            self.stream_waits + other.stream_waits,
            self.host_waits + other.host_waits,
        )


@dataclass(frozen=True, slots=True)
class LaunchTrial:
    """One draw of one mode, with a freshly loaded kernel and fresh buffers.

    Samples of the same position in the trials of two modes of one set belong to the same round; the second of each
    two was taken in the reverse order of the first.

    Attributes:
        launches_per_burst: Launches timed as one interval.
        submit_s: The time that the calls took, one sample for each burst.
        sustained_s: The same bursts, until the device was done.
        synchronised_s: Launches each of which the host waited for.
        second_half: Time of the second half of a burst's calls over that of the first; clearly above 1 when the
            queue filled. Null where no time passed.
        counts: Over all launches that were timed.
    """

    launches_per_burst: int
    submit_s: tuple[float, ...]
    sustained_s: tuple[float, ...]
    synchronised_s: tuple[float, ...]
    second_half: float | None
    counts: Counts


@dataclass(frozen=True, slots=True)
class LaunchCase:
    """One set of arguments, launched in one mode.

    Attributes:
        arg_type: The kind of its arguments; ``none`` where there are none.
        args: How many.
        named: Whether a flag or a suite named this kind of arguments.
        submit_s: Host time of the submitting call.
        sustained_s: From launch to launch in bursts, until the device is done; a kernel that takes as long hides it.
        synchronised_s: Launch, and wait until it is done.
        conversions_per_launch: As counted; null where nothing was measured.
        waits_per_launch: Waits for memory that another stream used, as counted.
        difference: Of ``submit_s`` to another mode of the same set.
    """

    id: str
    benchmark: str
    arg_type: str
    args: int
    mode: Mode
    state: State
    reason: str | None = None
    named: bool = False
    clock: Clock = Clock.HOST
    submit_s: Seconds | None = None
    sustained_s: Seconds | None = None
    synchronised_s: Seconds | None = None
    conversions_per_launch: float | None = None
    waits_per_launch: float | None = None
    difference: Difference | None = None
    notes: tuple[str, ...] = ()
    trials: tuple[LaunchTrial, ...] = ()

    def __post_init__(self) -> None:
        """Hold the contract of the states."""
        require_contract(self.id, self.state, self.reason, self.submit_s)
