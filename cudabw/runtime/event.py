"""Marks in a stream, stamped with the device's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudabw.runtime.resources import Closing

if TYPE_CHECKING:
    from cudabw.runtime.device import Device
    from cudabw.runtime.stream import Stream


class Event(Closing):
    """A mark in a stream, stamped with the device's clock when the stream reaches it.

    Args:
        device: The device it belongs to.
        timing: Whether it is stamped; an event that only orders work is cheaper.
    """

    def __init__(self, device: Device, *, timing: bool = True) -> None:
        flags = device.driver.api.CUevent_flags
        flag = flags.CU_EVENT_DEFAULT if timing else flags.CU_EVENT_DISABLE_TIMING
        self.device = device
        self.handle: Any = device.call("cuEventCreate", int(flag))

    def record(self, stream: Stream) -> None:
        """Place the mark after the work queued so far.

        Raises:
            ClosedError: The stream was closed.
        """
        self.device.call("cuEventRecord", self.handle, stream.open_handle())

    def synchronize(self) -> None:
        """Hold the host until the stream has reached the mark."""
        self.device.call("cuEventSynchronize", self.handle)

    def ready(self) -> bool:
        """Whether the stream has reached the mark, asked without waiting."""
        return self.device.poll("cuEventQuery", self.handle)

    def seconds_since(self, start: Event) -> float:
        """Device time in seconds from another event to this one; both must have been reached."""
        return float(self.device.call("cuEventElapsedTime", start.handle, self.handle)) * 1e-3

    def close(self) -> None:
        """Destroy the event; closing again does nothing."""
        if self.handle is not None:
            handle, self.handle = self.handle, None
            self.device.call("cuEventDestroy", handle)
