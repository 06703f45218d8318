"""What reports say of the link between host and device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.units import format_rate

if TYPE_CHECKING:
    from cudabw.results.model import Link

_INSTEAD = {
    "integrated": "device and host share one memory",
    "nvlink-c2c": "NVLink-C2C connects device and host",
    "coherent": "a coherent link connects device and host",
}


def without_pcie(link: Link) -> str | None:
    """What copies go through where that is not PCI Express; None where it is, or is not known."""
    return _INSTEAD.get(link.source or "")


def link_shape(link: Link) -> str:
    """Generation and width, as ``Gen5 x16``."""
    return f"Gen{link.generation} x{link.width}"


def link_carries(link: Link, *, when: str = "") -> str:
    """Shape and source of a link and what it can carry, with the bridge that sets that.

    Args:
        link: A link whose generation and width are known.
        when: The circumstances of the reading, said behind its source.
    """
    source = f"{link.source}, {when}" if when else link.source
    if link.ceiling_bytes_per_s is None:
        return f"PCIe {link_shape(link)} ({source})"
    rate = f"{format_rate(link.ceiling_bytes_per_s)} GB/s"
    hop = link.narrowest_hop
    if hop is None:
        return f"PCIe {link_shape(link)}, {rate} ({source})"
    bridge = f"Gen{hop.generation} x{hop.width} at bridge {hop.pci} ({hop.source})"
    return f"PCIe {link_shape(link)} ({source}) behind {bridge}, {rate}"
