"""Moving bytes: the direction of a copy, the copy itself, and what a fault makes of it."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudabw.driver.emulated.address_space import Span


def direction_of(destination: Span, source: Span) -> str:
    """``h2d``, ``d2h``, ``d2d``, ``p2p`` or ``h2h``, from where the bytes really are."""
    if not (destination.on_device and source.on_device):
        return f"{'d' if source.on_device else 'h'}2{'d' if destination.on_device else 'h'}"
    assert destination.allocation is not None  # noqa: S101 - device memory is always an allocation
    assert source.allocation is not None  # noqa: S101
    return "d2d" if destination.allocation.ordinal == source.allocation.ordinal else "p2p"


def host_kind(destination: Span, source: Span) -> str:
    """The memory kind of the host side of a copy; empty between devices."""
    kinds = [span.kind for span in (source, destination) if span.kind != "device"]
    return "pageable" if "pageable" in kinds else kinds[0] if kinds else ""


def move(destination: int, source: int, nbytes: int, fault: str | None) -> None:
    """Copy bytes within this process, or do what the fault says; the interpreter's lock is released."""
    if fault == "drop":
        return
    ctypes.memmove(destination, source, nbytes)
    if fault == "corrupt":
        middle = ctypes.c_uint8.from_address(destination + nbytes // 2)
        # Not flipped back by a second corruption on the way home.
        middle.value += 1
