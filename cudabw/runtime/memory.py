"""One class per kind of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cudabw.runtime.acquiring import (
    MAPPED,
    PORTABLE,
    WRITE_COMBINED,
    acquire,
    check_bytes,
    checked_flags,
    checked_length,
    flag_bits,
    keep,
    map_pages,
    page_locked,
    releasing,
)
from cudabw.runtime.allocation import Allocation
from cudabw.runtime.buffer import Buffer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    import numpy.typing as npt

    from cudabw.runtime.device import Device


class DeviceBuffer(Buffer):
    """Memory of the device itself (``cuMemAlloc``)."""

    kind = "device"
    always_on_device = True
    _no_host_side = "Copy it into a host buffer first: copy(host_buffer, device_buffer)."

    def __init__(self, device: Device, nbytes: int) -> None:
        address = acquire(device, "device", nbytes, "cuMemAlloc", nbytes) if checked_length(nbytes) else 0
        super().__init__(
            Allocation(
                device,
                nbytes,
                host_address=None,
                device_address=address,
                release=releasing(device, "cuMemFree", device.driver.api.CUdeviceptr(address), nbytes),
            )
        )


class PageableBuffer(Buffer):
    """Ordinary host memory, page-aligned, of which the driver knows nothing."""

    kind = "pageable"
    _no_device_side = "Use a MappedBuffer, whose bytes a kernel can reach, or copy into a DeviceBuffer."

    def __init__(self, device: Device, nbytes: int) -> None:
        pages = map_pages(nbytes) if checked_length(nbytes) else None
        address = 0 if pages is None else np.frombuffer(pages, np.uint8).ctypes.data
        super().__init__(
            # The release only has to hold the pages: they go when it does.
            Allocation(device, nbytes, host_address=address, device_address=None, release=lambda: keep(pages))
        )

    @classmethod
    def over(cls, device: Device, array: npt.NDArray[Any]) -> Self:
        """An existing NumPy array's bytes as a buffer, without a copy; the array is kept alive.

        Raises:
            TypeError: It is no array.
            ValueError: The array is not contiguous or holds Python objects.
        """
        check_bytes(array)
        buffer = object.__new__(cls)
        Buffer.__init__(
            buffer,
            Allocation(
                device,
                array.nbytes,
                host_address=array.ctypes.data if array.nbytes else 0,
                device_address=None,
                release=lambda: keep(array),
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
        chosen = checked_flags(flags, allowed=(PORTABLE, MAPPED, WRITE_COMBINED)) | self._implied
        bits = flag_bits(device, chosen, "CU_MEMHOSTALLOC_")
        address = 0
        if checked_length(nbytes):
            address = acquire(device, self.kind, nbytes, "cuMemHostAlloc", nbytes, bits)
        release = releasing(device, "cuMemFreeHost", address, nbytes)
        super().__init__(page_locked(device, nbytes, address, chosen, release))


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
    always_on_device = True
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
        chosen = checked_flags(flags, allowed=(PORTABLE, MAPPED))
        check_bytes(array)
        if array.nbytes == 0:
            raise ValueError("an empty array has no bytes to register")
        address, nbytes = array.ctypes.data, array.nbytes
        bits = flag_bits(device, chosen, "CU_MEMHOSTREGISTER_")
        read_only = not array.flags.writeable
        if read_only and device.attribute("READ_ONLY_HOST_REGISTER_SUPPORTED"):
            # Pages that the process itself may not write, such as a mapped file's, can be pinned only as such.
            bits |= int(device.driver.api.CU_MEMHOSTREGISTER_READ_ONLY)
        acquire(device, self.kind, nbytes, "cuMemHostRegister", address, nbytes, bits)

        def release() -> None:
            keep(array)
            device.driver.call("cuMemHostUnregister", address)

        super().__init__(page_locked(device, nbytes, address, chosen, release, read_only=read_only))


class ManagedBuffer(Buffer):
    """Memory with one address for both sides, whose pages move to where they are used (``cuMemAllocManaged``)."""

    kind = "managed"
    always_on_device = True

    def __init__(self, device: Device, nbytes: int) -> None:
        attach = int(device.driver.api.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)
        address = 0
        if checked_length(nbytes):
            address = acquire(device, self.kind, nbytes, "cuMemAllocManaged", nbytes, attach)
        release = releasing(device, "cuMemFree", device.driver.api.CUdeviceptr(address), nbytes)
        super().__init__(Allocation(device, nbytes, host_address=address, device_address=address, release=release))
