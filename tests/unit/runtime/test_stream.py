"""Streams keep their order, and wait for one another on the device."""

import pytest

from cudabw.copying.driver_copy import PreparedCopy, copy
from cudabw.driver.emulated import Fault
from cudabw.errors import ClosedError, DriverError
from cudabw.runtime.event import Event
from cudabw.runtime.memory import PinnedBuffer

NBYTES = 1 << 12


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
