"""Managed pages go to the side they are sent to, and go there once."""

import pytest

from cudabw.copying.driver_copy import copy
from cudabw.copying.prefetch import PreparedPrefetch
from cudabw.driver.emulated import Fault, Shape
from cudabw.driver.emulated.clock import ModelledClock
from cudabw.errors import ClosedError, UnsupportedError
from cudabw.runtime.device import Device
from cudabw.runtime.event import Event
from cudabw.runtime.memory import ManagedBuffer, PageableBuffer

NBYTES = 1 << 20


def resident(buffer):
    """Ordinal of the device that holds the pages; None for the host."""
    return buffer.device.driver.api._machine.memory.find(int(buffer.device_pointer))[0].resident


def test_pages_go_to_the_device_and_back_with_their_bytes(device, stream, noise):
    buffer = ManagedBuffer(device, NBYTES)
    copy(buffer, PageableBuffer.over(device, noise[:NBYTES]))
    assert resident(buffer) is None
    PreparedPrefetch(buffer, stream, to_device=True).submit()
    stream.synchronize()
    assert resident(buffer) == 0
    PreparedPrefetch(buffer, stream, to_device=False).submit()
    assert (buffer.array() == noise[:NBYTES]).all()
    assert resident(buffer) is None


def test_pages_go_to_the_device_of_the_buffer(make_device):
    first = make_device(shape=Shape(devices=2))
    with Device(first.driver, 1) as second, second.stream() as stream:
        buffer = ManagedBuffer(second, NBYTES)
        PreparedPrefetch(buffer, stream, to_device=True).submit()
        stream.synchronize()
        assert resident(buffer) == 1
        buffer.close()


def test_the_second_of_two_prefetches_moves_nothing(make_device):
    device = make_device(clock=ModelledClock({"h2d": 10e9, "d2h": 5e9}))
    buffer = ManagedBuffer(device, NBYTES)
    with device.stream() as stream, Event(device) as start, Event(device) as end:
        for to_device, rate in ((True, 10e9), (False, 5e9)):
            prefetch = PreparedPrefetch(buffer, stream, to_device=to_device)
            assert not prefetch.repeatable
            assert not prefetch.holds_host
            start.record(stream)
            prefetch.submit(times=2)
            end.record(stream)
            end.synchronize()
            assert end.seconds_since(start) == pytest.approx(NBYTES / rate, rel=1e-6)
    buffer.close()


def test_a_prefetch_is_ordered_after_the_last_use_on_another_stream(device, stream, gate):
    buffer = ManagedBuffer(device, NBYTES)
    with device.stream() as other, Event(device) as done:
        gate.close_on(stream)
        PreparedPrefetch(buffer, stream, to_device=True).submit()
        PreparedPrefetch(buffer, other, to_device=False).submit()
        done.record(other)
        assert device.waits.stream == 1
        assert buffer.busy
        assert not done.ready()
        gate.open()
        done.synchronize()
        assert resident(buffer) is None


def test_a_slice_moves_like_its_buffer(device, stream):
    buffer = ManagedBuffer(device, NBYTES)
    PreparedPrefetch(buffer[: NBYTES // 2], stream, to_device=True).submit()
    assert buffer.ownership.stream is stream
    stream.synchronize()
    assert resident(buffer) == 0


def test_a_prefetch_is_submitted_as_often_as_asked(device, stream, calls):
    prefetch = PreparedPrefetch(ManagedBuffer(device, NBYTES), stream, to_device=True)
    prefetch.submit()
    prefetch.submit(times=3)
    assert calls.count("cuMemPrefetchAsync") == 4


def test_nothing_is_moved_of_nothing(device, stream, calls):
    PreparedPrefetch(ManagedBuffer(device, 0), stream, to_device=True).submit()
    assert "cuMemPrefetchAsync" not in calls
    assert stream.submitted == 0


def test_a_closed_buffer_or_stream_is_refused(device, stream):
    buffer = ManagedBuffer(device, NBYTES)
    prefetch = PreparedPrefetch(buffer, stream, to_device=True)
    stream.close()
    with pytest.raises(ClosedError, match=r"^this stream was closed$"):
        prefetch.submit()
    buffer.close()
    with pytest.raises(ClosedError, match=r"^this managed buffer of 1048576 bytes was closed$"):
        prefetch.submit()


def test_a_device_that_cannot_move_pages_says_so(make_device):
    device = make_device(faults=[Fault(function="cuMemPrefetchAsync", status=801)])
    with device.stream() as stream, pytest.raises(UnsupportedError, match=r"^cuMemPrefetchAsync is not supported here"):
        PreparedPrefetch(ManagedBuffer(device, NBYTES), stream, to_device=True).submit()
