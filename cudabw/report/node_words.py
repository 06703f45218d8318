"""What the tables say of NUMA nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cudabw.report.console import Symbols
    from cudabw.results.model import CaseResult, DeviceInfo


def has_nodes(cases: Iterable[CaseResult]) -> bool:
    """Whether nodes are worth a column: one was asked for, or memory was on more than one."""
    known = list(cases)
    found = {node for case in known for node in case.pages_on}
    return len(found) > 1 or any(case.numa_node is not None for case in known)


def node_cell(cases: Iterable[CaseResult], symbols: Symbols) -> str:
    """The node that was asked for, else those that the memory of some cases was on."""
    known = list(cases)
    asked = {case.numa_node for case in known if case.numa_node is not None}
    nodes = asked or {node for case in known for node in case.pages_on}
    return ", ".join(map(str, sorted(nodes))) or symbols.dash


def nodes_explained(cases: Sequence[CaseResult], device: DeviceInfo | None) -> str:
    """What the column means, and where the device is."""
    asked = any(case.numa_node is not None for case in cases)
    what = "Node: the NUMA node asked for" if asked else "Node: the host memory's NUMA node"
    if device is None or device.emulated:
        return what
    return f"{what} (the device's: {'unknown' if device.numa_node is None else device.numa_node})"
