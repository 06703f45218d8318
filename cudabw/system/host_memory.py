"""How much host memory this process can still allocate: the system's, or less where a control group says so.

Inside a container the system's figures are those of the whole host, so each control group (cgroup) above this
process is asked as well, in both of the forms that Linux has: version 2, and version 1 with a tree for memory alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cudabw.system.pseudofiles import is_directory, parse_number, read_text
from cudabw.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNLIMITED: Final = 2**60
"""A limit from here on is none. Version 1 writes "unlimited" as 2**63 rounded down to a page; hosts are far smaller."""


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Host memory as this process may use it; each field None where nothing could be read.

    Attributes:
        total_bytes: The most that this process could ever have: the system's memory or the smallest limit.
        available_bytes: What it can still allocate now.
        limit_source: What sets ``available_bytes``, for messages: ``cgroup limit 4 GiB`` or ``system memory 64 GiB``.
    """

    total_bytes: int | None = None
    available_bytes: int | None = None
    limit_source: str | None = None


@dataclass(frozen=True, slots=True)
class _Bound:
    total: int
    available: int
    source: str


@dataclass(frozen=True, slots=True)
class _Version:
    """Where one version of cgroups keeps its figures.

    Attributes:
        mounts: Where its tree is usually mounted, below the root of the file system.
        reclaimable: Fields of ``memory.stat`` that the kernel gives back under pressure: clean page cache first of all,
            which ``usage`` counts although it stops nobody from allocating.
    """

    mounts: tuple[str, ...]
    limit: str
    usage: str
    reclaimable: tuple[str, ...]


# Kernel documentation, admin-guide/cgroup-v2.rst. "unified" is where systemd's hybrid layout mounts version 2.
_V2: Final = _Version(
    mounts=("sys/fs/cgroup", "sys/fs/cgroup/unified"),
    limit="memory.max",
    usage="memory.current",
    reclaimable=("inactive_file", "slab_reclaimable"),
)
# Kernel documentation, admin-guide/cgroup-v1/memory.rst. The "total_" fields include the groups below.
_V1: Final = _Version(
    mounts=("sys/fs/cgroup/memory",),
    limit="memory.limit_in_bytes",
    usage="memory.usage_in_bytes",
    reclaimable=("total_inactive_file",),
)


def host_memory(*, root: Path = Path("/")) -> HostMemory:
    """Find out how many bytes this process can still allocate. Never raises.

    The smallest of: ``MemAvailable`` of ``/proc/meminfo``, and for this process's cgroup and each one above it
    limit - use + reclaimable page cache.

    Args:
        root: Where ``/proc`` and ``/sys`` are found.
    """
    bounds = [*_system_bounds(root), *_cgroup_bounds(root)]
    if not bounds:
        return HostMemory()
    tightest = min(bounds, key=lambda bound: bound.available)
    return HostMemory(
        total_bytes=min(bound.total for bound in bounds),
        available_bytes=tightest.available,
        limit_source=tightest.source,
    )


def _system_bounds(root: Path) -> Iterator[_Bound]:
    fields = _parse_meminfo(read_text(root / "proc" / "meminfo") or "")
    total = fields.get("MemTotal")
    # Kernels before 3.14 have no MemAvailable; free memory alone errs on the safe side.
    available = fields.get("MemAvailable", fields.get("MemFree"))
    if total is not None and available is not None:
        yield _Bound(total, available, f"system memory {format_size(total)}")


def _parse_meminfo(text: str) -> dict[str, int]:
    """Give bytes by name; the kernel's ``kB`` are units of 1024."""
    fields = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        kibibytes = parse_number(rest.removesuffix("kB"))
        if kibibytes is not None:
            fields[name] = kibibytes * 1024
    return fields


def _cgroup_bounds(root: Path) -> Iterator[_Bound]:
    paths = _parse_cgroup_paths(read_text(root / "proc" / "self" / "cgroup") or "")
    for version, path in ((_V2, paths.get("", "/")), (_V1, paths.get("memory", "/"))):
        for mount in version.mounts:
            for folder in _ancestry(root / mount, path):
                yield from _group_bounds(folder, version)


def _parse_cgroup_paths(text: str) -> dict[str, str]:
    """Give this process's path by controller from ``number:controller,controller:path`` lines; "" is version 2."""
    paths = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        # An empty list of controllers is version 2 only in hierarchy 0.
        if colon and (controllers or number == "0"):
            paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _ancestry(mount: Path, path: str) -> Iterator[Path]:
    """Give the folder of a cgroup and those above it, up to the mount.

    In a container the path may be the host's while the mount shows only the container's part of the tree. So
    leading parts are dropped until the folder exists; at the latest it is the mount itself.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:  # this process is outside its cgroup namespace, and its own folder is not to be seen
        parts = []
    while parts and not is_directory(mount.joinpath(*parts)):
        parts.pop(0)
    for length in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:length])


def _group_bounds(folder: Path, version: _Version) -> Iterator[_Bound]:
    limit = parse_number(read_text(folder / version.limit))
    if limit is None or limit >= _UNLIMITED:
        return
    usage = parse_number(read_text(folder / version.usage)) or 0
    statistics = _parse_statistics(read_text(folder / "memory.stat") or "")
    reclaimable = sum(statistics.get(name, 0) for name in version.reclaimable)
    # The figures are not read at one instant, so what can be reclaimed may seem more than what is used.
    available = min(limit, max(0, limit - usage + reclaimable))
    yield _Bound(limit, available, f"cgroup limit {format_size(limit)}")


def _parse_statistics(text: str) -> dict[str, int]:
    statistics = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        number = parse_number(value)
        if number is not None:
            statistics[name] = number
    return statistics
