"""Turns of submitting and waiting, on the modelled clock."""

import pytest

from cudabw.copying.copy_list import CopyList
from cudabw.copying.many_copies import LoopedCopies
from cudabw.driver.emulated import Fault
from cudabw.driver.emulated.clock import ModelledClock
from cudabw.errors import CudabwError
from cudabw.measuring.turns import FEWEST, MOST, Turns, TurnTimer, choose_turns
from cudabw.runtime.memory import DeviceBuffer, PinnedBuffer

NBYTES = 5000


@pytest.fixture
def clock():
    return ModelledClock({"h2d": NBYTES / 2e-6}, submit_s=1e-6, latency_s=3e-6)


def work_on(device, stream):
    return LoopedCopies(CopyList([(DeviceBuffer(device, NBYTES), PinnedBuffer(device, NBYTES))], stream))


def test_a_turn_is_the_call_and_the_wait(make_device, clock):
    device = make_device(clock=clock)
    with device.stream() as stream:
        turns = TurnTimer(device).time(work_on(device, stream), 5)
    assert turns == Turns(pytest.approx(1e-6), pytest.approx(6e-6))


def test_a_turn_that_was_interrupted_does_not_count(make_device, clock):
    device = make_device(clock=clock)
    with device.stream() as stream:
        work = work_on(device, stream)
        queue, turns = work.queue, iter(range(100))

        def interrupted():
            queue()
            if next(turns) % 3 == 0:
                clock.advance(1.0)

        work.queue = interrupted
        assert TurnTimer(device).time(work, 7).done_s == pytest.approx(6e-6)


def test_the_work_owns_its_memory_while_it_is_timed(make_device, clock):
    device = make_device(clock=clock)
    with device.stream() as stream:
        work = work_on(device, stream)
        TurnTimer(device).time(work, 1)
        (destination, _), *_ = work._copies.copies
        assert destination.ownership.stream is stream


def test_work_that_fails_is_an_error_of_the_wait(make_device):
    # The first wait is the one after the submission that takes ownership.
    device = make_device(faults=[Fault(function="cuStreamSynchronize", status=700, nth=2)])
    with device.stream() as stream, pytest.raises(CudabwError, match=r"cuStreamSynchronize .*700"):
        TurnTimer(device).time(work_on(device, stream), 5)


@pytest.mark.parametrize(("seconds", "turns"), [(0.0, MOST), (1e-6, MOST), (50e-6, 10), (1e-3, FEWEST), (1.0, FEWEST)])
def test_a_batch_of_turns_lasts_about_half_a_millisecond(seconds, turns):
    assert choose_turns(seconds) == turns
