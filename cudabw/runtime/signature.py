"""The C types that a kernel's parameters can have, and how a list of them lies in memory."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cudabw.runtime.ownership import Use

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class CType:
    """A C type.

    Attributes:
        name: As messages and signatures write it, such as ``int32``.
        size: In bytes.
        alignment: In bytes.
        code: Of ``struct``, little-endian and without alignment.
        members: Of a structure, in order.
    """

    name: str
    size: int
    alignment: int
    code: str
    members: tuple[CType, ...] = ()

    def __str__(self) -> str:
        return self.name


CValue: TypeAlias = tuple[CType, Any, Use | tuple[Use, ...] | None]
"""A typed C value: its type, what ``struct`` packs for it, and the memory that it lets a kernel reach.

The value of a structure that holds a Python number is the list of its members. Ownership of the memory is
taken when the work is submitted. This is a plain tuple because an object with named fields costs ten times as much to
make, for every argument of every launch.
"""

TypeSpecification: TypeAlias = Any
"""A :class:`CType`, a name such as ``"pointer"`` or ``"int32"``, a NumPy or ctypes type, a class of pointers or
buffers, or a tuple of all these for a structure."""

POINTER = CType("pointer", 8, 8, "Q")
BOOL = CType("bool", 1, 1, "?")

_NUMBERS = {
    name: CType(name, np.dtype(name).itemsize, np.dtype(name).alignment, code)
    for name, code in {
        "int8": "b",
        "int16": "h",
        "int32": "i",
        "int64": "q",
        "uint8": "B",
        "uint16": "H",
        "uint32": "I",
        "uint64": "Q",
        "float16": "e",
        "float32": "f",
        "float64": "d",
        "complex64": "8s",
        "complex128": "16s",
    }.items()
}
TYPES = {"pointer": POINTER, "bool": BOOL, **_NUMBERS}

_NUMPY_TYPES = {np.dtype(name): ctype for name, ctype in TYPES.items() if name != "pointer"}

# Python's own numbers carry no width: they take the type of the parameter, if they fit.
PYTHON_INT = CType("Python int", 0, 1, "")
PYTHON_FLOAT = CType("Python float", 0, 1, "")

_CTYPES: dict[type, CType] = {
    ctypes.c_bool: BOOL,
    ctypes.c_int8: TYPES["int8"],
    ctypes.c_int16: TYPES["int16"],
    ctypes.c_int32: TYPES["int32"],
    ctypes.c_int64: TYPES["int64"],
    ctypes.c_uint8: TYPES["uint8"],
    ctypes.c_uint16: TYPES["uint16"],
    ctypes.c_uint32: TYPES["uint32"],
    ctypes.c_uint64: TYPES["uint64"],
    ctypes.c_float: TYPES["float32"],
    ctypes.c_double: TYPES["float64"],
    ctypes.c_void_p: POINTER,
}


def structure(members: Iterable[CType]) -> CType:
    """The type of a C structure with these members, aligned as C aligns them."""
    members = tuple(members)
    alignment = max((member.alignment for member in members), default=1)
    end = layout(members)[1]
    size = end + -end % alignment
    return CType(f"struct({', '.join(member.name for member in members)})", size, alignment, f"{size}s", members)


def layout(types: Sequence[CType]) -> tuple[str, int]:
    """The ``struct`` format of values that follow each other, each at its alignment.

    Returns:
        The format without its byte order, and the end of the last value in bytes.
    """
    code, end = "", 0
    for ctype in types:
        padding = -end % ctype.alignment
        code += "x" * padding + ctype.code
        end += padding + ctype.size
    return code, end


def offsets(types: Sequence[CType]) -> list[int]:
    """Where each of these values begins, in bytes, when they lie as in :func:`layout`."""
    found, end = [], 0
    for ctype in types:
        found.append(end + -end % ctype.alignment)
        end = found[-1] + ctype.size
    return found


def ctype_of(specification: TypeSpecification) -> CType:
    """The C type that a signature names.

    Raises:
        TypeError: There is no such type; names those there are.
    """
    if isinstance(specification, CType):
        return specification
    if isinstance(specification, tuple):
        return structure(ctype_of(member) for member in specification)
    if isinstance(specification, str) and specification in TYPES:
        return TYPES[specification]
    if isinstance(specification, type):
        if hasattr(specification, "device_pointer") or getattr(specification, "side", "") == "device":
            return POINTER
        for base in specification.__mro__:
            if base in _CTYPES:
                return _CTYPES[base]
    found = numpy_type(specification)
    if found is None:
        raise TypeError(f"{specification!r} is no C type; there are {', '.join(TYPES)}, and tuples of these")
    return found


def numpy_type(dtype: Any) -> CType | None:  # noqa: ANN401 - whatever numpy.dtype takes
    """The C type of NumPy scalars; None where there is none that kernels take."""
    if dtype is None or isinstance(dtype, str):
        return None  # NumPy reads None as float64, and as text much that means something else in C
    try:
        return _NUMPY_TYPES.get(np.dtype(dtype))
    except TypeError:
        return None


def scalar_type(value: object) -> CType | None:
    """The C type of a ctypes scalar; None for another object."""
    return next((_CTYPES[base] for base in type(value).__mro__ if base in _CTYPES), None)
