"""Streams and events, and waiting for words in memory."""
# ruff: noqa: N802, N803 - functions and parameters are named as in the bindings

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING

from cuda.bindings import driver as cuda

from cudabw.driver.emulated.calls import Enumerator, Handle, Surface, entry, integer
from cudabw.driver.emulated.clock import NO_WORK, Work
from cudabw.driver.emulated.refusals import (
    CAPTURED_EVENT,
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_READY,
    NOT_SUPPORTED,
    STREAM_CAPTURE_ISOLATION,
    STREAM_CAPTURE_UNSUPPORTED,
    Refusal,
)
from cudabw.driver.emulated.streams import Capture, Operation, Record, Stream

if TYPE_CHECKING:
    from cudabw.driver.emulated.address_space import Span
    from cudabw.driver.emulated.machine import Machine

DISABLE_TIMING, INTERPROCESS = 2, 4
EVENT_FLAGS = 7
GEQ, EQ = 0, 1

POLL_SHORTEST_S = 10e-6
POLL_LONGEST_S = 200e-6


class Event:
    """An event: its latest record, or the capture it was recorded in.

    Args:
        context: Handle of its context.
        timed: Whether it has a stamp.
    """

    def __init__(self, context: int, *, timed: bool) -> None:
        self.context = context
        self.timed = timed
        self.record: Record | None = None
        self.capture: Capture | None = None


class Queues(Surface):
    """Driver functions about streams and events."""

    @entry(values=1)
    def cuStreamCreate(self, Flags: int) -> object:
        """A stream; with the non-blocking flag synchronous copies do not wait for it."""
        return self._create_stream(integer(Flags))

    @entry(values=1)
    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> object:  # noqa: ARG002 - has no effect here
        """As `cuStreamCreate`; the priority has no effect."""
        return self._create_stream(integer(flags))

    @entry()
    def cuStreamDestroy(self, hStream: Handle) -> None:
        """Forget a stream; what it has queued still runs, and the call does not wait for it."""
        stream = self._machine.handles.take(integer(hStream), Stream)
        if stream.capture is not None:
            self._machine.end_capture(stream)
        stream.close()

    @entry()
    def cuStreamSynchronize(self, hStream: Handle) -> None:
        """Wait for all work of a stream."""
        stream = self._not_capturing(hStream)
        stream.drain()
        stream.health.surface()

    @entry()
    def cuStreamQuery(self, hStream: Handle) -> None:
        """600 while a stream has work."""
        stream = self._not_capturing(hStream)
        if not stream.idle:
            raise Refusal(NOT_READY)
        stream.drain()
        stream.health.surface()

    @entry()
    def cuStreamWaitEvent(self, hStream: Handle, hEvent: Handle, Flags: int) -> None:
        """Let a stream wait for what the event recorded last before this call.

        Captures stay apart: a wait that would join a second stream to one is refused with 905, and the
        capture is spoiled.
        """
        stream = self._machine.handles.find(integer(hStream), Stream)
        event = self._machine.handles.find(integer(hEvent), Event)
        if integer(Flags) & ~1:
            raise Refusal(INVALID_VALUE)
        if event.capture is not stream.capture:
            for capture in (event.capture, stream.capture):
                if capture is not None:
                    capture.valid = False
            raise Refusal(STREAM_CAPTURE_ISOLATION)
        record = event.record
        if record is not None and stream.capture is None:
            stream.submit(Operation(lambda _stream: Work(not_before=record.wait())))

    @entry()
    def cuStreamWaitValue32(self, stream: Handle, addr: Handle, value: int, flags: Enumerator) -> None:
        """Let a stream wait until a word in memory is equal to a value, or not before it."""
        queue = self._machine.handles.find(integer(stream), Stream)
        address, wanted = integer(addr), integer(value)
        condition = integer(flags)
        if condition not in (GEQ, EQ):
            raise Refusal(NOT_SUPPORTED)
        _word(self._machine, queue, address)

        def body(running: Stream) -> Work:
            word = ctypes.c_uint32.from_address(_word(self._machine, running, address).real)
            _poll(running, word, wanted, exactly=condition == EQ)
            # Whatever was queued meanwhile starts when the gate opens, not when it was queued.
            return Work(not_before=running.latest_submission())

        queue.submit(Operation(body))

    @entry()
    def cuStreamWriteValue32(self, stream: Handle, addr: Handle, value: int, flags: Enumerator) -> None:
        """Let a stream write a word of memory."""
        queue = self._machine.handles.find(integer(stream), Stream)
        address, written = integer(addr), integer(value)
        if integer(flags) & ~1:
            raise Refusal(INVALID_VALUE)
        _word(self._machine, queue, address)

        def body(running: Stream) -> Work:
            ctypes.c_uint32.from_address(_word(self._machine, running, address).real).value = written
            return NO_WORK

        queue.submit(Operation(body))

    @entry(values=1)
    def cuEventCreate(self, Flags: int) -> object:
        """An event; without the disable-timing flag it has a stamp."""
        flags = integer(Flags)
        if flags & ~EVENT_FLAGS or (flags & INTERPROCESS and not flags & DISABLE_TIMING):
            raise Refusal(INVALID_VALUE)
        event = Event(self._machine.context.handle, timed=not flags & DISABLE_TIMING)
        return cuda.CUevent(self._machine.handles.add(event))

    @entry()
    def cuEventDestroy(self, hEvent: Handle) -> None:
        """Forget an event; what waits for its record still does."""
        self._machine.handles.take(integer(hEvent), Event)

    @entry()
    def cuEventRecord(self, hEvent: Handle, hStream: Handle) -> None:
        """Stamp the event when the stream comes to this point."""
        event = self._machine.handles.find(integer(hEvent), Event)
        stream = self._machine.handles.find(integer(hStream), Stream)
        if event.context != stream.context:
            raise Refusal(INVALID_HANDLE)
        event.capture = stream.capture
        if stream.capture is None:
            record = Record()
            event.record = record
            stream.submit(Operation(lambda _stream: NO_WORK, record.finish))

    @entry()
    def cuEventSynchronize(self, hEvent: Handle) -> None:
        """Wait for the latest record; an event that was never recorded is complete."""
        event = self._not_captured(hEvent)
        if event.record is not None:
            self._machine.clock.catch_up(event.record.wait())
        self._machine.find_context(event.context).health.surface()

    @entry()
    def cuEventQuery(self, hEvent: Handle) -> None:
        """600 while the latest record is not complete."""
        event = self._not_captured(hEvent)
        if event.record is not None:
            if not event.record.complete:
                raise Refusal(NOT_READY)
            self._machine.clock.catch_up(event.record.stamp)
        self._machine.find_context(event.context).health.surface()

    @entry(values=1)
    def cuEventElapsedTime(self, hStart: Handle, hEnd: Handle) -> float:
        """Milliseconds between two events, with the precision of a float."""
        start, end = self._not_captured(hStart), self._not_captured(hEnd)
        if not (start.timed and end.timed and start.context == end.context):
            raise Refusal(INVALID_HANDLE)
        if start.record is None or end.record is None:
            raise Refusal(INVALID_HANDLE)
        if not (start.record.complete and end.record.complete):
            raise Refusal(NOT_READY)
        self._machine.find_context(start.context).health.surface()
        return ctypes.c_float(self._machine.clock.elapsed(start.record.stamp, end.record.stamp) * 1e3).value

    # -- inside ----------------------------------------------------------------------------------------

    def _create_stream(self, flags: int) -> object:
        if flags & ~1:
            raise Refusal(INVALID_VALUE)
        stream = self._machine.new_stream(self._machine.context, blocking=not flags)
        return cuda.CUstream(self._machine.handles.add(stream))

    def _not_capturing(self, handle: Handle) -> Stream:
        stream = self._machine.handles.find(integer(handle), Stream)
        if stream.capture is not None:
            stream.capture.valid = False
            raise Refusal(STREAM_CAPTURE_UNSUPPORTED)
        return stream

    def _not_captured(self, handle: Handle) -> Event:
        event = self._machine.handles.find(integer(handle), Event)
        if event.capture is not None:
            event.capture.valid = False
            raise Refusal(CAPTURED_EVENT)
        return event


def _word(machine: Machine, stream: Stream, address: int) -> Span:
    if address % 4:
        raise Refusal(INVALID_VALUE)
    peers = machine.find_context(stream.context).peers
    try:
        return machine.memory.reachable(address, 4, stream.device, peers)
    except Refusal as unreachable:
        raise Refusal(INVALID_VALUE) from unreachable


def _poll(stream: Stream, word: ctypes.c_uint32, wanted: int, *, exactly: bool) -> None:
    # Ever longer sleeps: many gates may be closed at once, on a machine with two cores.
    pause = POLL_SHORTEST_S
    while not stream.health.halted:
        current = word.value
        # GEQ is cyclic: the difference counts as a signed number of 32 bits.
        if current == wanted if exactly else (current - wanted) & 0xFFFFFFFF < 1 << 31:
            return
        time.sleep(pause)
        pause = min(2 * pause, POLL_LONGEST_S)
