"""Moving managed memory: its pages are sent to one side by a prefetch, ordered on a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudabw.runtime.ownership import take

if TYPE_CHECKING:
    from cudabw.runtime.device import Device
    from cudabw.runtime.memory import ManagedBuffer
    from cudabw.runtime.stream import Stream


class PreparedPrefetch:
    """A prefetch of a whole managed buffer to one side.

    Doing it twice moves nothing the second time, so every repetition needs the pages on the other side first.

    Args:
        buffer: The managed memory.
        stream: The stream that the prefetch is ordered on.
        to_device: Whether the pages go to the device, or to the host.
    """

    holds_host = False
    repeatable = False

    def __init__(self, buffer: ManagedBuffer, stream: Stream, *, to_device: bool) -> None:
        self.buffer = buffer
        self.stream = stream
        self._arguments = (
            buffer.device.driver.api.CUdeviceptr(int(buffer.device_pointer)),
            buffer.nbytes,
            *_destination(buffer.device, to_device=to_device),
        )

    def submit(self, times: int = 1) -> None:
        """Take ownership of the buffer and queue the prefetch.

        Args:
            times: How many times to queue it.

        Raises:
            ClosedError: The buffer or the stream was closed.
            UnsupportedError: The device or system cannot move managed memory on demand.
            DriverError: The driver refused.
        """
        device = self.buffer.device
        self.buffer.require_open()
        if self.buffer.nbytes == 0:
            return
        with device.lock:
            take((self.buffer.ownership,), self.stream, device.waits)
            for _ in range(times):
                device.call("cuMemPrefetchAsync", *self._arguments, self.stream.handle)


def _destination(device: Device, *, to_device: bool) -> tuple[Any, ...]:
    api = device.driver.api
    if device.driver.bindings_major() < 13:
        # Until cuda-bindings 12 the destination is a device, and the host is device -1.
        return (device.handle if to_device else api.CUdevice(int(api.CU_DEVICE_CPU)),)
    location = api.CUmemLocation()
    kinds = api.CUmemLocationType
    location.type = kinds.CU_MEM_LOCATION_TYPE_DEVICE if to_device else kinds.CU_MEM_LOCATION_TYPE_HOST
    location.id = device.ordinal if to_device else 0
    return location, 0
