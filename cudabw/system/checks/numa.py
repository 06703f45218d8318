"""Whether this process runs near each GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.system.checks.check import Check, attention, each_gpu, ok, unknown
from cudabw.system.pci import pci_folder
from cudabw.system.pseudofiles import parse_number, parse_number_list, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from cudabw.system.checks.check import Sight
    from cudabw.system.checks.machine import Gpu, Machine


def _look(machine: Machine, gpu: Gpu) -> Sight:
    nodes = _processors_by_node(machine.root)
    if not nodes:
        return unknown("the system shows no NUMA nodes")
    if len(nodes) == 1:
        return ok("the host has one NUMA node")
    near = _node_of(gpu, machine.root)
    if near is None or near not in nodes:
        return unknown(f"the system does not tell which of its {len(nodes)} NUMA nodes the GPU is at")
    allowed = _allowed(machine.root)
    if allowed is None:
        return unknown(f"the GPU is at NUMA node {near}; where this process may run is not told")
    usable = sorted(node for node, processors in nodes.items() if processors & allowed)
    if near in usable:
        return ok(f"the GPU is at NUMA node {near}; this process may run on {_listed(usable)}")
    return attention(
        f"the GPU is at NUMA node {near}, but this process may run on {_listed(usable)} alone",
        f"numactl --cpunodebind={near} --membind={near} cudabw ...",
    )


def _listed(nodes: list[int]) -> str:
    return f"node{'s' * (len(nodes) != 1)} {', '.join(map(str, nodes)) or 'unknown'}"


def _node_of(gpu: Gpu, root: Path) -> int | None:
    # The kernel writes -1 where the firmware does not tell.
    folder = pci_folder(gpu.pci, root)
    return None if folder is None else parse_number(read_text(folder / "numa_node"))


def _processors_by_node(root: Path) -> dict[int, frozenset[int]]:
    folder = root / "sys" / "devices" / "system" / "node"
    nodes = {}
    for path in sorted(folder.glob("node[0-9]*")):
        number = parse_number(path.name.removeprefix("node"))
        processors = parse_number_list(read_text(path / "cpulist"))
        # A node without processors is memory alone, such as a coherent GPU's own.
        if number is not None and processors:
            nodes[number] = processors
    return nodes


def _allowed(root: Path) -> frozenset[int] | None:
    for line in (read_text(root / "proc" / "self" / "status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            return parse_number_list(value)
    return None


NUMA = Check(
    "numa", "Memory at another node than the GPU's is reached on a longer way.", each_gpu(_look), hardware=True
)
