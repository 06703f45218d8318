"""What launches show beyond single cases: by set of arguments, over numbers of arguments, and of the queue.

Times are as in :mod:`cudabw.results.launch`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudabw.results.launch import Seconds, Verdict


@dataclass(frozen=True, slots=True)
class StageSplit:
    """Where the time of a launch that converts its arguments goes; each stage is what it adds to those before it.

    Attributes:
        call_s: From the kernel's call to the first stage: its keywords, and finding what an earlier call kept.
        convert_s: From Python values to C values.
        ownership_s: Seeing to it that nobody else uses the memory.
        pack_s: Writing the values where the driver reads them.
        driver_s: The driver's function, with the check of its status.
        sum_s: Of these medians.
        total_s: Median of the whole launch.
        adds_up: Whether the sum is within 10 % of the whole.
    """

    call_s: Seconds
    convert_s: Seconds
    ownership_s: Seconds
    pack_s: Seconds
    driver_s: Seconds
    sum_s: float
    total_s: float
    adds_up: bool


@dataclass(frozen=True, slots=True)
class SetTrial:
    """What one draw says of a set of arguments, whatever the mode.

    Attributes:
        module_load_s: Loading the kernel's module, once.
        first_launch_s: The first launch after it, until the call returned.
        prepare_s: Preparing a launch, one sample for each time.
        device_s: Time of one null kernel on the device, one sample for each batch.
        direct_s: The launch with all stages but without the kernel's call, one sample for each burst.
        through_convert_s: Likewise the first stage alone; the following each go one stage further.
    """

    module_load_s: float
    first_launch_s: float
    prepare_s: tuple[float, ...]
    device_s: tuple[float, ...]
    direct_s: tuple[float, ...]
    through_convert_s: tuple[float, ...]
    through_ownership_s: tuple[float, ...]
    through_pack_s: tuple[float, ...]
    through_driver_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ArgumentSetResult:
    """One set of arguments, whatever the mode.

    Attributes:
        blind: Whether there are no arguments, so that nothing here can tell what converting them costs.
        device_s: Time of the null kernel on the device, from one to the next in a batch of them.
        device_gated: Whether a gate kept the time to queue out of ``device_s``.
        module_load_s: Loading the kernel's module.
        first_launch_s: The first launch of a freshly loaded module.
        prepare_s: Preparing a launch once.
        repaid_after: Launches after which preparing has cost less than converting each time; null where no saving was
            seen.
        stages: Null where something of it could not be measured.
    """

    id: str
    arg_type: str
    args: int
    blind: bool
    device_s: Seconds | None = None
    device_gated: bool | None = None
    module_load_s: Seconds | None = None
    first_launch_s: Seconds | None = None
    prepare_s: Seconds | None = None
    repaid_after: int | None = None
    stages: StageSplit | None = None
    trials: tuple[SetTrial, ...] = ()


@dataclass(frozen=True, slots=True)
class Slope:
    """What one more argument of a kind costs: the slope of *converted - prepared* over the number of arguments.

    Attributes:
        args: The numbers of arguments that it is taken over.
        median: Seconds for each argument, the median over trials.
        low: Lower end of its 99 % interval; null with a single trial.
        high: Upper end of it.
        verdict: Whether the interval lies on one side of zero.
        samples_s: One for each trial.
    """

    arg_type: str
    args: tuple[int, ...]
    median: float
    low: float | None
    high: float | None
    verdict: Verdict
    samples_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many launches the driver takes before a further one holds the host.

    Attributes:
        launches: As detected; null where it was not.
        tried: How many were queued to find out.
    """

    launches: int | None
    tried: int


@dataclass(frozen=True, slots=True)
class LaunchOverhead:
    """What a run found out about launches beyond its cases.

    Attributes:
        queue: Of the device.
        launches_per_burst: Which stay below half the queue; where several sections were measured, of the first.
        collector: What Python's garbage collector did while times were taken.
        sets: In the order of the table.
        slopes: One for each kind of arguments that was measured with several numbers of them.
    """

    queue: QueueDepth
    launches_per_burst: int
    collector: str
    sets: tuple[ArgumentSetResult, ...] = ()
    slopes: tuple[Slope, ...] = ()

    def __add__(self, later: LaunchOverhead) -> LaunchOverhead:
        """What both found; of the queue and the collector, what this one did."""
        return replace(self, sets=self.sets + later.sets, slopes=self.slopes + later.slopes)
