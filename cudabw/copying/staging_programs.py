"""How a staged copy is cut into pieces, and what each worker does with those that it takes, as rows of calls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from cudabw.copying.call_rows import CALL, NEVER, STATUS, row
from cudabw.copying.claims import Pieces, Targets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cudabw.copying.call_rows import Calls
    from cudabw.copying.claims import Numbers

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
"""Bytes of the first and the last pieces, about."""
# The link moves about five times as much as one CPU copies meanwhile: while it moves one piece, the worker with the
# next, a fifth longer, is just ready.
_GROWTH: Final = 5
# The last pieces get smaller, so that nobody waits long for a slow worker: each is at most what is left over this many
# times the workers. To the device 1 gave 0.88 to 0.89 of pinned memory's rate and 2 gave 0.87 (8 workers, slots of 5 or
# 6 MiB), from it 1 gave 0.90 to 0.91 and 2 gave 0.90 to 0.92 (6 or 8 workers, 6 MiB; all 512 MiB on an H200).
_REMAINDERS: Final = {UPLOAD: 1, DOWNLOAD: 2}
_PAGE: Final = 4096
# For each slot: wait, take a piece, copy, queue.
_STEPS: Final = 4
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


def piece_lengths(nbytes: int, workers: int, slot: int, direction: str) -> list[int]:
    """Cut a copy into pieces, in the order in which they are taken.

    They begin small, so that the link soon has something to move, grow up to a slot, and end small.

    Returns:
        The length of each piece in bytes, at most a slot; together they are the copy. All but the last end at whole
        pages after the beginning, unless a slot is smaller than a page.
    """
    most = _whole_pages(slot)
    share = -(-nbytes // workers)
    # Of a copy that is not large each worker has as many pieces as any other.
    smallest = -(-share // max(1, round(share / SMALLEST_PIECE)))
    smallest = min(most, -(-smallest // _PAGE) * _PAGE)
    lengths = []
    length, left = smallest, nbytes
    while left > 0:
        length = max(smallest, _whole_pages(min(most, length, left // (_REMAINDERS[direction] * workers))))
        # What would be left over and is hardly worth a piece of its own goes along.
        if left <= min(slot, length + smallest // 2):
            length = left
        lengths.append(min(length, left))
        left -= length
        length += max(length // _GROWTH, _PAGE)
    return lengths


def _whole_pages(nbytes: int) -> int:
    """As many bytes less what is beyond the last whole page, if there is one."""
    return nbytes - nbytes % _PAGE or nbytes


def cut(transfer: Transfer, workers: int) -> Pieces:
    """The pieces of a copy that some workers share."""
    lengths = np.array(piece_lengths(transfer.nbytes, workers, transfer.slot, transfer.direction), np.uint64)
    offsets = np.cumsum(lengths) - lengths
    return Pieces(np.stack([np.uint64(transfer.host) + offsets, np.uint64(transfer.device) + offsets, lengths], axis=1))


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


@dataclass(frozen=True, slots=True)
class Program:
    """What a worker does, however many pieces it takes.

    Attributes:
        parts: Rows of calls, to be made one after the other, and whether to begin each again until it is over.
        targets: The addresses that taking a piece writes to, kept alive.
    """

    parts: Sequence[tuple[Calls, bool]]
    targets: Numbers


def program(transfer: Transfer, pieces: Pieces, places: Places, functions: Mapping[str, int]) -> Program:
    """What a worker does: for one slot after the other, wait for it, take a piece, copy, and queue the device's copy.

    From the device, a piece is copied when its slot comes round again, before the next is taken.

    Args:
        transfer: The copy.
        pieces: From which it takes; kept alive by the caller.
        places: The worker's slots.
        functions: The addresses of ``FUNCTIONS``.
    """
    calls = np.zeros((len(places.addresses), _STEPS), CALL)
    targets = np.zeros((len(places.addresses), len(Targets._fields)), np.uint64)
    for turn, written, slot, stream in zip(calls, targets, places.addresses, places.streams, strict=True):
        wait, take = (functions[WAIT], stream), pieces.claim(written.ctypes.data)
        queue = functions[QUEUE[transfer.direction]]
        if transfer.direction == UPLOAD:
            turn[:] = row(wait, take, (transfer.copy_bytes, slot, 0, 0), (queue, 0, slot, 0, stream))
            written[:] = _addresses(turn, host=(2, 1), device=(3, 0), copied=(2, 2), queued=(3, 2))
        else:
            turn[:] = row(wait, (transfer.copy_bytes, 0, slot, 0), take, (queue, slot, 0, 0, stream))
            written[:] = _addresses(turn, host=(1, 0), device=(3, 1), copied=(1, 2), queued=(3, 2))
        taking = turn["function"] == take[0]
        turn["failure"][taking | (turn["function"] == transfer.copy_bytes)] = NEVER
        turn["over"][taking] = STATUS
    follow = row(*((functions[FOLLOW], stream, places.after) for stream in places.streams))
    # No slot is waited for before something has been in it. What one finds, no piece or one, is nothing to the other.
    first = 1 if transfer.direction == UPLOAD else 2
    filling = [(turn[first:], False) for turn in calls]
    # What still lies in the slots is copied at the end; where no piece was left for one, it is 0 bytes.
    emptying = [] if transfer.direction == UPLOAD else [(turn[:first], False) for turn in calls]
    return Program([(follow, False), *filling, (calls.reshape(-1), True), *emptying], targets)


def _addresses(calls: Calls, **places: tuple[int, int]) -> Targets:
    """Where arguments lie, each given by the number of its call and its own."""
    return Targets(**{name: calls["arguments"][call, number:].ctypes.data for name, (call, number) in places.items()})
