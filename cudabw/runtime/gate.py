"""The gate that holds a stream's queued work until it is opened."""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import TYPE_CHECKING

from cudabw.errors import ClosedError, CudabwError, UnsupportedError
from cudabw.runtime.ownership import Ownership
from cudabw.runtime.resources import Closing

if TYPE_CHECKING:
    from cudabw.runtime.device import Device
    from cudabw.runtime.stream import Stream


class Gate(Closing):
    """Holds a stream's queued work until it is opened, so that queueing it is not timed.

    The stream waits (``cuStreamWaitValue32``) for a word of mapped host memory to reach the number of
    the latest closing. A watchdog opens a forgotten gate, so that nothing waits for ever.

    Args:
        device: The device whose streams it can hold.
        watchdog_s: Seconds of real time after which a closed gate opens by itself.

    Attributes:
        expired: Whether the watchdog opened it when it was closed last.

    Raises:
        UnsupportedError: The device or driver cannot wait for a value.
        DriverError: The word of mapped memory was refused.
    """

    def __init__(self, device: Device, *, watchdog_s: float = 20.0) -> None:
        if not device.driver.has("cuStreamWaitValue32"):
            raise UnsupportedError("this driver has no cuStreamWaitValue32")
        api = device.driver.api
        self.device = device
        self.expired = False
        self._watchdog_s = watchdog_s
        self._closings = 0
        self._opened = 0  # the latest closing that was let go
        self._timer: threading.Timer | None = None
        self._streams: set[Stream] = set()
        # The watchdog, and threads that let other streams wait, may come at any time.
        self._lock = threading.Lock()
        self._host: int | None = int(device.call("cuMemHostAlloc", 4, api.CU_MEMHOSTALLOC_DEVICEMAP))
        self._word = ctypes.c_uint32.from_address(self._host)
        self._word.value = 0
        try:
            self._address = device.call("cuMemHostGetDevicePointer", self._host, 0)
        except CudabwError:
            device.call("cuMemFreeHost", self._host)
            raise
        self._at_least = int(api.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ)

    def close_on(self, stream: Stream) -> None:
        """Hold all work queued on ``stream`` from now on.

        Raises:
            CudabwError: The gate already holds a stream.
            ClosedError: The stream or the gate was closed.
        """
        if self._host is None:
            raise ClosedError("this gate was closed for good", hint="Make another with Gate(device).")
        if self._streams:
            raise CudabwError("this gate already holds a stream", hint="Open it first.")
        handle = stream.open_handle()
        self._closings += 1
        self.device.call("cuStreamWaitValue32", handle, self._address, self._closings, self._at_least)
        with self._lock:
            self._hold(stream)
        self.expired = False
        self._timer = threading.Timer(self._watchdog_s, functools.partial(self._expire, self._closings))
        self._timer.daemon = True
        self._timer.start()

    def also_holds(self, stream: Stream) -> None:
        """Know of a stream that waits for one which the gate holds; does nothing once it was opened."""
        with self._lock:
            if self._streams:
                self._hold(stream)

    def _hold(self, stream: Stream) -> None:
        if all(held.device is not stream.device for held in self._streams):
            stream.device.closed_gates += 1
        self._streams.add(stream)
        stream.gates.add(self)

    def open(self) -> None:
        """Let the held work run; opening an open gate does nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with self._lock:
            for device in {stream.device for stream in self._streams}:
                device.closed_gates -= 1
            while self._streams:
                self._streams.pop().gates.discard(self)
        self._let_go(self._closings)

    def _expire(self, closing: int | None = None) -> None:
        # Only the word: the owner still finds the gate closed, opens it itself and sees that it expired.
        self._let_go(self._closings if closing is None else closing, expired=True)

    def _let_go(self, closing: int, *, expired: bool = False) -> None:
        # The watchdog's thread may come late: when the gate was closed again, or its word is being freed.
        with self._lock:
            if self._opened < closing and not self.device.closed:  # the device takes the word along
                self._opened = closing
                self.expired = self.expired or expired
                self._word.value = closing

    def close(self) -> None:
        """Open the gate and free its word; closing again does nothing."""
        self.open()
        host, self._host = self._host, None
        if host is None:
            return

        def free() -> None:
            self.device.driver.call("cuMemFreeHost", host)

        if self.device.closed_gates:
            # Freeing waits for all of the device's work, also for what another gate holds.
            self.device.retire(Ownership(self.device), free)
        else:
            self.device.release(free)
