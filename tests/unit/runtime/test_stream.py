"""Streams keep their order, events are stamped by the device, and a gate holds and always opens."""

import threading

import numpy as np
import pytest

from cudabw.copying.driver_copy import PreparedCopy, copy
from cudabw.driver.emulated import Fault
from cudabw.driver.emulated.clock import ModelledClock
from cudabw.errors import ClosedError, CudabwError, DriverError, UnsupportedError
from cudabw.runtime.event import Event
from cudabw.runtime.gate import Gate
from cudabw.runtime.memory import DeviceBuffer, PinnedBuffer

NBYTES = 1 << 12


class HandTimer:
    """Stands in for threading.Timer; fires when the test says so."""

    def __init__(self, interval, function):
        self.interval, self.function = interval, function
        self.daemon = self.started = self.cancelled = False

    def start(self):
        self.started = True

    def cancel(self):
        self.cancelled = True

    def fire(self):
        assert self.started
        assert not self.cancelled
        self.function()


@pytest.fixture
def timers(monkeypatch):
    """The timers that are made from now on, none of which fires by itself."""
    made = []
    monkeypatch.setattr(threading, "Timer", lambda *arguments: made.append(HandTimer(*arguments)) or made[-1])
    return made


@pytest.fixture
def gate(device):
    with Gate(device) as gate:
        yield gate


@pytest.fixture
def stream(device):
    with device.stream() as stream:
        yield stream


@pytest.fixture
def pair(device):
    """A pinned source full of sevens, and device memory for it."""
    source = PinnedBuffer(device, NBYTES)
    source.array()[:] = 7
    return DeviceBuffer(device, NBYTES), source


# -- streams ----------------------------------------------------------------------------------------------


def test_the_stream_protocol_gives_version_and_handle(stream):
    assert stream.__cuda_stream__() == (0, int(stream.handle))
    assert int(stream.handle) != 0


def test_a_stream_is_not_ordered_against_the_null_stream(device, monkeypatch):
    flags, create = [], device.driver.api.cuStreamCreate
    monkeypatch.setattr(
        device.driver.api, "cuStreamCreate", lambda flag: (flags.append(int(flag)), create(flag))[1], raising=False
    )
    device.stream().close()
    assert flags == [1]


def test_synchronising_waits_for_all_that_was_submitted(stream, pair):
    target, source = pair
    PreparedCopy(target, source, stream).submit(times=300)
    assert target.ownership.dirty
    stream.synchronize()
    assert stream.completed == stream.submitted == 1
    assert stream.ready()
    assert not target.ownership.dirty


def test_asking_a_stream_learns_that_its_work_is_done(device, stream, gate, pair):
    gate.close_on(stream)
    copy(*pair, stream=stream)
    assert not stream.ready()
    assert stream.completed == 0
    gate.open()
    # Past the library, so that only the question itself can find out.
    device.call("cuStreamSynchronize", stream.handle)
    assert stream.completed == 0
    assert stream.ready()
    assert stream.completed == 1


def test_a_failure_of_queued_work_surfaces_at_the_question(make_device):
    device = make_device(faults=[Fault(function="cuStreamQuery", status=719)])
    with pytest.raises(DriverError, match=r"^cuStreamQuery failed with CUDA_ERROR_LAUNCH_FAILED \(719\)$"):
        device.default_stream.ready()


def test_one_stream_waits_for_another_and_the_host_does_not(device, stream, gate, pair):
    with device.stream() as follower, Event(device) as copied, Event(device) as event:
        gate.close_on(stream)
        copy(*pair, stream=stream)
        copied.record(stream)
        follower.wait_for(stream)
        event.record(follower)
        assert not event.ready()
        gate.open()
        event.synchronize()
        assert copied.ready()


def test_waiting_again_refers_to_the_later_work(device, stream, gate, pair):
    with device.stream() as follower, Event(device) as event:
        follower.wait_for(stream)
        gate.close_on(stream)
        copy(*pair, stream=stream)
        follower.wait_for(stream)
        event.record(follower)
        assert not event.ready()
        gate.open()
        event.synchronize()


def test_closing_a_stream_waits_for_its_work(device, pair):
    target, source = pair
    stream = device.stream()
    PreparedCopy(target, source, stream).submit(times=300)
    stream.close()
    assert stream.closed
    assert not target.ownership.dirty
    back = PinnedBuffer(device, NBYTES)
    copy(back, target)
    assert (back.array() == 7).all()


@pytest.mark.parametrize(
    "use",
    [
        lambda stream: stream.synchronize(),
        lambda stream: stream.ready(),
        lambda stream: stream.require_open(),
        lambda stream: stream.__cuda_stream__(),
        lambda stream: stream.wait(Event(stream.device)),
        lambda stream: stream.wait_for(stream.device.default_stream),
    ],
    ids=["synchronize", "ready", "require_open", "protocol", "wait", "wait_for"],
)
def test_a_closed_stream_is_refused(stream, use):
    stream.close()
    stream.close()
    with pytest.raises(ClosedError) as refusal:
        use(stream)
    assert refusal.value.message == "this stream was closed"
    assert refusal.value.hint == "Create another with device.stream()."


# -- events -----------------------------------------------------------------------------------------------


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


# -- gates ------------------------------------------------------------------------------------------------


def test_a_closed_gate_holds_what_is_queued_until_it_is_opened(device, stream, gate, pair):
    target, source = pair
    with Event(device) as before, Event(device) as after:
        before.record(stream)
        gate.close_on(stream)
        copy(target, source, stream=stream)
        after.record(stream)
        before.synchronize()
        assert stream.gates == {gate}
        assert device.closed_gates == 1
        assert not after.ready()
        gate.open()
        assert not stream.gates
        assert device.closed_gates == 0
        after.synchronize()
        assert not gate.expired


def test_a_gate_can_be_used_again_and_again(device, stream, gate):
    with Event(device) as event:
        for _ in range(5):
            gate.close_on(stream)
            event.record(stream)
            assert not event.ready()
            gate.open()
            event.synchronize()


def test_a_gate_can_hold_one_stream_after_another(device, stream, gate):
    with device.stream() as other, Event(device) as event:
        gate.close_on(stream)
        gate.open()
        gate.close_on(other)
        event.record(other)
        stream.synchronize()
        assert not event.ready()
        gate.open()
        event.synchronize()


def test_a_gate_holds_one_stream_at_a_time(device, stream, gate):
    gate.close_on(stream)
    with device.stream() as other, pytest.raises(CudabwError) as refusal:
        gate.close_on(other)
    assert refusal.value.message == "this gate already holds a stream"
    assert refusal.value.hint == "Open it first."
    assert device.closed_gates == 1
    gate.open()


@pytest.mark.parametrize("wait", [lambda stream: stream.synchronize(), lambda stream: stream.close()])
def test_waiting_for_a_stream_that_a_gate_holds_is_refused(stream, gate, wait):
    gate.close_on(stream)
    with pytest.raises(CudabwError) as refusal:
        wait(stream)
    assert refusal.value.message == "the host would wait for ever for a stream that a closed gate holds"
    assert refusal.value.hint == "Open it."
    assert not stream.closed
    gate.open()
    stream.synchronize()


def test_opening_an_open_gate_does_nothing(device, stream, gate):
    gate.open()
    gate.close_on(stream)
    gate.open()
    gate.open()
    assert device.closed_gates == 0
    stream.synchronize()


def test_closing_a_gate_opens_it_and_frees_its_word_once(device, stream, pair):
    gate = Gate(device)
    word = gate._host
    gate.close_on(stream)
    copy(*pair, stream=stream)
    gate.close()
    gate.close()
    gate.open()
    stream.synchronize()
    assert not stream.gates
    assert device.closed_gates == 0
    assert device.driver.attempt("cuMemHostGetFlags", word)[0] == 1


def test_leaving_a_block_opens_its_gate_also_after_a_failure(device, stream):
    def fail():
        with Gate(device) as gate:
            gate.close_on(stream)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert device.closed_gates == 0
    stream.synchronize()


def test_the_watchdog_opens_a_forgotten_gate(device, stream):
    with Gate(device, watchdog_s=0.001) as gate, Event(device) as event:
        gate.close_on(stream)
        event.record(stream)
        event.synchronize()
        assert gate.expired


def test_the_watchdog_is_set_for_the_time_given_and_never_outlives_the_process(device, stream, timers):
    with Gate(device, watchdog_s=12.5) as gate:
        assert timers == []
        gate.close_on(stream)
        (timer,) = timers
        assert (timer.interval, timer.daemon, timer.started) == (12.5, True, True)
        gate.open()
        assert timer.cancelled


def test_an_expired_gate_lets_work_through_and_stays_closed_for_its_owner(device, stream, timers):
    with Gate(device) as gate, Event(device) as event:
        gate.close_on(stream)
        event.record(stream)
        timers[0].fire()
        event.synchronize()
        assert gate.expired
        assert stream.gates == {gate}
        gate.open()
        assert gate.expired
        gate.close_on(stream)
        assert not gate.expired
        event.record(stream)
        assert not event.ready()


def test_a_driver_without_the_wait_has_no_gate(device, monkeypatch):
    monkeypatch.setattr(device.driver, "has", lambda function: function != "cuStreamWaitValue32")
    with pytest.raises(UnsupportedError, match=r"^this driver has no cuStreamWaitValue32$"):
        Gate(device)


def test_a_gate_that_cannot_be_closed_holds_nothing(make_device):
    device = make_device(faults=[Fault(function="cuStreamWaitValue32", status=801)])
    with device.stream() as stream, Gate(device) as gate:
        with pytest.raises(UnsupportedError):
            gate.close_on(stream)
        assert not stream.gates
        assert device.closed_gates == 0
        stream.synchronize()


def test_the_bytes_behind_a_gate_move_only_when_it_opens(device, stream, gate):
    source, target = PinnedBuffer(device, 64), PinnedBuffer(device, 64)
    view, words = source.array(), target.array()
    view[:], words[:] = 1, 0
    gate.close_on(stream)
    copy(target, source, stream=stream)
    view[:] = 9  # past the ownership, as a program that does not wait would
    assert (words == 0).all()
    gate.open()
    stream.synchronize()
    assert np.array_equal(words, np.full(64, 9))
