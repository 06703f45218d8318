"""What a trial of both directions at once moves: two transfers with memory and a stream each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.benchmarks.transfers import transfer_class
from cudabw.measuring.pairs import Pair

if TYPE_CHECKING:
    from contextlib import ExitStack

    from cudabw.measuring.verification import Pattern
    from cudabw.runtime.buffer import Buffer
    from cudabw.runtime.device import Device
    from cudabw.runtime.memory import PageableBuffer
    from cudabw.runtime.stream import Stream


class BothWays:
    """From host to device and from device to host at the same time.

    Args:
        device: The device.
        streams: Where the timed copies run, to the device and from it.
        pattern: The bytes to move.
        scratch: Pageable memory through which device memory is filled and read back.
        kind: Kind of the host memory.
        nbytes: Bytes to move in each direction.
        owned: Releases the buffers.

    Attributes:
        work: What is timed.
        allocation_s: Seconds that getting the host memory of both took.
    """

    def __init__(
        self,
        device: Device,
        streams: tuple[Stream, Stream],
        pattern: Pattern,
        scratch: PageableBuffer,
        kind: str,
        nbytes: int,
        owned: ExitStack,
    ) -> None:
        self._transfers = tuple(
            transfer_class(kind, direction)(device, stream, pattern, scratch, kind, nbytes, owned)
            for direction, stream in zip(("h2d", "d2h"), streams, strict=True)
        )
        self.work = Pair(*(transfer.work for transfer in self._transfers))
        self.allocation_s = sum(transfer.allocation_s for transfer in self._transfers)

    def change(self, stamp: int) -> None:
        """Make every page of both sources new."""
        for transfer in self._transfers:
            transfer.change(stamp)

    def verify(self, stamp: int) -> None:
        """Compare both destinations with what their sources hold.

        Raises:
            WrongDataError: One of them differs.
        """
        for transfer in self._transfers:
            transfer.verify(stamp)

    @property
    def host_buffers(self) -> tuple[Buffer, ...]:
        """The host memory of both."""
        return tuple(buffer for transfer in self._transfers for buffer in transfer.host_buffers)

    def confirm(self) -> str:
        """What the driver says the host memory of both is."""
        return " and ".join(dict.fromkeys(transfer.confirm() for transfer in self._transfers))
