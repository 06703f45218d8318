"""The PCI Express link between host and device: what it is now, and what it can carry."""

from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cudabw.results.model import Link
from cudabw.system.pseudofiles import parse_number, read_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudabw.driver.nvml import NvmlDevice

_TRANSFERS_PER_S: Final = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9, 7: 128e9}
"""Transfers per second and lane, by generation: the data rates of the PCI Express Base Specifications 1.0 to 7.0."""

_8B_10B: Final = 8 / 10
_128B_130B: Final = 128 / 130
_FLIT: Final = 242 / 256
"""Share of a flit that is not coding. PCI Express Base Specification 6.0, unchanged in 7.0: of the 256 bytes of a flit,
236 hold transaction packets and 6 the data link layer's; 8 of CRC and 6 of forward error correction are the coding."""

_CODING: Final = {1: _8B_10B, 2: _8B_10B, 3: _128B_130B, 4: _128B_130B, 5: _128B_130B, 6: _FLIT, 7: _FLIT}
_WIDTHS: Final = frozenset({1, 2, 4, 8, 12, 16, 32})
"""The link widths of the specification; sysfs says 0, 63 or 255 where there is no link to speak of."""

_NO_LINK: Final = Link()
_SAMPLE_INTERVAL_S: Final = 0.05
"""Short against any benchmark, long against the microseconds that a reading takes."""

# An address as CUDA (0000:17:00.0) or NVML (00000000:17:00.0) writes it; the function may be left out.
_ADDRESS: Final = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?", re.ASCII)
# "32.0 GT/s PCIe"; Linux before 5.7 wrote "8 GT/s".
_SPEED: Final = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,4})?) GT/s(?: PCIe)?", re.ASCII)


def ceiling_bytes_per_s(generation: int, width: int) -> float:
    """Give what a link carries in one direction after line coding, before protocol overhead.

    Line rate x lanes x coding: 8b/10b for generations 1 and 2, 128b/130b for 3 to 5, 242 of each 256 bytes
    of a flit for 6 and 7 (PCI Express Base Specifications). Generation 5 x16 gives 63.0e9.

    Args:
        generation: PCIe generation, 1 to 7.
        width: Lanes: 1, 2, 4, 8, 12, 16 or 32.

    Returns:
        Bytes per second.

    Raises:
        ValueError: There is no such generation or width.
    """
    if generation not in _TRANSFERS_PER_S:
        raise ValueError(f"PCIe generation {generation} is not known: 1 to {max(_TRANSFERS_PER_S)}")
    if width not in _WIDTHS:
        raise ValueError(f"a PCIe link cannot have {width} lanes: 1, 2, 4, 8, 12, 16 or 32")
    return _TRANSFERS_PER_S[generation] * width / 8 * _CODING[generation]


def read_link(
    pci: str | None,
    nvml_device: NvmlDevice | None,
    *,
    integrated: bool = False,
    sysfs: Path = Path("/sys"),
) -> Link:
    """Read the link as it is now, from NVML or else from sysfs. Never raises.

    Args:
        pci: The device's PCI address; None for a device without one, such as the emulated device.
        nvml_device: The same device in NVML.
        integrated: The device reaches host memory by another way than PCIe (an integrated GPU, or a coherent
            link such as NVLink-C2C); the PCIe link that it may also have says nothing about its copies.
        sysfs: Where sysfs is mounted.

    Returns:
        A link with generation, width and source, or one with nothing in it. The ceiling is None where the
        generation is later than this program knows.
    """
    if integrated:
        return _NO_LINK
    return _from_nvml(nvml_device) or _from_sysfs(pci, sysfs, "current") or _NO_LINK


def read_max_link(
    pci: str | None,
    nvml_device: NvmlDevice | None,
    *,
    integrated: bool = False,
    sysfs: Path = Path("/sys"),
) -> Link:
    """Read the best that the link can be: NVML knows the slot too, sysfs the device alone. Never raises.

    Arguments and result are those of :func:`read_link`.
    """
    if integrated:
        return _NO_LINK
    if nvml_device is not None:
        reading = nvml_device.link()
        if (link := _link(reading.max_generation, reading.max_width, "nvml")) is not None:
            return link
    return _from_sysfs(pci, sysfs, "max") or _NO_LINK


class LinkSampler:
    """Keeps the best link seen while traffic runs, because an idle link trains down to save power.

    Args:
        pci: As for :func:`read_link`.
        nvml_device: As for :func:`read_link`.
        integrated: As for :func:`read_link`.
        sysfs: As for :func:`read_link`.
        clock: Gives seconds that never go back.
        interval_s: Shortest time between two readings, in seconds.
    """

    __slots__ = ("_best", "_clock", "_due", "_interval_s", "_read")

    def __init__(
        self,
        pci: str | None,
        nvml_device: NvmlDevice | None,
        *,
        integrated: bool = False,
        sysfs: Path = Path("/sys"),
        clock: Callable[[], float] = time.monotonic,
        interval_s: float = _SAMPLE_INTERVAL_S,
    ) -> None:
        self._read = partial(read_link, pci, nvml_device, integrated=integrated, sysfs=sysfs)
        self._clock = clock
        self._interval_s = interval_s
        self._due: float | None = None
        self._best = _NO_LINK

    def sample(self) -> None:
        """Read the link, unless the last reading is younger than the interval.

        Call it while a batch runs: after its gate has been opened and before the host waits for its end.
        """
        now = self._clock()
        if self._due is not None and now < self._due:
            return
        self._due = now + self._interval_s
        self._best = max(self._best, self._read(), key=_rank)

    def best(self) -> Link:
        """Give the fastest link seen, with nothing in it where none was read."""
        return self._best


def _from_nvml(device: NvmlDevice | None) -> Link | None:
    if device is None:
        return None
    reading = device.link()
    return _link(reading.generation, reading.width, "nvml")


def _from_sysfs(pci: str | None, sysfs: Path, which: str) -> Link | None:
    address = _sysfs_address(pci)
    if address is None:
        return None
    folder = sysfs / "bus" / "pci" / "devices" / address
    generation = _parse_speed(read_text(folder / f"{which}_link_speed"))
    return _link(generation, parse_number(read_text(folder / f"{which}_link_width")), "sysfs")


def _link(generation: int | None, width: int | None, source: str) -> Link | None:
    """Give a link where both halves are known and possible: half of a reading has no ceiling to compare with."""
    if generation is None or generation < 1 or width not in _WIDTHS:
        return None
    known = generation in _TRANSFERS_PER_S
    ceiling = ceiling_bytes_per_s(generation, width) if known else None
    return Link(generation=generation, width=width, ceiling_bytes_per_s=ceiling, source=source)


def _sysfs_address(pci: str | None) -> str | None:
    """Write an address as Linux names its folder: lower case, four digits of domain (more where they are needed)."""
    match = _ADDRESS.fullmatch(pci.strip().lower()) if pci else None
    if match is None:
        return None
    domain, bus, device, function = (int(part, 16) for part in match.groups(default="0"))
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


def _parse_speed(text: str | None) -> int | None:
    match = _SPEED.fullmatch(text.strip()) if text else None
    if match is None:
        return None
    transfers_per_s = float(match[1]) * 1e9
    return next((generation for generation, rate in _TRANSFERS_PER_S.items() if rate == transfers_per_s), None)


def _rank(link: Link) -> tuple[bool, float]:
    """Order links by what they carry; a generation later than those known is faster than all of them."""
    unknown_generation = link.generation is not None and link.ceiling_bytes_per_s is None
    return unknown_generation, link.ceiling_bytes_per_s or 0.0
