"""What one trial moves: fresh buffers, filled on every page, changed before each batch and checked after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cudabw.benchmarks.huge_pages import huge_pages, require_huge_pages
from cudabw.copying.driver_copy import PreparedCopy, copy
from cudabw.copying.prefetch import PreparedPrefetch
from cudabw.measuring.timing import Once
from cudabw.measuring.verification import clear_device, stamp_device, stamp_host, touch
from cudabw.results.model import Pages
from cudabw.runtime.acquiring import map_pages
from cudabw.runtime.confirmation import confirm
from cudabw.runtime.memory import (
    DeviceBuffer,
    ManagedBuffer,
    MappedBuffer,
    PageableBuffer,
    PinnedBuffer,
    RegisteredBuffer,
    WriteCombinedBuffer,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from cudabw.measuring.timing import Work
    from cudabw.measuring.verification import Pattern
    from cudabw.runtime.buffer import Buffer
    from cudabw.runtime.device import Device
    from cudabw.runtime.stream import Stream

SCRATCH_BYTES = 16 << 20  # a whole number of the pattern's blocks


def _allocating(kind: Callable[[Device, int], Buffer]) -> Callable[[Device, int], Callable[[], Buffer]]:
    return lambda device, nbytes: partial(kind, device, nbytes)


def _registering(device: Device, nbytes: int) -> Callable[[], Buffer]:
    # Not NumPy's memory, of which the system may keep pages from one trial to the next, on whichever node they are.
    array = np.frombuffer(map_pages(nbytes), np.uint8)
    touch(array)
    return partial(RegisteredBuffer, device, array)


# For each kind what gets ready to get the memory: an array to register is there before, as in a program.
HOST_BUFFERS: dict[str, Callable[[Device, int], Callable[[], Buffer]]] = {
    "pageable": _allocating(PageableBuffer),
    "pinned": _allocating(PinnedBuffer),
    "mapped": _allocating(MappedBuffer),
    "write-combined": _allocating(WriteCombinedBuffer),
    "registered": _registering,
    "managed": _allocating(ManagedBuffer),
}


class Transfer(ABC):
    """One direction between fresh memory of one kind and the device.

    Args:
        device: The device.
        stream: Where the timed work runs.
        pattern: The bytes to move.
        scratch: Pageable memory through which device memory is filled and read back.
        kind: Kind of the host memory; ``device`` where there is none, and what is said of it holds for the source.
        nbytes: Bytes to move.
        owned: Releases the transfer's buffers.
        prepare: Makes a copy that is timed, from its destination, source and stream.
        pages: The state of the host memory's pages.

    Attributes:
        work: What is timed.
        allocation_s: Seconds that getting the host memory took; pinning included, touching not.
    """

    work: Work

    def __init__(
        self,
        device: Device,
        stream: Stream,
        pattern: Pattern,
        scratch: PageableBuffer,
        kind: str,
        nbytes: int,
        owned: ExitStack,
        prepare: Callable[[Buffer, Buffer, Stream], Work] = PreparedCopy,
        pages: Pages = Pages.WARM,
    ) -> None:
        self._pattern = pattern
        self._scratch = scratch
        self._owned = owned
        self._prepare = prepare
        self._pages = pages
        now = device.driver.now
        make_ready = _allocating(DeviceBuffer) if kind == "device" else HOST_BUFFERS[kind]
        allocate = (huge_pages if pages is Pages.HUGE else make_ready)(device, nbytes)
        start = now()
        self.host = owned.enter_context(allocate())
        self.allocation_s = now() - start
        self._set_up(device, stream, nbytes)

    @abstractmethod
    def _set_up(self, device: Device, stream: Stream, nbytes: int) -> None:
        """Allocate the other side, fill the source, touch every page of the destination, prepare the work."""

    @abstractmethod
    def change(self, stamp: int) -> None:
        """Make every page of the source new."""

    @abstractmethod
    def verify(self, stamp: int) -> None:
        """Compare the destination with what the source holds.

        Raises:
            WrongDataError: They differ.
        """

    @property
    def host_buffers(self) -> tuple[Buffer, ...]:
        """The host memory."""
        return (self.host,) if self.host.has_host_side else ()

    def confirm(self) -> str:
        """What the driver says the host memory is (:func:`cudabw.runtime.confirmation.confirm`).

        Raises:
            UnsupportedError: It should be on huge pages, and the system did not give them.
        """
        if self._pages is Pages.HUGE:
            require_huge_pages(self.host)
        return confirm(self.host)

    def _fill_through_scratch(self, destination: Buffer, stamp: int) -> None:
        scratch = self._scratch.array()
        for start in range(0, destination.nbytes, SCRATCH_BYTES):
            part = destination[start : start + SCRATCH_BYTES]
            self._pattern.fill(scratch[: part.nbytes], stamp=stamp, offset=start)
            copy(part, self._scratch[: part.nbytes])

    def _check_through_scratch(self, source: Buffer, stamp: int) -> None:
        for start in range(0, source.nbytes, SCRATCH_BYTES):
            part = source[start : start + SCRATCH_BYTES]
            copy(self._scratch[: part.nbytes], part)
            self._pattern.check(self._scratch[: part.nbytes].array(), stamp=stamp, offset=start)


class HostToDevice(Transfer):
    """From host memory into device memory."""

    def _set_up(self, device: Device, stream: Stream, nbytes: int) -> None:
        self._device_buffer = self._owned.enter_context(DeviceBuffer(device, nbytes))
        host = self.host.array()
        touch(host)
        self._pattern.fill(host, stamp=0)
        clear_device(self._device_buffer)
        self.work = self._prepare(self._device_buffer, self.host, stream)

    def change(self, stamp: int) -> None:
        """Make every page of the source new."""
        stamp_host(self.host.array(), stamp)

    def verify(self, stamp: int) -> None:
        """Copy the destination back and compare it."""
        self._check_through_scratch(self._device_buffer, stamp)


class DeviceToHost(Transfer):
    """From device memory into host memory."""

    def _set_up(self, device: Device, stream: Stream, nbytes: int) -> None:
        self._device_buffer = self._owned.enter_context(DeviceBuffer(device, nbytes))
        self._fill_through_scratch(self._device_buffer, stamp=0)
        # All of it, not only each page: memory that the driver gave before may still hold these very bytes.
        self.host.array()[:] = 0
        self.work = self._prepare(self.host, self._device_buffer, stream)

    def change(self, stamp: int) -> None:
        """Make every page of the source new."""
        stamp_device(self._device_buffer, stamp)

    def verify(self, stamp: int) -> None:
        """Compare the destination where it is."""
        self._pattern.check(self.host.array(), stamp=stamp)


class DeviceToFreshPages(DeviceToHost):
    """From device memory into memory that was never touched: each copy has memory of its own."""

    def _set_up(self, device: Device, stream: Stream, nbytes: int) -> None:
        self._device_buffer = self._owned.enter_context(DeviceBuffer(device, nbytes))
        self._fill_through_scratch(self._device_buffer, stamp=0)
        self.work = Once(self._prepare(self.host, self._device_buffer, stream))

    def change(self, stamp: int) -> None:
        """Make every page of the source new, and take a fresh destination."""
        super().change(stamp)
        self.host.close()
        self.host = self._owned.enter_context(PageableBuffer(self.host.device, self.host.nbytes))
        self.work = Once(self._prepare(self.host, self._device_buffer, self.work.stream))


class DeviceToWriteCombined(DeviceToHost):
    """From device memory into write-combined memory, which the CPU reads forty times slower than any other."""

    def _set_up(self, device: Device, stream: Stream, nbytes: int) -> None:
        super()._set_up(device, stream, nbytes)
        self._returned = self._owned.enter_context(DeviceBuffer(device, min(nbytes, SCRATCH_BYTES)))

    def verify(self, stamp: int) -> None:
        """Copy the destination through the device into memory that the CPU reads well, and compare it there."""
        for start in range(0, self.host.nbytes, SCRATCH_BYTES):
            part = self.host[start : start + SCRATCH_BYTES]
            copy(self._returned, part)
            copy(self._scratch[: part.nbytes], self._returned[: part.nbytes])
            self._pattern.check(self._scratch[: part.nbytes].array(), stamp=stamp, offset=start)


class DeviceToDevice(Transfer):
    """From device memory into other memory of the same device."""

    def _set_up(self, device: Device, stream: Stream, nbytes: int) -> None:
        self._destination = self._owned.enter_context(DeviceBuffer(device, nbytes))
        self._fill_through_scratch(self.host, stamp=0)
        clear_device(self._destination)
        self.work = self._prepare(self._destination, self.host, stream)

    def change(self, stamp: int) -> None:
        """Make every page of the source new."""
        stamp_device(self.host, stamp)

    def verify(self, stamp: int) -> None:
        """Copy the destination back and compare it."""
        self._check_through_scratch(self._destination, stamp)


class ManagedMigration(Transfer):
    """Managed pages sent to one side by a prefetch; before each batch they are made resident on the other."""

    to_device: bool

    def _set_up(self, device: Device, stream: Stream, nbytes: int) -> None:  # noqa: ARG002 - it has no other side
        assert isinstance(self.host, ManagedBuffer)  # noqa: S101 - the kind says so; for the type checker
        self._back = PreparedPrefetch(self.host, stream, to_device=not self.to_device)
        self._to_host = self._back if self.to_device else PreparedPrefetch(self.host, stream, to_device=False)
        self._pattern.fill(self.host.array(), stamp=0)
        self.work = PreparedPrefetch(self.host, stream, to_device=self.to_device)

    def change(self, stamp: int) -> None:
        """Make every page new, then send the pages back to where they come from."""
        # Written by the CPU while they are on its side: a fault per page would take a thousand times longer.
        self._to_host.submit()
        stamp_host(self.host.array(), stamp)
        self._back.submit()
        self._back.stream.synchronize()

    def verify(self, stamp: int) -> None:
        """Read the bytes from where they went, and compare them."""
        self._check_through_scratch(self.host, stamp)


class ManagedToDevice(ManagedMigration):
    """Managed pages from host to device."""

    to_device = True


class ManagedToHost(ManagedMigration):
    """Managed pages from device to host."""

    to_device = False


def transfer_class(kind: str, direction: str, pages: Pages = Pages.WARM) -> type[Transfer]:
    """The transfer that measures a kind of memory in a direction."""
    if pages is Pages.FIRST_TOUCH:
        return DeviceToFreshPages
    if kind == "device":
        return DeviceToDevice
    if kind == "managed":
        return ManagedToDevice if direction == "h2d" else ManagedToHost
    if direction == "h2d":
        return HostToDevice
    return DeviceToWriteCombined if kind == "write-combined" else DeviceToHost
