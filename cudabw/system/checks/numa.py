"""Whether this process runs near each GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.system.checks.check import Check, attention, each_gpu, ok, unknown
from cudabw.system.numa import gpu_node, numa_nodes
from cudabw.system.pseudofiles import parse_number_list, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from cudabw.system.checks.check import Sight
    from cudabw.system.checks.machine import Gpu, Machine


def _look(machine: Machine, gpu: Gpu) -> Sight:
    # A node without processors is memory alone, such as a coherent GPU's own.
    nodes = {node.number: node.cpus for node in numa_nodes(root=machine.root) if node.cpus}
    if not nodes:
        return unknown("the system shows no NUMA nodes")
    if len(nodes) == 1:
        return ok("the host has one NUMA node")
    near = gpu_node(gpu.pci, gpu.nvml, root=machine.root)
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


def _allowed(root: Path) -> frozenset[int] | None:
    for line in (read_text(root / "proc" / "self" / "status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            return parse_number_list(value)
    return None


NUMA = Check(
    "numa", "Memory at another node than the GPU's is reached on a longer way.", each_gpu(_look), hardware=True
)
