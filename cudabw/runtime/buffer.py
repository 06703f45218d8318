"""A run of bytes of any kind of memory: its two sides, its state, its slices and its life."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cudabw.errors import ClosedError, CudabwError, MemorySideError
from cudabw.runtime.pointers import DevicePointer, HostPointer
from cudabw.runtime.resources import Closing
from cudabw.runtime.signature import POINTER, CValue

if TYPE_CHECKING:
    from typing import Self

    import numpy.typing as npt

    from cudabw.runtime.allocation import Allocation
    from cudabw.runtime.ownership import Ownership


class Buffer(Closing):
    """A run of bytes of one memory kind, whole or a slice of another buffer.

    A buffer that owns its memory is freed by :meth:`close`, by leaving its ``with`` block, or by being
    collected. All three are safe while copies are queued. A slice shares the state of the buffer it was
    taken from and never frees.

    Attributes:
        kind: The memory kind, as the command line names it.
        nbytes: Length in bytes.
        device: The device the memory belongs to.
    """

    kind: ClassVar[str]
    always_on_device: ClassVar[bool] = False
    """Whether every buffer of the class has a device side."""
    # What to do instead, when an address is asked of a side that does not exist.
    _no_host_side: ClassVar[str] = ""
    _no_device_side: ClassVar[str] = ""

    def __init__(self, allocation: Allocation) -> None:
        self._take_part(allocation, 0, allocation.nbytes, owner=True)

    def _take_part(self, allocation: Allocation, offset: int, nbytes: int, *, owner: bool) -> None:
        self._allocation = allocation
        self._offset = offset
        self._owner = owner
        self.nbytes = nbytes
        self.device = allocation.device
        address = allocation.device_address
        # An empty buffer is null, and nothing happens to it.
        ownership = allocation.ownership if nbytes else None
        # Kept, as every launch that converts asks each buffer for it.
        self._c_value: CValue | None = None if address is None else (POINTER, address + offset, ownership)

    @property
    def host_pointer(self) -> HostPointer:
        """Where the CPU finds the first byte.

        Raises:
            MemorySideError: The CPU cannot reach this kind of memory.
            ClosedError: The buffer was closed.
        """
        return HostPointer(self._address("host", self._open().host_address, self._no_host_side))

    @property
    def device_pointer(self) -> DevicePointer:
        """Where the device finds the first byte.

        The driver hands out a device address also for memory that was never mapped, so this check is ours.

        Raises:
            MemorySideError: The device was not given this memory.
            ClosedError: The buffer was closed.
        """
        return DevicePointer(self._address("device", self._open().device_address, self._no_device_side))

    def c_value(self) -> CValue:
        """What a kernel takes for it: the address of :attr:`device_pointer`, with the :attr:`ownership`.

        Raises:
            MemorySideError: The device was not given this memory.
            ClosedError: The buffer was closed.
        """
        value = self._c_value
        if value is None or self._allocation.closed:
            return POINTER, int(self.device_pointer), None  # which raises
        return value

    def _address(self, side: str, address: int | None, remedy: str) -> int:
        if address is None:
            raise MemorySideError(f"{self.kind} memory has no {side} pointer", hint=remedy)
        return address + self._offset

    @property
    def has_host_side(self) -> bool:
        """Whether the CPU can reach the bytes."""
        return self._open().host_address is not None

    @property
    def has_device_side(self) -> bool:
        """Whether the device can reach the bytes by an address of its own."""
        return self._open().device_address is not None

    @property
    def ownership(self) -> Ownership:
        """The last use of the whole allocation; slices share it."""
        return self._open().ownership

    @property
    def tracked(self) -> bool:
        """Whether uses of the whole allocation are ordered by ownership; slices share it.

        Set it to False for memory whose uses are ordered by other means, such as memory that is only read.
        """
        return self._open().ownership.tracked

    @tracked.setter
    def tracked(self, tracked: bool) -> None:
        self._open().ownership.tracked = tracked

    @property
    def busy(self) -> bool:
        """Whether submitted work may still be using the memory, asked without waiting."""
        ownership = self._open().ownership
        return ownership.dirty and ownership.stream is not None and not ownership.stream.ready()

    @property
    def flags(self) -> frozenset[str]:
        """What was asked of the driver: ``portable``, ``mapped``, ``write-combined``."""
        return self._open().flags

    @property
    def read_only(self) -> bool:
        """Whether the bytes may not be written, so that the buffer cannot be a destination."""
        return self._open().read_only

    @property
    def closed(self) -> bool:
        """Whether the memory was freed."""
        return self._allocation.closed

    def array(self, dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """The bytes as a one-dimensional NumPy array, without a copy.

        The host waits first for work that may still be using the memory. The array keeps
        the memory, also after the buffer was closed.

        Raises:
            MemorySideError: The CPU cannot reach this kind of memory.
            ValueError: The length is no multiple of the element's.
        """
        allocation = self._open()
        self._address("host", allocation.host_address, self._no_host_side)
        itemsize = np.dtype(dtype).itemsize
        if itemsize == 0 or self.nbytes % itemsize:
            raise ValueError(f"{self.nbytes} bytes are no whole number of {np.dtype(dtype)} ({itemsize} bytes each)")
        self.device.settle(allocation.ownership)
        return allocation.view(self._offset, self.nbytes, dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """Version 3 of the interface, so that CuPy, Numba, PyTorch and cuda.core can use the bytes in place."""
        try:
            address = int(self.device_pointer)
        except MemorySideError as error:
            # Consumers ask with hasattr(), for which only this error means no.
            raise AttributeError(f"{error}. {error.hint}") from error
        owner = self.ownership
        stream = int(owner.stream.handle) if owner.dirty and owner.stream is not None else None
        return {
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (address, self.read_only),
            "strides": None,
            "stream": stream,
            "version": 3,
        }

    def __getitem__(self, part: slice) -> Self:
        if not isinstance(part, slice):
            raise TypeError("a buffer is sliced in bytes, as in buffer[4096:8192]; for elements use buffer.array()")
        start, stop, step = part.indices(self.nbytes)
        if step != 1:
            raise ValueError(f"a buffer's slice is contiguous: step {step} is not 1")
        piece = object.__new__(type(self))
        piece._take_part(self._open(), self._offset + start, max(0, stop - start), owner=False)
        return piece

    def __len__(self) -> int:
        return self.nbytes

    def close(self) -> None:
        """Hold the host until the last use is over, then free the memory; closing again does nothing.

        Raises:
            CudabwError: This is a slice, which does not own its memory.
        """
        if not self._owner:
            raise CudabwError("a slice does not own its memory", hint="Close the buffer that the slice was taken from.")
        self._allocation.close()

    def require_open(self) -> None:
        """Do nothing if the memory is there.

        Raises:
            ClosedError: The buffer or its device was closed.
        """
        self._open()

    def _open(self) -> Allocation:
        if self._allocation.closed:
            raise ClosedError(f"this {self.kind} buffer of {self.nbytes} bytes was closed")
        if self.device.closed:
            raise ClosedError(f"device {self.device.ordinal}, which this {self.kind} buffer belongs to, was closed")
        return self._allocation

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<{type(self).__name__}{state} {self.nbytes} bytes, device {self.device.ordinal}>"
