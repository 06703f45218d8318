"""The PCI Express link between host and device: what it is now, and what it can carry."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cudabw.driver.nvml import NvmlLink
from cudabw.results.model import Hop, Link
from cudabw.system.pci import bridges_above, lanes, pci_folder, transfers_per_s
from cudabw.system.virtualization import in_virtual_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cudabw.driver.identity import Identity
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


@dataclass(frozen=True, slots=True)
class LinkReader:
    """Where the link of one device is read.

    Attributes:
        pci: The device's PCI address; None for a device without one, such as the emulated device.
        nvml: The same device in NVML.
        instead: What copies go through instead of PCIe: ``integrated`` (device and host share one memory),
            ``nvlink-c2c``, or ``coherent`` (another link through which the device uses the host's page tables).
            The PCIe link that such a device may also have says nothing about its copies.
        root: Where ``/sys`` and ``/proc`` are found.
    """

    pci: str | None
    nvml: NvmlDevice | None = None
    instead: str | None = None
    root: Path = Path("/")

    def read(self) -> Link:
        """Read the link as it is now, from NVML or else from sysfs, and the bridges above it. Never raises.

        Returns:
            A link with generation, width and source; one with nothing in it where they cannot be read; one
            with the source alone where there is no PCIe in between. The ceiling is None where the generation
            is later than this program knows.
        """
        if self.instead is not None:
            return Link(source=self.instead)
        reading = self._reading()
        own = _link(reading.generation, reading.width, "nvml") or self._from_sysfs("current")
        return _NO_LINK if own is None else self._narrowed(own, "current")

    def read_max(self) -> Link:
        """Read the best that the link can be: NVML knows the slot too, sysfs the device alone. Never raises."""
        if self.instead is not None:
            return Link(source=self.instead)
        reading = self._reading()
        own = _link(reading.max_generation, reading.max_width, "nvml") or self._from_sysfs("max")
        return _NO_LINK if own is None else self._narrowed(own, "max")

    def shortfall(self, link: Link) -> str | None:
        """Say in a sentence or two how a link falls short of what the device itself can do. Never raises.

        Args:
            link: The link as it was while traffic ran: an idle link always falls short.

        Returns:
            None where it does not, or where either is not known.
        """
        best = self.read_max()
        if link.generation is None or link.width is None or best.generation is None or best.width is None:
            return None
        card = max(best.generation, self._reading().card_generation or 0)
        if link.generation >= card and link.width >= best.width:
            return None
        found = (
            f"The PCIe link of {self.pci} ran at Gen{link.generation} x{link.width} under load, below the "
            f"Gen{card} x{best.width} that the card can do"
        )
        if link.generation >= best.generation and link.width >= best.width:
            return f"{found}: this slot or processor offers Gen{best.generation} at most."
        return (
            f"{found}. Check that the card sits firmly in a slot wired for x{best.width}, its riser or cable, and the "
            f"slot's speed in the firmware settings; `lspci -vv -s {self.pci}` shows both as LnkSta and LnkCap."
        )

    def _reading(self) -> NvmlLink:
        return NvmlLink() if self.nvml is None else self.nvml.link()

    def _from_sysfs(self, which: str) -> Link | None:
        folder = pci_folder(self.pci, self.root)
        return None if folder is None else _link(*_shape(folder, which), "sysfs")

    def _narrowed(self, own: Link, which: str) -> Link:
        """The link with the ceiling of the narrowest bridge above it, where that is lower."""
        folder = pci_folder(self.pci, self.root)
        # What a virtual machine shows above a device that was passed through to it is made up.
        if folder is None or in_virtual_machine(self.root):
            return own
        hops = [(hop, ceiling) for hop, ceiling in _hops(folder, which) if _carries_less(ceiling, own)]
        if not hops:
            return own
        hop, ceiling = min(hops, key=lambda known: known[1])
        return replace(own, ceiling_bytes_per_s=ceiling, narrowest_hop=hop)


def link_reader(
    identity: Identity, nvml_device: NvmlDevice | None, *, emulated: bool, root: Path = Path("/")
) -> LinkReader:
    """Find out where a device's link is to be read.

    Args:
        identity: The device.
        nvml_device: The same device in NVML.
        emulated: Whether host memory plays it, so that it has no link at all.
        root: Where ``/sys`` and ``/proc`` are found.
    """
    if emulated:
        return LinkReader(None, root=root)
    return LinkReader(identity.pci, nvml_device, _instead_of_pcie(identity, nvml_device), root)


class LinkSampler:
    """Keeps the best link seen while traffic runs, because an idle link trains down to save power.

    Args:
        reader: Where the link is read.
        clock: Gives seconds that never go back.
        interval_s: Shortest time between two readings, in seconds.
    """

    __slots__ = ("_best", "_clock", "_due", "_interval_s", "_reader")

    def __init__(
        self,
        reader: LinkReader,
        *,
        clock: Callable[[], float] = time.monotonic,
        interval_s: float = _SAMPLE_INTERVAL_S,
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._interval_s = interval_s
        self._due: float | None = None
        self._best = Link(source=reader.instead)

    def sample(self) -> None:
        """Read the link, unless the last reading is younger than the interval.

        Call it while a batch runs: after its gate has been opened and before the host waits for its end.
        """
        now = self._clock()
        if self._due is not None and now < self._due:
            return
        self._due = now + self._interval_s
        self.add(self._reader.read())

    def add(self, link: Link) -> None:
        """Take in a reading that was made elsewhere while traffic ran."""
        self._best = max(self._best, link, key=_rank)

    def best(self) -> Link:
        """Give the fastest link seen, with nothing in it where none was read."""
        return self._best


def _instead_of_pcie(identity: Identity, nvml_device: NvmlDevice | None) -> str | None:
    if identity.integrated:
        return "integrated"
    if nvml_device is not None and nvml_device.c2c_enabled():
        return "nvlink-c2c"
    return "coherent" if identity.coherent else None


def _hops(folder: Path, which: str) -> Iterator[tuple[Hop, float]]:
    """The bridges above a device whose link is known, each with what it carries."""
    for bridge in bridges_above(folder):
        link = _link(*_shape(bridge, which), "sysfs")
        if link is not None and link.ceiling_bytes_per_s is not None:
            assert link.generation is not None  # noqa: S101 - for the type checker
            assert link.width is not None  # noqa: S101 - for the type checker
            yield Hop(bridge.name, link.generation, link.width, "sysfs"), link.ceiling_bytes_per_s


def _carries_less(ceiling: float, own: Link) -> bool:
    # A link without a ceiling is of a later generation than those known, and so faster than all of them.
    return own.ceiling_bytes_per_s is None or ceiling < own.ceiling_bytes_per_s


def _shape(folder: Path, which: str) -> tuple[int | None, int | None]:
    """Generation and lanes of a device's link in sysfs."""
    speed = transfers_per_s(folder, which)
    generation = next((number for number, rate in _TRANSFERS_PER_S.items() if rate == speed), None)
    return generation, lanes(folder, which)


def _link(generation: int | None, width: int | None, source: str) -> Link | None:
    """Give a link where both halves are known and possible: half of a reading has no ceiling to compare with."""
    if generation is None or generation < 1 or width not in _WIDTHS:
        return None
    known = generation in _TRANSFERS_PER_S
    ceiling = ceiling_bytes_per_s(generation, width) if known else None
    return Link(generation=generation, width=width, ceiling_bytes_per_s=ceiling, source=source)


def _rank(link: Link) -> tuple[bool, float]:
    """Order links by what they carry; a generation later than those known is faster than all of them."""
    unknown_generation = link.generation is not None and link.ceiling_bytes_per_s is None
    return unknown_generation, link.ceiling_bytes_per_s or 0.0
