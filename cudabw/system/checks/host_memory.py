"""Host memory: how much this process may have and lock, and in which pages it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudabw.system.checks.check import Check, attention, ok, unknown
from cudabw.system.container import container_kind
from cudabw.system.host_memory import host_memory
from cudabw.system.memory_limits import huge_pages, locked_memory, transparent_huge_pages
from cudabw.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cudabw.system.checks.check import Sight
    from cudabw.system.checks.machine import Machine
    from cudabw.system.memory_limits import LockedMemory

_LITTLE: Final = 1 << 30
"""Below this the larger sizes of an ordinary sweep are refused."""


def _look_at_amount(machine: Machine) -> Iterator[Sight]:
    memory = host_memory(root=machine.root)
    if memory.available_bytes is None or memory.limit_source is None:
        yield unknown("neither /proc/meminfo nor a control group tells")
        return
    seen = f"{format_size(memory.available_bytes)} can be allocated ({memory.limit_source})"
    if memory.limit_source.startswith("cgroup"):
        yield attention(seen, _more_memory(machine.root))
    elif memory.available_bytes < _LITTLE:
        yield attention(seen, "End what uses it: ps aux --sort=-rss | head")
    else:
        yield ok(seen)


def _more_memory(root: Path) -> str:
    return "docker run --memory SIZE IMAGE" if container_kind(root) else "systemctl set-property UNIT MemoryMax=SIZE"


def _look_at_locked(machine: Machine) -> Iterator[Sight]:
    limits = locked_memory(machine.root)
    if limits is None:
        yield unknown("/proc/self/limits does not tell")
    elif limits.soft_bytes is None:
        yield ok("unlimited")
    else:
        most = "no hard limit" if limits.hard_bytes is None else f"hard limit {format_size(limits.hard_bytes)}"
        yield attention(f"{format_size(limits.soft_bytes)} may be locked ({most})", _lock_more(limits, machine.root))


def _lock_more(limits: LockedMemory, root: Path) -> str:
    if limits.hard_bytes is None:
        return "ulimit -l unlimited"
    if container_kind(root):
        return "docker run --ulimit memlock=-1 IMAGE"
    return "sudo prlimit --memlock=unlimited --pid $$"  # this shell, and what it starts


def _look_at_pages(machine: Machine) -> Iterator[Sight]:
    mode, reserved = transparent_huge_pages(machine.root), huge_pages(machine.root)
    kept = ""
    if reserved is not None and reserved.total:
        size = format_size(reserved.size_bytes)
        kept = f"; {reserved.total} pages of {size} are set aside, {reserved.free} of them free"
    if mode is None:
        yield unknown(f"the mode of transparent huge pages cannot be read{kept}")
    elif mode == "never":
        fix = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
        yield attention(f"transparent huge pages: never{kept}", fix)
    else:
        yield ok(f"transparent huge pages: {mode}{kept}")


MEMORY = Check("memory", "Buffers that do not fit are refused before they are allocated.", _look_at_amount)
MEMLOCK = Check("memlock", "Pinned and registered memory may be refused above this limit.", _look_at_locked)
HUGE_PAGES = Check("huge-pages", "Pageable copies and pinning take longer over many small pages.", _look_at_pages)
