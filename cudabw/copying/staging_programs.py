"""What each worker of a staged copy does: its share of the bytes, cut into pieces, as a row of calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from cudabw.copying.call_rows import CALL, NEVER, STATUS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from cudabw.copying.call_rows import Calls

    Numbers = npt.NDArray[np.uint64]

UPLOAD: Final = "h2d"
DOWNLOAD: Final = "d2h"
DIRECTIONS: Final = (UPLOAD, DOWNLOAD)

WAIT: Final = "cuStreamSynchronize"
FOLLOW: Final = "cuStreamWaitEvent"
QUEUE: Final = {UPLOAD: "cuMemcpyHtoDAsync", DOWNLOAD: "cuMemcpyDtoHAsync"}
FUNCTIONS: Final = (WAIT, FOLLOW, *QUEUE.values())
"""The driver's functions that programs call."""

# Each piece costs the copy engine about 3 us in which it moves nothing (2 MiB pieces without the CPU's part: 51 of
# 55 GB/s, 512 KiB pieces: 43, measured on an H200), and what nobody can work on yet is lost as well.
SMALLEST_PIECE: Final = 512 << 10
_PAGE: Final = 4096


@dataclass(frozen=True, slots=True)
class Transfer:
    """What is to be copied and how.

    Attributes:
        direction: ``h2d`` or ``d2h``.
        device: Address on the device.
        host: Address of the pageable side.
        nbytes: How many bytes.
        workers: At most so many take part.
        slot: Bytes of a piece at most.
        copy_bytes: The address of the function with which the CPU copies, as ``memmove``.
    """

    direction: str
    device: int
    host: int
    nbytes: int
    workers: int
    slot: int
    copy_bytes: int


def shares(nbytes: int, workers: int, slot: int) -> Iterator[tuple[int, int]]:
    """Share a copy out: one stretch of whole pages for each worker, all of equal length but the last.

    Yields:
        Offset and length of each, in bytes; fewer than ``workers`` where a share would not be worth a worker.
    """
    takers = max(1, min(workers, nbytes // min(SMALLEST_PIECE, slot)))
    each = max(1, -(-nbytes // (takers * _PAGE))) * _PAGE
    for start in range(0, nbytes, each):
        yield start, min(each, nbytes - start)


def cut(nbytes: int, largest: int) -> list[int]:
    """Cut a share into pieces whose size doubles from a small one up to the largest that fits a slot.

    In the order given for a copy to the device, so that the link soon has something to move; in the reverse order for
    one from it, so that the CPU has little left to do when the link is done.

    Returns:
        The length of each, in bytes.
    """
    sizes = []
    size = min(SMALLEST_PIECE, largest)
    while nbytes > 0:
        # What would be left for a piece of its own and is hardly worth one goes along.
        size = nbytes if nbytes <= min(largest, size + size // 2) else size
        sizes.append(min(size, nbytes))
        nbytes -= sizes[-1]
        size = min(2 * size, largest)
    return sizes


@dataclass(frozen=True, slots=True)
class Places:
    """Where a worker's pieces pass through.

    Attributes:
        addresses: Of its slots, on the host.
        streams: One for the copies of each slot alone, as numbers.
        after: The event that all of them come after, as a number.
    """

    addresses: Sequence[int]
    streams: Sequence[int]
    after: int


def program(transfer: Transfer, start: int, nbytes: int, places: Places, functions: Mapping[str, int]) -> Calls:
    """What a worker does with a share.

    Args:
        transfer: The copy.
        start: Offset of the share, in bytes.
        nbytes: Its length.
        places: The worker's slots.
        functions: The addresses of ``FUNCTIONS``.
    """
    sizes = cut(nbytes, transfer.slot)
    upload = transfer.direction == UPLOAD
    lengths = np.array(sizes if upload else sizes[::-1], np.uint64)
    offsets = np.uint64(start) + np.cumsum(lengths, dtype=np.uint64) - lengths
    turns = np.arange(len(lengths)) % len(places.addresses)
    slots = np.array(places.addresses, np.uint64)[turns], np.array(places.streams, np.uint64)[turns]
    steps = _steps(transfer, offsets, lengths, slots, functions)
    # A slot that has been used by no piece yet is not waited for; instead, its copies come after earlier work.
    first = min(len(lengths), len(places.addresses))
    steps["function"][:first, 0] = functions[FOLLOW]
    steps["arguments"][:first, 0, 1] = places.after
    if upload:
        return steps.reshape(-1)
    # Each slot is filled before anything else; the third step of a piece then fills its slot again.
    filling = steps[:first, [0, 2]].copy()
    steps["function"][:first, 0] = functions[WAIT]
    steps["arguments"][:-first, 2] = steps["arguments"][first:, 2]
    return np.concatenate([filling.reshape(-1), steps.reshape(-1)[_without_last_fillings(len(lengths), first)]])


def _steps(
    transfer: Transfer, offsets: Numbers, lengths: Numbers, slots: tuple[Numbers, Numbers], functions: Mapping[str, int]
) -> Calls:
    """Three calls for each piece, shape (pieces, 3): wait for its slot, let the CPU copy, queue the device's copy."""
    addresses, streams = slots
    hosts, devices = np.uint64(transfer.host) + offsets, np.uint64(transfer.device) + offsets
    steps = np.zeros((len(lengths), 3), CALL)
    steps["function"] = functions[WAIT], transfer.copy_bytes, functions[QUEUE[transfer.direction]]
    steps["failure"] = STATUS, NEVER, STATUS
    wait, copy, queue = steps["arguments"][:, 0], steps["arguments"][:, 1], steps["arguments"][:, 2]
    wait[:, 0] = queue[:, 3] = streams
    copy[:, 2] = queue[:, 2] = lengths
    if transfer.direction == UPLOAD:
        copy[:, 0], copy[:, 1] = addresses, hosts
        queue[:, 0], queue[:, 1] = devices, addresses
    else:
        copy[:, 0], copy[:, 1] = hosts, addresses
        queue[:, 0], queue[:, 1] = addresses, devices
    return steps


def _without_last_fillings(pieces: int, slots: int) -> npt.NDArray[np.bool_]:
    kept = np.ones((pieces, 3), np.bool_)
    kept[pieces - slots :, 2] = False
    return kept.reshape(-1)
