"""The processor: its name, its flags, how its clock is governed, and how many this process may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cudabw.system.pseudofiles import read_line, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable


def cpu_model(root: Path = Path("/")) -> str | None:
    """The processor's name; Arm's kernels print only numbers, which name the core just as well. Never raises."""
    fields = _cpuinfo(root)
    for name in ("model name", "cpu"):  # x86 and some Arm; POWER
        if name in fields:
            return fields[name]
    if "CPU implementer" in fields and "CPU part" in fields:
        return f"implementer {fields['CPU implementer']} part {fields['CPU part']}"
    return None


def cpu_flags(root: Path = Path("/")) -> frozenset[str]:
    """What the kernel lists as the processor's abilities; empty where it lists none. Never raises."""
    fields = _cpuinfo(root)
    return frozenset(fields.get("flags", fields.get("Features", "")).split())


def cpu_governor(root: Path = Path("/")) -> str | None:
    """What governs the processors' clocks, such as ``performance``; None where the system does not govern them.

    Several are named in alphabetical order, with commas between. Never raises.
    """
    folder = root / "sys" / "devices" / "system" / "cpu" / "cpufreq"
    governors = {read_line(path / "scaling_governor") for path in _policies(folder)}
    return ",".join(sorted(governor for governor in governors if governor)) or None


def cpus_available() -> int | None:
    """Count the processors that this process may run on, which are fewer than the host's under taskset or a cpuset."""
    return len(Affinity().allowed()) or os.cpu_count()


class Affinity:
    """On which CPUs the calling thread may run."""

    def allowed(self) -> frozenset[int]:
        """Their numbers; none where the system does not say."""
        try:
            return frozenset(os.sched_getaffinity(0))
        except (AttributeError, OSError):
            return frozenset()

    def hold(self, cpus: Iterable[int]) -> bool:
        """Let it run on these alone; returns whether the system does so."""
        try:
            os.sched_setaffinity(0, cpus)
        except (AttributeError, OSError):  # not every platform has it, and a CPU may have gone offline
            return False
        return True


def _policies(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("policy[0-9]*"))
    except OSError:
        return []


def _cpuinfo(root: Path) -> dict[str, str]:
    """The fields of the first processor, and of others what the first lacks."""
    fields: dict[str, str] = {}
    for line in (read_text(root / "proc" / "cpuinfo") or "").splitlines():
        name, colon, value = line.partition(":")
        if colon and value.strip():
            fields.setdefault(name.strip(), value.strip())
    return fields
