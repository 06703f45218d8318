"""The NUMA nodes of a run: which are asked for, where a case is put, and what is said of where it then was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudabw.benchmarks.bandwidth_plan import ALL, AUTO
from cudabw.errors import UnsupportedError
from cudabw.results.model import pages_by_node
from cudabw.system.numa import memory_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cudabw.benchmarks.bandwidth_plan import BandwidthCase, BandwidthPlan
    from cudabw.results.model import Trial
    from cudabw.runtime.buffer import Buffer
    from cudabw.system.placement import Placement


def on_nodes(plan: BandwidthPlan, numa: int | str | None, *, root: Path = Path("/")) -> BandwidthPlan:
    """The plan with its host memory on NUMA nodes.

    Args:
        plan: What to measure.
        numa: The number of a node, ``auto`` for the device's, ``all`` for each that has memory; None for no matter.
        root: Where ``/sys`` is found.
    """
    if numa is None:
        return plan
    nodes = memory_nodes(root=root) if numa == ALL else ()
    return replace(plan, nodes=nodes or (numa,), nodes_named=numa != ALL)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the cases of a run go.

    Attributes:
        placement: Puts them there.
        device_node: The node that the device is at; None where that is not known.
    """

    placement: Placement
    device_node: int | None = None

    def number_of(self, case: BandwidthCase) -> int | None:
        """The number of the node that a case is to be on; None where it is no matter.

        Raises:
            UnsupportedError: It is not known.
        """
        if case.node == AUTO and self.device_node is None:
            raise UnsupportedError(
                "no NUMA node is known for the device",
                hint="Name a node (--numa 0, in a suite numa = 0), or measure all.",
            )
        if case.node == ALL:
            raise UnsupportedError("the NUMA nodes are not known: this system does not say which it has")
        return self.device_node if isinstance(case.node, str) else case.node

    def found(self, buffers: Iterable[Buffer]) -> dict[str, Any]:
        """Where memory and this thread are, as fields of a :class:`cudabw.results.model.Trial`."""
        pages = self.placement.pages_on((int(buffer.host_pointer), buffer.nbytes) for buffer in buffers)
        return {
            "pages_on": None if pages is None else {str(node): count for node, count in pages.items()},
            "thread_node": self.placement.thread_node(),
        }


def whereabouts(asked: int | None, trials: Sequence[Trial]) -> Iterator[str]:
    """What is to be said of a case that was to be on a node and was not, or may not have been."""
    if asked is None:
        return
    pages = pages_by_node(trials)
    elsewhere = {node: count for node, count in pages.items() if node != asked}
    if not pages:
        yield f"asked for NUMA node {asked}; where the memory was is unknown: the system does not say"
    elif elsewhere:
        where = ", ".join(f"{count} on node {node}" for node, count in elsewhere.items())
        yield f"asked for NUMA node {asked}, but of {sum(pages.values())} pages looked at {where}"
    threads = {trial.thread_node for trial in trials if trial.thread_node is not None} - {asked}
    if threads:
        yield f"the thread ran on NUMA node {', '.join(map(str, sorted(threads)))}"
