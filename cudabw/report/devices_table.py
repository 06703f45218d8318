"""The list of ``cudabw devices``: a paragraph for each device, because a UUID alone is half a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from cudabw.report.console import symbols_for
from cudabw.units import format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from cudabw.results.inventory import Inventory, ListedDevice
    from cudabw.results.model import Link


def print_devices(inventory: Inventory, console: Console) -> None:
    """Print every device, and the software that reaches them."""
    for listed in inventory.devices:
        console.print(Text(f"Device {listed.device.ordinal}: {_name(listed)}", style="bold"), soft_wrap=True)
        for label, value in _facts(listed):
            console.print(Text(f"  {label:<8}{value}"), soft_wrap=True)
        console.print()
    console.print(Text(f" {symbols_for(console).dot} ".join(_software(inventory))), soft_wrap=True)
    if any(_is_below(listed.device.link.generation, listed.max_link.generation) for listed in inventory.devices):
        note = "An idle link runs slower to save power; `cudabw bandwidth` reads it under load."
        console.print(Text(note, style="dim"), soft_wrap=True)


def _name(listed: ListedDevice) -> str:
    # It must never be taken for a GPU.
    return f"{listed.device.name} (not a GPU)" if listed.device.emulated else listed.device.name


def _facts(listed: ListedDevice) -> Iterable[tuple[str, str]]:
    device = listed.device
    yield "UUID", device.uuid or "unknown"
    yield "PCI", device.pci or "unknown"
    yield "Memory", "unknown" if device.memory_bytes is None else format_size(device.memory_bytes)
    yield "Link", _link(listed)


def _link(listed: ListedDevice) -> str:
    now, best = listed.device.link, listed.max_link
    if listed.device.emulated:
        return "none: host memory plays the device"
    if listed.integrated:
        return "none: device and host share one memory"
    if now.generation is None:
        return "unknown" if best.generation is None else f"PCIe {_carries(best)} at most; now unknown"
    # Power saving lowers the speed of the lanes, hardly ever their number.
    if _is_below(now.width, best.width):
        return f"PCIe {_carries(best)} at most; now {_shape(now)} (fewer lanes)"
    if _is_below(now.generation, best.generation):
        return f"PCIe {_carries(best)} at most; now {_shape(now)} (idle)"
    return f"PCIe {_carries(now)}"


def _is_below(now: int | None, best: int | None) -> bool:
    return now is not None and best is not None and now < best


def _carries(link: Link) -> str:
    rate = "" if link.ceiling_bytes_per_s is None else f"{format_rate(link.ceiling_bytes_per_s)} GB/s, "
    return f"{_shape(link)} ({rate}{link.source})"


def _shape(link: Link) -> str:
    return f"Gen{link.generation} x{link.width}"


def _software(inventory: Inventory) -> Iterable[str]:
    if inventory.nvidia_driver is not None:
        yield f"NVIDIA driver {inventory.nvidia_driver}"
    yield f"CUDA driver {inventory.cuda_driver}"
    yield f"cuda-bindings {inventory.cuda_bindings}"
