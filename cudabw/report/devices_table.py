"""The list of ``cudabw devices``: a paragraph for each device, because a UUID alone is half a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from cudabw.report.console import symbols_for
from cudabw.report.link_words import link_carries, link_shape, without_pcie
from cudabw.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from cudabw.results.inventory import Inventory
    from cudabw.results.model import DeviceInfo


def print_devices(inventory: Inventory, console: Console) -> None:
    """Print every device, and the software that reaches them."""
    for device in inventory.devices:
        console.print(Text(f"Device {device.ordinal}: {_name(device)}", style="bold"), soft_wrap=True)
        for label, value in _facts(device):
            console.print(Text(f"  {label:<8}{value}"), soft_wrap=True)
        console.print()
    console.print(Text(f" {symbols_for(console).dot} ".join(_software(inventory))), soft_wrap=True)
    if any(_is_below(device.link.generation, device.max_link.generation) for device in inventory.devices):
        note = "An idle link runs slower to save power; `cudabw bandwidth` reads it under load."
        console.print(Text(note, style="dim"), soft_wrap=True)


def _name(device: DeviceInfo) -> str:
    # It must never be taken for a GPU.
    return f"{device.name} (not a GPU)" if device.emulated else device.name


def _facts(device: DeviceInfo) -> Iterable[tuple[str, str]]:
    yield "UUID", device.uuid or "unknown"
    yield "PCI", device.pci or "unknown"
    yield "Memory", "unknown" if device.memory_bytes is None else format_size(device.memory_bytes)
    yield "Link", _link(device)
    yield "NUMA", _node(device)


def _node(device: DeviceInfo) -> str:
    if device.emulated:
        return "none: host memory plays the device"
    return "unknown" if device.numa_node is None else f"node {device.numa_node}"


def _link(device: DeviceInfo) -> str:
    now, best = device.link, device.max_link
    if device.emulated:
        return "none: host memory plays the device"
    if (instead := without_pcie(now)) is not None:
        return f"none: {instead}"
    if now.generation is None:
        return "unknown" if best.generation is None else f"{link_carries(best)} at most; now unknown"
    # Power saving lowers the speed of the lanes, hardly ever their number.
    if _is_below(now.width, best.width):
        return f"{link_carries(best)} at most; now {link_shape(now)} (fewer lanes)"
    if _is_below(now.generation, best.generation):
        return f"{link_carries(best)} at most; now {link_shape(now)} (idle)"
    return link_carries(now)


def _is_below(now: int | None, best: int | None) -> bool:
    return now is not None and best is not None and now < best


def _software(inventory: Inventory) -> Iterable[str]:
    if inventory.nvidia_driver is not None:
        yield f"NVIDIA driver {inventory.nvidia_driver}"
    yield f"CUDA driver {inventory.cuda_driver}"
    yield f"cuda-bindings {inventory.cuda_bindings}"
