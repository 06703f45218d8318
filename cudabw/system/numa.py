"""The NUMA nodes of this machine, and the one that a GPU is at: what the system says of them, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cudabw.system.pci import pci_folder
from cudabw.system.pseudofiles import parse_number, parse_number_list, read_text

if TYPE_CHECKING:
    from cudabw.driver.nvml import NvmlDevice

_RECLAIMABLE: Final = ("Inactive(file)", "SReclaimable")
"""Of a node's memory, what the kernel gives back under pressure, beside what is free."""


@dataclass(frozen=True, slots=True)
class NumaNode:
    """A node.

    Attributes:
        number: As the kernel counts them; there may be gaps.
        cpus: Its CPUs; none for one that has only memory.
        has_memory: Whether it has any.
        available_bytes: What of it can still be allocated; None where the system does not say.
    """

    number: int
    cpus: frozenset[int] = frozenset()
    has_memory: bool = True
    available_bytes: int | None = None


def numa_nodes(*, root: Path = Path("/")) -> tuple[NumaNode, ...]:
    """List the nodes that are online, by their numbers; none where the system does not tell of nodes. Never raises.

    Args:
        root: Where ``/sys`` is found.
    """
    folder = root / "sys" / "devices" / "system" / "node"
    online = parse_number_list(read_text(folder / "online")) or frozenset()
    # Kernels that were built without movable memory have only the second file.
    files = (read_text(folder / name) for name in ("has_memory", "has_normal_memory"))
    with_memory = next((found for text in files if (found := parse_number_list(text)) is not None), online)
    return tuple(_read_node(folder, number, has_memory=number in with_memory) for number in sorted(online))


def memory_nodes(*, root: Path = Path("/")) -> tuple[int, ...]:
    """List the numbers of the nodes that have memory; none where the system does not tell of nodes. Never raises."""
    return tuple(node.number for node in numa_nodes(root=root) if node.has_memory)


def allowed_nodes(*, root: Path = Path("/")) -> frozenset[int] | None:
    """The nodes whose memory this process may use: a cpuset may allow fewer than there are. Never raises.

    Args:
        root: Where ``/proc`` is found.
    """
    for line in (read_text(root / "proc" / "self" / "status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "Mems_allowed_list":
            return parse_number_list(value)
    return None


def gpu_node(pci: str | None, nvml_device: NvmlDevice | None, *, root: Path = Path("/")) -> int | None:
    """The node that a GPU is at, from sysfs or else from NVML; None where neither knows one. Never raises.

    Args:
        pci: The GPU's PCI address.
        nvml_device: The same device in NVML.
        root: Where ``/sys`` is found.
    """
    folder = pci_folder(pci, root)
    # Firmware that does not say gives -1, which is no number of a node.
    node = None if folder is None else parse_number(read_text(folder / "numa_node"))
    if node is not None or nvml_device is None:
        return node
    nearest = nvml_device.nearest_nodes()
    return min(nearest) if len(nearest) == 1 else None


def _read_node(folder: Path, number: int, *, has_memory: bool) -> NumaNode:
    own = folder / f"node{number}"
    cpus = parse_number_list(read_text(own / "cpulist")) or frozenset()
    return NumaNode(number, cpus, has_memory, _parse_available(read_text(own / "meminfo") or ""))


def _parse_available(meminfo: str) -> int | None:
    """Free and reclaimable bytes from lines such as ``Node 0 MemFree: 17633916 kB``, in units of 1024."""
    fields = {}
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        fields[name.split(" ")[-1]] = parse_number(value.removesuffix("kB"))
    free = fields.get("MemFree")
    return None if free is None else 1024 * (free + sum(fields.get(name) or 0 for name in _RECLAIMABLE))
