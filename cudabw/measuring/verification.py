"""The bytes that copies carry, and the proof that they arrived.

A pattern is a pure function of seed, offset and stamp, so that no second copy of the
data is needed to check the first. It has no short period: 8-byte words of one random
block, to which each further block adds another multiple of an odd constant. The first byte of
every page is the stamp, which changes from batch to batch, so that no page is ever the same
twice and a copy that moved nothing, or moved old data, is seen.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import numpy as np

from cudabw.errors import WrongDataError
from cudabw.system.cpu import Affinity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from cudabw.runtime.buffer import Buffer

    _Act = Callable[[npt.NDArray[np.uint8], int, int], str | None]

PAGE_BYTES = 4096
# Two blocks and a part of the data fit into a core's second-level cache, where they are made and compared.
BLOCK_BYTES = 1 << 18
# 2**64 divided by the golden ratio, odd: consecutive multiples differ in nearly every bit (Knuth, TAOCP 6.4).
_STEP = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class Pattern:
    """Seeded bytes of any length, written and compared by a few threads at once.

    Args:
        seed: The same seed gives the same bytes.
        threads: How many; None takes the CPUs that this process may use, up to four.
    """

    def __init__(self, seed: int, threads: int | None = None) -> None:
        random = np.random.Generator(np.random.SFC64(seed))
        self._block = random.integers(0, 1 << 64, BLOCK_BYTES // 8, dtype=np.uint64)
        affinity = Affinity()
        cpus = affinity.allowed()
        self._threads = threads or min(4, len(cpus) or 1)
        # Threads start when they are first needed, and inherit the CPU on which that thread is held then.
        self._pool = ThreadPoolExecutor(self._threads, "cudabw-pattern", affinity.hold, (cpus,))

    def fill(self, array: npt.NDArray[np.uint8], *, stamp: int, offset: int = 0) -> None:
        """Write the pattern's bytes from ``offset`` over an array.

        Raises:
            ValueError: ``offset`` is no whole number of blocks.
        """
        self._in_spans(self._fill_span, array, stamp, offset)

    def check(self, array: npt.NDArray[np.uint8], *, stamp: int, offset: int = 0) -> None:
        """Compare an array with the pattern's bytes from ``offset``.

        Raises:
            ValueError: ``offset`` is no whole number of blocks.
            WrongDataError: Names the first byte that differs.
        """
        wrong = next(filter(None, self._in_spans(self._check_span, array, stamp, offset)), None)
        if wrong is not None:
            raise WrongDataError(wrong)

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown()

    def _in_spans(self, act: _Act, array: npt.NDArray[np.uint8], stamp: int, offset: int) -> list[str | None]:
        """What each thread says of its span of the array, in order."""
        if offset % BLOCK_BYTES:
            raise ValueError(f"the pattern starts at a whole number of blocks of {BLOCK_BYTES} bytes, not at {offset}")
        blocks = -(-len(array) // BLOCK_BYTES)
        span = max(1, -(-blocks // self._threads)) * BLOCK_BYTES
        tasks = [
            self._pool.submit(act, array[start : start + span], stamp, (offset + start) // BLOCK_BYTES)
            for start in range(0, len(array), span)
        ]
        # All of them are over before the caller hears of any, for it may free the memory then. A thread says what is
        # wrong instead of raising it: an error that a task keeps would keep the task, and with it the memory.
        wait(tasks)
        return [task.result() for task in tasks]

    def _fill_span(self, span: npt.NDArray[np.uint8], stamp: int, first: int) -> str | None:
        for _, part, expected in self._blocks(span, stamp, first):
            part[:] = expected
        return None

    def _check_span(self, span: npt.NDArray[np.uint8], stamp: int, first: int) -> str | None:
        for index, part, expected in self._blocks(span, stamp, first):
            if not _equal(part, expected):
                at = int(np.argmax(part != expected))
                return (
                    f"the copy succeeded, but byte {index * BLOCK_BYTES + at} of the destination holds "
                    f"0x{int(part[at]):02x} where the source holds 0x{int(expected[at]):02x}"
                )
        return None

    def _blocks(
        self, span: npt.NDArray[np.uint8], stamp: int, first: int
    ) -> Iterator[tuple[int, npt.NDArray[np.uint8], npt.NDArray[np.uint8]]]:
        """Each block of a span: its index, its part of the span, and the bytes that belong there."""
        words = np.empty_like(self._block)
        for index, start in enumerate(range(0, len(span), BLOCK_BYTES), first):
            part = span[start : start + BLOCK_BYTES]
            np.add(self._block, np.uint64(index * _STEP & _MASK), out=words)
            expected = words.view(np.uint8)[: len(part)]
            expected[::PAGE_BYTES] = stamp
            yield index, part, expected


def touch(array: npt.NDArray[np.uint8]) -> None:
    """Have the system give every page of fresh memory, in order and from one thread.

    Pages that several threads ask for at once lie so scattered that the CPU copies them measurably slower,
    which few programs' memory is.
    """
    array[::PAGE_BYTES] = 0


def stamp_of(batch: int) -> int:
    """The stamp of a batch: never zero, never that of the batch before."""
    return batch % 255 + 1


def stamp_host(array: npt.NDArray[np.uint8], stamp: int, every: int = PAGE_BYTES) -> None:
    """Write a stamp on every page of host memory, or every so many bytes."""
    array[::every] = stamp


def stamp_device(buffer: Buffer, stamp: int, every: int = PAGE_BYTES) -> None:
    """Write a stamp on every page of device memory, or every so many bytes, and wait until it is there."""
    buffer.device.settle(buffer.ownership)
    stamps = -(-buffer.nbytes // every)
    stream = buffer.device.default_stream
    address = buffer.device.driver.api.CUdeviceptr(int(buffer.device_pointer))
    buffer.device.call("cuMemsetD2D8Async", address, every, stamp, 1, stamps, stream.handle)
    stream.synchronize()


def clear_device(buffer: Buffer) -> None:
    """Write every byte of a destination: memory that the driver gave before may still hold what is to arrive."""
    device = buffer.device
    address = device.driver.api.CUdeviceptr(int(buffer.device_pointer))
    device.call("cuMemsetD8Async", address, 0, buffer.nbytes, device.default_stream.handle)
    device.default_stream.synchronize()


def _equal(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> bool:
    # Eight bytes at a time: comparing byte by byte would take longer than the copy that is verified.
    whole = len(one) & ~7
    return np.array_equal(one[:whole].view(np.uint64), other[:whole].view(np.uint64)) and np.array_equal(
        one[whole:], other[whole:]
    )
