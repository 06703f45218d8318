"""What a run will do: the data of ``--dry-run``.

Times are seconds, sizes bytes, rates bytes per second. Cases and memory are exact; copies and time are estimates.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TypeAlias

from cudabw.results.model import SCHEMA_VERSION, Pages


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """One case before it is measured.

    Attributes:
        id: The same as in the results; ``bidirectional`` stands for the three results that it has.
        named: Whether a flag or a suite names it, so that its absence is the run's failure.
        host_bytes: Host memory that a trial holds at once.
        device_bytes: Device memory that a trial holds at once.
        copied_bytes: Estimate of what all of its trials copy.
        node: The NUMA node that its host memory goes to: a number, ``auto`` for the device's, ``all`` where it is not
            known which there are; null for no matter.
        pages: The state of the host memory's pages.
    """

    id: str
    benchmark: str
    kind: str
    engine: str
    direction: str
    size_bytes: int
    trials: int
    named: bool
    host_bytes: int
    device_bytes: int
    copied_bytes: int
    node: int | str | None = None
    pages: Pages = Pages.WARM


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """One way to launch one set of arguments before it is measured; attributes as of :class:`PlannedCase`.

    Attributes:
        arg_type: The kind of its arguments.
        args: How many.
        mode: The way.
    """

    id: str
    benchmark: str
    arg_type: str
    args: int
    mode: str
    trials: int
    named: bool
    host_bytes: int
    device_bytes: int
    copied_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PlannedCopies:
    """Small copies before they are measured; attributes as of :class:`PlannedCase`.

    Attributes:
        size_bytes: Of one copy.
        copies: How many are made at once.
        how: The pace of one, or the way of many.
    """

    id: str
    benchmark: str
    kind: str
    direction: str
    size_bytes: int
    copies: int
    how: str
    trials: int
    named: bool
    host_bytes: int
    device_bytes: int
    copied_bytes: int


@dataclass(frozen=True, slots=True)
class PlannedSetup:
    """One kind and size of memory to have ready before it is measured; attributes as of :class:`PlannedCase`."""

    id: str
    benchmark: str
    kind: str
    size_bytes: int
    trials: int
    named: bool
    host_bytes: int
    device_bytes: int
    copied_bytes: int = 0


Planned: TypeAlias = PlannedCase | PlannedLaunch | PlannedCopies | PlannedSetup
"""A case of any benchmark."""


@dataclass(frozen=True, slots=True)
class PlannedSection:
    """The cases of one section.

    Attributes:
        time_budget_s: Seconds after which no further trial begins.
        seconds: Estimate of what it takes, which the time budget bounds.
        precision: How far intervals may reach from their medians, until which there are further trials; null where the
            number of trials is fixed.
    """

    cases: tuple[Planned, ...]
    time_budget_s: float | None
    seconds: float
    precision: float | None = None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A whole run before it is begun.

    Attributes:
        suite: What the user asked for.
        copy_bytes_per_s: The rate of copies that the estimates assume.
        touch_bytes_per_s: The rate at which they assume memory to be filled, changed and checked.
    """

    suite: str
    tool_version: str
    backend: str
    device: int
    sections: tuple[PlannedSection, ...]
    copy_bytes_per_s: float
    touch_bytes_per_s: float

    @property
    def cases(self) -> tuple[Planned, ...]:
        """The cases of all sections."""
        return tuple(case for section in self.sections for case in section.cases)

    @property
    def trials(self) -> int:
        """The trials of all cases, without those that only precision asks for."""
        return sum(case.trials for case in self.cases)

    @property
    def copied_bytes(self) -> int:
        """Estimate of what all cases copy."""
        return sum(case.copied_bytes for case in self.cases)

    @property
    def seconds(self) -> float:
        """Estimate of what the run takes."""
        return sum(section.seconds for section in self.sections)

    @property
    def peak_host_bytes(self) -> int:
        """Most host memory held at once, with a GPU."""
        return max(case.host_bytes for case in self.cases)

    @property
    def peak_device_bytes(self) -> int:
        """Most device memory held at once."""
        return max(case.device_bytes for case in self.cases)

    @property
    def peak_emulated_bytes(self) -> int:
        """Most host memory held at once with the emulated device, whose memory is the host's."""
        return max(case.host_bytes + case.device_bytes for case in self.cases)


def plan_to_json(plan: RunPlan) -> str:
    """The plan as one JSON document."""
    document = {
        "schema": SCHEMA_VERSION,
        "tool": {"name": "cudabw", "version": plan.tool_version},
        "dry_run": True,
        "suite": plan.suite,
        "backend": plan.backend,
        "device": plan.device,
        "totals": {"cases": len(plan.cases), "trials": plan.trials},
        "peak": {
            "host_bytes": plan.peak_host_bytes,
            "device_bytes": plan.peak_device_bytes,
            "host_bytes_if_emulated": plan.peak_emulated_bytes,
        },
        "estimate": {
            "copied_bytes": plan.copied_bytes,
            "seconds": plan.seconds,
            "assumes": {"copy_bytes_per_s": plan.copy_bytes_per_s, "touch_bytes_per_s": plan.touch_bytes_per_s},
        },
        "sections": [asdict(section) for section in plan.sections],
    }
    return json.dumps(document, indent=2, allow_nan=False)
