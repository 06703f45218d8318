"""Each piece of a list is taken once, in order, whoever takes it, and an end of the list is told."""

import ctypes
import threading
from itertools import chain

import numpy as np
import pytest

from cudabw.copying import claims
from cudabw.copying.call_rows import FOUR_ARGUMENTS, address_of, make_calls, row
from cudabw.copying.claims import Pieces, claim, claim_in_python

WAYS = {"python": claim_in_python, "fastest": claim}
LARGE = 2**63


@pytest.fixture(params=WAYS.values(), ids=WAYS, autouse=True)
def way(request, monkeypatch):
    monkeypatch.setattr(claims, "claim", request.param)


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


def test_of_many_threads_exactly_one_gets_each_piece():
    count, threads = 4000, 8
    pieces, together, taken = some(count), threading.Barrier(threads), [[] for _ in range(threads)]

    def take_all(mine):
        taker = Taker(pieces)
        note = FOUR_ARGUMENTS(lambda *_: mine.append(int(taker.numbers[1])) or 0)
        calls = row(taker.call, (address_of(note),))
        calls["over"][0] = 1
        together.wait()
        make_calls()(calls.ctypes.data, len(calls), ctypes.addressof(ctypes.c_uint32(0)), 1)

    running = [threading.Thread(target=take_all, args=(mine,)) for mine in taken]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert sorted(chain.from_iterable(taken)) == [3 * number for number in range(count)]


def test_other_processors_take_pieces_in_python(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert claim.__wrapped__() is claim_in_python()
