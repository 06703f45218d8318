"""Host and device addresses as two types that never mix by accident."""

from __future__ import annotations

from typing import Any, ClassVar, Self, overload

import numpy as np
import numpy.typing as npt


class _Pointer:
    """An address on one side, with the type of the elements it points to.

    Arithmetic is in bytes. Conversion to and from an integer is explicit: ``int(p)`` and
    ``HostPointer(address)``. Pointers of the two sides are never equal, and ordering
    or subtracting them is a ``TypeError``.

    Args:
        address: The address as a non-negative integer.
        dtype: Type of the elements; bytes unless said.

    Raises:
        TypeError: ``address`` is not an integer, for example a pointer of the other side.
        ValueError: ``address`` is negative.
    """

    __slots__ = ("_address", "dtype")
    side: ClassVar[str]

    def __init__(self, address: int, dtype: npt.DTypeLike = np.uint8) -> None:
        if isinstance(address, bool) or not isinstance(address, int | np.integer):
            raise TypeError(f"a {self.side} address is an integer, not {type(address).__name__}")
        if address < 0:
            raise ValueError(f"a {self.side} address is not negative: {address}")
        self._address = int(address)
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """The same address, pointing to elements of another type."""
        return type(self)(self._address, dtype)

    def __int__(self) -> int:
        return self._address

    def __bool__(self) -> bool:
        return self._address != 0

    def __add__(self, nbytes: int) -> Self:
        if not isinstance(nbytes, int | np.integer):
            return NotImplemented
        return type(self)(self._address + int(nbytes), self.dtype)

    __radd__ = __add__

    @overload
    def __sub__(self, other: Self) -> int: ...
    @overload
    def __sub__(self, other: int) -> Self: ...
    def __sub__(self, other: Self | int) -> Self | int:
        if isinstance(other, int | np.integer):
            return type(self)(self._address - int(other), self.dtype)
        if type(other) is type(self):
            return self._address - other._address
        return NotImplemented

    def __eq__(self, other: object) -> bool:
        if type(other) is type(self):
            return self._address == other._address
        return NotImplemented

    def __lt__(self, other: Self) -> bool:
        return self._address < other._address if type(other) is type(self) else NotImplemented

    def __le__(self, other: Self) -> bool:
        return self._address <= other._address if type(other) is type(self) else NotImplemented

    def __gt__(self, other: Self) -> bool:
        return self._address > other._address if type(other) is type(self) else NotImplemented

    def __ge__(self, other: Self) -> bool:
        return self._address >= other._address if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.side, self._address))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(0x{self._address:x}, {self.dtype.name})"


class HostPointer(_Pointer):
    """An address that the CPU may read and write."""

    __slots__ = ()
    side = "host"


class DevicePointer(_Pointer):
    """An address that kernels and the copy engines of a device may read and write."""

    __slots__ = ()
    side = "device"
