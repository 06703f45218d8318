"""Scattered blocks: what is changed, and what verification sees."""

from contextlib import ExitStack, closing

import numpy as np
import pytest

from cudabw.benchmarks.latency_plan import ManyCopies
from cudabw.benchmarks.scattered import ScatteredBlocks, area_of, host_bytes_of, stride_of
from cudabw.copying.driver_copy import copy
from cudabw.copying.many_copies import LoopedCopies
from cudabw.errors import WrongDataError
from cudabw.measuring.verification import Pattern
from cudabw.runtime.memory import PageableBuffer

CELLS = [
    ManyCopies(kind, direction, size, 7)
    for kind in ("pinned", "pageable")
    for direction in ("h2d", "d2h")
    for size in (1, 300, 9000)
]
EACH_CELL = pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.label)


@pytest.fixture
def blocks_of(device, stream):
    with ExitStack() as owned:
        pattern = owned.enter_context(closing(Pattern(0)))
        yield lambda cell: ScatteredBlocks(device, stream, pattern, cell, np.random.default_rng(5), owned)


@EACH_CELL
def test_what_was_copied_is_right_batch_after_batch(blocks_of, cell):
    blocks = blocks_of(cell)
    work = LoopedCopies(blocks.copies)
    for stamp in (1, 2, 255):
        blocks.change(stamp)
        work.submit()
        work.stream.synchronize()
        blocks.verify(stamp)


@EACH_CELL
def test_a_batch_that_moved_nothing_is_seen_though_the_one_before_did(blocks_of, cell):
    blocks = blocks_of(cell)
    with pytest.raises(WrongDataError, match=r"byte 0 of block \d of 7"):
        blocks.change(1), blocks.verify(1)
    LoopedCopies(blocks.copies).submit()
    blocks.change(2)
    with pytest.raises(WrongDataError, match=r"byte 0 of block \d of 7 holds 0x01 where the source holds 0x02"):
        blocks.verify(2)


@EACH_CELL
@pytest.mark.parametrize("which", [0, 3, 6])
def test_one_missing_block_is_seen(blocks_of, cell, which):
    blocks = blocks_of(cell)
    blocks.change(1)
    for number, (destination, source) in enumerate(blocks.copies.copies):
        if number != which:
            copy(destination, source)
    with pytest.raises(WrongDataError, match=f"byte 0 of block {which} of 7"):
        blocks.verify(1)


@EACH_CELL
def test_a_byte_beside_the_blocks_is_seen(device, blocks_of, cell):
    blocks = blocks_of(cell)
    blocks.change(1)
    LoopedCopies(blocks.copies).submit()
    destination, _ = blocks.copies.copies[2]
    whole = blocks._memory if cell.direction == "h2d" else blocks._host
    end = destination._offset + destination.nbytes
    copy(whole[end : end + 1], PageableBuffer.over(device, np.full(1, 9, np.uint8)))
    with pytest.raises(WrongDataError, match="bytes beside the 7 blocks of the destination were written"):
        blocks.verify(1)


def test_no_block_follows_another_and_each_is_aligned():
    assert [stride_of(size) for size in (1, 255, 256, 4096)] == [256, 256, 512, 4352]
    cell = ManyCopies("pinned", "h2d", 4096, 64)
    assert (area_of(cell), host_bytes_of(cell)) == (64 * 4352, 3 * 64 * 4352)


def test_places_are_shuffled_on_both_sides(blocks_of):
    blocks = blocks_of(ManyCopies("pinned", "h2d", 100, 50))
    for side in (0, 1):
        places = [pair[side]._offset for pair in blocks.copies.copies]
        assert sorted(places) == [256 * place for place in range(50)]
        assert places != sorted(places)
