"""Blocks scattered over one side's memory that go to scattered places of the other: filled, changed, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cudabw.copying.copy_list import CopyList
from cudabw.copying.driver_copy import copy
from cudabw.errors import WrongDataError
from cudabw.measuring.verification import PAGE_BYTES, clear_device, stamp_device, stamp_host
from cudabw.runtime.confirmation import confirm
from cudabw.runtime.memory import DeviceBuffer, PageableBuffer, PinnedBuffer

if TYPE_CHECKING:
    from contextlib import ExitStack

    import numpy.typing as npt

    from cudabw.benchmarks.latency_plan import ManyCopies
    from cudabw.measuring.verification import Pattern
    from cudabw.runtime.buffer import Buffer
    from cudabw.runtime.device import Device
    from cudabw.runtime.stream import Stream

# Every block begins where an allocation would, and never right behind the one before.
_ALIGNMENT = 256


class ScatteredBlocks:
    """Fresh memory for many copies.

    Args:
        device: The device.
        stream: Where the copies run.
        pattern: The bytes to move.
        cell: Kind of host memory, direction, size and number.
        random: Chooses the places.
        owned: Releases the memory.

    Attributes:
        copies: From a place of the source to one of the destination, each; the places of both are shuffled.
    """

    def __init__(
        self,
        device: Device,
        stream: Stream,
        pattern: Pattern,
        cell: ManyCopies,
        random: np.random.Generator,
        owned: ExitStack,
    ) -> None:
        self._nbytes = cell.size_bytes
        self._stride = stride_of(cell.size_bytes)
        area = area_of(cell)
        self._host: Buffer = owned.enter_context(
            # A kernel reaches pinned memory by the address that mapping gives it.
            PageableBuffer(device, area) if cell.kind == "pageable" else PinnedBuffer(device, area, flags=("mapped",))
        )
        self._memory = owned.enter_context(DeviceBuffer(device, area))
        self._to_device = cell.direction == "h2d"
        self._sent = np.empty(area, np.uint8)
        self._received = PageableBuffer(device, area) if self._to_device else self._host
        self._from, self._to = random.permutation(cell.copies), random.permutation(cell.copies)
        self._fill(pattern)
        destination, source = (self._memory, self._host) if self._to_device else (self._host, self._memory)
        self.copies = CopyList(
            [
                (self._block(destination, to), self._block(source, frm))
                for to, frm in zip(self._to, self._from, strict=True)
            ],
            stream,
        )

    def _fill(self, pattern: Pattern) -> None:
        pattern.fill(self._sent, stamp=0)
        if self._to_device:
            self._host.array()[:] = self._sent
            clear_device(self._memory)
        else:
            copy(self._memory, PageableBuffer.over(self._memory.device, self._sent))
            self._host.array()[:] = 0

    def _block(self, buffer: Buffer, place: int) -> Buffer:
        start = int(place) * self._stride
        return buffer[start : start + self._nbytes]

    @property
    def host_buffers(self) -> tuple[Buffer, ...]:
        """The host memory that is copied from or to."""
        return (self._host,)

    def confirm(self) -> str:
        """What the driver says the host memory is (:func:`cudabw.runtime.confirmation.confirm`)."""
        return confirm(self._host)

    def change(self, stamp: int) -> None:
        """Make every page of the source, and the first byte of every block, new."""
        for every in (PAGE_BYTES, self._stride):
            if self._to_device:
                stamp_host(self._host.array(), stamp, every)
            else:
                stamp_device(self._memory, stamp, every)

    def verify(self, stamp: int) -> None:
        """Compare every block with what its source holds, and what lies between blocks with what was there.

        Raises:
            WrongDataError: They differ.
        """
        for every in (PAGE_BYTES, self._stride):
            stamp_host(self._sent, stamp, every)
        if self._to_device:
            copy(self._received, self._memory)
        received = self._received.array().reshape(-1, self._stride)
        sent = self._sent.reshape(-1, self._stride)
        for rows in _spans(len(sent), self._nbytes):
            to, frm = self._to[rows], self._from[rows]
            if not np.array_equal(received[to, : self._nbytes], sent[frm, : self._nbytes]):
                raise _wrong(received[to, : self._nbytes], sent[frm, : self._nbytes], rows.start, len(sent))
        if received[:, self._nbytes :].any():
            raise WrongDataError(
                f"the copies succeeded, but bytes beside the {len(sent)} blocks of the destination were written"
            )


def stride_of(nbytes: int) -> int:
    """Bytes from the beginning of one block to the next place."""
    return (nbytes // _ALIGNMENT + 1) * _ALIGNMENT


def area_of(cell: ManyCopies) -> int:
    """Bytes of either side."""
    return cell.copies * stride_of(cell.size_bytes)


def host_bytes_of(cell: ManyCopies) -> int:
    """Host memory that a trial holds at once: the host's side, what the source holds, and what came back."""
    return 3 * area_of(cell)


def _spans(rows: int, nbytes: int) -> list[slice]:
    """Rows whose blocks fit a core's cache together; a large block by itself."""
    step = max(1, (1 << 18) // nbytes)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _wrong(received: npt.NDArray[np.uint8], sent: npt.NDArray[np.uint8], first: int, copies: int) -> WrongDataError:
    row, at = np.argwhere(received != sent)[0]
    return WrongDataError(
        f"the copies succeeded, but byte {at} of block {first + row} of {copies} holds 0x{received[row, at]:02x} where "
        f"the source holds 0x{sent[row, at]:02x}"
    )
