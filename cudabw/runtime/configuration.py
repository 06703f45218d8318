"""How many threads a kernel is launched with, and what a device allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from cudabw.runtime.device import Device
    from cudabw.runtime.stream import Stream

Extent: TypeAlias = int | tuple[int, ...] | list[int]
"""A number, or up to three of them for x, y and z."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """How many threads a kernel is launched with.

    Attributes:
        grid: Blocks in x, y and z.
        block: Threads of a block in x, y and z.
        shared_bytes: Dynamic shared memory of a block.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int

    @classmethod
    def of(cls, grid: Extent, block: Extent, shared: int) -> Configuration:
        """From numbers or tuples of up to three of them.

        Raises:
            TypeError: Something is no whole number, or there are more than three.
            ValueError: A number is negative or does not fit 32 bits.
        """
        return cls(_extents("grid", grid), _extents("block", block), _unsigned("shared", shared))

    def for_driver(self, stream: Stream) -> Any:  # noqa: ANN401 - the bindings' structure
        """The ``CUlaunchConfig`` of a launch on a stream."""
        config = stream.device.driver.api.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = self.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = self.block
        config.sharedMemBytes = self.shared_bytes
        config.hStream = stream.handle
        return config


def _extents(name: str, given: Extent) -> tuple[int, int, int]:
    extents = tuple(given) if isinstance(given, tuple | list) else (given,)
    if not 1 <= len(extents) <= 3:
        raise TypeError(f"{name} has one to three extents, not {len(extents)}")
    x, y, z = (_unsigned(name, extent) for extent in (*extents, 1, 1)[:3])
    return x, y, z


def _unsigned(name: str, value: int) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{name} is made of whole numbers, not {type(value).__name__}")
    if not 0 <= value < 1 << 32:
        raise ValueError(f"{name} holds {value}, which is no unsigned number of 32 bits")
    return value


@dataclass(frozen=True, slots=True)
class LaunchLimits:
    """What a device allows. It is asked before the first launch, since a failed one may be the last that it answers.

    Attributes:
        grid: Blocks in x, y and z.
        block: Threads of a block in x, y and z.
        shared_bytes: Shared memory of a block, unless the kernel opted in to more.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int

    @classmethod
    def of(cls, device: Device) -> LaunchLimits:
        """Ask the driver."""
        grid, block = (_axes(device, what) for what in ("GRID", "BLOCK"))
        return cls(grid, block, device.attribute("MAX_SHARED_MEMORY_PER_BLOCK"))


def _axes(device: Device, what: str) -> tuple[int, int, int]:
    x, y, z = (device.attribute(f"MAX_{what}_DIM_{axis}") for axis in "XYZ")
    return x, y, z
