"""What the driver itself says a buffer is: the proof that a row measures the kind it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.errors import CudabwError
from cudabw.runtime.acquiring import MAPPED, WRITE_COMBINED

if TYPE_CHECKING:
    from cudabw.runtime.buffer import Buffer

# An address that the driver knows nothing of, as pageable memory should be.
_INVALID_VALUE = 1


def confirm(buffer: Buffer) -> str:
    """Ask the driver what it knows of a buffer's first byte.

    Returns:
        The driver's answer in words, for example ``page-locked, mapped``.

    Raises:
        CudabwError: The answer contradicts the buffer's kind.
    """
    if buffer.kind == "device":
        return _confirm_device(buffer)
    if buffer.kind == "managed":
        return _confirm_managed(buffer)
    if buffer.kind == "pageable":
        return _confirm_pageable(buffer)
    return _confirm_page_locked(buffer)


def _confirm_device(buffer: Buffer) -> str:
    device_type = int(buffer.device.driver.api.CUmemorytype.CU_MEMORYTYPE_DEVICE)
    answer = _attribute(buffer, "MEMORY_TYPE", int(buffer.device_pointer))
    _require(buffer, answer == device_type, f"memory type {answer}")
    ordinal = _attribute(buffer, "DEVICE_ORDINAL", int(buffer.device_pointer))
    _require(buffer, ordinal == buffer.device.ordinal, f"memory of device {ordinal}")
    return f"memory of device {ordinal}"


def _confirm_managed(buffer: Buffer) -> str:
    managed = bool(_attribute(buffer, "IS_MANAGED", int(buffer.device_pointer)))
    _require(buffer, managed, "not managed")
    return "managed"


def _confirm_pageable(buffer: Buffer) -> str:
    host = int(buffer.host_pointer)
    buffer.device.activate()
    status, flags = buffer.device.driver.attempt("cuMemHostGetFlags", host)
    _require(buffer, status == _INVALID_VALUE, f"page-locked, flags {flags}" if status == 0 else f"status {status}")
    return "unknown to the driver"


def _confirm_page_locked(buffer: Buffer) -> str:
    api = buffer.device.driver.api
    host = int(buffer.host_pointer)
    flags = int(buffer.device.call("cuMemHostGetFlags", host))
    words = ["page-locked"]
    if flags & int(api.CU_MEMHOSTALLOC_PORTABLE):
        words.append("portable")
    if flags & int(api.CU_MEMHOSTALLOC_DEVICEMAP):
        words.append("mapped")
    if flags & int(api.CU_MEMHOSTALLOC_WRITECOMBINED):
        words.append("write-combined")
    answer = ", ".join(words)
    _require(buffer, ("write-combined" in words) == (WRITE_COMBINED in buffer.flags), answer)
    if MAPPED in buffer.flags:
        # The flag may be there unasked, since drivers map all pinned memory; the address proves it.
        address = int(buffer.device.call("cuMemHostGetDevicePointer", host, 0))
        _require(buffer, address == int(buffer.device_pointer), f"{answer}, device address 0x{address:x}")
    return answer


def _attribute(buffer: Buffer, name: str, address: int) -> int:
    driver = buffer.device.driver
    key = getattr(driver.api.CUpointer_attribute, f"CU_POINTER_ATTRIBUTE_{name}")
    return int(buffer.device.call("cuPointerGetAttribute", key, address))


def _require(buffer: Buffer, holds: bool, answer: str) -> None:
    if not holds:
        raise CudabwError(
            f"the driver contradicts a {buffer.kind} buffer of {buffer.nbytes} bytes: it says {answer!r}",
            hint="The figure would not be what its row claims, so it was not taken.",
        )
