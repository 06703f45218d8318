"""The link of each GPU, read while a copy runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.errors import CudabwError, Interrupted
from cudabw.system.checks.check import Check, attention, each_gpu, ok, unknown, wrong

if TYPE_CHECKING:
    from cudabw.results.model import Link
    from cudabw.system.checks.check import Sight
    from cudabw.system.checks.machine import Gpu, Machine


_BETTER_SLOT = "Move the card to a slot whose way to the processor is as good as the card; lspci -tv shows the ways."


def _look(machine: Machine, gpu: Gpu) -> Sight:
    if gpu.link.instead is not None:
        return ok(f"no PCIe link between host and device ({gpu.link.instead})")
    link, why_not = _under_load(machine, gpu)
    return _idle(gpu, why_not) if link is None else _judge(gpu, link)


def _under_load(machine: Machine, gpu: Gpu) -> tuple[Link | None, str]:
    if machine.driver is None or gpu.ordinal is None or machine.link_under_load is None:
        return None, "no driver to copy with"
    try:
        return machine.link_under_load(machine.driver, gpu.ordinal, gpu.link), ""
    except Interrupted:
        raise
    except CudabwError as error:
        return None, f"the copy failed: {error.message}"


def _judge(gpu: Gpu, link: Link) -> Sight:
    if link.generation is None or link.width is None:
        return unknown("neither NVML nor sysfs tells the link")
    shortfall = gpu.link.shortfall(link)
    best = gpu.link.read_max()
    if shortfall is not None:
        below = (best.generation or 0) > link.generation or (best.width or 0) > link.width
        return wrong(shortfall, f"lspci -vv -s {gpu.pci}") if below else attention(shortfall, _BETTER_SLOT)
    hop = link.narrowest_hop
    if hop is not None:
        return attention(
            f"{_shape(link)} under load, but the bridge {hop.pci} above it has Gen{hop.generation} x{hop.width}",
            _BETTER_SLOT,
        )
    return ok(f"{_shape(link)} under load ({link.source})")


def _idle(gpu: Gpu, why_not: str) -> Sight:
    link = gpu.link.read()
    if link.generation is None:
        return unknown(f"neither NVML nor sysfs tells the link ({why_not})")
    # An idle link runs slower to save power, which is no fault.
    return unknown(f"{_shape(link)} at rest, which tells nothing of the link under load ({why_not})")


def _shape(link: Link) -> str:
    return f"PCIe Gen{link.generation} x{link.width}"


LINK = Check("link", "No copy between host and device is faster than its link.", each_gpu(_look), hardware=True)
