"""The ``driver`` engine: copies by the driver's own functions, through the device's copy engines."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from cudabw.errors import CudabwError
from cudabw.runtime.buffer import Buffer
from cudabw.runtime.ownership import guard, take

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudabw.runtime.stream import Stream

ENGINE = "driver"


def copy(dst: Buffer, src: Buffer, *, stream: Stream | None = None) -> None:
    """Copy all bytes of ``src`` to the beginning of ``dst``.

    Without a stream the destination is readable when this returns. With one, the copy is ordered on that
    stream; the driver holds the host all the same where pageable memory takes part.
    Parts are copied by slicing: ``copy(dst[4096:8192], src)``.

    Raises:
        TypeError: One of them is no buffer.
        ValueError: ``src`` has more bytes than ``dst``, ``dst`` is read-only, or they overlap.
        CudabwError: The host would wait behind a closed gate for ever.
        ClosedError: A buffer or the stream was closed.
        DriverError: The driver refused the copy.
    """
    for buffer in (dst, src):
        if not isinstance(buffer, Buffer):
            raise TypeError(
                f"copies are between buffers, not {type(buffer).__name__}: wrap an array in "
                "PageableBuffer.over(device, array), pin it with RegisteredBuffer(device, array), or use StagedCopier"
            )
    if stream is None and dst.has_host_side and src.has_host_side and "managed" not in (dst.kind, src.kind):
        _copy_on_the_host(dst, src)
        return
    prepared = PreparedCopy(dst, src, stream)
    if stream is None:
        prepared.require_no_gate()
    prepared.submit()
    if stream is None:
        prepared.stream.synchronize()


class PreparedCopy:
    """A copy whose addresses and function were looked up once, to be submitted many times.

    Args:
        dst: Destination.
        src: Source.
        stream: The stream that the copies are ordered on; None takes the device's own.

    Attributes:
        holds_host: Whether the driver holds the host while it copies, as it does for pageable memory.
        repeatable: A copy does the same work each time.

    Raises:
        ValueError: As for :func:`copy`.
    """

    repeatable = True

    def __init__(self, dst: Buffer, src: Buffer, stream: Stream | None) -> None:
        check(dst, src)
        self.dst = dst
        self.src = src
        self.stream = stream or device_side(dst, src).device.default_stream
        self.nbytes = src.nbytes
        self.holds_host = "pageable" in (dst.kind, src.kind)
        self._device = self.stream.device
        self._owners = (dst.ownership, src.ownership)
        self._guard = guard(self._device, self._owners)
        self._function, self._arguments = route(dst, src)
        self._call = getattr(self._device.driver.api, self._function)

    def submit(self, times: int = 1) -> None:
        """Take ownership of both buffers and queue the copy; it waits on the device for earlier uses elsewhere.

        Args:
            times: How many times to queue it, so that a timed batch holds little else than the driver's calls.

        Raises:
            CudabwError: A pageable copy would wait behind a closed gate for ever.
            ClosedError: A buffer or the stream was closed.
            DriverError: The driver refused the copy.
        """
        if self.nbytes == 0:
            return
        self._check_open()
        call, (dst, src), nbytes, handle = self._call, self._arguments, self.nbytes, self.stream.handle
        with self._guard:
            self._device.activate()
            take(self._owners, self.stream, self._device.waits)
            try:
                for _ in range(times):
                    (status,) = call(dst, src, nbytes, handle)
                    if status:
                        self._device.driver.check(self._function, status)
            except (ValueError, RuntimeError) as error:
                raise self._device.driver.translate(self._function, error) from error

    def _check_open(self) -> None:
        self.dst.require_open()
        self.src.require_open()
        self.stream.require_open()
        if self.holds_host:
            self.require_no_gate()

    def require_no_gate(self) -> None:
        """Do nothing unless the copy would wait for work that a closed gate holds.

        Raises:
            CudabwError: It would, and so would a host that waits for the copy.
        """
        if self.nbytes and any(stream.gates for stream in self._waits_for()):
            raise CudabwError(
                f"a copy of {self.nbytes} bytes from {self.src.kind} to {self.dst.kind} memory would hold the host "
                "behind a closed gate for ever",
                hint=f"Open the gate first, or {'use pinned memory' if self.holds_host else 'name a stream'}.",
            )

    def _waits_for(self) -> Iterator[Stream]:
        yield self.stream
        for ownership in self._owners:
            if ownership.stream is not None and ownership.in_use:
                yield ownership.stream


def route(dst: Buffer, src: Buffer) -> tuple[str, tuple[Any, Any]]:
    """The driver's function for a pair of buffers, and its first two arguments."""
    to_address = dst.device.driver.api.CUdeviceptr
    on_device = (dst.kind == "device", src.kind == "device")
    if on_device == (True, True):
        return "cuMemcpyDtoDAsync", (to_address(int(dst.device_pointer)), to_address(int(src.device_pointer)))
    if on_device == (True, False) and src.kind != "managed":
        return "cuMemcpyHtoDAsync", (to_address(int(dst.device_pointer)), int(src.host_pointer))
    if on_device == (False, True) and dst.kind != "managed":
        return "cuMemcpyDtoHAsync", (int(dst.host_pointer), to_address(int(src.device_pointer)))
    # Managed memory and pairs of host buffers: unified addressing tells the sides apart.
    return "cuMemcpyAsync", (to_address(any_address(dst)), to_address(any_address(src)))


def any_address(buffer: Buffer) -> int:
    """The address that unified addressing takes for a buffer: the host's where there is one."""
    return int(buffer.host_pointer) if buffer.has_host_side else int(buffer.device_pointer)


def device_side(dst: Buffer, src: Buffer) -> Buffer:
    """The one of a pair that the device reaches."""
    return dst if dst.has_device_side else src


def _copy_on_the_host(dst: Buffer, src: Buffer) -> None:
    check(dst, src)
    for buffer in (dst, src):
        buffer.device.settle(buffer.ownership)
    ctypes.memmove(int(dst.host_pointer), int(src.host_pointer), src.nbytes)


def check(dst: Buffer, src: Buffer) -> None:
    """Do nothing if the source can be copied into the destination.

    Raises:
        ValueError: It has more bytes, the destination is read-only, or they overlap.
    """
    if src.nbytes > dst.nbytes:
        raise ValueError(f"{src.nbytes} bytes of {src.kind} memory do not fit into {dst.nbytes} bytes")
    if dst.read_only:
        raise ValueError(f"this {dst.kind} buffer is read-only, so it cannot be a destination")
    if _overlap(dst, src):
        raise ValueError(
            f"source and destination overlap: {src.nbytes} bytes at 0x{any_address(src):x} and 0x{any_address(dst):x}"
        )


def _overlap(dst: Buffer, src: Buffer) -> bool:
    if dst.has_host_side != src.has_host_side:
        return False
    first, second = sorted((any_address(dst), any_address(src)))
    return first + src.nbytes > second and src.nbytes > 0
