"""Streams: in-order queues of work on a device."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from cudabw.errors import ClosedError, CudabwError
from cudabw.runtime.event import Event
from cudabw.runtime.resources import Closing

if TYPE_CHECKING:
    from cudabw.runtime.device import Device
    from cudabw.runtime.gate import Gate
    from cudabw.runtime.ownership import Use

NOT_READY = 600  # CUDA_ERROR_NOT_READY


class Stream(Closing):
    """An in-order queue of work on a device; never the null stream, and not ordered against it.

    Attributes:
        device: The device whose queue it is.
        handle: The driver's ``CUstream``.
        submitted: How many pieces of work were submitted, the clock of this stream's ownership.
        completed: The value of ``submitted`` that a synchronisation is known to have covered.
        epoch: Replaced whenever a launch that took ownership here must look at its memory again.
        runs_in: The latest epoch in which the stream was seen open and not being captured.
        recorded: What the capture in progress uses, as keys; None unless :func:`cudabw.runtime.capture.capture` runs.
        gates: The gates that hold this stream's work at present, also through another stream that it waits for.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.handle: Any = device.call("cuStreamCreate", device.driver.api.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self.submitted = 0
        self.completed = 0
        self.epoch = object()
        self.recorded: dict[Use, None] | None = None
        self.gates: set[Gate] = set()
        self.runs_in: object = None
        self._hand_over: Event | None = None
        self._hand_over_lock = threading.Lock()
        device.streams.add(self)

    def synchronize(self) -> None:
        """Hold the host until all work submitted so far is done.

        Raises:
            CudabwError: A closed gate holds the work, so that the host would wait for ever, or the stream is being
                captured; the capture goes on.
        """
        if self.gates:
            raise CudabwError("the host would wait for ever for a stream that a closed gate holds", hint="Open it.")
        self.require_not_capturing("the host cannot wait for it")
        covered = self.mark()
        self.device.call("cuStreamSynchronize", self.open_handle())
        self.completed = max(self.completed, covered)
        self.device.reap()

    def ready(self) -> bool:
        """Whether all submitted work is done, asked without waiting; False while the stream is being captured."""
        if self.capturing:
            return False
        covered = self.mark()
        if not self.device.poll("cuStreamQuery", self.open_handle()):
            return False
        self.completed = max(self.completed, covered)
        return True

    def mark(self) -> int:
        """The value of ``submitted`` that a synchronisation which starts now covers.

        A launch that is repeated without looking at its memory again does not count in ``submitted``. From here
        on it must, or its memory would pass for free as soon as the synchronisation ends.
        """
        with self.device.lock:
            if self.completed < self.submitted:
                self.disturb()
            return self.submitted

    def disturb(self) -> None:
        """Make every launch that took ownership here look at its memory again."""
        self.epoch = object()

    @property
    def capturing(self) -> bool:
        """Whether submitted work is recorded into a graph instead of run.

        The driver is asked once in each epoch: a capture that another library begins on this stream in
        the middle of one is noticed with the next.
        """
        epoch = self.epoch
        if self.runs_in is epoch:
            return False
        if int(self.device.call("cuStreamIsCapturing", self.open_handle())):
            return True
        self.runs_in = epoch
        return False

    def require_not_capturing(self, consequence: str) -> None:
        """Do nothing unless the stream is being captured, before a call that would spoil the capture.

        Raises:
            CudabwError: It is.
        """
        if self.capturing:
            raise CudabwError(
                f"a stream is being captured into a graph, so {consequence}",
                hint="End the capture first; memory that another stream used last is handed over before it begins.",
            )

    def wait(self, event: Event) -> None:
        """Let work submitted from now on wait for an event; the host does not wait."""
        self.device.call("cuStreamWaitEvent", self.open_handle(), event.handle, 0)

    def wait_for(self, other: Stream) -> None:
        """Let work submitted from now on wait for all work now queued on another stream.

        Raises:
            CudabwError: One of the two is being captured; the capture goes on.
        """
        self.require_not_capturing("it cannot wait for another stream")
        other.require_not_capturing("no other stream can wait for it")
        with other._hand_over_lock:
            if other._hand_over is None:
                other._hand_over = Event(other.device, timing=False)
            # One event per stream is enough: a wait refers to the record that was latest when it was queued.
            other._hand_over.record(other)
            self.wait(other._hand_over)
        for gate in tuple(other.gates):
            gate.also_holds(self)

    def wait_for_handle(self, handle: int) -> None:
        """As :meth:`wait_for`, for a stream of another library, such as 1 for CUDA's default stream.

        Raises:
            CudabwError: One of the two is being captured; the capture goes on.
        """
        self.require_not_capturing("it cannot wait for another stream")
        if int(self.device.call("cuStreamIsCapturing", handle)):
            raise CudabwError(
                "the stream that an array names is being captured into a graph, so no other stream can wait for it",
                hint="End the capture first.",
            )
        # Destroying an event leaves the waits that were queued for it in place.
        with Event(self.device, timing=False) as event:
            self.device.call("cuEventRecord", event.handle, handle)
            self.wait(event)

    def close(self) -> None:
        """Wait for the queued work and destroy the stream; closing again does nothing."""
        if self.handle is None:
            return
        self.synchronize()
        handle = self.abandon()
        if self._hand_over is not None:
            self._hand_over.close()
        self.device.call("cuStreamDestroy", handle)

    def abandon(self) -> Any:  # noqa: ANN401 - the binding's own handle type
        """Refuse later work without destroying anything; returns the handle."""
        with self.device.lock:
            self.disturb()
            handle, self.handle = self.handle, None
        return handle

    @property
    def closed(self) -> bool:
        """Whether the stream was closed."""
        return self.handle is None

    def require_open(self) -> None:
        """Do nothing if the stream is there.

        Raises:
            ClosedError: The stream was closed.
        """
        self.open_handle()

    def open_handle(self) -> Any:  # noqa: ANN401 - the binding's own handle type
        """The driver's handle.

        Raises:
            ClosedError: The stream was closed.
        """
        if self.handle is None:
            raise ClosedError("this stream was closed", hint="Create another with device.stream().")
        return self.handle

    def __cuda_stream__(self) -> tuple[int, int]:
        """The stream protocol that cuda.core, CuPy and others understand: version and handle."""
        return 0, int(self.open_handle())
