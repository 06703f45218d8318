"""Rows of calls are made in order, pass their arguments on, and end at a failure or when they are told to."""

import ctypes
import threading

import pytest

from cudabw.copying.call_rows import NEVER, STATUS, Semaphore, address_of, make_calls, make_calls_in_python, row
from cudabw.copying.machine_code import MachineCode

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_uint64] * 4))

WAYS = {"python": make_calls_in_python(), "fastest": make_calls()}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def way(request):
    return request.param


class Row:
    """Calls of one function, which answers with what the test gives; what it was called with is kept."""

    def __init__(self, answers, failure=STATUS):
        self.seen, self.stop = [], ctypes.c_uint32(0)
        self._answers = iter(answers)
        self._function = FUNCTION(self._answer)
        address = address_of(self._function)
        self.calls = row(*((address, n, 2**63 + n, 3, 2**64 - 1) for n in range(len(answers))), failure=failure)

    def _answer(self, *arguments):
        self.seen.append(arguments)
        return next(self._answers)

    def make(self, way, again=0):
        return way(self.calls.ctypes.data, len(self.calls), ctypes.addressof(self.stop), again)


def test_calls_are_made_in_order_with_all_four_arguments(way):
    calls = Row([0] * 5)
    assert calls.make(way) == 0
    assert calls.seen == [(number, 2**63 + number, 3, 2**64 - 1) for number in range(5)]
    assert calls.stop.value == 0


def test_a_failure_is_the_last_call_and_sets_the_word(way):
    calls = Row([0, 0, 719, 0])
    assert calls.make(way) == 719 << 32 | 2
    assert len(calls.seen) == 3
    assert calls.stop.value == 1


def test_each_call_keeps_its_answer(way):
    calls = Row([3, 4, 5], failure=NEVER)
    calls.make(way)
    assert [answer & STATUS for answer in calls.calls["answer"].tolist()] == [3, 4, 5]


def test_only_the_failure_bits_of_an_answer_count(way):
    assert Row([5, -1], failure=NEVER).make(way) == 0
    assert Row([4, 3], failure=3).make(way) == 3 << 32 | 1


def test_no_call_is_made_when_the_word_is_set(way):
    calls = Row([0] * 3)
    calls.stop.value = 1
    assert calls.make(way) == 3
    assert calls.seen == []


def test_a_word_that_is_set_during_a_call_ends_the_row_after_it(way):
    calls = Row([0] * 3)
    stopping = FUNCTION(lambda *_: setattr(calls.stop, "value", 1) or 0)
    calls.calls["function"][1] = address_of(stopping)
    assert calls.make(way) == 1
    assert len(calls.seen) == 1


@pytest.mark.parametrize("again", [0, 1])
def test_no_calls_are_none(way, again):
    assert way(0, 0, ctypes.addressof(ctypes.c_uint32(0)), again) == 0


def test_an_answer_that_says_so_ends_the_row_with_success(way):
    calls = Row([0, 5, 0])
    calls.calls["over"][1] = 4
    assert calls.make(way) == 0
    assert len(calls.seen) == 2
    assert calls.stop.value == 0


def test_only_the_bits_of_the_call_say_that_the_row_is_over(way):
    calls = Row([3, 4, 1], failure=NEVER)
    calls.calls["over"] = 4, 3, 0
    assert calls.make(way) == 0
    assert len(calls.seen) == 3


def test_a_row_is_made_again_until_it_is_over(way):
    calls = Row([0, 0, 0])
    calls._answers = iter([0, 0, 0, 0, 0, 0, 0, 1, 0])
    calls.calls["over"][1] = 1
    assert calls.make(way, again=1) == 0
    assert [seen[0] for seen in calls.seen] == [0, 1, 2, 0, 1, 2, 0, 1]
    assert calls.stop.value == 0


def test_a_row_is_made_again_until_the_word_is_set(way):
    calls = Row([0, 0])
    calls._answers = iter([0] * 9)
    calls._function = FUNCTION(lambda *seen: setattr(calls.stop, "value", len(calls.seen) == 5) or calls._answer(*seen))
    calls.calls["function"] = address_of(calls._function)
    assert calls.make(way, again=1) == 2
    assert len(calls.seen) == 6


def test_a_failure_of_a_later_turn_tells_which_call_it_was(way):
    calls = Row([0, 0, 0])
    calls._answers = iter([0] * 7 + [719])
    assert calls.make(way, again=1) == 719 << 32 | 2
    assert len(calls.seen) == 8
    assert calls.stop.value == 1


def test_a_row_may_make_another_whose_answer_is_kept(way):
    inner, word = Row([0, 7, 0]), ctypes.c_uint32(0)
    given = inner.calls.ctypes.data, len(inner.calls), ctypes.addressof(inner.stop)
    outer = row((address_of(way), *given), (address_of(way), *given), failure=NEVER)
    assert way(outer.ctypes.data, len(outer), ctypes.addressof(word), 0) == 0
    assert outer["answer"].tolist() == [7 << 32 | 2, 3]


def test_a_semaphore_holds_a_row_until_it_is_posted(way):
    semaphore, word, told = Semaphore(), ctypes.c_uint32(0), []
    tell = FUNCTION(lambda *_: told.append(1) or 0)
    calls = row(semaphore.wait, (address_of(tell),))
    thread = threading.Thread(target=way, args=(calls.ctypes.data, len(calls), ctypes.addressof(word), 0))
    thread.start()
    assert not told
    post = row(semaphore.post)
    assert way(post.ctypes.data, 1, ctypes.addressof(word), 0) == 0
    thread.join()
    assert told == [1]


@pytest.mark.parametrize("machine", ["aarch64", "ppc64le"])
def test_other_processors_make_calls_in_python(monkeypatch, machine):
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert make_calls.__wrapped__() is make_calls_in_python()


def test_a_system_that_lets_no_process_make_code_makes_calls_in_python(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr("cudabw.copying.machine_code._protect", refuse)
    assert make_calls.__wrapped__() is make_calls_in_python()
    with pytest.raises(PermissionError):
        MachineCode(b"\xc3")
