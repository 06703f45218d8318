"""Events are stamped by the device when their stream comes to them."""

import pytest

from cudabw.copying.driver_copy import copy
from cudabw.driver.emulated.clock import ModelledClock
from cudabw.errors import ClosedError, DriverError
from cudabw.runtime.event import Event
from cudabw.runtime.memory import DeviceBuffer, PinnedBuffer


def test_events_give_the_time_between_them_on_the_devices_clock(make_device):
    device = make_device(clock=ModelledClock({"h2d": 50e9, "d2h": 25e9}))
    target, source = DeviceBuffer(device, 1 << 20), PinnedBuffer(device, 1 << 20)
    with device.stream() as stream, Event(device) as start, Event(device) as middle, Event(device) as end:
        start.record(stream)
        copy(target, source, stream=stream)
        middle.record(stream)
        copy(source, target, stream=stream)
        end.record(stream)
        end.synchronize()
        assert middle.seconds_since(start) == pytest.approx((1 << 20) / 50e9, rel=1e-6)
        assert end.seconds_since(middle) == pytest.approx((1 << 20) / 25e9, rel=1e-6)
        assert start.seconds_since(end) == pytest.approx(-(1 << 20) * (1 / 50e9 + 1 / 25e9), rel=1e-6)


def test_an_event_is_ready_when_its_stream_has_come_to_it(device, stream, gate):
    with Event(device) as event:
        assert event.ready()
        gate.close_on(stream)
        event.record(stream)
        assert not event.ready()
        gate.open()
        event.synchronize()
        assert event.ready()


def test_an_event_without_timing_has_no_time(device, stream):
    with Event(device, timing=False) as start, Event(device) as end:
        start.record(stream)
        end.record(stream)
        stream.synchronize()
        with pytest.raises(DriverError, match="cuEventElapsedTime"):
            end.seconds_since(start)


def test_an_event_is_destroyed_once(device):
    event = Event(device)
    handle = event.handle
    event.close()
    event.close()
    assert event.handle is None
    assert device.driver.attempt("cuEventQuery", handle)[0] == 400


def test_recording_on_a_closed_stream_is_refused_before_any_driver_call(device, stream, monkeypatch):
    names, enter = [], device.driver.api._machine.enter
    with Event(device) as event:
        stream.close()
        monkeypatch.setattr(
            device.driver.api._machine,
            "enter",
            lambda function, *rest: (names.append(function), enter(function, *rest)),
        )
        with pytest.raises(ClosedError) as refusal:
            event.record(stream)
        assert refusal.value.message == "this stream was closed"
        assert names == []
