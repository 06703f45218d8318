"""Copies and memsets.

The synchronous ones hold the caller until they are done. They run on a stream of the context's own, after
all work of the streams made without the non-blocking flag and without regard to the others, as the legacy
default stream does.
"""
# ruff: noqa: N802, N803 - functions and parameters are named as in the bindings

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cudabw.driver.emulated.address_space import AddressSpace, Span
from cudabw.driver.emulated.calls import Handle, HostPointer, Surface, entry, host_address, integer
from cudabw.driver.emulated.clock import Work
from cudabw.driver.emulated.refusals import ILLEGAL_ADDRESS, INVALID_VALUE, STREAM_CAPTURE_IMPLICIT, Refusal
from cudabw.driver.emulated.streams import Operation, Record, Stream, in_order
from cudabw.driver.emulated.transfer import direction_of, host_kind, move

if TYPE_CHECKING:
    from cudabw.driver.emulated.machine import Machine

Lookup: TypeAlias = Callable[[AddressSpace, int, int], Span]
"""How one side of a copy is looked up: `AddressSpace.host`, ``device`` or ``either``."""

HOST, DEVICE, EITHER = AddressSpace.host, AddressSpace.device, AddressSpace.either


class Transfer:
    """One copy: checked when it is made, looked up again when it runs.

    Args:
        machine: Whose memory it is.
        destination: Address.
        to: How the destination is looked up.
        source: Address.
        frm: How the source is looked up.
        nbytes: How many bytes.

    Raises:
        Refusal: 1, a side is not what it is said to be.
    """

    def __init__(self, machine: Machine, destination: int, to: Lookup, source: int, frm: Lookup, nbytes: int) -> None:
        self._machine = machine
        self._sides = (destination, to, source, frm)
        self._nbytes = nbytes
        if nbytes:
            target, origin = self._spans()
            self.holds_caller = "pageable" in (target.kind, origin.kind)
            self._fault = machine.faults.copy(self._direction(target, origin), nbytes)
        else:
            self.holds_caller = False
            self._fault = None

    def operation(self) -> Operation:
        """The copy as work for a stream."""
        return Operation(self.run)

    def run(self, _stream: Stream) -> Work:
        """Move the bytes. Raises Refusal (700) if either side is gone, as it can be when a graph is replayed."""
        if not self._nbytes:
            return Work()
        try:
            target, origin = self._spans()
        except Refusal as gone:
            raise Refusal(ILLEGAL_ADDRESS) from gone
        move(target.real, origin.real, self._nbytes, self._fault)
        return Work(self._direction(target, origin), host_kind(target, origin), self._nbytes)

    def _spans(self) -> tuple[Span, Span]:
        destination, to, source, frm = self._sides
        memory = self._machine.memory
        return to(memory, destination, self._nbytes), frm(memory, source, self._nbytes)

    def _direction(self, target: Span, origin: Span) -> str:
        _, to, _, frm = self._sides
        # Which side is which was said by the caller, except between two devices and in unified copies.
        if (to, frm) == (DEVICE, HOST):
            return "h2d"
        if (to, frm) == (HOST, DEVICE):
            return "d2h"
        return direction_of(target, origin)


class Copies(Surface):
    """Driver functions that move or set bytes."""

    @entry()
    def cuMemcpyHtoD(self, dstDevice: Handle, srcHost: HostPointer, ByteCount: int) -> None:
        """Copy host to device and wait."""
        self._copy_now(integer(dstDevice), DEVICE, host_address(srcHost), HOST, integer(ByteCount))

    @entry()
    def cuMemcpyDtoH(self, dstHost: HostPointer, srcDevice: Handle, ByteCount: int) -> None:
        """Copy device to host and wait."""
        self._copy_now(host_address(dstHost), HOST, integer(srcDevice), DEVICE, integer(ByteCount))

    @entry()
    def cuMemcpyDtoD(self, dstDevice: Handle, srcDevice: Handle, ByteCount: int) -> None:
        """Copy device to device and wait."""
        self._copy_now(integer(dstDevice), DEVICE, integer(srcDevice), DEVICE, integer(ByteCount))

    @entry()
    def cuMemcpy(self, dst: Handle, src: Handle, ByteCount: int) -> None:
        """Copy between any two addresses and wait."""
        self._copy_now(integer(dst), EITHER, integer(src), EITHER, integer(ByteCount))

    @entry()
    def cuMemcpyAsync(self, dst: Handle, src: Handle, ByteCount: int, hStream: Handle) -> None:
        """Queue a copy between any two addresses."""
        self._queue_copy(integer(dst), EITHER, integer(src), EITHER, integer(ByteCount), hStream)

    @entry()
    def cuMemcpyHtoDAsync(self, dstDevice: Handle, srcHost: HostPointer, ByteCount: int, hStream: Handle) -> None:
        """Queue a copy host to device; pageable memory holds the caller until it is done."""
        self._queue_copy(integer(dstDevice), DEVICE, host_address(srcHost), HOST, integer(ByteCount), hStream)

    @entry()
    def cuMemcpyDtoHAsync(self, dstHost: HostPointer, srcDevice: Handle, ByteCount: int, hStream: Handle) -> None:
        """Queue a copy device to host; pageable memory holds the caller until it is done."""
        self._queue_copy(host_address(dstHost), HOST, integer(srcDevice), DEVICE, integer(ByteCount), hStream)

    @entry()
    def cuMemcpyDtoDAsync(self, dstDevice: Handle, srcDevice: Handle, ByteCount: int, hStream: Handle) -> None:
        """Queue a copy device to device."""
        self._queue_copy(integer(dstDevice), DEVICE, integer(srcDevice), DEVICE, integer(ByteCount), hStream)

    @entry()
    def cuMemcpyPeerAsync(
        self,
        dstDevice: Handle,
        dstContext: Handle,
        srcDevice: Handle,
        srcContext: Handle,
        ByteCount: int,
        hStream: Handle,
    ) -> None:
        """Queue a copy from one device to another; peer access need not be enabled."""
        nbytes = integer(ByteCount)
        for address, context in ((dstDevice, dstContext), (srcDevice, srcContext)):
            ordinal = self._machine.find_context(integer(context)).ordinal
            allocation = self._machine.memory.device(integer(address), nbytes).allocation
            if allocation is None or (allocation.kind == "device" and allocation.ordinal != ordinal):
                raise Refusal(INVALID_VALUE)
        self._queue_copy(integer(dstDevice), DEVICE, integer(srcDevice), DEVICE, nbytes, hStream)

    @entry()
    def cuMemsetD8(self, dstDevice: Handle, uc: int, N: int) -> None:
        """Set bytes and wait."""
        self._run_now(self._memset(integer(dstDevice), uc, 1, integer(N)))

    @entry()
    def cuMemsetD8Async(self, dstDevice: Handle, uc: int, N: int, hStream: Handle) -> None:
        """Queue the setting of bytes."""
        self._queue(hStream, self._memset(integer(dstDevice), uc, 1, integer(N)))

    @entry()
    def cuMemsetD32Async(self, dstDevice: Handle, ui: int, N: int, hStream: Handle) -> None:
        """Queue the setting of N 32-bit words."""
        self._queue(hStream, self._memset(integer(dstDevice), ui, 4, integer(N)))

    @entry()
    def cuMemsetD2D8Async(
        self, dstDevice: Handle, dstPitch: int, uc: int, Width: int, Height: int, hStream: Handle
    ) -> None:
        """Queue the setting of Height rows of Width bytes that start dstPitch bytes apart."""
        width, height, pitch = integer(Width), integer(Height), integer(dstPitch)
        if height > 1 and pitch < width:
            raise Refusal(INVALID_VALUE)
        self._queue(hStream, self._memset(integer(dstDevice), uc, 1, width, rows=height, pitch=pitch))

    # -- inside ----------------------------------------------------------------------------------------

    def _copy_now(self, destination: int, to: Lookup, source: int, frm: Lookup, nbytes: int) -> None:
        self._run_now(Transfer(self._machine, destination, to, source, frm, nbytes).operation())

    def _run_now(self, operation: Operation) -> None:
        machine, context = self._machine, self._machine.context
        machine.refuse_while_capturing(STREAM_CAPTURE_IMPLICIT)
        machine.drain(context, only_blocking=True)
        context.health.surface()
        _run_and_wait(machine, machine.legacy_stream(context), operation)

    def _queue_copy(
        self, destination: int, to: Lookup, source: int, frm: Lookup, nbytes: int, stream_handle: Handle
    ) -> None:
        stream = self._machine.handles.find(integer(stream_handle), Stream)
        self._submit_copies(stream, [Transfer(self._machine, destination, to, source, frm, nbytes)])

    def _submit_copies(self, stream: Stream, transfers: Sequence[Transfer]) -> None:
        """Queue copies as one operation."""
        operations = [transfer.operation() for transfer in transfers]
        operation = operations[0] if len(operations) == 1 else in_order(operations)
        if any(transfer.holds_caller for transfer in transfers) and stream.capture is None:
            _run_and_wait(self._machine, stream, operation)
        else:
            stream.submit(operation)

    def _queue(self, stream_handle: Handle, operation: Operation) -> None:
        self._machine.handles.find(integer(stream_handle), Stream).submit(operation)

    def _memset(self, address: int, value: int, width: int, count: int, rows: int = 1, pitch: int = 0) -> Operation:
        memory = self._machine.memory
        row_bytes = count * width
        extent = pitch * (rows - 1) + row_bytes if rows and count else 0
        if address % width:
            raise Refusal(INVALID_VALUE)
        if extent:
            memory.device(address, extent)

        def body(_stream: Stream) -> Work:
            if extent:
                start = memory.device(address, extent).real
                for row in range(rows):
                    _set(start + row * pitch, integer(value), width, count)
            return Work("memset", "", row_bytes * rows)

        return Operation(body)


def _run_and_wait(machine: Machine, stream: Stream, operation: Operation) -> None:
    record = Record()
    stream.submit(Operation(operation.body, record.finish))
    machine.clock.catch_up(record.wait())
    stream.health.surface()


def _set(start: int, value: int, width: int, count: int) -> None:
    if width == 1:
        ctypes.memset(start, value & 0xFF, count)
    else:
        words = np.ctypeslib.as_array((ctypes.c_uint32 * count).from_address(start))
        words[:] = value & 0xFFFFFFFF
