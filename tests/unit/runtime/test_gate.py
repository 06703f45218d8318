"""A gate holds a stream and what waits for it, always opens, and nothing that would wait behind it is begun."""

import gc
import threading

import numpy as np
import pytest

from cudabw.copying.driver_copy import copy
from cudabw.driver.emulated import Fault, Shape
from cudabw.errors import ClosedError, CudabwError, DriverError, UnsupportedError
from cudabw.runtime.device import Device
from cudabw.runtime.event import Event
from cudabw.runtime.gate import Gate
from cudabw.runtime.memory import DeviceBuffer, PageableBuffer, PinnedBuffer

NBYTES = 1 << 12
PATIENCE_S = 60  # only a test that fails waits for so long

HELD_STREAM = "the host would wait for ever for a stream that a closed gate holds"
HELD_DEVICE = "the host would wait for ever for work that a closed gate holds"


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
def other(device):
    with Gate(device) as gate:
        yield gate


@pytest.fixture
def follower(device):
    with device.stream() as stream:
        yield stream


@pytest.fixture
def calls(device, monkeypatch):
    """The driver functions that are called from now on."""
    return record_calls(device, monkeypatch)


def record_calls(device, monkeypatch):
    names, machine = [], device.driver.api._machine
    enter = machine.enter
    monkeypatch.setattr(machine, "enter", lambda function, *rest: (names.append(function), enter(function, *rest))[1])
    return names


def refusal_of(action, kind=CudabwError):
    with pytest.raises(kind) as refusal:
        action()
    return refusal.value


def is_allocated(device, address):
    return device.driver.attempt("cuMemHostGetFlags", address)[0] == 0


class WatchedWord:
    """Stands in for a gate's word: notes every write, and passes it on."""

    def __init__(self, gate, on_write=lambda: None):
        self._word, self._on_write, self.written = gate._word, on_write, []
        gate._word = self

    @property
    def value(self):
        return self._word.value

    @value.setter
    def value(self, number):
        self._on_write()
        self.written.append(number)
        self._word.value = number


# -- one gate and one stream ------------------------------------------------------------------------------


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


def test_a_gate_whose_word_has_no_device_address_leaves_nothing_behind(make_device, monkeypatch):
    device = make_device(faults=[Fault(function="cuMemHostGetDevicePointer", status=999)])
    calls = record_calls(device, monkeypatch)
    with pytest.raises(DriverError, match="cuMemHostGetDevicePointer"):
        Gate(device)
    assert (calls.count("cuMemHostAlloc"), calls.count("cuMemFreeHost")) == (1, 1)


# -- streams that wait for a held one ---------------------------------------------------------------------


def wait_directly(follower, stream, pair):  # noqa: ARG001 - as the others
    follower.wait_for(stream)


def wait_through_a_third(follower, stream, pair):  # noqa: ARG001 - as the others
    with stream.device.stream() as third:
        third.wait_for(stream)
        follower.wait_for(third)
        # Not to be closed while it is held.
        third.abandon()


def take_a_buffer_over(follower, stream, pair):
    target, source = pair
    copy(target, source, stream=stream)
    copy(PinnedBuffer(stream.device, NBYTES), target, stream=follower)


@pytest.mark.parametrize("wait", [wait_directly, wait_through_a_third, take_a_buffer_over])
def test_what_waits_for_a_held_stream_is_held_until_the_gate_opens(device, stream, follower, gate, pair, calls, wait):
    target, pageable = DeviceBuffer(device, 64), PageableBuffer(device, 64)
    gate.close_on(stream)
    wait(follower, stream, pair)
    assert follower.gates == {gate}
    assert device.closed_gates == 1
    with Event(device) as event:
        event.record(follower)
        assert not event.ready()
        calls.clear()
        assert refusal_of(follower.synchronize).message == HELD_STREAM
        assert refusal_of(follower.close).message == HELD_STREAM
        assert "behind a closed gate for ever" in refusal_of(lambda: copy(target, pageable, stream=follower)).message
        assert calls == []
        gate.open()
        assert not follower.gates
        assert device.closed_gates == 0
        copy(target, pageable, stream=follower)
        follower.synchronize()
        assert event.ready()
    assert not target.ownership.dirty


def test_a_stream_that_waited_before_the_gate_was_closed_is_free(device, stream, follower, gate):
    follower.wait_for(stream)
    gate.close_on(stream)
    assert not follower.gates
    copy(DeviceBuffer(device, 64), PageableBuffer(device, 64), stream=follower)
    follower.synchronize()
    gate.open()


def test_a_held_stream_that_was_waited_for_is_free_of_the_next_closing(stream, follower, gate):
    gate.close_on(stream)
    follower.wait_for(stream)
    gate.open()
    gate.close_on(stream)
    assert not follower.gates
    follower.synchronize()
    gate.open()


def test_a_gate_that_opens_while_a_stream_begins_to_wait_does_not_hold_it(device, stream, follower, gate, monkeypatch):
    gate.close_on(stream)
    wait = follower.wait

    def wait_and_see_it_opened(event):
        wait(event)
        known = set(stream.gates)
        gate.open()
        # As when another thread opens it a little later, when what holds the stream was looked up already.
        stream.gates = known

    monkeypatch.setattr(follower, "wait", wait_and_see_it_opened)
    follower.wait_for(stream)
    stream.gates = set()
    assert not follower.gates
    follower.synchronize()
    gate.close_on(stream)
    assert device.closed_gates == 1
    gate.open()
    assert device.closed_gates == 0


def test_a_stream_of_another_device_is_held_with_its_device(make_device):
    first = make_device(shape=Shape(devices=2))
    with (
        Device(first.driver, 1) as second,
        first.stream() as stream,
        second.stream() as follower,
        second.stream() as fellow,
        Gate(first) as gate,
    ):
        buffer, free = DeviceBuffer(second, NBYTES), second.free_bytes
        gate.close_on(stream)
        for waiting in (follower, fellow):
            waiting.wait_for(stream)
        assert (first.closed_gates, second.closed_gates) == (1, 1)
        assert refusal_of(follower.synchronize).message == HELD_STREAM
        assert refusal_of(second.synchronize).message == HELD_DEVICE
        buffer.close()
        assert second.free_bytes == free
        gate.open()
        assert (first.closed_gates, second.closed_gates) == (0, 0)
        second.synchronize()
        assert second.free_bytes == free + NBYTES


# -- two gates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first closed first", "last closed first"])
def test_a_stream_behind_two_gates_is_held_until_both_are_open(device, stream, gate, other, order):
    gates = (gate, other)
    opened, closed = (gates[number] for number in order)
    with Event(device) as event:
        for each in gates:
            each.close_on(stream)
        event.record(stream)
        assert stream.gates == {gate, other}
        assert device.closed_gates == 2
        opened.open()
        assert stream.gates == {closed}
        assert device.closed_gates == 1
        assert refusal_of(stream.synchronize).message == HELD_STREAM
        assert refusal_of(device.synchronize).message == HELD_DEVICE
        assert not event.ready()
        closed.open()
        assert not stream.gates
        assert device.closed_gates == 0
        stream.synchronize()
        assert event.ready()


@pytest.mark.parametrize("same_stream", [False, True], ids=["another stream", "the same stream"])
def test_closing_a_gate_for_good_does_not_wait_for_what_another_holds(
    device, stream, follower, gate, calls, same_stream
):
    finished = Gate(device)
    word = finished._host
    gate.close_on(stream)
    finished.close_on(stream if same_stream else follower)
    calls.clear()
    finished.close()
    device.reap()
    assert calls == []
    assert stream.gates == {gate}
    gate.open()
    assert is_allocated(device, word)
    device.reap()
    assert not is_allocated(device, word)
    finished.close()
    device.synchronize()
    assert calls.count("cuMemFreeHost") == 1


# -- refusals before any driver call ----------------------------------------------------------------------


def test_a_gate_is_not_closed_on_a_closed_stream(device, stream, gate, calls):
    stream.close()
    calls.clear()
    refusal = refusal_of(lambda: gate.close_on(stream), ClosedError)
    assert refusal.message == "this stream was closed"
    assert calls == []
    assert (stream.gates, device.closed_gates) == (set(), 0)


def test_a_gate_that_was_closed_for_good_holds_nothing_any_more(device, stream, gate, calls):
    gate.close()
    calls.clear()
    refusal = refusal_of(lambda: gate.close_on(stream), ClosedError)
    assert refusal.message == "this gate was closed for good"
    assert refusal.hint == "Make another with Gate(device)."
    assert calls == []
    assert (stream.gates, device.closed_gates) == (set(), 0)
    stream.synchronize()


# -- the device -------------------------------------------------------------------------------------------


def test_waiting_for_a_device_with_a_closed_gate_is_refused(device, stream, gate, pair, calls):
    target, source = pair
    gate.close_on(stream)
    copy(target, source, stream=stream)
    calls.clear()
    refusal = refusal_of(device.synchronize)
    assert refusal.message == HELD_DEVICE
    assert refusal.hint == "Open it."
    assert calls == []
    gate.open()
    device.synchronize()
    assert stream.completed == stream.submitted == 1
    assert not target.ownership.dirty


def test_a_device_that_a_closed_gate_keeps_from_being_closed_can_be_used(device, stream, gate, pair):
    copy(*pair)
    gate.close_on(stream)
    assert refusal_of(device.close).message == HELD_DEVICE
    assert not device.closed
    copy(*pair)
    gate.open()
    gate.close()
    device.close()
    assert device.closed


# -- the watchdog and the word ----------------------------------------------------------------------------


def test_a_watchdog_that_comes_after_the_gate_was_closed_for_good_writes_nothing(device, stream, timers):
    gate = Gate(device)
    word = WatchedWord(gate)
    gate.close_on(stream)
    gate.close()
    assert word.written == [1]
    timers[0].function()
    gate._expire()
    gate.open()
    assert word.written == [1]
    assert not gate.expired


def test_a_watchdog_that_comes_while_the_word_is_freed_writes_nothing(device, stream, timers, monkeypatch):
    gate = Gate(device)
    word = WatchedWord(gate)
    gate.close_on(stream)
    came, release = [], device.release

    def release_as_the_watchdog_comes(free):
        timers[0].function()
        release(free)
        timers[0].function()
        came.append(list(word.written))

    monkeypatch.setattr(device, "release", release_as_the_watchdog_comes)
    gate.close()
    assert came == [[1]]


def test_the_word_is_not_freed_while_the_watchdog_writes_it(device, stream, timers, calls):
    writing, arrived, seen = threading.Event(), threading.Event(), {}

    class Lock:
        """The gate's own, which tells when the thread that closes the gate comes to it."""

        def __init__(self, lock):
            self._lock = lock

        def __enter__(self):
            if threading.current_thread() is closer:
                arrived.set()
            return self._lock.__enter__()

        def __exit__(self, *error):
            return self._lock.__exit__(*error)

    def wait_for_closer():
        seen["locked"] = gate._lock._lock.locked()
        writing.set()
        seen["arrived"] = arrived.wait(PATIENCE_S)
        seen["freed"] = "cuMemFreeHost" in calls

    gate = Gate(device)
    gate.close_on(stream)
    gate._lock = Lock(gate._lock)
    word = WatchedWord(gate, wait_for_closer)
    watchdog, closer = threading.Thread(target=timers[0].function), threading.Thread(target=gate.close)
    watchdog.start()
    assert writing.wait(PATIENCE_S)
    closer.start()
    for thread in (watchdog, closer):
        thread.join()
    assert seen == {"locked": True, "arrived": True, "freed": False}
    assert word.written == [1]
    assert calls.count("cuMemFreeHost") == 1
    stream.synchronize()


def test_the_watchdog_of_an_earlier_closing_does_not_open_a_later_one(device, stream, gate, timers):
    with Event(device) as event:
        gate.close_on(stream)
        gate.open()
        gate.close_on(stream)
        event.record(stream)
        # Cancelled too late: its thread had woken already.
        timers[0].function()
        assert gate._word.value == 1
        assert not gate.expired
        assert not event.ready()
        timers[1].fire()
        event.synchronize()
        assert gate.expired
        gate.open()


@pytest.mark.parametrize("used", [False, True], ids=["never closed", "refused by the driver"])
def test_a_gate_closed_after_its_device_leaves_the_word_alone(make_device, used):
    device = make_device(faults=[Fault(function="cuStreamWaitValue32", status=801)])
    gate, stream = Gate(device), device.stream()
    word = WatchedWord(gate)
    if used:
        with pytest.raises(UnsupportedError):
            gate.close_on(stream)
    device.close()
    gate.close()
    gate.close()
    assert word.written == []


# -- memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("free_later", ["reap", "synchronize"])
def test_buffers_closed_behind_a_closed_gate_are_freed_when_it_is_open(device, stream, gate, calls, free_later):
    free, locked = device.free_bytes, device.page_locked_bytes
    target, source = DeviceBuffer(device, NBYTES), PinnedBuffer(device, NBYTES)
    copy(target, source)
    gate.close_on(stream)
    calls.clear()
    for buffer in (target, source):
        buffer.close()
        assert buffer.closed
    device.reap()
    assert calls == []
    assert (device.free_bytes, device.page_locked_bytes) == (free - NBYTES, locked + NBYTES)
    gate.open()
    getattr(device, free_later)()
    assert (device.free_bytes, device.page_locked_bytes) == (free, locked)
    assert (calls.count("cuMemFree"), calls.count("cuMemFreeHost")) == (1, 1)


def test_a_buffer_whose_use_a_closed_gate_holds_is_not_closed(device, stream, gate, pair):
    target, source = pair
    gate.close_on(stream)
    copy(target, source, stream=stream)
    for buffer in pair:
        assert refusal_of(buffer.close).message == HELD_STREAM
        assert not buffer.closed
        assert buffer.ownership.dirty
    gate.open()
    free = device.free_bytes
    target.close()
    source.close()
    assert device.free_bytes == free + NBYTES
    assert device.page_locked_bytes == 0


def test_a_view_that_ends_behind_a_closed_gate_does_not_free_its_memory(device, stream, gate):
    buffer = PinnedBuffer(device, NBYTES)
    view = buffer.array()
    gate.close_on(stream)
    buffer.close()
    del view
    gc.collect()
    assert device.page_locked_bytes == NBYTES
    gate.open()
    device.reap()
    assert device.page_locked_bytes == 0
