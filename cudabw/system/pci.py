"""PCI devices as sysfs shows them: where their files are, their links, and the bridges above them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from cudabw.system.pseudofiles import parse_number, read_line, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# An address as CUDA (0000:17:00.0) or NVML (00000000:17:00.0) writes it; the function may be left out.
_ADDRESS: Final = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?", re.ASCII)
_FOLDER: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
# "32.0 GT/s PCIe"; Linux before 5.7 wrote "8 GT/s".
_SPEED: Final = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,4})?) GT/s(?: PCIe)?", re.ASCII)

_NVIDIA: Final = "0x10de"
_DISPLAY: Final = "0x03"
"""The class of display controllers, to which also GPUs without a display belong."""


def sysfs_address(pci: str | None) -> str | None:
    """Write an address as Linux names its folder: lower case, four digits of domain (more where they are needed)."""
    match = _ADDRESS.fullmatch(pci.strip().lower()) if pci else None
    if match is None:
        return None
    domain, bus, device, function = (int(part, 16) for part in match.groups(default="0"))
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


def pci_folder(pci: str | None, root: Path) -> Path | None:
    """The folder of a device in sysfs, which need not exist; None for what is no address.

    Args:
        pci: The address, however it is written.
        root: Where ``/sys`` is found.
    """
    address = sysfs_address(pci)
    return None if address is None else root / "sys" / "bus" / "pci" / "devices" / address


def bridges_above(folder: Path) -> Iterator[Path]:
    """The folders of the bridges between a device and the processor, the nearest first. Never raises."""
    try:
        resolved = folder.resolve()
    except (OSError, RuntimeError):  # RuntimeError: links in a circle, before Python 3.13
        return
    for parent in resolved.parents:
        if not _FOLDER.fullmatch(parent.name):
            return
        yield parent


def nvidia_gpus(root: Path) -> list[tuple[str, str | None]]:
    """The address of every NVIDIA GPU on the bus, and the kernel driver that uses it. Never raises.

    Args:
        root: Where ``/sys`` is found.
    """
    try:
        folders = sorted((root / "sys" / "bus" / "pci" / "devices").iterdir())
    except OSError:
        return []
    return [(folder.name, _kernel_driver(folder)) for folder in folders if _is_nvidia_gpu(folder)]


def _is_nvidia_gpu(folder: Path) -> bool:
    kind = read_line(folder / "class") or ""
    return read_line(folder / "vendor") == _NVIDIA and kind.startswith(_DISPLAY)


def _kernel_driver(folder: Path) -> str | None:
    try:
        return (folder / "driver").readlink().name
    except OSError:
        return None


def transfers_per_s(folder: Path, which: str) -> float | None:
    """The speed of a device's link in transfers per second and lane.

    Args:
        folder: The device's folder.
        which: ``current`` or ``max``.
    """
    text = read_text(folder / f"{which}_link_speed")
    match = _SPEED.fullmatch(text.strip()) if text else None
    return None if match is None else float(match[1]) * 1e9


def lanes(folder: Path, which: str) -> int | None:
    """The number of lanes of a device's link, as sysfs says it.

    Args:
        folder: The device's folder.
        which: ``current`` or ``max``.
    """
    return parse_number(read_text(folder / f"{which}_link_width"))
