"""On which CPUs a run was timed, and whether they ran at full speed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CpuSpeed:
    """What became of bursts of launches and trials of small copies, timed while their thread was held on one CPU.

    Attributes:
        cpus: The numbers of those that it was held on.
        usable: How many CPUs were probed, of those that the process may use.
        slow_at_first: How many of them were slow when the run began.
        probe_s: Seconds of a probe, a fixed piece of Python, at full speed: the median over the run.
        taken: How many bursts or trials were taken so.
        repeated: How often one was taken again because its CPU had slowed down.
        kept: How many were kept although it had slowed down again.
    """

    cpus: tuple[int, ...]
    usable: int
    slow_at_first: int
    probe_s: float
    taken: int
    repeated: int
    kept: int

    def __add__(self, later: CpuSpeed) -> CpuSpeed:
        """Both together, the probes weighted by what was taken; what was found at first is that of this one."""
        taken = self.taken + later.taken
        return CpuSpeed(
            cpus=tuple(sorted({*self.cpus, *later.cpus})),
            usable=self.usable,
            slow_at_first=self.slow_at_first,
            probe_s=(self.probe_s * self.taken + later.probe_s * later.taken) / taken if taken else self.probe_s,
            taken=taken,
            repeated=self.repeated + later.repeated,
            kept=self.kept + later.kept,
        )
