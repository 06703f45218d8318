"""The pattern reaches every byte, repeats nowhere, and its check sees any byte that is wrong."""

import os
import threading
from concurrent.futures import wait
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudabw.copying.driver_copy import PreparedCopy, copy
from cudabw.errors import WrongDataError
from cudabw.measuring import verification
from cudabw.measuring.verification import BLOCK_BYTES, PAGE_BYTES, Pattern, stamp_device, stamp_host, stamp_of
from cudabw.runtime.memory import DeviceBuffer, MappedBuffer, PageableBuffer, PinnedBuffer

ODD_LENGTHS = [
    1,
    2,
    7,
    8,
    9,
    4095,
    4096,
    4097,
    12289,
    BLOCK_BYTES - 1,
    BLOCK_BYTES,
    BLOCK_BYTES + 1,
    5 * BLOCK_BYTES + 3,
]
lengths = st.one_of(st.integers(1, 20_000), st.integers(1, 3 * BLOCK_BYTES), st.sampled_from(ODD_LENGTHS))
stamps = st.integers(0, 255)


@pytest.fixture(scope="module")
def pattern():
    with closing(Pattern(1, threads=3)) as pattern:
        yield pattern


def filled(pattern, nbytes, stamp, offset=0):
    array = np.zeros(nbytes, np.uint8)
    pattern.fill(array, stamp=stamp, offset=offset)
    return array


def test_its_threads_run_wherever_the_process_may_also_if_they_start_while_their_caller_is_held_on_one_cpu():
    allowed, found = os.sched_getaffinity(0), []
    with closing(Pattern(1, threads=2)) as pattern:
        os.sched_setaffinity(0, {min(allowed)})
        try:
            pattern._pool.submit(lambda: found.append(os.sched_getaffinity(0))).result()
        finally:
            os.sched_setaffinity(0, allowed)
    assert found == [allowed]


# -- what the bytes are -----------------------------------------------------------------------------------


def test_no_word_of_the_pattern_comes_twice(pattern):
    # So there is no period, however long, and no two pages are alike but for their stamp.
    words = filled(pattern, 32 * BLOCK_BYTES, stamp=0).view(np.uint64).reshape(-1, PAGE_BYTES // 8)[:, 1:]
    assert np.unique(words).size == words.size


def test_neighbouring_bytes_are_as_good_as_random(pattern):
    array = filled(pattern, 16 * BLOCK_BYTES, stamp=0)
    counts = np.bincount(array, minlength=256)
    assert counts.min() > 0.9 * array.size / 256
    for distance in (1, 2, 4, 8, 64, 512, PAGE_BYTES - 1, BLOCK_BYTES - 8, BLOCK_BYTES + 8):
        assert (array[:-distance] == array[distance:]).mean() < 0.01


@given(nbytes=lengths, stamp=stamps)
def test_every_page_begins_with_the_stamp(pattern, nbytes, stamp):
    array = filled(pattern, nbytes, stamp)
    assert (array[::PAGE_BYTES] == stamp).all()
    other = filled(pattern, nbytes, (stamp + 1) % 256)
    assert np.flatnonzero(array != other).tolist() == list(range(0, nbytes, PAGE_BYTES))


@given(nbytes=lengths)
def test_every_byte_is_written(pattern, nbytes):
    array = np.zeros(nbytes, np.uint8)
    pattern.fill(array, stamp=5)
    inverse = np.full(nbytes, 255, np.uint8)
    pattern.fill(inverse, stamp=5)
    assert (array == inverse).all()


def test_the_seed_decides_the_bytes():
    with closing(Pattern(1)) as one, closing(Pattern(1)) as same, closing(Pattern(2)) as other:
        first, second, third = (filled(each, 50_000, 1) for each in (one, same, other))
    assert (first == second).all()
    assert (first == third).mean() < 0.02


@pytest.mark.parametrize("threads", [1, 2, 5, None])
def test_the_number_of_threads_does_not(pattern, threads):
    with closing(Pattern(1, threads)) as other:
        for nbytes in (1, BLOCK_BYTES, 7 * BLOCK_BYTES + 5):
            assert (filled(other, nbytes, 3) == filled(pattern, nbytes, 3)).all()
            other.check(filled(pattern, nbytes, 3), stamp=3)


def test_at_most_four_threads_are_used_unless_asked(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))
    spans, fill = [], Pattern._fill_span
    monkeypatch.setattr(Pattern, "_fill_span", lambda *arguments: (spans.append(arguments), fill(*arguments)))
    before = threading.active_count()
    with closing(Pattern(1)) as pattern:
        pattern.fill(np.zeros(32 * BLOCK_BYTES, np.uint8), stamp=0)
    assert len(spans) == 4
    assert threading.active_count() == before


# -- pieces -----------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(blocks=st.lists(st.integers(1, 4), min_size=1, max_size=4), tail=st.integers(0, BLOCK_BYTES), stamp=stamps)
def test_pieces_filled_one_by_one_are_the_whole(pattern, blocks, tail, stamp):
    cuts = np.cumsum([0, *blocks]) * BLOCK_BYTES
    nbytes = int(cuts[-1]) + tail
    whole, pieces = filled(pattern, nbytes, stamp), np.zeros(nbytes, np.uint8)
    for start, end in zip(cuts, [*cuts[1:], nbytes], strict=True):
        pattern.fill(pieces[start:end], stamp=stamp, offset=int(start))
        pattern.check(whole[start:end], stamp=stamp, offset=int(start))
    assert (pieces == whole).all()
    pattern.check(pieces, stamp=stamp)


def test_a_piece_does_not_pass_for_another(pattern):
    array = filled(pattern, BLOCK_BYTES, 1)
    with pytest.raises(WrongDataError):
        pattern.check(array, stamp=1, offset=BLOCK_BYTES)


@pytest.mark.parametrize("offset", [1, PAGE_BYTES, BLOCK_BYTES - 1, 3 * BLOCK_BYTES + 8])
def test_a_piece_starts_at_a_whole_block(pattern, offset):
    message = f"^the pattern starts at a whole number of blocks of 262144 bytes, not at {offset}$"
    for act in (pattern.fill, pattern.check):
        with pytest.raises(ValueError, match=message):
            act(np.zeros(8, np.uint8), stamp=1, offset=offset)


def test_an_empty_piece_is_right(pattern):
    pattern.fill(np.zeros(0, np.uint8), stamp=1)
    pattern.check(np.zeros(0, np.uint8), stamp=1)


# -- checking ---------------------------------------------------------------------------------------------


@given(data=st.data(), nbytes=lengths, stamp=stamps, blocks=st.integers(0, 1 << 24))
def test_any_single_wrong_byte_is_found_and_named(pattern, data, nbytes, stamp, blocks):
    offset = blocks * BLOCK_BYTES
    array = filled(pattern, nbytes, stamp, offset)
    pattern.check(array, stamp=stamp, offset=offset)
    at = data.draw(st.one_of(st.integers(0, nbytes - 1), st.just(nbytes - 1), st.just(0)), label="at")
    right = int(array[at])
    array[at] ^= data.draw(st.integers(1, 255), label="flipped")
    with pytest.raises(WrongDataError) as failure:
        pattern.check(array, stamp=stamp, offset=offset)
    assert failure.value.message == (
        f"the copy succeeded, but byte {offset + at} of the destination holds 0x{int(array[at]):02x} "
        f"where the source holds 0x{right:02x}"
    )


def test_of_several_wrong_bytes_the_first_is_named(pattern):
    array = filled(pattern, 7 * BLOCK_BYTES, 1)
    for at in (6 * BLOCK_BYTES, 5 * BLOCK_BYTES + 9, 77, 99, BLOCK_BYTES):
        array[at] ^= 1
    with pytest.raises(WrongDataError, match="byte 77 of the destination"):
        pattern.check(array, stamp=1)


@pytest.mark.parametrize("stale", [0, 1, 255])
def test_the_stamp_of_another_batch_is_wrong_data(pattern, stale):
    message = f"byte 0 of the destination holds 0x{stale:02x} where the source holds 0x02"
    with pytest.raises(WrongDataError, match=message):
        pattern.check(filled(pattern, 9000, stale), stamp=2)


def test_a_buffer_at_an_odd_address_is_filled_and_checked(pattern):
    array = np.zeros(BLOCK_BYTES + 101, np.uint8)
    pattern.fill(array[1:], stamp=9)
    assert (array[1:] == filled(pattern, BLOCK_BYTES + 100, 9)).all()
    pattern.check(array[1:], stamp=9)
    array[-1] ^= 128
    with pytest.raises(WrongDataError, match=f"byte {BLOCK_BYTES + 99} of the destination"):
        pattern.check(array[1:], stamp=9)


def test_checking_is_over_when_it_fails(pattern, monkeypatch):
    # The caller may free the memory then: no thread may still be reading it.
    waited, read = threading.Event(), []
    check = Pattern._check_span

    def held_check(self, span, stamp, first):
        wrong = check(self, span, stamp, first)
        if first:
            waited.wait()
        read.append(first)
        return wrong

    def announced_wait(tasks):
        waited.set()
        return wait(tasks)

    monkeypatch.setattr(Pattern, "_check_span", held_check)
    monkeypatch.setattr(verification, "wait", announced_wait)
    array = filled(pattern, 3 * BLOCK_BYTES, 1)
    array[0] ^= 1
    try:
        with pytest.raises(WrongDataError):
            pattern.check(array, stamp=1)
        assert sorted(read) == [0, 1, 2]
    finally:
        waited.set()


# -- stamps -----------------------------------------------------------------------------------------------


@given(batch=st.integers(0, 10_000))
def test_a_stamp_is_never_zero_and_never_that_of_the_batch_before(batch):
    assert 1 <= stamp_of(batch) <= 255
    assert stamp_of(batch) != stamp_of(batch + 1)


@pytest.mark.parametrize("nbytes", ODD_LENGTHS)
def test_stamping_host_memory_is_what_filling_with_that_stamp_is(pattern, nbytes):
    array = filled(pattern, nbytes, 1)
    stamp_host(array, 2)
    assert (array == filled(pattern, nbytes, 2)).all()


@pytest.mark.parametrize("nbytes", ODD_LENGTHS)
def test_stamping_device_memory_is_what_filling_with_that_stamp_is(device, pattern, nbytes):
    back, buffer = np.zeros(nbytes, np.uint8), DeviceBuffer(device, nbytes)
    copy(buffer, PageableBuffer.over(device, filled(pattern, nbytes, 1)))
    stamp_device(buffer, 2)
    assert not buffer.busy
    copy(PageableBuffer.over(device, back), buffer)
    pattern.check(back, stamp=2)


def test_stamping_a_part_of_device_memory_leaves_the_rest_alone(device):
    back, buffer = np.zeros(12288, np.uint8), MappedBuffer(device, 12288)
    buffer.array()[:] = 0
    stamp_device(buffer[4096:8193], 7)
    copy(PageableBuffer.over(device, back), buffer)
    assert np.flatnonzero(back).tolist() == [4096, 8192]


def test_stamping_device_memory_waits_for_copies_that_may_be_reading_it(device, pattern):
    back, buffer = PinnedBuffer(device, 1 << 20), DeviceBuffer(device, 1 << 20)
    copy(buffer, PageableBuffer.over(device, filled(pattern, 1 << 20, 1)))
    with device.stream() as stream:
        PreparedCopy(back, buffer, stream).submit(times=100)
        waited = device.waits.host
        stamp_device(buffer, 2)
        assert device.waits.host == waited + 1
    pattern.check(back.array(), stamp=1)
