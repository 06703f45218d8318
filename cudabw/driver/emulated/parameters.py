"""Reading the forms of arguments that the bindings take for modules and kernel parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cudabw.driver.emulated.calls import HostPointer, host_address, integer
from cudabw.driver.emulated.refusals import INVALID_IMAGE, INVALID_PTX, INVALID_VALUE, Refusal

if TYPE_CHECKING:
    from cudabw.driver.emulated.ptx import Parameter

ELF_MAGIC = b"\x7fELF"


def image_text(image: HostPointer) -> str:
    """The text of a module image: bytes, a buffer, or the address of text that ends in a zero byte.

    Raises:
        Refusal: 1 for null, 200 for a binary, 218 for anything but ASCII.
    """
    # An address tells no length; a buffer need not end in a zero byte.
    data = ctypes.string_at(_not_null(image)) if isinstance(image, int) else memoryview(image).tobytes()
    if data.startswith(ELF_MAGIC):
        raise Refusal(INVALID_IMAGE)
    try:
        return data.split(b"\0", 1)[0].decode("ascii")
    except UnicodeDecodeError as error:
        raise Refusal(INVALID_PTX) from error


def _not_null(pointer: HostPointer) -> int:
    address = host_address(pointer)
    if address == 0:
        raise Refusal(INVALID_VALUE)
    return address


def parameter_bytes(kernel_params: Any, parameters: Sequence[Parameter]) -> tuple[bytes, ...]:  # noqa: ANN401
    """A copy of the bytes of each parameter.

    Args:
        kernel_params: None or 0, the address of an array of pointers, an object with the buffer protocol
            that holds one, or ``((value, ...), (ctypes type or None, ...))``.
        parameters: What the kernel takes.

    Raises:
        Refusal: 1, a parameter is missing.
        TypeError: A value of the tuple form cannot be packed.
    """
    if isinstance(kernel_params, tuple):
        cells = _pack(kernel_params)
        if len(cells) < len(parameters):
            raise Refusal(INVALID_VALUE)
        return tuple(_read(cell, parameter.size) for cell, parameter in zip(cells, parameters, strict=False))
    if not parameters:
        return ()
    array = (ctypes.c_void_p * len(parameters)).from_address(_not_null(kernel_params))
    return tuple(
        ctypes.string_at(_not_null(pointer), parameter.size)
        for pointer, parameter in zip(array, parameters, strict=True)
    )


def _pack(kernel_params: tuple[Any, ...]) -> list[bytes | int]:
    """Each value as its bytes, or as the address of its bytes."""
    if len(kernel_params) != 2 or not all(isinstance(part, tuple) for part in kernel_params):
        raise TypeError("Argument 'kernelParams' is not a valid type: tuple[tuple[Any, ...], tuple[Any, ...]]")
    values, types = kernel_params
    if len(values) != len(types):
        raise TypeError("Argument 'kernelParams' has tuples with different length")
    return [_pack_one(value, ctype) for value, ctype in zip(values, types, strict=True)]


def _pack_one(value: Any, ctype: Any) -> bytes | int:  # noqa: ANN401 - whatever the caller passed
    has_pointer = callable(getattr(value, "getPtr", None))
    if ctype is None:
        if has_pointer:
            return int(value.getPtr())
        if isinstance(value, ctypes.Structure):
            return bytes(value)
        if hasattr(value, "name") and hasattr(value, "value"):  # an enumerator
            return bytes(ctypes.c_int(value.value))
        raise TypeError(f"Provided argument is of type {type(value)} but expected a structure or a handle")
    if ctype is ctypes.c_void_p and has_pointer:
        # As the bindings do: the address of the object's value, not the value.
        return bytes(ctypes.c_void_p(int(value.getPtr())))
    if isinstance(value, ctype):
        return bytes(value)
    value = getattr(value, "value", value)
    if ctype is ctypes.c_void_p:
        return bytes(ctypes.c_void_p(integer(value)))
    return bytes(ctype(value))


def _read(cell: bytes | int, size: int) -> bytes:
    # The bindings keep simple values in zeroed cells: a parameter wider than its value reads zeros.
    return ctypes.string_at(cell, size) if isinstance(cell, int) else cell[:size].ljust(size, b"\0")
