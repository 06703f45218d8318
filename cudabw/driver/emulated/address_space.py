"""Addresses of the emulated machine, and the host memory behind them.

Device memory is host memory shown under device addresses in a range of its own, where no address of a host
program can be. Addresses are handed out once and never again, so that a stale one is always noticed.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from bisect import bisect_right, insort
from dataclasses import dataclass, field

from cudabw.driver.emulated.refusals import ILLEGAL_ADDRESS, INVALID_VALUE, OUT_OF_MEMORY, Refusal

DEVICE_BASE = 1 << 60
DEVICE_STRIDE = 1 << 50
MAPPED_BASE = (1 << 60) + (1 << 59)
HOST_LIMIT = 1 << 47
"""User space of x86-64 and of AArch64 as Linux lays it out by default ends here."""

ALIGNMENT = 512


@dataclass(slots=True, eq=False)
class Allocation:
    """A piece of memory that the driver knows.

    Attributes:
        kind: device, pinned, mapped, write-combined, registered or managed.
        real: Where its bytes are in this process.
        size: Bytes.
        ordinal: The device whose context made it.
        context: Handle of that context.
        host: Its host address; None for device memory.
        device: Its device address; None for host memory that was not mapped.
        flags: As given when it was made.
        storage: Owns the bytes; None for registered memory.
        resident: Ordinal of the device that managed memory was last prefetched to; None for the host.
        shadow: As much memory again, to which a prefetch of managed memory moves its bytes.
        released: Whether it is gone.
    """

    kind: str
    real: int
    size: int
    ordinal: int
    context: int
    host: int | None = None
    device: int | None = None
    flags: int = 0
    storage: mmap.mmap | None = None
    resident: int | None = None
    shadow: mmap.mmap | None = None
    released: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A checked range of addresses.

    Attributes:
        real: Where its bytes are in this process.
        on_device: Whether the memory is a device's.
        kind: As of an allocation, or pageable.
        allocation: None for pageable memory.
    """

    real: int
    on_device: bool
    kind: str
    allocation: Allocation | None = None


@dataclass(slots=True)
class _Index:
    """Allocations by where they start, in one kind of address."""

    starts: list[int] = field(default_factory=list)
    found: dict[int, Allocation] = field(default_factory=dict)

    def add(self, start: int, allocation: Allocation) -> None:
        insort(self.starts, start)
        self.found[start] = allocation

    def remove(self, start: int) -> None:
        del self.starts[bisect_right(self.starts, start) - 1]
        del self.found[start]

    def holding(self, address: int) -> tuple[Allocation, int] | None:
        """The allocation at an address, and how far into it the address is."""
        position = bisect_right(self.starts, address) - 1
        if position < 0:
            return None
        allocation = self.found[self.starts[position]]
        offset = address - self.starts[position]
        return (allocation, offset) if offset < allocation.size else None

    def touches(self, address: int, size: int) -> bool:
        """Whether any allocation shares a byte with the range."""
        position = bisect_right(self.starts, address + size - 1) - 1
        return position >= 0 and self.starts[position] + self.found[self.starts[position]].size > address


class AddressSpace:
    """All memory that the emulated driver knows, by host and by device address."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._by_host = _Index()
        self._by_device = _Index()
        self._retired = _Index()
        self._next_device: dict[int, int] = {}
        self._next_mapped = MAPPED_BASE

    # -- making and unmaking ---------------------------------------------------------------------------

    def allocate_device(self, size: int, ordinal: int, context: int) -> Allocation:
        """Device memory. Raises Refusal (2) when the host has no room for it."""
        storage, real = _map(size)
        with self._lock:
            start = self._next_device.get(ordinal, DEVICE_BASE + ordinal * DEVICE_STRIDE)
            self._next_device[ordinal] = start + _rounded(size)
            allocation = Allocation("device", real, size, ordinal, context, device=start, storage=storage)
            self._enter(allocation)
        return allocation

    def allocate_host(
        self, kind: str, size: int, ordinal: int, context: int, flags: int, *, mapped: bool
    ) -> Allocation:
        """Pinned, mapped, write-combined or managed memory. Raises Refusal (2) when there is no room."""
        storage, real = _map(size)
        allocation = Allocation(kind, real, size, ordinal, context, host=real, flags=flags, storage=storage)
        with self._lock:
            if kind == "managed":
                allocation.device = real
            elif mapped:
                allocation.device = self._place_mapped(size)
            self._enter(allocation)
        return allocation

    def register(self, address: int, size: int, ordinal: int, context: int, flags: int, *, mapped: bool) -> Allocation:
        """Memory of the program's own. The range must not touch any known one (`touches`)."""
        allocation = Allocation("registered", address, size, ordinal, context, host=address, flags=flags)
        with self._lock:
            if mapped:
                allocation.device = self._place_mapped(size)
            self._enter(allocation)
        return allocation

    def release(self, allocation: Allocation) -> None:
        """Forget an allocation and give its memory back to the host. Raises Refusal (1) the second time."""
        with self._lock:
            if allocation.released:
                raise Refusal(INVALID_VALUE)
            allocation.released = True
            if allocation.host is not None:
                self._by_host.remove(allocation.host)
            if allocation.device is not None:
                self._by_device.remove(allocation.device)
            if allocation.storage is None:
                return
            if allocation.host is None:
                allocation.storage.close()
            else:
                # Kept as an empty mapping: its address stays taken, so that a stale pointer is refused
                # instead of reaching whatever the host would put there next.
                allocation.storage.madvise(mmap.MADV_DONTNEED)
                self._retired.add(allocation.host, allocation)

    def of_context(self, context: int) -> list[Allocation]:
        """Every live allocation of a context."""
        with self._lock:
            live = {id(a): a for index in (self._by_host, self._by_device) for a in index.found.values()}
        return [allocation for allocation in live.values() if allocation.context == context]

    # -- looking up ------------------------------------------------------------------------------------

    def find(self, address: int) -> tuple[Allocation, int] | None:
        """The allocation holding an address of either side, and the offset into it."""
        with self._lock:
            return self._by_device.holding(address) or self._by_host.holding(address)

    def find_host(self, address: int) -> tuple[Allocation, int] | None:
        """The allocation holding a host address, and the offset into it."""
        with self._lock:
            return self._by_host.holding(address)

    def touches(self, address: int, size: int) -> bool:
        """Whether a host range shares a byte with any known host memory."""
        with self._lock:
            return self._by_host.touches(address, size)

    def is_pageable(self, address: int, size: int) -> bool:
        """Whether a host range can be the program's own memory, none of it known to the driver."""
        with self._lock:
            return (
                address > 0
                and address + size <= HOST_LIMIT
                and not self._by_host.touches(address, size)
                and not self._retired.touches(address, size)
            )

    def host(self, address: int, size: int) -> Span:
        """The host side of a copy. Raises Refusal (1) for an address that is none, or is only partly known."""
        with self._lock:
            found = self._by_host.holding(address)
            if found is None:
                if not self.is_pageable(address, size):
                    raise Refusal(INVALID_VALUE)
                return Span(address, on_device=False, kind="pageable")
        return _span(found, size, on_device=False)

    def device(self, address: int, size: int) -> Span:
        """The device side of a copy or memset. Raises Refusal (1) for an address that is none.

        Stricter than a GPU: a host address is refused even where unified addressing would allow it.
        """
        with self._lock:
            found = self._by_device.holding(address)
        if found is None:
            raise Refusal(INVALID_VALUE)
        return _span(found, size, on_device=True)

    def either(self, address: int, size: int) -> Span:
        """One side of a unified copy, whichever it is. Raises Refusal (1)."""
        with self._lock:
            found = self._by_device.holding(address)
        if found is None:
            return self.host(address, size)
        allocation = found[0]
        return _span(found, size, on_device=allocation.kind == "device" or allocation.resident is not None)

    def reachable(self, address: int, size: int, ordinal: int, peers: frozenset[int]) -> Span:
        """What a kernel of a device sees at an address.

        Memory that is pinned or registered but not mapped is seen at its host address, as under unified
        addressing; mapped memory only at its device address.

        Raises:
            Refusal: 700, nothing this device may touch is there.
        """
        with self._lock:
            found = self._by_device.holding(address)
            if found is None:
                found = self._by_host.holding(address)
                if found is not None and found[0].device is not None:
                    found = None
        if found is None or found[1] + size > found[0].size:
            raise Refusal(ILLEGAL_ADDRESS)
        allocation, offset = found
        if allocation.kind == "device" and allocation.ordinal != ordinal and allocation.ordinal not in peers:
            raise Refusal(ILLEGAL_ADDRESS)
        return Span(allocation.real + offset, allocation.kind == "device", allocation.kind, allocation)

    # -- inside ----------------------------------------------------------------------------------------

    def _enter(self, allocation: Allocation) -> None:
        if allocation.host is not None:
            self._by_host.add(allocation.host, allocation)
        if allocation.device is not None:
            self._by_device.add(allocation.device, allocation)

    def _place_mapped(self, size: int) -> int:
        start = self._next_mapped
        self._next_mapped += _rounded(size)
        return start


def charged(size: int) -> int:
    """Bytes of device memory that an allocation of this size takes up."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _rounded(size: int) -> int:
    # One unit more than needed: the byte after an allocation never belongs to the next one.
    return (size // ALIGNMENT + 1) * ALIGNMENT


def _map(size: int) -> tuple[mmap.mmap, int]:
    try:
        storage = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError, ValueError) as error:
        raise Refusal(OUT_OF_MEMORY) from error
    return storage, ctypes.addressof(ctypes.c_char.from_buffer(storage))


def _span(found: tuple[Allocation, int], size: int, *, on_device: bool) -> Span:
    allocation, offset = found
    if offset + size > allocation.size:
        raise Refusal(INVALID_VALUE)
    return Span(allocation.real + offset, on_device, allocation.kind, allocation)
