"""Each piece of a list is taken once, in order, whoever takes it, and an end of the list is told."""

import ctypes
import threading

import numpy as np
import pytest

from cudabw.copying import claims
from cudabw.copying.call_rows import FOUR_ARGUMENTS, Semaphore, make_calls, row
from cudabw.copying.claims import Pieces, claim, claim_in_python

WAYS = {"python": claim_in_python, "fastest": claim}
LARGE = 2**63


@pytest.fixture(params=WAYS.values(), ids=WAYS, autouse=True)
def way(request, monkeypatch):
    monkeypatch.setattr(claims, "claim", request.param)
    return request.param


class Taker:
    """Takes pieces into four numbers: host, device, length copied and length queued."""

    def __init__(self, pieces):
        self._pieces = pieces  # which addresses do not keep alive
        self.numbers = np.full(4, 7, np.uint64)
        self._targets = self.numbers.ctypes.data + 8 * np.arange(4, dtype=np.uint64)
        self.call = pieces.claim(self._targets.ctypes.data)

    def take(self):
        function, *arguments = self.call
        return FOUR_ARGUMENTS(function)(*arguments)


def some(count):
    numbers = np.arange(count, dtype=np.uint64)
    return Pieces(np.stack([LARGE + numbers, 3 * numbers, 5 + numbers], axis=1))


def test_pieces_are_taken_in_order_and_written_where_they_are_wanted():
    pieces = some(3)
    takers = [Taker(pieces), Taker(pieces)]
    for number in range(3):
        taker = takers[number % 2]
        assert taker.take() == 0
        assert taker.numbers.tolist() == [LARGE + number, 3 * number, 5 + number, 5 + number]


def test_where_no_piece_is_left_nothing_is_to_be_copied():
    taker = Taker(some(1))
    assert [taker.take() for _ in range(4)] == [0, 1, 1, 1]
    assert taker.numbers.tolist() == [LARGE, 0, 0, 5]


def test_pieces_that_were_put_back_are_taken_once_more():
    pieces = some(2)
    taker = Taker(pieces)
    assert [taker.take() for _ in range(4)] == [0, 0, 1, 1]
    pieces.put_back()
    assert [taker.take() for _ in range(3)] == [0, 0, 1]


def test_of_many_threads_exactly_one_gets_each_piece(way):
    """Each piece is a semaphore of the C library, posted by whoever takes it."""
    count, threads, library = 100_000 if way is claim else 2_000, 8, ctypes.CDLL(None)
    semaphores = np.zeros((count, 32), np.uint8)
    addresses = semaphores.ctypes.data + 32 * np.arange(count, dtype=np.uint64)
    pieces, together = Pieces(np.stack([addresses] * 3, axis=1)), threading.Barrier(threads)

    def take_all():
        numbers, post, word = np.zeros(3, np.uint64), Semaphore().post[0], ctypes.c_uint32(0)
        calls = row((0, 0), (post, 0))
        host = calls["arguments"][1].ctypes.data
        targets = np.array([host, *(numbers.ctypes.data + 8 * np.arange(3, dtype=np.uint64))], np.uint64)
        calls[0] = row(pieces.claim(targets.ctypes.data))[0]
        calls["over"][0] = 1
        together.wait()
        make_calls()(calls.ctypes.data, len(calls), ctypes.addressof(word), 1)

    running = [threading.Thread(target=take_all) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    posted = ctypes.c_int(0)
    for address in addresses.tolist():
        library.sem_getvalue(ctypes.c_void_p(address), ctypes.byref(posted))
        assert posted.value == 1


def test_other_processors_take_pieces_in_python(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert claim.__wrapped__() is claim_in_python()
