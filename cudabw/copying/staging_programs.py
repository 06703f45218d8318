"""What each worker of a staged copy does with its pieces, as a row of calls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from cudabw.copying.call_rows import CALL, NEVER, STATUS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
# What a worker costs, in bytes that would be copied meanwhile: from 1 to 128 MiB the best number of workers followed
# the square root of size over this on an H200. From the device the link works while workers wake.
_WORKER_COSTS: Final = {UPLOAD: 1 << 20, DOWNLOAD: 128 << 10}


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


def takers(transfer: Transfer) -> int:
    """How many workers take part: the square root law, with what a worker costs given in bytes.

    With n workers a copy takes about n times what waking one costs, plus an nth of what one needs alone.
    """
    worth = min(_WORKER_COSTS[transfer.direction], transfer.slot)
    return max(1, min(transfer.workers, math.isqrt(max(0, transfer.nbytes - 1) // worth) + 1))


def rounds(nbytes: int, workers: int, slot: int, direction: str) -> list[int]:
    """Cut a copy into rounds, in each of which every worker has a piece of one length.

    The length doubles from a small one up to a slot for a copy to the device, so that the link soon has something
    to move, and in the reverse order for one from it, so that the CPU has little left to do when the link is done.

    Returns:
        The length of a piece of each round, in bytes; the last round may end before each worker has had one.
    """
    each = -(-nbytes // workers)
    each = -(-each // _PAGE) * _PAGE
    lengths = []
    length = min(SMALLEST_PIECE, slot)
    while each > 0:
        # What would be left for a round of its own and is hardly worth one goes along.
        length = each if each <= min(slot, length + length // 2) else length
        lengths.append(min(length, each))
        each -= lengths[-1]
        length = min(2 * length, slot)
    return lengths if direction == UPLOAD else lengths[::-1]


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


def program(transfer: Transfer, worker: int, workers: int, places: Places, functions: Mapping[str, int]) -> Calls:
    """What a worker does.

    Args:
        transfer: The copy.
        worker: The number of this worker, from 0.
        workers: How many take part.
        places: The worker's slots.
        functions: The addresses of ``FUNCTIONS``.
    """
    upload = transfer.direction == UPLOAD
    lengths = np.array(rounds(transfer.nbytes, workers, transfer.slot, transfer.direction), np.int64)
    offsets = workers * (np.cumsum(lengths) - lengths) + worker * lengths
    lengths = np.minimum(lengths, transfer.nbytes - offsets)
    offsets, lengths = offsets[lengths > 0].astype(np.uint64), lengths[lengths > 0].astype(np.uint64)
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
