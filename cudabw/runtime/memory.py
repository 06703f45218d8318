"""One class per kind of memory, one way to free it, and slices that share their parent's life."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cudabw.errors import ClosedError, CudabwError, DriverError, MemorySideError, RefusedError
from cudabw.runtime.allocation import Allocation
from cudabw.runtime.pointers import DevicePointer, HostPointer
from cudabw.runtime.signature import POINTER, CValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Self

    import numpy.typing as npt

    from cudabw.runtime.device import Device
    from cudabw.runtime.ownership import Ownership

OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY, also for host memory
PORTABLE = "portable"
MAPPED = "mapped"
WRITE_COMBINED = "write-combined"


class Buffer:
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
        allocation = self._allocation
        address = allocation.device_address
        # Every launch that converts comes by here for each buffer: the usual case goes straight through.
        if address is None or allocation.closed:
            address = int(self.device_pointer) - self._offset
        # An empty buffer is null, and nothing happens to it.
        return POINTER, address + self._offset, allocation.ownership if self.nbytes else None

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<{type(self).__name__}{state} {self.nbytes} bytes, device {self.device.ordinal}>"


class DeviceBuffer(Buffer):
    """Memory of the device itself (``cuMemAlloc``)."""

    kind = "device"
    _no_host_side = "Copy it into a host buffer first: copy(host_buffer, device_buffer)."

    def __init__(self, device: Device, nbytes: int) -> None:
        address = _acquire(device, "device", nbytes, "cuMemAlloc", nbytes) if _checked_length(nbytes) else 0
        super().__init__(
            Allocation(
                device,
                nbytes,
                host_address=None,
                device_address=address,
                release=_release(device, "cuMemFree", device.driver.api.CUdeviceptr(address), nbytes),
            )
        )


class PageableBuffer(Buffer):
    """Ordinary host memory, page-aligned, of which the driver knows nothing."""

    kind = "pageable"
    _no_device_side = "Use a MappedBuffer, whose bytes a kernel can reach, or copy into a DeviceBuffer."

    def __init__(self, device: Device, nbytes: int) -> None:
        pages = _map_pages(nbytes) if _checked_length(nbytes) else None
        address = 0 if pages is None else np.frombuffer(pages, np.uint8).ctypes.data
        super().__init__(
            # The release only has to hold the pages: they go when it does.
            Allocation(device, nbytes, host_address=address, device_address=None, release=lambda: _keep(pages))
        )

    @classmethod
    def over(cls, device: Device, array: npt.NDArray[Any]) -> Self:
        """An existing NumPy array's bytes as a buffer, without a copy; the array is kept alive.

        Raises:
            ValueError: The array is not contiguous or holds Python objects.
        """
        _check_bytes(array)
        buffer = object.__new__(cls)
        Buffer.__init__(
            buffer,
            Allocation(
                device,
                array.nbytes,
                host_address=array.ctypes.data if array.nbytes else 0,
                device_address=None,
                release=lambda: _keep(array),
                read_only=not array.flags.writeable,
            ),
        )
        return buffer


class _PageLockedBuffer(Buffer):
    """Host memory that stays in place, so that the device's copy engines reach it directly."""

    _no_device_side = (
        'Allocate a MappedBuffer, or pass flags=("mapped",): the driver would give an address '
        "for memory that was never mapped, and nothing promises that a kernel may use it."
    )
    _implied: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, device: Device, nbytes: int, *, flags: Iterable[str] = ()) -> None:
        chosen = _checked_flags(frozenset(flags) | self._implied, allowed=(PORTABLE, MAPPED, WRITE_COMBINED))
        bits = _flag_bits(device, chosen, "CU_MEMHOSTALLOC_")
        address = 0
        if _checked_length(nbytes):
            address = _acquire(device, self.kind, nbytes, "cuMemHostAlloc", nbytes, bits)
        release = _release(device, "cuMemFreeHost", address, nbytes)
        super().__init__(_page_locked(device, nbytes, address, chosen, release))


class PinnedBuffer(_PageLockedBuffer):
    """Page-locked host memory (``cuMemHostAlloc``).

    Args:
        device: The device to allocate for.
        nbytes: Length in bytes; zero gives a null buffer without asking the driver.
        flags: ``portable``, ``mapped``, ``write-combined``, in any combination.

    Raises:
        DriverError: The driver refused the memory.
        ValueError: An unknown flag, or a negative length.
    """

    kind = "pinned"


class MappedBuffer(_PageLockedBuffer):
    """Page-locked host memory that the device was given an address for, so that kernels can reach it."""

    kind = "mapped"
    _implied = frozenset({MAPPED})


class WriteCombinedBuffer(_PageLockedBuffer):
    """Page-locked host memory outside the CPU's caches: fast for the CPU to fill, very slow for it to read."""

    kind = "write-combined"
    _implied = frozenset({WRITE_COMBINED})


class RegisteredBuffer(Buffer):
    """A NumPy array's own bytes, page-locked where they are (``cuMemHostRegister``) until the buffer is closed.

    Args:
        device: The device to register for.
        array: A contiguous array without Python objects. It is kept alive while registered.
        flags: ``portable``, ``mapped``.

    Raises:
        ValueError: The array is empty, not contiguous, holds objects, or a flag is unknown.
        DriverError: The driver refused, for example because a part is registered already (712).
    """

    kind = "registered"
    _no_device_side = 'Register it with flags=("mapped",), so that the device is given an address.'

    def __init__(self, device: Device, array: npt.NDArray[Any], *, flags: Iterable[str] = ()) -> None:
        chosen = _checked_flags(frozenset(flags), allowed=(PORTABLE, MAPPED))
        _check_bytes(array)
        if array.nbytes == 0:
            raise ValueError("an empty array has no bytes to register")
        address, nbytes = array.ctypes.data, array.nbytes
        bits = _flag_bits(device, chosen, "CU_MEMHOSTREGISTER_")
        read_only = not array.flags.writeable
        if read_only and device.attribute("READ_ONLY_HOST_REGISTER_SUPPORTED"):
            # Pages that the process itself may not write, such as a mapped file's, can be pinned only as such.
            bits |= int(device.driver.api.CU_MEMHOSTREGISTER_READ_ONLY)
        _acquire(device, self.kind, nbytes, "cuMemHostRegister", address, nbytes, bits)

        def release() -> None:
            _keep(array)
            device.driver.call("cuMemHostUnregister", address)

        super().__init__(_page_locked(device, nbytes, address, chosen, release, read_only=read_only))


class ManagedBuffer(Buffer):
    """Memory with one address for both sides, whose pages move to where they are used (``cuMemAllocManaged``)."""

    kind = "managed"

    def __init__(self, device: Device, nbytes: int) -> None:
        attach = int(device.driver.api.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)
        address = 0
        if _checked_length(nbytes):
            address = _acquire(device, self.kind, nbytes, "cuMemAllocManaged", nbytes, attach)
        release = _release(device, "cuMemFree", device.driver.api.CUdeviceptr(address), nbytes)
        super().__init__(Allocation(device, nbytes, host_address=address, device_address=address, release=release))


def _map_pages(nbytes: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, nbytes)
    except (OSError, OverflowError) as error:
        raise RefusedError(
            f"{nbytes} bytes of host pageable memory were refused ({error})", hint="Use smaller sizes."
        ) from error


def _acquire(device: Device, kind: str, nbytes: int, function: str, *args: object) -> int:
    """Ask the driver for memory; returns its address, or zero where the function gives none.

    Raises:
        RefusedError: There is not enough, said with what was asked for and what is there or held already.
        DriverError: The driver failed in another way.
    """
    device.reap()
    try:
        return int(device.call(function, *args) or 0)
    except DriverError as error:
        if error.code != OUT_OF_MEMORY:
            raise
        if kind in ("device", "managed"):
            where, there = "", f"{device.free_bytes} of {device.memory_bytes} bytes are free on device {device.ordinal}"
        else:
            where, there = "host ", f"this process holds {device.page_locked_bytes} bytes of page-locked host memory"
        raise RefusedError(
            f"{nbytes} bytes of {where}{kind} memory were refused ({function}: {error.name}, {error.code}); {there}",
            hint=error.hint,
        ) from error


def _page_locked(
    device: Device,
    nbytes: int,
    address: int,
    flags: frozenset[str],
    release: Callable[[], None],
    *,
    read_only: bool = False,
) -> Allocation:
    """The allocation of page-locked memory; freed at once when its device address cannot be had."""
    device_address: int | None = None
    if MAPPED in flags:
        try:
            device_address = int(device.call("cuMemHostGetDevicePointer", address, 0)) if nbytes else 0
        except CudabwError:
            release()
            raise
    device.page_locked_bytes += nbytes

    def release_counted() -> None:
        device.page_locked_bytes -= nbytes
        release()

    return Allocation(
        device,
        nbytes,
        host_address=address,
        device_address=device_address,
        release=release_counted,
        flags=flags,
        read_only=read_only,
    )


def _release(device: Device, function: str, address: object, nbytes: int) -> Callable[[], None]:
    # Not device.call: whoever frees has made the context current, and the device may be closing.
    return (lambda: _keep(device.driver.call(function, address))) if nbytes else (lambda: None)


def _keep(_: object) -> None:
    """Do nothing; the argument lives as long as whoever may make this call."""


def _checked_length(nbytes: int) -> int:
    if nbytes < 0:
        raise ValueError(f"a buffer's length is not negative: {nbytes}")
    return nbytes


def _checked_flags(flags: frozenset[str], *, allowed: tuple[str, ...]) -> frozenset[str]:
    unknown = sorted(flags.difference(allowed))
    if unknown:
        raise ValueError(f"unknown flag {unknown[0]!r}: choose from {', '.join(allowed)}")
    return flags


def _flag_bits(device: Device, flags: frozenset[str], prefix: str) -> int:
    names = {PORTABLE: "PORTABLE", MAPPED: "DEVICEMAP", WRITE_COMBINED: "WRITECOMBINED"}
    bits = 0
    for flag in flags:
        bits |= int(getattr(device.driver.api, prefix + names[flag]))
    return bits


def _check_bytes(array: npt.NDArray[Any]) -> None:
    if array.dtype.hasobject:
        raise ValueError(f"an array of {array.dtype} holds references to Python objects, not bytes to copy")
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError(
            f"an array of shape {array.shape} and strides {array.strides} is not contiguous, so its bytes are no "
            "single range; use numpy.ascontiguousarray(array)"
        )
