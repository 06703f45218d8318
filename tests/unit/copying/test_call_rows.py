"""Rows of calls are made in order, pass their arguments on, and end at a failure or when they are told to."""

import ctypes

import pytest

from cudabw.copying.call_rows import NEVER, STATUS, Call, make_calls, make_calls_in_python
from cudabw.copying.machine_code import MachineCode

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_uint64] * 4))

WAYS = [make_calls_in_python]
if make_calls() is not make_calls_in_python:
    WAYS.append(make_calls())

pytestmark = pytest.mark.parametrize("way", WAYS)


class Row:
    """Calls of one function, which answers with what the test gives; what it was called with is kept."""

    def __init__(self, answers, failure=STATUS):
        self.seen, self.stop = [], ctypes.c_uint32(0)
        self._answers = iter(answers)
        self._function = FUNCTION(self._answer)
        self.calls = (Call * len(answers))()
        for number, call in enumerate(self.calls):
            address = ctypes.cast(self._function, ctypes.c_void_p).value
            call.set(address, number, 2**63 + number, 3, 2**64 - 1, failure=failure)

    def _answer(self, *arguments):
        self.seen.append(arguments)
        return next(self._answers)

    def make(self, way):
        return way(ctypes.addressof(self.calls), len(self.calls), ctypes.addressof(self.stop))


def test_calls_are_made_in_order_with_all_four_arguments(way):
    row = Row([0] * 5)
    assert row.make(way) == 0
    assert row.seen == [(number, 2**63 + number, 3, 2**64 - 1) for number in range(5)]
    assert row.stop.value == 0


def test_a_failure_is_the_last_call_and_sets_the_word(way):
    row = Row([0, 0, 719, 0])
    assert row.make(way) == 719 << 32 | 2
    assert len(row.seen) == 3
    assert row.stop.value == 1


def test_only_the_failure_bits_of_an_answer_count(way):
    assert Row([5, -1], failure=NEVER).make(way) == 0
    assert Row([4, 3], failure=3).make(way) == 3 << 32 | 1


def test_no_call_is_made_when_the_word_is_set(way):
    row = Row([0] * 3)
    row.stop.value = 1
    assert row.make(way) == 3
    assert row.seen == []


def test_a_word_that_is_set_during_a_call_ends_the_row_after_it(way):
    row = Row([0] * 3)
    row._function = stopping = FUNCTION(lambda *_: setattr(row.stop, "value", 1) or 0)
    row.calls[1].function = ctypes.cast(stopping, ctypes.c_void_p).value
    row.calls[0].function = ctypes.cast(keep := FUNCTION(lambda *_: 0), ctypes.c_void_p).value
    assert row.make(way) == 1
    assert keep


def test_no_calls_are_none(way):
    assert way(0, 0, ctypes.addressof(ctypes.c_uint32(0))) == 0


@pytest.mark.parametrize("machine", ["aarch64", "ppc64le"])
def test_other_processors_make_calls_in_python(way, monkeypatch, machine):
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert make_calls.__wrapped__() is make_calls_in_python
    assert way


def test_a_system_that_lets_no_process_make_code_makes_calls_in_python(way, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr("cudabw.copying.machine_code._protect", refuse)
    assert make_calls.__wrapped__() is make_calls_in_python
    with pytest.raises(PermissionError):
        MachineCode(b"\xc3")
    assert way
