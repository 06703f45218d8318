"""Arrays in device memory that another library owns, through ``__cuda_array_interface__``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cudabw.errors import CudabwError, DriverError
from cudabw.runtime.peer import enable_peer_access

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cudabw.runtime.device import Device
    from cudabw.runtime.ownership import HandOver
    from cudabw.runtime.stream import Stream


class ForeignArray:
    """The memory behind a foreign array, as version 3 of the CUDA Array Interface describes it.

    Nobody here knows who else uses it, so every submission waits for the stream that the interface names.

    Args:
        array: Anything with the interface. It is kept alive.

    Attributes:
        address: On the device.
        nbytes: In bytes.

    Raises:
        ValueError: Its bytes are no single range, or the interface breaks its own rules.
    """

    def __init__(self, array: object) -> None:
        interface: Mapping[str, Any] = array.__cuda_array_interface__  # type: ignore[attr-defined]
        dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
        self._array = array
        self.address = int(interface["data"][0] or 0)
        self.nbytes = math.prod(shape) * dtype.itemsize
        self.ticket = 0
        self.captured = False
        self._stream_handle = _named_stream(interface)
        self._reached: Device | None = None
        if interface.get("mask") is not None:
            raise ValueError("a masked array is more than one range of bytes; pass its data")
        strides = interface.get("strides")
        if self.nbytes and strides is not None and not _contiguous(shape, tuple(strides), dtype.itemsize):
            raise ValueError(
                f"an array of shape {shape} and strides {tuple(strides)} is not contiguous; pass a contiguous copy"
            )

    @property
    def holder(self) -> Stream | None:
        """No stream ever owns it."""
        return None

    @property
    def device(self) -> Device | None:
        """No lock guards it."""
        return None

    @property
    def owned(self) -> bool:
        """Nothing is handed over."""
        return False

    @property
    def repeatable(self) -> bool:
        """Only memory that names no stream is in the same state at the next launch."""
        return self._stream_handle is None

    def hand_over(self, taking: HandOver) -> None:
        """Make sure that the device reaches the memory, and wait for the stream that the interface names.

        Raises:
            UnsupportedError: It is memory of a device without peer access.
            CudabwError: It is no memory that the driver knows, or the wait would spoil a capture.
        """
        device = taking.stream.device
        if self._reached is not device:
            _require_reach(device, self.address)
            self._reached = device
        if self._stream_handle is not None:
            taking.wait_for_handle(self._stream_handle)


def _named_stream(interface: Mapping[str, Any]) -> int | None:
    stream = interface.get("stream")
    if stream is None:
        return None
    if int(stream) == 0:
        raise ValueError("stream 0 is ambiguous and forbidden by the CUDA Array Interface; 1 is the default stream")
    return int(stream)


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    by_rows = list(zip(reversed(shape), reversed(strides), strict=True))
    return _dense(by_rows, itemsize) or _dense(by_rows[::-1], itemsize)


def _dense(axes: list[tuple[int, int]], itemsize: int) -> bool:
    expected = itemsize
    for extent, stride in axes:
        # The stride of an axis with one element means nothing.
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _require_reach(device: Device, address: int) -> None:
    attributes = device.driver.api.CUpointer_attribute
    try:
        kind = int(device.call("cuPointerGetAttribute", attributes.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address))
    except DriverError as error:
        raise CudabwError(
            f"the driver knows no memory at 0x{address:x}, which an array says is on a device", hint=error.hint
        ) from error
    if kind != int(device.driver.api.CUmemorytype.CU_MEMORYTYPE_DEVICE):
        return
    if int(device.call("cuPointerGetAttribute", attributes.CU_POINTER_ATTRIBUTE_IS_MANAGED, address)):
        return
    ordinal = device.call("cuPointerGetAttribute", attributes.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)
    enable_peer_access(device, int(ordinal))
