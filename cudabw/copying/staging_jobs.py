"""One staged copy as its workers share it: pieces to be claimed, and what a worker does with each."""

from __future__ import annotations

import ctypes
import threading
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudabw.copying.staging_slots import Slot

UPLOAD = "cuMemcpyHtoDAsync"
DOWNLOAD = "cuMemcpyDtoHAsync"

# Each piece costs the interpreter some 60 us in which no other thread can begin one: each of its calls gives the
# interpreter's lock away and has to wait for it again. A Gen5 link moves 3 MB in that time, and with smaller pieces the
# lock is what limits: 1 MiB each made 18 GB/s, 4 MiB 48 GB/s (measured on an H200 with 12 threads).
SMALLEST_PIECE = 2 << 20
_PAGE = 4096
# Beyond this a doubled piece is larger than any slot.
_MOST_DOUBLINGS = 20


def cut(nbytes: int, largest: int, workers: int) -> Iterator[tuple[int, int]]:
    """Cut a copy into pieces, to be claimed in order.

    The first of each worker are small, so that link and CPUs all have work at once; towards the end each
    is at most a fair share of the rest, so that all workers finish together (guided self-scheduling,
    Polychronopoulos and Kuck, 1987).

    Yields:
        Offset and length of each piece, in bytes.
    """
    start = number = 0
    while start < nbytes:
        rest = nbytes - start
        growing = SMALLEST_PIECE << min(number // workers, _MOST_DOUBLINGS)
        size = min(largest, growing, rest // workers)
        # Whole pages, so that the pieces are aligned as the copy is.
        size = min(rest, largest, max(SMALLEST_PIECE, size & -_PAGE))
        yield start, size
        start += size
        number += 1


@dataclass(frozen=True, slots=True)
class Transfer:
    """What is to be copied and how.

    Attributes:
        device: Address on the device.
        host: Address of the pageable side.
        pieces: Offset and length of each, in bytes; none is longer than a slot.
        workers: At most so many take part.
        copy_bytes: The address of the function with which the CPU copies, as ``memmove``.
    """

    device: int
    host: int
    pieces: tuple[tuple[int, int], ...]
    workers: int
    copy_bytes: int


class Job(ABC):
    """A staged copy under way.

    It is over when no piece is left and no worker is at one. So a worker that wakes up late neither
    holds it up nor touches memory that the caller may have freed.

    Args:
        transfer: What is to be copied.

    Attributes:
        errors: What went wrong, in order.
    """

    direction: ClassVar[str]
    """The driver's function for it."""

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self._stop = ctypes.c_uint32(0)
        self.errors: list[BaseException] = []
        self._pieces = deque(transfer.pieces)
        self._lock = threading.Lock()
        self._working = 0
        self._over = threading.Event()

    def work(self, slots: Sequence[Slot]) -> None:
        """Move pieces through a worker's slots until none is left; errors stop all workers."""
        with self._lock:
            if not self._pieces:
                return
            self._working += 1
        try:
            for slot in slots:
                slot.serve(self.direction, self.transfer.copy_bytes, ctypes.addressof(self._stop))
            self._move_pieces(slots)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self.stop(error)
        with self._lock:
            self._working -= 1
            self._look_whether_over()

    def stop(self, error: BaseException) -> None:
        """Let no further piece be claimed."""
        with self._lock:
            self.errors.append(error)
            self._stop.value = 1
            self._pieces.clear()
            self._look_whether_over()

    def wait(self) -> None:
        """Hold the caller until it is over; a signal that raises meanwhile stops it and is kept as its error."""
        while not self._over.is_set():
            try:
                self._over.wait()
            except BaseException as error:  # noqa: BLE001 - the pieces under way are waited for first
                self.stop(error)

    def _look_whether_over(self) -> None:
        if not (self._working or self._pieces):
            self._over.set()

    def _claim(self) -> tuple[int, int] | None:
        """The next piece; None when all are claimed."""
        try:
            return self._pieces.popleft()
        except IndexError:
            return None

    @abstractmethod
    def _move_pieces(self, slots: Sequence[Slot]) -> None:
        """Claim pieces and move them through slots."""


class Upload(Job):
    """From the host to the device: the CPU fills one slot while the device empties the other."""

    direction = UPLOAD

    def _move_pieces(self, slots: Sequence[Slot]) -> None:
        device, host = self.transfer.device, self.transfer.host
        for slot in cycle(slots):
            piece = self._claim()
            if piece is None:
                break
            slot.pass_up(device + piece[0], host + piece[0], piece[1])


class Download(Job):
    """From the device to the host: the device fills one slot while the CPU empties the other."""

    direction = DOWNLOAD

    def _move_pieces(self, slots: Sequence[Slot]) -> None:
        device, host = self.transfer.device, self.transfer.host
        full: deque[tuple[Slot, int, int]] = deque()
        for slot in slots:
            piece = self._claim()
            if piece is None:
                break
            slot.empty_and_fill((host, 0), (device + piece[0], piece[1]))
            full.append((slot, *piece))
        while full:
            slot, start, nbytes = full.popleft()
            piece = self._claim()
            if piece is None:
                slot.empty(host + start, nbytes)
            else:
                slot.empty_and_fill((host + start, nbytes), (device + piece[0], piece[1]))
                full.append((slot, *piece))
