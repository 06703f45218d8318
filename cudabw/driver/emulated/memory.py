"""Memory: device, pinned, mapped, registered and managed, and what the driver says about pointers."""
# ruff: noqa: N802, N803 - functions and parameters are named as in the bindings

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

from cudabw.driver.emulated.address_space import charged
from cudabw.driver.emulated.calls import Enumerator, Handle, HostPointer, Surface, entry, host_address, integer
from cudabw.driver.emulated.clock import NO_WORK, Work
from cudabw.driver.emulated.machine import Needs
from cudabw.driver.emulated.refusals import (
    HOST_MEMORY_ALREADY_REGISTERED,
    HOST_MEMORY_NOT_REGISTERED,
    INVALID_VALUE,
    NOT_FOUND,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    Refusal,
)
from cudabw.driver.emulated.streams import Operation, Stream

if TYPE_CHECKING:
    from cudabw.driver.emulated.address_space import Allocation

PORTABLE, DEVICEMAP, WRITECOMBINED = 1, 2, 4
REGISTER_IOMEMORY, REGISTER_READ_ONLY = 4, 8
ATTACH_GLOBAL, ATTACH_HOST = 1, 2
LARGEST_REGISTRATION = 1 << 39
PINNED_KINDS = ("pinned", "mapped", "write-combined")


class Memory(Surface):
    """Driver functions about memory."""

    @entry(values=2)
    def cuMemGetInfo(self) -> tuple[int, int]:
        """Free and total bytes of the current device."""
        device = self._machine.find_device(self._machine.context.ordinal)
        total = self._machine.shape.memory
        return total - device.used, total

    @entry(values=1)
    def cuMemAlloc(self, bytesize: int) -> object:
        """Device memory."""
        context, size = self._machine.context, integer(bytesize)
        self._machine.refuse_while_capturing()
        if size == 0:
            raise Refusal(INVALID_VALUE)
        device = self._machine.find_device(context.ordinal)
        self._machine.charge(device, charged(size))
        try:
            allocation = self._machine.memory.allocate_device(size, context.ordinal, context.handle)
        except Refusal:
            self._machine.charge(device, -charged(size))
            raise
        return cuda.CUdeviceptr(allocation.device)

    @entry()
    def cuMemFree(self, dptr: Handle) -> None:
        """Free device or managed memory, once all queued work is done."""
        address = integer(dptr)
        self._machine.refuse_while_capturing()
        if address == 0:
            return
        found = self._machine.memory.find(address)
        if found is None or found[1] or found[0].kind not in ("device", "managed") or found[0].device != address:
            raise Refusal(INVALID_VALUE)
        self._free(found[0])

    @entry(values=1)
    def cuMemHostAlloc(self, bytesize: int, Flags: int) -> int:
        """Pinned memory, mapped or write-combined by its flags; zero bytes are null."""
        context, size, flags = self._machine.context, integer(bytesize), integer(Flags)
        self._machine.refuse_while_capturing()
        if flags & ~(PORTABLE | DEVICEMAP | WRITECOMBINED):
            raise Refusal(INVALID_VALUE)
        if size == 0:
            return 0
        kind = "write-combined" if flags & WRITECOMBINED else "mapped" if flags & DEVICEMAP else "pinned"
        allocation = self._machine.memory.allocate_host(
            kind, size, context.ordinal, context.handle, flags, mapped=bool(flags & DEVICEMAP)
        )
        self._machine.clock.lock_pages("pin", size)
        return allocation.real

    @entry()
    def cuMemFreeHost(self, p: HostPointer) -> None:
        """Free pinned memory, once all queued work is done."""
        self._machine.refuse_while_capturing()
        found = self._machine.memory.find_host(host_address(p))
        if found is None or found[1] or found[0].kind not in PINNED_KINDS:
            raise Refusal(INVALID_VALUE)
        self._free(found[0])
        self._machine.clock.lock_pages("unpin", found[0].size)

    @entry(values=1)
    def cuMemHostGetDevicePointer(self, p: HostPointer, Flags: int) -> object:
        """The device address of pinned or registered memory.

        As under unified addressing, memory that was never mapped has one too: its host address.
        """
        allocation, offset = self._known_host(p)
        if integer(Flags):
            raise Refusal(INVALID_VALUE)
        start = allocation.real if allocation.device is None else allocation.device
        return cuda.CUdeviceptr(start + offset)

    @entry(values=1)
    def cuMemHostGetFlags(self, p: HostPointer) -> int:
        """The flags that pinned or registered memory was made with."""
        return self._known_host(p)[0].flags

    @entry()
    def cuMemHostRegister(self, p: HostPointer, bytesize: int, Flags: int) -> None:
        """Pin memory of the program's own; it need not be aligned."""
        context, address, size, flags = self._machine.context, host_address(p), integer(bytesize), integer(Flags)
        self._machine.refuse_while_capturing()
        if size == 0 or flags & ~(PORTABLE | DEVICEMAP | REGISTER_IOMEMORY | REGISTER_READ_ONLY):
            raise Refusal(INVALID_VALUE)
        if flags & (REGISTER_IOMEMORY | REGISTER_READ_ONLY):
            raise Refusal(NOT_SUPPORTED)
        if size >= LARGEST_REGISTRATION:
            raise Refusal(OUT_OF_MEMORY)
        with self._machine.lock:
            if self._machine.memory.touches(address, size):
                raise Refusal(HOST_MEMORY_ALREADY_REGISTERED)
            if not self._machine.memory.is_pageable(address, size):
                raise Refusal(INVALID_VALUE)
            self._machine.memory.register(
                address, size, context.ordinal, context.handle, flags, mapped=bool(flags & DEVICEMAP)
            )
        self._machine.clock.lock_pages("pin", size)

    @entry()
    def cuMemHostUnregister(self, p: HostPointer) -> None:
        """Undo a registration, once all queued work is done."""
        self._machine.refuse_while_capturing()
        found = self._machine.memory.find_host(host_address(p))
        if found is None or found[1] or found[0].kind != "registered":
            raise Refusal(HOST_MEMORY_NOT_REGISTERED)
        self._free(found[0])
        self._machine.clock.lock_pages("unpin", found[0].size)

    @entry(values=1)
    def cuMemAllocManaged(self, bytesize: int, flags: int) -> object:
        """Managed memory: one address for host and device, and no limit but the host's."""
        context, size = self._machine.context, integer(bytesize)
        self._machine.refuse_while_capturing()
        if size == 0 or integer(flags) not in (ATTACH_GLOBAL, ATTACH_HOST):
            raise Refusal(INVALID_VALUE)
        allocation = self._machine.memory.allocate_host(
            "managed", size, context.ordinal, context.handle, integer(flags), mapped=False
        )
        return cuda.CUdeviceptr(allocation.real)

    @entry(values=1, needs=Needs.INITIALISATION)
    def cuPointerGetAttribute(self, attribute: Enumerator, ptr: Handle) -> object:
        """One fact about a pointer."""
        found = self._machine.memory.find(integer(ptr))
        if found is None:
            raise Refusal(INVALID_VALUE)
        return _fact(int(attribute), *found)

    @entry(values=1, needs=Needs.INITIALISATION)
    def cuPointerGetAttributes(self, numAttributes: int, attributes: Sequence[Enumerator], ptr: Handle) -> list[Any]:
        """Several facts about a pointer; zeros for one that is unknown, and for facts that do not apply."""
        if numAttributes > len(attributes):
            raise RuntimeError("List is too small: " + str(len(attributes)) + " < " + str(numAttributes))
        found = self._machine.memory.find(integer(ptr))
        return [_fact_or_zero(int(attribute), found) for attribute in attributes[:numAttributes]]

    @entry(values=2)
    def cuMemGetAddressRange(self, dptr: Handle) -> tuple[object, int]:
        """Where the allocation around a device address starts, and its size."""
        address = integer(dptr)
        found = self._machine.memory.find(address)
        if found is None or found[0].device is None or address - found[1] != found[0].device:
            raise Refusal(NOT_FOUND)
        return cuda.CUdeviceptr(found[0].device), found[0].size

    def _known_host(self, pointer: HostPointer) -> tuple[Allocation, int]:
        found = self._machine.memory.find_host(host_address(pointer))
        if found is None or found[0].kind == "managed":
            raise Refusal(INVALID_VALUE)
        return found

    def _free(self, allocation: Allocation) -> None:
        # Work of any device may use it: addresses are the same for all of them.
        self._machine.drain(*self._machine.live_contexts())
        self._machine.context.health.surface()
        self._machine.free(allocation)

    def _prefetch(self, pointer: Handle, count: int, ordinal: int | None, stream_handle: Handle) -> None:
        """Move managed memory; ordinal None means to the host."""
        stream = self._machine.handles.find(integer(stream_handle), Stream)
        allocation = self._managed(integer(pointer), integer(count))

        def body(_stream: Stream) -> Work:
            if allocation.resident == ordinal:
                return NO_WORK
            allocation.resident = ordinal
            _migrate(allocation)
            return Work("d2h" if ordinal is None else "h2d", "managed", integer(count))

        stream.submit(Operation(body))

    def _managed(self, address: int, count: int) -> Allocation:
        found = self._machine.memory.find(address)
        if count == 0 or found is None or found[0].kind != "managed" or found[1] + count > found[0].size:
            raise Refusal(INVALID_VALUE)
        return found[0]


def _migrate(allocation: Allocation) -> None:
    """Take as long as moving the bytes takes; they are found at one address whichever side they are on."""
    if allocation.shadow is None:
        allocation.shadow = mmap.mmap(-1, allocation.size)
    window = (ctypes.c_ubyte * allocation.size).from_buffer(allocation.shadow)
    ctypes.memmove(window, allocation.real, allocation.size)


def _fact(attribute: int, allocation: Allocation, offset: int) -> object:
    names = cuda.CUpointer_attribute
    on_host = allocation.host is not None
    start = allocation.device if allocation.device is not None else allocation.real
    facts: dict[int, object] = {
        names.CU_POINTER_ATTRIBUTE_CONTEXT.value: cuda.CUcontext(allocation.context),
        names.CU_POINTER_ATTRIBUTE_MEMORY_TYPE.value: 1 if on_host and allocation.kind != "managed" else 2,
        names.CU_POINTER_ATTRIBUTE_DEVICE_POINTER.value: cuda.CUdeviceptr(start + offset),
        names.CU_POINTER_ATTRIBUTE_BUFFER_ID.value: start,
        names.CU_POINTER_ATTRIBUTE_IS_MANAGED.value: allocation.kind == "managed",
        names.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL.value: allocation.ordinal,
        names.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR.value: cuda.CUdeviceptr(start),
        names.CU_POINTER_ATTRIBUTE_RANGE_SIZE.value: allocation.size,
        names.CU_POINTER_ATTRIBUTE_MAPPED.value: True,
    }
    if allocation.host is not None:
        facts[names.CU_POINTER_ATTRIBUTE_HOST_POINTER.value] = allocation.host + offset
    if attribute not in facts:
        raise Refusal(INVALID_VALUE)
    return facts[attribute]


def _fact_or_zero(attribute: int, found: tuple[Allocation, int] | None) -> object:
    try:
        return 0 if found is None else _fact(attribute, *found)
    except Refusal:
        return 0
