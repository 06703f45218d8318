"""From a Python value to the C value that a kernel takes.

:func:`convert` is open: ``convert.register(MyClass, function)`` adds a class, before an object of it is launched with
for the first time. Conversion looks at a value and nothing else: it calls no driver function and leaves no trace.
What needs the driver, such as peer access or waiting for the stream that a foreign array names, happens when the
work is submitted.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from typing import TYPE_CHECKING

import numpy as np

from cudabw.errors import MemorySideError
from cudabw.runtime.buffer import Buffer
from cudabw.runtime.foreign import ForeignArray
from cudabw.runtime.pointers import DevicePointer, HostPointer
from cudabw.runtime.signature import (
    BOOL,
    POINTER,
    PYTHON_FLOAT,
    PYTHON_INT,
    TYPES,
    CType,
    CValue,
    layout,
    numpy_type,
    scalar_type,
    structure,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudabw.runtime.ownership import Use


@functools.singledispatch
def convert(value: object) -> CValue:
    """Convert a Python value to a typed C value.

    Raises:
        TypeError: Nothing is known of its class, or it cannot be passed to a kernel.
        ValueError: It is an array whose bytes are no single range.
        ClosedError: It is a buffer that was closed.
    """
    if hasattr(value, "__cuda_array_interface__"):
        array = ForeignArray(value)
        return POINTER, array.address, array if array.nbytes else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _structure(getattr(value, field.name) for field in dataclasses.fields(value))
    scalar = scalar_type(value)
    if scalar is not None:
        return scalar, getattr(value, "value", None) or 0, None
    raise TypeError(
        f"a kernel does not take a {type(value).__name__}: pass a buffer, a DevicePointer, a device array, a number, "
        "or a tuple or dataclass of these as a structure"
    )


convert.register(Buffer, Buffer.c_value)


def stores_c_value(kind: type) -> bool:
    """Whether a launch may read what :func:`convert` would give for objects of a class: buffers with a device side.

    Asking a buffer only adds the check that it is open, which taking ownership makes again.
    """
    asked = convert.dispatch(kind) is Buffer.c_value
    return asked and issubclass(kind, Buffer) and kind.always_on_device


@convert.register
def _(pointer: DevicePointer) -> CValue:
    return POINTER, pointer._address, None  # noqa: SLF001 - int() would call a method


@convert.register
def _(pointer: HostPointer) -> CValue:
    raise MemorySideError(
        f"{pointer!r} is an address of the host",
        hint="Pass the buffer itself or its device_pointer, which exists for device, managed and mapped memory.",
    )


@convert.register
def _(value: bool) -> CValue:
    return BOOL, value, None


@convert.register
def _(value: int) -> CValue:
    return PYTHON_INT, int(value), None


@convert.register
def _(value: float) -> CValue:
    return PYTHON_FLOAT, float(value), None


@convert.register
def _(value: np.generic) -> CValue:
    ctype = numpy_type(value.dtype)
    if ctype is None:
        raise TypeError(f"a NumPy {value.dtype} has no C type that a kernel takes")
    return ctype, value.tobytes() if ctype.code.endswith("s") else value.item(), None


@convert.register
def _(array: np.ndarray) -> CValue:
    raise MemorySideError(
        f"a NumPy array of shape {array.shape} is host memory",
        hint="Copy it into a DeviceBuffer, or register it: RegisteredBuffer(device, array, flags=('mapped',)).",
    )


@convert.register
def _(members: tuple) -> CValue:  # type: ignore[type-arg] # singledispatch takes classes, not their parameters
    return _structure(members)


def _structure(members: Iterable[object]) -> CValue:
    return _packed([convert(member) for member in members])


def _packed(members: list[CValue]) -> CValue:
    """A structure's bytes; its members as they are while one of them is a Python number."""
    if not members:
        raise TypeError("a structure has at least one member")
    ctype = structure(ctype for ctype, _, _ in members)
    memory = tuple(flatten(memory for _, _, memory in members)) or None
    if is_untyped(ctype):
        return ctype, members, memory
    packed = struct.pack(f"<{layout(ctype.members)[0]}", *(value for _, value, _ in members))
    return ctype, packed.ljust(ctype.size, b"\0"), memory


def flatten(memories: Iterable[Use | tuple[Use, ...] | None]) -> list[Use]:
    """Each piece of memory that typed values reach."""
    uses: list[Use] = []
    for memory in memories:
        if isinstance(memory, tuple):
            uses += memory
        elif memory is not None:
            uses.append(memory)
    return uses


def is_untyped(ctype: CType) -> bool:
    """Whether it is a Python number, or a structure with one, which takes the type of the parameter."""
    return any(is_untyped(member) for member in ctype.members) if ctype.members else ctype.size == 0


def fit(value: CValue, expected: CType) -> CValue:
    """The same value as the type of a parameter.

    Python's numbers take any type that holds them: an int an integer or, where it is exact, a floating type;
    a float a floating type. Everything else must have the type already.

    Raises:
        TypeError: It is of another class or dtype.
        OverflowError: It is out of the type's range.
    """
    ctype, content, _ = value
    if ctype is expected:
        return value
    if ctype is PYTHON_INT and expected.code in _RANGES and expected is not POINTER:
        low, high = _RANGES[expected.code]
        if not low <= content <= high:
            raise OverflowError(f"{content} is out of the range of {expected}, {low} to {high}")
        return expected, content, None
    if (ctype is PYTHON_INT or ctype is PYTHON_FLOAT) and expected.code in _FLOAT_CODES:
        return expected, _float_in_range(content, expected), None
    if ctype == expected:
        return value
    if is_untyped(ctype) and ctype.members and len(ctype.members) == len(expected.members):
        return _packed([fit(member, wanted) for member, wanted in zip(content, expected.members, strict=True)])
    hint = "; wrap an address in DevicePointer" if expected is POINTER and ctype is PYTHON_INT else ""
    raise TypeError(f"{ctype} was given where {expected} is expected{hint}")


_RANGES = {
    **{code: (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) for code, size in zip("bhiq", (1, 2, 4, 8), strict=True)},
    **{code: (0, (1 << 8 * size) - 1) for code, size in zip("BHIQ", (1, 2, 4, 8), strict=True)},
}
_FLOAT_CODES = frozenset("efd")


def _float_in_range(value: float, ctype: CType) -> float:
    try:
        (stored,) = struct.unpack(f"<{ctype.code}", struct.pack(f"<{ctype.code}", float(value)))
    except OverflowError as error:
        raise OverflowError(f"{value} is out of the range of {ctype}") from error
    if isinstance(value, int) and stored != value:
        raise OverflowError(f"{value} has no exact {ctype}; pass a float if the nearest will do")
    return float(value)


def natural_type(value: CValue, size: int | None) -> CType:
    """The type that an example gives a parameter.

    Args:
        value: The example.
        size: Of the loaded kernel's parameter in bytes; None where the driver cannot say.

    Returns:
        The example's type. A Python number has the width of the parameter, and is signed unless only the unsigned
        type holds it; where the width is not known, and inside a structure, it has 64 bits.

    Raises:
        TypeError: No number has that size.
    """
    ctype, content, _ = value
    if ctype is PYTHON_INT:
        signed, unsigned = _sized("int", size, content), _sized("uint", size, content)
        return unsigned if content >> (8 * signed.size - 1) > 0 else signed
    if ctype is PYTHON_FLOAT:
        return _sized("float", size, content)
    if is_untyped(ctype):
        return structure(natural_type(member, None) for member in content)
    return ctype


def _sized(family: str, size: int | None, value: float) -> CType:
    ctype = TYPES.get(f"{family}{8 * (size or 8)}")
    if ctype is None:
        raise TypeError(f"{value} was given, and no {family} has the {size} bytes of the kernel's parameter")
    return ctype
