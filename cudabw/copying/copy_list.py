"""Several copies that are submitted together: checked once, and all of their memory owned at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.copying.driver_copy import any_address, check, device_side
from cudabw.errors import CudabwError
from cudabw.runtime.ownership import guard, take

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from cudabw.runtime.buffer import Buffer
    from cudabw.runtime.stream import Stream

    Copies: TypeAlias = "Sequence[tuple[Buffer, Buffer]]"
    """Destination and source of each copy."""


class CopyList:
    """Copies that may run in any order, and what every way to submit them needs.

    Args:
        copies: Destination and source of each; slices of a few large buffers, say. One without bytes is left out.
        stream: The stream that they are ordered on as a whole; None takes the device's own.

    Attributes:
        copies: As given, without the empty ones.
        stream: As given, or the device's own.
        nbytes: Of all copies.
        holds_host: Whether the driver holds the host while it copies, as it does for pageable memory.

    Raises:
        ValueError: There is none; a source has more bytes than its destination, or a destination is read-only;
            a destination overlaps with the memory of another copy.
    """

    def __init__(self, copies: Copies, stream: Stream | None = None) -> None:
        if not copies:
            raise ValueError("there is nothing to copy")
        for dst, src in copies:
            check(dst, src)
        self.copies = tuple((dst, src) for dst, src in copies if src.nbytes)
        _require_disjoint(self.copies)
        self.stream = stream or device_side(*copies[0]).device.default_stream
        self.nbytes = sum(src.nbytes for _, src in self.copies)
        buffers = [buffer for copy in self.copies for buffer in copy]
        self.holds_host = any(buffer.kind == "pageable" for buffer in buffers)
        # One of each allocation is enough to know whether it is open and who uses it.
        self._one_of_each = tuple({buffer.ownership: buffer for buffer in buffers}.values())
        self._owners = tuple(buffer.ownership for buffer in self._one_of_each)
        self._guard = guard(self.stream.device, self._owners)

    def submit(self, queue: Callable[[], None], times: int = 1, *, reaches: bool = False) -> None:
        """Take ownership of all buffers, then queue the copies.

        Args:
            queue: Queues all copies on the stream.
            times: How often.
            reaches: Whether a kernel copies, which takes peer access to the memory of another device.

        Raises:
            ClosedError: A buffer or the stream was closed.
            CudabwError: A pageable copy would wait behind a closed gate for ever.
        """
        if not self.nbytes:
            return
        self._require_ready()
        device = self.stream.device
        with self._guard:
            device.activate()
            take(self._owners, self.stream, device.waits, reaches=reaches)
            for _ in range(times):
                queue()

    def _require_ready(self) -> None:
        self.stream.require_open()
        for buffer in self._one_of_each:
            buffer.require_open()
        held = self.stream.gates or any(owner.stream and owner.in_use and owner.stream.gates for owner in self._owners)
        if self.holds_host and held:
            raise CudabwError(
                f"{len(self.copies)} copies of pageable memory would hold the host behind a closed gate for ever",
                hint="Open the gate first, or use pinned memory.",
            )


def _require_disjoint(copies: Copies) -> None:
    """Do nothing unless the result would depend on the order of the copies."""
    spans = sorted((any_address(buffer), src.nbytes, buffer is dst) for dst, src in copies for buffer in (dst, src))
    end = end_of_written = 0
    for start, nbytes, written in spans:
        # Sources may overlap with each other.
        if start < (end if written else end_of_written):
            raise ValueError(f"a destination overlaps with memory of another copy: {nbytes} bytes at 0x{start:x}")
        end = max(end, start + nbytes)
        if written:
            end_of_written = max(end_of_written, start + nbytes)
