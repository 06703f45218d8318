"""A device is found by its number, is current on whatever thread uses it, and frees what was left to it."""

import gc
import threading

import pytest

from cudabw.copying.driver_copy import copy
from cudabw.driver.emulated import Fault, Shape
from cudabw.errors import CudabwError, DriverError, UsageError
from cudabw.runtime.device import Device, device_count
from cudabw.runtime.gate import Gate
from cudabw.runtime.memory import DeviceBuffer, PinnedBuffer


@pytest.fixture
def two_devices(make_device):
    first = make_device(shape=Shape(devices=2, memory=1 << 30))
    with Device(first.driver, 1) as second:
        yield first, second


def current(device):
    return int(device.driver.call("cuCtxGetCurrent"))


@pytest.mark.parametrize(
    ("devices", "ordinal", "message"),
    [
        (1, 1, "there is no device 1: the driver sees device 0 only"),
        (1, -1, "there is no device -1: the driver sees device 0 only"),
        (3, 3, "there is no device 3: the driver sees devices 0 to 2"),
    ],
)
def test_a_device_that_is_not_there_is_refused_with_those_that_are(make_device, devices, ordinal, message):
    driver = make_device(shape=Shape(devices=devices)).driver
    with pytest.raises(UsageError) as refusal:
        Device(driver, ordinal)
    assert refusal.value.message == message
    assert refusal.value.hint == "`cudabw devices` lists them."


def test_each_device_has_an_identity_of_its_own(two_devices):
    first, second = two_devices
    assert device_count(first.driver) == 2
    assert [device.ordinal for device in (first, second)] == [0, 1]
    assert first.name == "Emulated CUDA device"
    assert [device.pci for device in (first, second)] == ["0000:01:00.0", "0000:02:00.0"]
    assert first.uuid == "GPU-63756461-6277-2d65-6d75-6c6174656400"
    assert second.uuid == "GPU-63756461-6277-2d65-6d75-6c6174656401"
    assert first.memory_bytes == 1 << 30
    assert not first.integrated
    assert first.attribute("WARP_SIZE") == 32
    assert repr(second) == "<Device 1: Emulated CUDA device>"


def test_free_memory_is_what_the_device_says_now(make_device):
    device = make_device(shape=Shape(memory=1 << 20))
    assert device.free_bytes == 1 << 20
    with DeviceBuffer(device, 1 << 19):
        assert device.free_bytes == 1 << 19
    assert device.free_bytes == 1 << 20


def test_a_device_works_on_a_thread_that_never_saw_it(device):
    outcome = []

    def work():
        with DeviceBuffer(device, 64) as target, PinnedBuffer(device, 64) as source:
            copy(target, source)
            outcome.append(target.busy)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert outcome == [False]


def test_two_devices_are_used_in_turn_on_one_thread(two_devices):
    first, second = two_devices
    with DeviceBuffer(first, 4096), DeviceBuffer(second, 8192):
        total = first.memory_bytes
        assert (first.free_bytes, second.free_bytes) == (total - 4096, total - 8192)


def test_freeing_leaves_the_current_context_as_it_was(two_devices):
    first, second = two_devices
    buffer = DeviceBuffer(first, 4096)
    second.activate()
    before = current(second)
    buffer.close()
    assert current(second) == before


def test_a_failure_to_free_leaves_the_current_context_as_it_was(make_device):
    device = make_device(faults=[Fault(function="cuMemFree", status=999, nth=1)])
    buffer = DeviceBuffer(device, 4096)
    before = current(device)
    with pytest.raises(DriverError):
        buffer.close()
    device.driver.call("cuCtxPopCurrent")
    assert current(device) == 0
    assert before != 0


def test_a_question_is_answered_done_or_not_ready_and_anything_else_is_an_error(make_device):
    device = make_device(faults=[Fault(function="cuStreamQuery", status=700, nth=3)])
    with device.stream() as stream, Gate(device) as gate:
        assert device.poll("cuStreamQuery", stream.handle)
        gate.close_on(stream)
        assert not device.poll("cuStreamQuery", stream.handle)
        with pytest.raises(DriverError) as failure:
            device.poll("cuStreamQuery", stream.handle)
        assert failure.value.code == 700


def test_the_default_stream_is_one_and_made_on_first_use(device):
    assert device.default_stream is device.default_stream
    assert device.stream() is not device.default_stream


def test_synchronising_waits_for_every_stream_and_frees_what_was_collected(device):
    target = DeviceBuffer(device, 64)
    with device.stream() as one, device.stream() as other:
        copy(target[:32], PinnedBuffer(device, 32), stream=one)
        copy(target[32:], PinnedBuffer(device, 32), stream=other)
        gc.collect()
        device.synchronize()
        assert one.ready()
        assert other.ready()
        assert device.page_locked_bytes == 0


def test_nothing_is_reaped_while_a_gate_is_closed(device):
    with device.stream() as stream, Gate(device) as gate:
        PinnedBuffer(device, 64)
        gc.collect()
        gate.close_on(stream)
        device.reap()
        assert device.page_locked_bytes == 64
        gate.open()
        device.reap()
        assert device.page_locked_bytes == 0


def test_reaping_keeps_what_is_in_use_and_frees_the_rest(device):
    target = DeviceBuffer(device, 64)
    with device.stream() as stream, Gate(device) as gate:
        gate.close_on(stream)
        copy(target, PinnedBuffer(device, 64), stream=stream)
        PinnedBuffer(device, 32)
        gc.collect()
        # As another program's device would be: no gate that it knows of holds it, and the work is not done.
        device.closed_gates = 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(device, "release", lambda release: released.append(release))
            released = []
            device.reap()
        device.closed_gates = 1
        assert len(released) == 1
        gate.open()
        stream.synchronize()
        assert device.page_locked_bytes == 32


def test_closing_frees_what_was_collected_and_gives_the_context_back(device):
    PinnedBuffer(device, 64)
    gc.collect()
    device.close()
    assert device.page_locked_bytes == 0
    assert device.closed
    # The context was the last of its device: the address of what it held is unknown, and nothing is current.
    assert device.driver.api._machine.devices[0].context is None


def test_memory_that_a_graph_may_use_is_kept_until_the_device_is_closed(device):
    buffer = PinnedBuffer(device, 64)
    buffer.ownership.stream, buffer.ownership.captured = device.default_stream, True
    del buffer
    gc.collect()
    device.synchronize()
    assert device.page_locked_bytes == 64
    device.close()
    assert device.page_locked_bytes == 0


def test_closing_again_does_nothing(device):
    device.close()
    device.close()
    assert device.closed


def test_a_block_closes_its_device(device):
    with Device(device.driver) as other:
        assert other.free_bytes > 0
    assert other.closed
    # The context is shared by all who retained it.
    assert device.free_bytes > 0


@pytest.mark.parametrize(
    "use",
    [
        lambda device: device.call("cuMemGetInfo"),
        lambda device: device.synchronize(),
        lambda device: device.stream(),
        lambda device: device.free_bytes,
        lambda device: PinnedBuffer(device, 64),
    ],
)
def test_a_closed_device_is_refused(device, use):
    device.close()
    with pytest.raises(CudabwError, match=r"^device 0 was closed$"):
        use(device)


def test_what_is_dropped_after_its_device_is_nobodys_concern(device):
    buffer = PinnedBuffer(device, 64)
    device.close()
    machine = device.driver.api._machine
    names, enter = [], machine.enter
    machine.enter = lambda function, needs, nbytes: (names.append(function), enter(function, needs, nbytes))
    del buffer
    gc.collect()
    device.reap()
    assert names == []
