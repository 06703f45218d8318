"""The ``staged`` engine: pageable memory through pinned slots, by several threads at once.

The driver copies pageable memory with one thread. Here each of several threads has two pinned slots of its own:
while the device is at one slot, the CPU is at the other. The threads take the pieces of a copy from one list: none
waits for another, and a slow one does less.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from cudabw.copying.driver_copy import PreparedCopy
from cudabw.copying.driver_copy import copy as driver_copy
from cudabw.copying.staging_area import StagingArea
from cudabw.copying.staging_programs import DIRECTIONS, takers
from cudabw.runtime.buffer import Buffer
from cudabw.runtime.memory import PageableBuffer
from cudabw.runtime.resources import Closing

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy.typing as npt

    from cudabw.copying.staging_calibration import Setting
    from cudabw.runtime.device import Device
    from cudabw.runtime.stream import Stream

    Copyable: TypeAlias = Buffer | npt.NDArray[Any]

ENGINE = "staged"


class StagedCopier(Closing):
    """Copies between pageable memory and a device, several times as fast as the driver does.

    The first copy that might be worth staging calibrates, which takes a second or two: it finds, for each direction,
    how many threads and which slots are fastest and from which size they beat the driver. Smaller copies, and those
    between other kinds of memory, are left to the driver.

    Pinned memory beyond the buffers: two slots for each thread, until the copier is closed or collected.

    Args:
        device: Where copies go to or come from.
        threads: How many copy; None to find out. Never more than the CPUs that this process may use.
        slot: Bytes of a slot; None to find out.
        at_least: Copies of at least so many bytes are staged; None to find out.

    Raises:
        TypeError: A number is not whole.
        ValueError: A number is not positive.

    Example:
        >>> with StagedCopier(device) as copier:  # doctest: +SKIP
        ...     copier.copy(memory, array)  # from a NumPy array to a DeviceBuffer
        ...     copier.copy(array, memory)  # and back
    """

    def __init__(
        self, device: Device, *, threads: int | None = None, slot: int | None = None, at_least: int | None = None
    ) -> None:
        self.device = device
        threads, slot, at_least = (None if number is None else index(number) for number in (threads, slot, at_least))
        self._area = StagingArea(device, threads=threads, slot=slot, at_least=at_least)

    def copy(self, dst: Copyable, src: Copyable) -> None:
        """Copy all bytes of ``src`` to the beginning of ``dst``, and return when they are there.

        NumPy arrays must be contiguous, in C or Fortran order; bytes are copied as they lie in memory, whatever the
        shapes, dtypes and orders of the two sides. A source may be read-only. Buffers may be of any kind. The copy
        comes after all work of any stream that uses a buffer.

        Raises:
            TypeError: One of them is neither a buffer nor a NumPy array.
            ValueError: ``src`` has more bytes than ``dst``, ``dst`` is read-only, they overlap, or an array is not
                contiguous.
            CudabwError: The copy would wait behind a closed gate for ever, or its stream is being captured.
            ClosedError: A buffer or the copier was closed.
            RefusedError: The system does not pin the slots.
            DriverError: The driver failed. Nothing is under way any more; what arrived is not known.
        """
        self._area.require_open()
        destination, source = self._buffer(dst), self._buffer(src)
        if direction_of(destination, source) is None:
            driver_copy(destination, source)
            return
        prepared = self.prepare(destination, source)
        prepared.submit()
        prepared.stream.synchronize()

    def prepare(self, dst: Copyable, src: Copyable, stream: Stream | None = None) -> PreparedStagedCopy:
        """A copy to be repeated; calibrates first if its size asks for it.

        Args:
            dst: Destination.
            src: Source.
            stream: Whose earlier work the copies come after; None takes the device's own.

        Raises:
            ValueError: As for :meth:`copy`, or the pair is not pageable and device memory.
            ClosedError: A buffer or the copier was closed.
            RefusedError: The system does not pin the slots.
        """
        return PreparedStagedCopy(self._area, self._buffer(dst), self._buffer(src), stream)

    def setting(self, direction: str) -> Setting:
        """How copies of a direction, ``h2d`` or ``d2h``, are staged; calibrates if that has not been done.

        Raises:
            ValueError: It is no such direction.
            ClosedError: The copier was closed.
            RefusedError: There is no memory to find out with.
            DriverError: The driver failed.
        """
        if direction not in DIRECTIONS:
            raise ValueError(f"unknown direction {direction!r}; choose from {', '.join(DIRECTIONS)}")
        return self._area.setting(direction)

    def _buffer(self, memory: Copyable) -> Buffer:
        return memory if isinstance(memory, Buffer) else PageableBuffer.over(self.device, memory)

    def close(self) -> None:
        """Let the threads end and free the slots; closing again does nothing."""
        self._area.close()


class PreparedStagedCopy:
    """A copy between pageable and device memory, to be submitted many times.

    Args:
        area: Has the threads and slots.
        dst: Destination.
        src: Source.
        stream: Whose earlier work the copies come after; None takes the device's own.

    Attributes:
        stream: As given, or the device's own.
        setting: How copies of its direction are staged; None where the driver does this one.
        threads: How many take part; 0 where the driver does it.
        nbytes: Bytes of one copy.
        holds_host: Submitting returns when the bytes are there, or as the driver's copy of pageable memory does.
        repeatable: A copy does the same work each time.

    Raises:
        ValueError: As for :meth:`StagedCopier.prepare`.
    """

    holds_host = True
    repeatable = True

    def __init__(self, area: StagingArea, dst: Buffer, src: Buffer, stream: Stream | None) -> None:
        direction = direction_of(dst, src)
        if direction is None:
            raise ValueError(f"only copies between pageable and device memory are staged, not {src.kind} to {dst.kind}")
        device, host = (dst, src) if direction == "h2d" else (src, dst)
        self.stream = stream or device.device.default_stream
        if not area.device is device.device is self.stream.device:
            raise ValueError(f"this copier is for memory and streams of device {area.device.ordinal}")
        area.require_open()
        self._area = area
        self._direct = PreparedCopy(dst, src, self.stream)
        self._sides = (dst, src)
        self.nbytes = src.nbytes
        self.setting = area.setting_for(direction, src.nbytes) if src.nbytes else None
        if self.setting is not None:
            addresses = int(device.device_pointer), int(host.host_pointer)
            self._transfer = self.setting.transfer(direction, *addresses, src.nbytes)
        self.threads = takers(self._transfer) if self.setting is not None else 0

    def submit(self, times: int = 1) -> None:
        """Take ownership of both buffers and copy.

        Args:
            times: How many times.

        Raises:
            CudabwError: The copy would wait behind a closed gate for ever, or the stream is being captured.
            ClosedError: A buffer, the stream or the copier was closed.
            RefusedError: The system does not pin the slots.
            DriverError: The driver failed. Nothing is under way any more; what arrived is not known.
        """
        self._area.require_open()
        if self.setting is None:
            self._direct.submit(times)
            return
        owners = tuple(side.ownership for side in self._sides)
        self.stream.require_open()
        self.stream.require_not_capturing("a copy that the host takes part in cannot be recorded")
        self._direct.require_no_gate()
        self._area.run(self._transfer, owners, self.stream, times)


def direction_of(dst: Buffer, src: Buffer) -> str | None:
    """``h2d`` or ``d2h`` for a pair that can be staged; None for any other."""
    return {("device", "pageable"): "h2d", ("pageable", "device"): "d2h"}.get((dst.kind, src.kind))
