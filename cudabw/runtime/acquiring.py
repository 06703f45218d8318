"""Asking for memory: checked first, refused in words, and freed by whoever lets go of it last."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cudabw.errors import CudabwError, DriverError, RefusedError
from cudabw.runtime.allocation import Allocation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from cudabw.runtime.device import Device

OUT_OF_MEMORY: Final = 2  # CUDA_ERROR_OUT_OF_MEMORY, also for host memory

PORTABLE: Final = "portable"
MAPPED: Final = "mapped"
WRITE_COMBINED: Final = "write-combined"


def map_pages(nbytes: int) -> mmap.mmap:
    """Ordinary pages of this process, private as an allocator's are, not yet touched.

    Raises:
        RefusedError: The system has no room for them.
    """
    try:
        return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise RefusedError(
            f"{nbytes} bytes of host pageable memory were refused ({error})", hint="Use smaller sizes."
        ) from error


def acquire(device: Device, kind: str, nbytes: int, function: str, *args: object) -> int:
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


def page_locked(
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


def releasing(device: Device, function: str, address: object, nbytes: int) -> Callable[[], None]:
    """What frees memory by a driver's function; nothing for a null buffer."""
    # Not device.call: whoever frees has made the context current, and the device may be closing.
    return (lambda: keep(device.driver.call(function, address))) if nbytes else (lambda: None)


def keep(_: object) -> None:
    """Do nothing; the argument lives as long as whoever may make this call."""


def checked_length(nbytes: int) -> int:
    """The length.

    Raises:
        ValueError: It is negative.
    """
    if nbytes < 0:
        raise ValueError(f"a buffer's length is not negative: {nbytes}")
    return nbytes


def checked_flags(flags: Iterable[str], *, allowed: tuple[str, ...]) -> frozenset[str]:
    """The flags, also where a single one was given without a list around it.

    Raises:
        ValueError: One of them is not allowed.
    """
    chosen = frozenset((flags,) if isinstance(flags, str) else flags)
    unknown = sorted(chosen.difference(allowed))
    if unknown:
        raise ValueError(f"unknown flag {unknown[0]!r}: choose from {', '.join(allowed)}")
    return chosen


def flag_bits(device: Device, flags: frozenset[str], prefix: str) -> int:
    """The flags as the driver's bits; ``prefix`` names its family, such as ``CU_MEMHOSTALLOC_``."""
    names = {PORTABLE: "PORTABLE", MAPPED: "DEVICEMAP", WRITE_COMBINED: "WRITECOMBINED"}
    bits = 0
    for flag in flags:
        bits |= int(getattr(device.driver.api, prefix + names[flag]))
    return bits


def check_bytes(array: npt.NDArray[Any]) -> None:
    """Do nothing if an array is one run of bytes.

    Raises:
        TypeError: It is no NumPy array.
        ValueError: It is not contiguous, or holds Python objects.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"not a NumPy array but {type(array).__name__}; numpy.asarray makes one of most things")
    if array.dtype.hasobject:
        raise ValueError(f"an array of {array.dtype} holds references to Python objects, not bytes to copy")
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError(
            f"an array of shape {array.shape} and strides {array.strides} is not contiguous, so its bytes are no "
            "single range; use numpy.ascontiguousarray(array)"
        )
