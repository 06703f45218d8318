"""The kernels that the emulated device can run, as NumPy code over device addresses."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cudabw.driver.emulated.clock import Work
from cudabw.driver.emulated.transfer import direction_of, move

if TYPE_CHECKING:
    from cudabw.driver.emulated.address_space import AddressSpace, Span
    from cudabw.driver.emulated.faults import FaultBook


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch, as it was submitted.

    Attributes:
        name: Of the kernel.
        grid: Blocks in x, y and z.
        block: Threads of a block in x, y and z.
        shared_bytes: Dynamic shared memory of a block.
        parameters: The bytes of each parameter.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: tuple[bytes, ...]

    def unpack(self, formats: str) -> tuple[Any, ...]:
        """The parameters as values, one ``struct`` character each, such as ``"QIQ"``."""
        return tuple(struct.unpack(f"<{code}", value)[0] for code, value in zip(formats, self.parameters, strict=True))


class DeviceView:
    """Memory as the kernels of one device see it; remembers what was moved, for the clock.

    Args:
        memory: Of the machine.
        faults: Of the machine; a copy that a kernel makes is subject to copy faults too.
        ordinal: The device.
        peers: Ordinals of the devices whose memory it may reach.
    """

    def __init__(self, memory: AddressSpace, faults: FaultBook, ordinal: int, peers: frozenset[int]) -> None:
        self._memory = memory
        self._faults = faults
        self._ordinal = ordinal
        self._peers = peers
        self.work = Work(launched=True)

    def array(self, address: int, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Elements at a device address, to read or write in place. Raises Refusal (700) if none are there."""
        nbytes = count * np.dtype(dtype).itemsize
        if nbytes == 0:
            return np.empty(0, dtype)
        span = self._span(address, nbytes)
        octets = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(span.real))
        elements: npt.NDArray[Any] = octets.view(dtype)
        return elements

    def copy(self, destination: int, source: int, nbytes: int) -> None:
        """Move bytes between two device addresses. Raises Refusal (700) if either is none."""
        if nbytes == 0:
            return
        target, origin = self._span(destination, nbytes), self._span(source, nbytes)
        direction = direction_of(target, origin)
        move(target.real, origin.real, nbytes, self._faults.copy(direction, nbytes))
        self.moved(direction, nbytes)

    def moved(self, direction: str, nbytes: int) -> None:
        """Tell the clock that the kernel moved bytes."""
        self.work = Work(direction, "kernel", self.work.nbytes + nbytes, launched=True)

    def _span(self, address: int, nbytes: int) -> Span:
        return self._memory.reachable(address, nbytes, self._ordinal, self._peers)


Kernel: TypeAlias = Callable[[Launch, DeviceView], None]


def null(_launch: Launch, _device: DeviceView) -> None:
    """``cudabw_null*``: does nothing, whatever its parameters."""


def fill_u32(launch: Launch, device: DeviceView) -> None:
    """``cudabw_fill_u32(u64 dst, u32 value, u64 count)``: every element becomes ``value``."""
    destination, value, count = launch.unpack("QIQ")
    device.array(destination, count, np.uint32)[:] = value


def add_u32(launch: Launch, device: DeviceView) -> None:
    """``cudabw_add_u32(u64 dst, u32 value, u64 count)``: every element grows by ``value``, modulo 2**32."""
    destination, value, count = launch.unpack("QIQ")
    device.array(destination, count, np.uint32)[:] += np.uint32(value)


def copy(launch: Launch, device: DeviceView) -> None:
    """``cudabw_copy(u64 dst, u64 src, u64 nbytes)``: the exact bytes, whatever the alignment."""
    destination, source, nbytes = launch.unpack("QQQ")
    device.copy(destination, source, nbytes)


def copies(launch: Launch, device: DeviceView) -> None:
    """``cudabw_copies(u64 table, u64 count)``: copies of (destination, source, bytes) each."""
    table, count = launch.unpack("QQ")
    for row in device.array(table, 3 * count, np.uint64).reshape(-1, 3):
        device.copy(*map(int, row))


def known_kernels() -> Mapping[str, Kernel]:
    """Kernels by name; a name that ends in ``*`` stands for all that begin with the rest."""
    return {
        "cudabw_null*": null,
        "cudabw_fill_u32": fill_u32,
        "cudabw_add_u32": add_u32,
        "cudabw_copy": copy,
        "cudabw_copies": copies,
    }


def find_kernel(kernels: Mapping[str, Kernel], name: str) -> Kernel | None:
    """The kernel of this name; the exact name wins over a prefix, a longer prefix over a shorter one."""
    if name in kernels:
        return kernels[name]
    prefixes = [key for key in kernels if key.endswith("*") and name.startswith(key[:-1])]
    return kernels[max(prefixes, key=len)] if prefixes else None
