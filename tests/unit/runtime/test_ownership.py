"""Who owns memory, who waits for whom, and what happens around captures and other devices."""

import threading

import numpy as np
import pytest

from cudabw.copying.driver_copy import PreparedCopy, copy
from cudabw.driver.emulated.shape import Shape
from cudabw.errors import ClosedError, CudabwError, DriverError, UnsupportedError
from cudabw.runtime import ptx
from cudabw.runtime.capture import capture
from cudabw.runtime.gate import Gate
from cudabw.runtime.kernels import Module
from cudabw.runtime.memory import DeviceBuffer, ManagedBuffer, MappedBuffer, PinnedBuffer

WORDS = 64
NBYTES = 4 * WORDS
SIZE = {"grid": 1, "block": 32}
SIGNATURE = ("pointer", "uint32", "uint64")


class Bench:
    """Two streams, a buffer of zeros, and the kernels that fill it and add to it."""

    def __init__(self, device, memory=MappedBuffer):
        self.device = device
        self.module = Module(device, ptx.read("words"))
        self.fill = self.module.kernel("cudabw_fill_u32", SIGNATURE)
        self.add = self.module.kernel("cudabw_add_u32", SIGNATURE)
        self.first, self.second = device.stream(), device.stream()
        self.buffer = memory(device, NBYTES)

    @property
    def waits(self):
        return self.device.waits.stream, self.device.waits.host


@pytest.fixture
def bench(device):
    return Bench(device)


def words(buffer):
    return buffer.array(np.uint32).tolist()


def test_the_same_stream_never_waits(bench):
    for _ in range(3):
        bench.fill(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    assert bench.waits == (0, 0)


def test_another_stream_waits_once_for_the_old_owner_and_then_owns(bench, gate):
    gate.close_on(bench.first)
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.second)
    bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.second)
    assert bench.waits == (1, 0)
    assert bench.buffer.ownership.stream is bench.second
    assert not bench.second.ready()
    gate.open()
    assert words(bench.buffer) == [7] * WORDS
    assert bench.waits == (1, 1)


def test_a_stream_takes_over_finished_work_without_a_wait(bench):
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    bench.first.synchronize()
    bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.second)
    assert bench.waits == (0, 0)


def test_waiting_for_the_device_finishes_the_work_of_all_streams(bench):
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    bench.device.synchronize()
    assert not bench.buffer.ownership.dirty
    assert words(bench.buffer) == [5] * WORDS
    assert bench.waits == (0, 0)


def test_the_host_waits_once_and_then_not_again(bench):
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    assert words(bench.buffer) == [5] * WORDS
    words(bench.buffer)
    assert bench.waits == (0, 1)


def test_memory_that_is_used_again_after_other_work_is_waited_for_again(bench):
    other = MappedBuffer(bench.device, NBYTES)
    for expected in (1, 2):
        bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
        assert words(bench.buffer) == [expected] * WORDS
        bench.add(other, 1, WORDS, **SIZE, stream=bench.first)
        bench.add(bench.buffer, 0, WORDS, **SIZE, stream=bench.first)
        assert bench.buffer.ownership.dirty
        words(bench.buffer)
        words(bench.buffer)
        assert bench.waits == (0, 2 * expected)


def test_a_stream_that_was_closed_idle_takes_no_more_work(bench):
    bench.fill(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    bench.first.synchronize()
    bench.first.synchronize()
    bench.first.close()
    with pytest.raises(ClosedError, match="this stream was closed"):
        bench.fill(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)


def test_one_submission_waits_once_for_each_earlier_owner(bench):
    others = [DeviceBuffer(bench.device, NBYTES) for _ in range(2)]
    null = Module(bench.device, ptx.null_kernel(["pointer"] * 3)[1]).kernel("cudabw_null_u64x3", ["pointer"] * 3)
    null(bench.buffer, *others, **SIZE, stream=bench.first)
    null(bench.buffer, *others, **SIZE, stream=bench.second)
    assert bench.waits == (1, 0)


def test_the_same_buffer_twice_in_one_call_is_taken_once(bench):
    name, text = ptx.null_kernel(["pointer"] * 2)
    null = Module(bench.device, text).kernel(name, ["pointer"] * 2)
    null(bench.buffer, bench.buffer[4:], **SIZE, stream=bench.first)
    null(bench.buffer, bench.buffer[4:], **SIZE, stream=bench.second)
    assert bench.waits == (1, 0)


def test_slices_share_their_parents_owner(bench):
    bench.fill(bench.buffer[:128], 5, 32, **SIZE, stream=bench.first)
    bench.fill(bench.buffer[128:], 6, 32, **SIZE, stream=bench.second)
    assert bench.waits == (1, 0)
    assert words(bench.buffer) == [5] * 32 + [6] * 32


def test_an_empty_buffer_is_never_owned(bench):
    bench.fill(bench.buffer[:0], 5, 0, **SIZE, stream=bench.first)
    assert bench.buffer.ownership.stream is None


def test_copies_and_kernels_hand_over_to_each_other(bench, gate):
    host = PinnedBuffer(bench.device, NBYTES)
    gate.close_on(bench.first)
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    copy(host, bench.buffer, stream=bench.second)
    bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    assert bench.waits == (2, 0)
    gate.open()
    assert words(host) == [5] * WORDS
    assert words(bench.buffer) == [6] * WORDS


def test_a_copy_without_a_stream_is_taken_by_the_stream_it_runs_on(bench):
    host = PinnedBuffer(bench.device, NBYTES)
    target = DeviceBuffer(bench.device, NBYTES)
    bench.fill(target, 5, WORDS, **SIZE, stream=bench.first)
    copy(host, target)
    assert target.ownership.stream is bench.device.default_stream
    assert bench.waits == (1, 0)
    assert words(host) == [5] * WORDS


# -- a launch that is repeated -------------------------------------------------------------------------------------


def test_a_prepared_launch_waits_for_what_another_stream_wrote_in_between(bench, gate):
    add = bench.add.prepare(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    add()
    gate.close_on(bench.second)
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.second)
    before = bench.waits
    add()
    assert bench.waits == (before[0] + 1, 0)
    assert not bench.first.ready()
    gate.open()
    assert words(bench.buffer) == [6] * WORDS


def test_a_prepared_launch_is_waited_for_again_after_a_synchronisation(bench):
    add = bench.add.prepare(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    for expected in (1, 3):
        add()
        if expected > 1:
            add()
        assert bench.buffer.ownership.dirty
        assert words(bench.buffer) == [expected] * WORDS
    assert bench.waits == (0, 2)


@pytest.mark.parametrize("finish", ["synchronize", "ready"])
def test_work_submitted_while_a_synchronisation_is_under_way_stays_dirty(bench, gate, finish, monkeypatch):
    """The synchronisation covers what was there when it began, also when a launch was repeated during it."""
    add = bench.add.prepare(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    add()
    add()
    api = bench.device.driver.api
    name = {"synchronize": "cuStreamSynchronize", "ready": "cuStreamQuery"}[finish]
    original = getattr(api, name)

    def launch_meanwhile(handle):
        api.cuStreamSynchronize = type(api).cuStreamSynchronize.__get__(api)
        api.cuStreamSynchronize(handle)
        answer = original(handle)
        gate.close_on(bench.first)
        add()
        return answer

    monkeypatch.setattr(api, name, launch_meanwhile, raising=False)
    getattr(bench.first, finish)()
    monkeypatch.undo()
    api.__dict__.pop("cuStreamSynchronize", None)
    assert bench.buffer.ownership.dirty
    gate.open()
    assert words(bench.buffer) == [3] * WORDS


def test_a_repeated_launch_looks_at_its_memory_once_until_something_changes(bench):
    add = bench.add.prepare(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    add()
    looked = bench.first.submitted
    for _ in range(5):
        add()
    assert bench.first.submitted == looked
    bench.first.synchronize()
    add()
    assert bench.first.submitted == looked + 1


@pytest.mark.parametrize("change", ["reset", "tracked"])
def test_a_prepared_launch_owns_its_memory_again_after_it_was_forgotten(bench, gate, change):
    add = bench.add.prepare(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    gate.close_on(bench.first)
    add()
    if change == "reset":
        bench.buffer.ownership.reset()
    else:
        bench.buffer.tracked = False
        bench.buffer.tracked = True
    add()
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.second)
    assert bench.waits == (1, 0)
    gate.open()
    assert words(bench.buffer) == [5] * WORDS


def test_a_prepared_launch_notices_that_its_buffer_was_closed(bench):
    add = bench.add.prepare(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    add()
    bench.buffer.close()
    with pytest.raises(ClosedError, match="argument 0 of cudabw_add_u32: this mapped buffer of 256 bytes was closed"):
        add()


def test_a_prepared_launch_notices_that_an_untracked_buffer_was_closed(bench):
    bench.buffer.tracked = False
    add = bench.add.prepare(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    add()
    bench.first.synchronize()
    bench.buffer.close()
    with pytest.raises(ClosedError):
        add()


def test_a_prepared_launch_notices_that_its_stream_was_closed(bench):
    add = bench.add.prepare(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    add()
    bench.first.close()
    with pytest.raises(ClosedError, match="this stream was closed"):
        add()


def test_a_prepared_launch_notices_that_its_device_was_closed(bench):
    add = bench.add.prepare(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    add()
    bench.device.close()
    with pytest.raises(ClosedError):
        add()


def test_closing_a_buffer_waits_for_a_repeated_launch(bench):
    buffer = DeviceBuffer(bench.device, NBYTES)
    add = bench.add.prepare(buffer, 1, WORDS, **SIZE, stream=bench.first)
    add()
    bench.first.synchronize()
    add()
    add()
    buffer.close()
    assert bench.waits == (0, 1)


def test_a_buffer_that_cannot_be_closed_yet_stays_usable(bench):
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    with Gate(bench.device) as gate:
        gate.close_on(bench.first)
        with pytest.raises(CudabwError, match="closed gate"):
            bench.buffer.close()
    assert not bench.buffer.closed
    assert words(bench.buffer) == [5] * WORDS


def test_threads_that_launch_on_the_same_buffer_lose_nothing(bench):
    """Hand-over and submission are one step, so that every addition comes after the one before."""
    streams = [bench.device.stream() for _ in range(4)]
    launches = [bench.add.prepare(bench.buffer, 1, WORDS, **SIZE, stream=stream) for stream in streams]
    start = threading.Barrier(len(launches))

    def work(launch):
        bench.device.activate()
        start.wait()
        for _ in range(50):
            launch()

    threads = [threading.Thread(target=work, args=(launch,)) for launch in launches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert words(bench.buffer) == [200] * WORDS


# -- opting out ----------------------------------------------------------------------------------------------------


def test_an_untracked_buffer_is_never_waited_for(bench, gate):
    bench.buffer.tracked = False
    gate.close_on(bench.first)
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    bench.fill(bench.buffer, 6, WORDS, **SIZE, stream=bench.second)
    bench.second.synchronize()
    assert words(bench.buffer) == [6] * WORDS
    gate.open()
    bench.first.synchronize()
    assert words(bench.buffer) == [5] * WORDS
    assert bench.waits == (0, 0)


@pytest.mark.parametrize("prepared", [False, True])
def test_tracking_can_be_turned_on_between_launches(bench, gate, prepared):
    bench.buffer.tracked = False
    launch = bench.fill.prepare(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    launch()
    bench.buffer.tracked = True
    gate.close_on(bench.first)
    if prepared:
        launch()
    else:
        bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.second)
    assert bench.waits == (1, 0)
    gate.open()
    assert words(bench.buffer) == [6] * WORDS


def test_tracking_can_be_turned_off_between_launches(bench):
    launch = bench.fill.prepare(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    launch()
    bench.buffer.tracked = False
    launch()
    assert bench.buffer.ownership.stream is None
    bench.first.synchronize()


# -- captures ------------------------------------------------------------------------------------------------------


def test_captured_memory_is_waited_for_until_it_is_reset(bench):
    with capture(bench.first) as recording:
        bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    bench.first.synchronize()
    assert bench.buffer.ownership.captured
    assert bench.waits == (0, 0)
    bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.second)
    assert bench.waits == (1, 0)
    bench.second.synchronize()
    bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    assert bench.waits == (2, 0)
    assert words(bench.buffer) == words(bench.buffer) == [2] * WORDS
    assert bench.waits == (2, 2)
    bench.buffer.ownership.reset()
    bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.second)
    assert bench.waits == (2, 2)
    recording.graph.close()
    bench.second.synchronize()


def test_a_prepared_launch_that_is_captured_taints_its_memory(bench):
    add = bench.add.prepare(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    add()
    with capture(bench.first):
        add()
    assert bench.buffer.ownership.captured


def test_a_capture_begun_by_another_library_is_noticed_after_a_synchronisation(bench):
    add = bench.add.prepare(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    add()
    bench.first.synchronize()
    bench.device.call("cuStreamBeginCapture", bench.first.handle, 0)
    add()
    with pytest.raises(CudabwError, match="is being captured"):
        bench.first.synchronize()
    bench.device.call("cuGraphDestroy", bench.device.call("cuStreamEndCapture", bench.first.handle))
    assert bench.buffer.ownership.captured


def test_captured_memory_of_a_closed_stream_can_be_used(bench):
    with capture(bench.first):
        bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    bench.first.close()
    bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.second)
    assert bench.waits == (0, 0)
    assert words(bench.buffer) == [1] * WORDS


def test_a_graph_takes_the_memory_it_uses(bench, gate):
    with capture(bench.first) as recording:
        bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    bench.first.synchronize()
    third = bench.device.stream()
    gate.close_on(bench.second)
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.second)
    recording.graph.launch(third)
    recording.graph.launch(third)
    assert bench.buffer.ownership.stream is third
    assert not third.ready()
    gate.open()
    assert words(bench.buffer) == [7] * WORDS
    recording.graph.close()
    with pytest.raises(ClosedError, match="graph"):
        recording.graph.launch(third)


def attempt_foreign_memory(bench):
    bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)


def attempt_other_stream(bench):
    bench.add(bench.recorded, 1, WORDS, **SIZE, stream=bench.second)


def attempt_host(bench):
    bench.recorded.array()


def attempt_close(bench):
    bench.recorded.close()


def attempt_synchronise(bench):
    bench.first.synchronize()


def attempt_synchronise_device(bench):
    bench.device.synchronize()


def attempt_capture_again(bench):
    with capture(bench.first):
        pass


@pytest.mark.parametrize(
    "attempt",
    [
        attempt_foreign_memory,
        attempt_other_stream,
        attempt_host,
        attempt_close,
        attempt_synchronise,
        attempt_synchronise_device,
        attempt_capture_again,
    ],
)
def test_whatever_would_wait_during_a_capture_is_refused_and_the_capture_goes_on(bench, attempt):
    bench.recorded = MappedBuffer(bench.device, NBYTES)
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.second)
    with capture(bench.first) as recording:
        bench.fill(bench.recorded, 1, WORDS, **SIZE, stream=bench.first)
        with pytest.raises(CudabwError, match="is being captured") as refused:
            attempt(bench)
        assert not isinstance(refused.value, DriverError)
        assert refused.value.hint
        assert not bench.first.ready()
        bench.add(bench.recorded, 1, WORDS, **SIZE, stream=bench.first)
    assert bench.waits == (0, 0)
    recording.graph.launch(bench.first)
    assert words(bench.recorded) == [2] * WORDS
    assert words(bench.buffer) == [5] * WORDS


def test_clean_memory_of_another_stream_can_be_captured(bench):
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.second)
    bench.second.synchronize()
    with capture(bench.first) as recording:
        bench.add(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
    recording.graph.launch(bench.first)
    assert words(bench.buffer) == [6] * WORDS


def test_a_block_that_fails_ends_its_capture(bench):
    recordings = []

    def fail():
        with capture(bench.first) as recording:
            recordings.append(recording)
            bench.fill(bench.buffer, 1, WORDS, **SIZE, stream=bench.first)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with pytest.raises(CudabwError, match="no graph"):
        _ = recordings[0].graph
    bench.buffer.ownership.reset()
    bench.fill(bench.buffer, 2, WORDS, **SIZE, stream=bench.first)
    assert words(bench.buffer) == [2] * WORDS


def test_captured_memory_that_was_collected_is_freed_only_with_the_device(bench):
    released = []
    buffer = DeviceBuffer(bench.device, NBYTES)
    original = buffer._allocation._release
    buffer._allocation._release = lambda: (released.append(True), original())
    with capture(bench.first):
        bench.fill(buffer, 1, WORDS, **SIZE, stream=bench.first)
    bench.first.synchronize()
    del buffer
    bench.device.reap()
    assert not released
    bench.device.close()
    assert released


# -- several devices -----------------------------------------------------------------------------------------------


@pytest.fixture
def make_pair(make_device):
    others = []

    def make(peer_access=True):
        near = make_device(shape=Shape(devices=2, peer_access=peer_access))
        others.append(make_device(1, driver=near.driver))
        return Bench(near), others[-1]

    yield make
    # Before the driver that both share is closed with the first.
    for other in others:
        other.close()


def is_free(lock):
    """Whether another thread could take the lock now."""
    free = []

    def look():
        free.append(lock.acquire(blocking=False))
        if free[0]:
            lock.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return free[0]


def count_calls(device, function):
    api, calls = device.driver.api, []
    original = getattr(api, function)
    setattr(api, function, lambda *args: (calls.append(args), original(*args))[1])
    return calls


def test_peer_access_is_enabled_once(make_pair):
    bench, far = make_pair()
    calls = count_calls(far, "cuCtxEnablePeerAccess")
    for _ in range(2):
        bench.fill(DeviceBuffer(far, NBYTES), 5, WORDS, **SIZE, stream=bench.first)
    prepared = bench.fill.prepare(DeviceBuffer(far, NBYTES), 5, WORDS, **SIZE, stream=bench.first)
    prepared()
    prepared()
    bench.first.synchronize()
    assert len(calls) == 1


def test_peer_access_that_another_library_enabled_is_used(make_pair):
    bench, far = make_pair()
    context = far.driver.call("cuDevicePrimaryCtxRetain", far.handle)
    bench.device.call("cuCtxEnablePeerAccess", context, 0)
    far.driver.call("cuDevicePrimaryCtxRelease", far.handle)
    bench.fill(DeviceBuffer(far, NBYTES), 5, WORDS, **SIZE, stream=bench.first)
    bench.first.synchronize()


def test_memory_out_of_reach_is_an_error_that_names_both_devices_and_both_remedies(make_pair):
    bench, far = make_pair(peer_access=False)
    with pytest.raises(UnsupportedError) as refused:
        bench.fill(DeviceBuffer(far, NBYTES), 5, WORDS, **SIZE, stream=bench.first)
    assert refused.value.message == (
        "a kernel on device 0 cannot reach memory of device 1: there is no peer access between the two"
    )
    assert refused.value.hint == (
        "Copy it into memory of device 0 first, or use managed or mapped host memory, which every device reaches."
    )


@pytest.mark.parametrize("memory", [MappedBuffer, ManagedBuffer])
def test_host_and_managed_memory_of_another_device_needs_no_peer_access(make_pair, memory):
    bench, far = make_pair(peer_access=False)
    buffer = memory(far, NBYTES)
    bench.fill(buffer, 5, WORDS, **SIZE, stream=bench.first)
    assert words(buffer) == [5] * WORDS


def test_copies_need_no_peer_access(make_pair):
    bench, far = make_pair(peer_access=False)
    target, host = DeviceBuffer(far, NBYTES), PinnedBuffer(far, NBYTES)
    host.array(np.uint32)[:] = 9
    copy(target, host, stream=bench.first)
    assert target.ownership.stream is bench.first
    back = PinnedBuffer(far, NBYTES)
    copy(back, target, stream=bench.second)
    assert words(back) == [9] * WORDS
    assert bench.waits == (1, 0)


def test_streams_of_different_devices_hand_over_to_each_other(make_pair):
    bench, far = make_pair()
    buffer = MappedBuffer(bench.device, NBYTES)
    there = Bench(far)
    here = bench.add.prepare(buffer, 1, WORDS, **SIZE, stream=bench.first)
    with Gate(bench.device) as gate:
        gate.close_on(bench.first)
        here()
        there.add(buffer, 1, WORDS, **SIZE, stream=there.first)
        here()
        here()
        assert bench.device.waits.stream == 1
        assert far.waits.stream == 1
        gate.open()
    assert words(buffer) == [4] * WORDS


def test_threads_on_two_devices_lose_nothing_and_never_lock_each_other(make_pair):
    bench, far = make_pair()
    there = Bench(far)
    mine, theirs = MappedBuffer(bench.device, NBYTES), MappedBuffer(far, NBYTES)
    start = threading.Barrier(2)

    def work(side):
        side.device.activate()
        start.wait()
        for _ in range(50):
            side.add(mine, 1, WORDS, **SIZE, stream=side.first)
            side.add(theirs, 1, WORDS, **SIZE, stream=side.first)

    threads = [threading.Thread(target=work, args=(side,)) for side in (bench, there)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert words(mine) == words(theirs) == [100] * WORDS


@pytest.mark.parametrize("submit", ["copy", "kernel", "prepared"])
def test_a_submission_holds_the_locks_of_all_devices_whose_memory_it_uses(make_pair, submit):
    bench, far = make_pair()
    buffer = DeviceBuffer(far, NBYTES)
    function = "cuMemcpyDtoDAsync" if submit == "copy" else "cuLaunchKernelEx"
    original, free = getattr(far.driver.api, function), []

    def see_who_waits(*args):
        free.extend(is_free(device.lock) for device in (bench.device, far))
        return original(*args)

    setattr(far.driver.api, function, see_who_waits)
    if submit == "copy":
        copied = PreparedCopy(buffer, DeviceBuffer(bench.device, NBYTES), bench.first)
        copied.submit()
        copied.submit()
    elif submit == "kernel":
        bench.fill(buffer, 5, WORDS, **SIZE, stream=bench.first)
        bench.fill(buffer, 5, WORDS, **SIZE, stream=bench.first)
    else:
        launch = bench.fill.prepare(buffer, 5, WORDS, **SIZE, stream=bench.first)
        launch()
        launch()
    assert free == [False] * 4
    bench.first.synchronize()


@pytest.mark.parametrize("tracked", [True, False])
def test_only_an_untracked_launch_is_repeated_without_the_lock(bench, tracked):
    original, free = bench.device.driver.api.cuLaunchKernelEx, []

    def see_who_waits(*args):
        free.append(is_free(bench.device.lock))
        return original(*args)

    bench.device.driver.api.cuLaunchKernelEx = see_who_waits
    bench.buffer.tracked = tracked
    launch = bench.fill.prepare(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    launch()
    launch()
    assert free == [False, not tracked]
    bench.first.synchronize()
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    launch()
    launch()
    assert free[2:] == [False, False, not tracked]
    bench.first.synchronize()


def test_a_submission_leaves_the_locks_free(bench):
    bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    launch = bench.fill.prepare(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)
    launch()
    bench.buffer.close()
    for attempt in (launch, lambda: bench.fill(bench.buffer, 5, WORDS, **SIZE, stream=bench.first)):
        with pytest.raises(ClosedError):
            attempt()
    assert is_free(bench.device.lock)


def test_a_call_that_repeats_another_looks_at_its_memory_again_when_something_changed(bench, gate):
    other = MappedBuffer(bench.device, NBYTES)
    first, second = ({**SIZE, "stream": stream} for stream in (bench.first, bench.second))
    for buffer in (bench.buffer, bench.buffer, other, bench.buffer):
        bench.add(buffer, 1, WORDS, **first)
    gate.close_on(bench.first)
    bench.add(bench.buffer, 1, WORDS, **first)
    bench.add(bench.buffer, 1, WORDS, **second)
    bench.add(bench.buffer, 1, WORDS, **first)
    bench.add(bench.buffer, 1, WORDS, **first)
    assert bench.waits == (2, 0)
    gate.open()
    bench.first.synchronize()
    bench.add(bench.buffer, 1, WORDS, **first)
    assert bench.buffer.ownership.dirty
    assert words(bench.buffer) == [8] * WORDS
    assert words(other) == [1] * WORDS
    bench.buffer.close()
    with pytest.raises(ClosedError, match=r"argument 0 of cudabw_add_u32: this mapped buffer of \d+ bytes was closed"):
        bench.add(bench.buffer, 1, WORDS, **first)
