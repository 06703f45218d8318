"""The state behind the emulated driver: devices, contexts, handles and the calling threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cudabw.driver.emulated.address_space import AddressSpace, Allocation, charged
from cudabw.driver.emulated.handles import Handles
from cudabw.driver.emulated.refusals import (
    CONTEXT_IS_DESTROYED,
    INVALID_CONTEXT,
    INVALID_DEVICE,
    NOT_INITIALIZED,
    OUT_OF_MEMORY,
    STREAM_CAPTURE_UNSUPPORTED,
    Refusal,
)
from cudabw.driver.emulated.streams import Capture, Health, Stream, Traffic

if TYPE_CHECKING:
    from cudabw.driver.emulated.clock import Clock
    from cudabw.driver.emulated.faults import FaultBook
    from cudabw.driver.emulated.kernels import Kernel
    from cudabw.driver.emulated.shape import Shape

GLOBAL_CAPTURE = 0
THREAD_LOCAL_CAPTURE = 1


class Needs(Enum):
    """What must have happened before a function can be called."""

    NOTHING = 0
    INITIALISATION = 1
    CONTEXT = 2


class Context:
    """The primary context of one device."""

    def __init__(self, handle: int, ordinal: int) -> None:
        self.handle = handle
        self.ordinal = ordinal
        self.health = Health()
        self.streams: list[Stream] = []
        self.peers: frozenset[int] = frozenset()
        self.legacy: Stream | None = None
        self.destroyed = False


@dataclass(slots=True)
class Device:
    """One emulated device; ``used`` counts the bytes allocated on it."""

    ordinal: int
    used: int = 0
    retained: int = 0
    context: Context | None = None


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.contexts: list[Context] = []


class Machine:
    """Everything the emulated driver knows.

    Args:
        shape: Devices and their memory.
        faults: What goes wrong.
        clock: Of host threads and streams.
        kernels: What the device can run.
    """

    def __init__(self, shape: Shape, faults: FaultBook, clock: Clock, kernels: Mapping[str, Kernel]) -> None:
        self.shape = shape
        self.faults = faults
        self.clock = clock
        self.kernels = kernels
        self.memory = AddressSpace()
        self.handles = Handles()
        self.devices = [Device(ordinal) for ordinal in range(shape.devices)]
        self.initialised = False
        self.lock = threading.RLock()
        self._traffic = Traffic()
        self.captures: list[Capture] = []
        self.numbers = itertools.count(1)
        self._stream_ordinals = itertools.count()
        self._thread = _ThreadState()

    # -- entering a call -------------------------------------------------------------------------------

    def enter(self, function: str, needs: Needs, nbytes: int) -> None:
        """Check what every call checks first.

        Raises:
            Refusal: A fault fires, the device is lost, or what the function needs is missing.
        """
        try:
            self.faults.enter(function, nbytes)
        finally:
            if self.faults.lost:
                self._lose()
        if needs is not Needs.NOTHING and not self.initialised:
            raise Refusal(NOT_INITIALIZED)
        if needs is Needs.CONTEXT:
            self.context.health.check()

    @property
    def contexts(self) -> list[Context]:
        """The calling thread's stack of contexts; the last one is current."""
        return self._thread.contexts

    @property
    def context(self) -> Context:
        """The calling thread's current context. Raises Refusal (201) without one, 709 if it was destroyed."""
        if not self.contexts:
            raise Refusal(INVALID_CONTEXT)
        if self.contexts[-1].destroyed:
            raise Refusal(CONTEXT_IS_DESTROYED)
        return self.contexts[-1]

    # -- finding things ---------------------------------------------------------------------------------

    def find_context(self, handle: int) -> Context:
        """A context by its handle. Raises Refusal (201) for anything else."""
        return self.handles.find(handle, Context, INVALID_CONTEXT)

    def find_device(self, ordinal: int) -> Device:
        """A device by its ordinal. Raises Refusal (101) for anything else."""
        if not 0 <= ordinal < len(self.devices):
            raise Refusal(INVALID_DEVICE)
        return self.devices[ordinal]

    # -- contexts --------------------------------------------------------------------------------------

    def retain(self, device: Device) -> Context:
        """The device's primary context, made if there is none."""
        with self.lock:
            if device.context is None:
                device.context = Context(self.handles.reserve(), device.ordinal)
                self.handles.enter(device.context.handle, device.context)
            device.retained += 1
            return device.context

    def release(self, device: Device) -> None:
        """Give a primary context back; the last one destroys it with all that belongs to it.

        Raises:
            Refusal: 201, it was not retained.
        """
        with self.lock:
            if device.context is None:
                raise Refusal(INVALID_CONTEXT)
            device.retained -= 1
            if device.retained:
                return
            context, device.context = device.context, None
        self._destroy(context)

    def _destroy(self, context: Context) -> None:
        context.destroyed = True
        context.health.stopped = True
        streams = self.streams_of(context)
        for stream in streams:
            stream.close()
        for stream in streams:
            stream.join()
        for allocation in self.memory.of_context(context.handle):
            self.free(allocation)
        self.handles.discard(lambda thing: thing is context or getattr(thing, "context", None) == context.handle)

    def _lose(self) -> None:
        for device in self.devices:
            if device.context is not None:
                device.context.health.fail(self.faults.lost)

    # -- streams ---------------------------------------------------------------------------------------

    def new_stream(self, context: Context, *, blocking: bool) -> Stream:
        """A stream that the context waits for when it is synchronised."""
        ordinal = next(self._stream_ordinals)
        stream = Stream(
            ordinal,
            context.handle,
            context.ordinal,
            context.health,
            self.clock,
            self._traffic,
            blocking=blocking,
        )
        with self.lock:
            context.streams.append(stream)
        return stream

    def legacy_stream(self, context: Context) -> Stream:
        """The stream on which synchronous copies of a context run."""
        with self.lock:
            if context.legacy is None:
                context.legacy = self.new_stream(context, blocking=True)
            return context.legacy

    def streams_of(self, context: Context) -> list[Stream]:
        """All streams of a context that may have work, destroyed ones included until they have drained."""
        with self.lock:
            context.streams = [stream for stream in context.streams if not stream.ended]
            return list(context.streams)

    def drain(self, *contexts: Context, only_blocking: bool = False) -> None:
        """Wait for all work of these contexts, or for that of their blocking streams."""
        for context in contexts:
            for stream in self.streams_of(context):
                if stream.blocking or not only_blocking:
                    stream.drain()

    def live_contexts(self) -> list[Context]:
        """The contexts of all devices."""
        with self.lock:
            return [device.context for device in self.devices if device.context is not None]

    def begin_capture(self, stream: Stream, capture: Capture) -> None:
        """Let a stream record."""
        with self.lock:
            self.captures.append(capture)
            stream.capture = capture

    def end_capture(self, stream: Stream) -> None:
        """Let a stream run what it is given again."""
        with self.lock:
            if stream.capture is not None:
                self.captures.remove(stream.capture)
            stream.capture = None

    def refuse_while_capturing(self, status: int = STREAM_CAPTURE_UNSUPPORTED) -> None:
        """Refuse a call that a capture does not survive, and spoil the capture, as the real driver does.

        Raises:
            Refusal: ``status``, a stream is capturing in a mode that forbids the call on this thread.
        """
        thread = threading.get_ident()
        with self.lock:
            spoiled = [
                capture
                for capture in self.captures
                if capture.mode == GLOBAL_CAPTURE or (capture.mode == THREAD_LOCAL_CAPTURE and capture.thread == thread)
            ]
            for capture in spoiled:
                capture.valid = False
        if spoiled:
            raise Refusal(status)

    # -- memory ----------------------------------------------------------------------------------------

    def charge(self, device: Device, nbytes: int) -> None:
        """Take device memory, or give it back when negative. Raises Refusal (2) when there is not enough."""
        with self.lock:
            if device.used + nbytes > self.shape.memory:
                raise Refusal(OUT_OF_MEMORY)
            device.used += nbytes

    def free(self, allocation: Allocation) -> None:
        """Release an allocation that no queued work uses any more."""
        self.memory.release(allocation)
        if allocation.kind == "device":
            self.charge(self.devices[allocation.ordinal], -charged(allocation.size))

    def close(self) -> None:
        """End all workers and release all memory; what is queued is not run."""
        contexts = self.live_contexts()
        for context in contexts:
            # All of them first: work of one may be waiting for an event of another.
            context.health.stopped = True
        for context in contexts:
            self.find_device(context.ordinal).context = None
            self._destroy(context)
