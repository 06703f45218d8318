import ctypes
import threading
import time

import numpy as np
import pytest

from cudabw.driver.emulated import Shape
from cudabw.driver.emulated.streams import QUEUE_DEPTH

NO_TIMING = 2


def test_a_stream_runs_in_order_and_says_when_it_is_done(rig):
    stream, address = rig.stream(), rig.device(4)
    for value in range(300):
        rig.call("cuMemsetD8Async", address, value % 251, 4, stream)
    rig.call("cuStreamSynchronize", stream)
    assert rig.status("cuStreamQuery", stream) == 0
    assert (rig.read(address, 4) == 299 % 251).all()


def test_streams_do_not_wait_for_each_other(rig):
    held, free, address = rig.stream(), rig.stream(), rig.device(64)
    with rig.gated(held):
        rig.call("cuMemsetD8Async", address, 1, 64, held)
        rig.call("cuMemsetD8Async", address, 2, 64, free)
        rig.call("cuStreamSynchronize", free)
        assert rig.status("cuStreamQuery", held) == 600
        assert (rig.read(address, 64) == 2).all()
    rig.call("cuCtxSynchronize")
    assert (rig.read(address, 64) == 1).all()


def test_synchronising_the_context_waits_for_all_streams(rig):
    streams, address = [rig.stream() for _ in range(3)], rig.device(3)
    with rig.gated(*streams):
        for index, stream in enumerate(streams):
            rig.call("cuMemsetD8Async", address + index, index + 1, 1, stream)
    rig.call("cuCtxSynchronize")
    assert list(rig.read(address, 3)) == [1, 2, 3]


def test_a_stream_waits_for_the_record_that_was_latest_when_it_was_asked_to(rig):
    first, second, waiting = rig.stream(), rig.stream(), rig.stream()
    event, address = rig.event(), rig.device(1)
    with rig.gated(second):
        with rig.gated(first):
            rig.call("cuMemsetD8Async", address, 1, 1, first)
            rig.call("cuEventRecord", event, first)
            rig.call("cuStreamWaitEvent", waiting, event, 0)
            rig.call("cuMemsetD8Async", address, 2, 1, waiting)
            rig.call("cuEventRecord", event, second)
            assert rig.status("cuStreamQuery", waiting) == 600
        # The later record, on a stream whose gate is still closed, does not hold it.
        rig.call("cuStreamSynchronize", waiting)
        assert rig.read(address, 1)[0] == 2
        assert rig.status("cuEventQuery", event) == 600


def test_streams_that_one_gate_holds_run_at_the_same_time_however_short_their_work_is(rig):
    """As the engines of a device do; a thread of Python by itself would be through before another begins."""
    streams, address = [rig.stream(), rig.stream()], rig.device(2)
    opened, (starts, ends) = rig.event(), [[rig.event(), rig.event()] for _ in range(2)]
    with rig.gated(streams[0]):
        rig.call("cuEventRecord", opened, streams[0])
        rig.call("cuStreamWaitEvent", streams[1], opened, 0)
        for number, stream in enumerate(streams):
            rig.call("cuEventRecord", starts[number], stream)
            for _ in range(400):
                rig.call("cuMemsetD8Async", address + number, 1, 1, stream)
            rig.call("cuEventRecord", ends[number], stream)
    rig.call("cuCtxSynchronize")
    assert rig.call("cuEventElapsedTime", starts[1], ends[0]) > 0
    assert rig.call("cuEventElapsedTime", starts[0], ends[1]) > 0


def test_waiting_for_an_event_that_was_never_recorded_does_nothing(rig):
    stream, event = rig.stream(), rig.event()
    assert rig.status("cuStreamWaitEvent", stream, event, 0) == 0
    assert rig.status("cuStreamSynchronize", stream) == 0
    assert rig.status("cuEventQuery", event) == 0
    assert rig.status("cuEventSynchronize", event) == 0


def test_events_are_stamped_by_the_stream(rig):
    stream, start, end = rig.stream(), rig.event(), rig.event()
    before = time.perf_counter()
    with rig.gated(stream):
        rig.call("cuEventRecord", start, stream)
        rig.call("cuEventRecord", end, stream)
        assert rig.status("cuEventQuery", end) == 600
        assert rig.api.cuEventElapsedTime(start, end)[1] is None
        assert rig.status("cuEventElapsedTime", start, end) == 600
    rig.call("cuEventSynchronize", end)
    elapsed = rig.call("cuEventElapsedTime", start, end)
    assert 0 <= elapsed <= (time.perf_counter() - before) * 1e3
    assert elapsed == np.float32(elapsed)
    assert rig.call("cuEventElapsedTime", end, start) == -elapsed


def test_elapsed_time_needs_two_timed_and_recorded_events(rig):
    stream, timed, untimed, fresh = rig.stream(), rig.event(), rig.event(NO_TIMING), rig.event()
    for event in (timed, untimed):
        rig.call("cuEventRecord", event, stream)
    rig.call("cuStreamSynchronize", stream)
    assert rig.status("cuEventElapsedTime", timed, untimed) == 400
    assert rig.status("cuEventElapsedTime", timed, fresh) == 400
    assert rig.status("cuEventElapsedTime", timed, timed) == 0
    assert rig.status("cuEventCreate", 8) == 1
    assert rig.status("cuEventCreate", 4) == 1


def test_handles_of_another_type_and_destroyed_ones_are_refused(rig):
    stream, event = rig.stream(), rig.event()
    assert rig.status("cuEventRecord", stream, stream) == 400
    assert rig.status("cuEventRecord", event, event) == 400
    assert rig.status("cuStreamSynchronize", event) == 400
    assert rig.status("cuStreamWaitEvent", stream, stream, 0) == 400
    assert rig.status("cuStreamSynchronize", int(stream)) == 0
    rig.call("cuStreamDestroy", stream)
    rig.call("cuEventDestroy", event)
    assert rig.status("cuStreamSynchronize", stream) == 400
    assert rig.status("cuStreamDestroy", stream) == 400
    assert rig.status("cuEventQuery", event) == 400
    assert rig.status("cuStreamCreate", 2) == 1


def test_an_event_belongs_to_streams_of_its_own_context(make_rig):
    rig = make_rig(shape=Shape(devices=2))
    event = rig.event()
    rig.call("cuCtxSetCurrent", rig.call("cuDevicePrimaryCtxRetain", 1))
    assert rig.status("cuEventRecord", event, rig.stream()) == 400


def test_destroying_a_stream_returns_at_once_and_its_work_still_runs(rig):
    stream, event, address = rig.stream(), rig.event(), rig.device(1)
    with rig.gated(stream):
        rig.call("cuMemsetD8Async", address, 4, 1, stream)
        rig.call("cuEventRecord", event, stream)
        rig.call("cuStreamDestroy", stream)
        assert rig.status("cuEventQuery", event) == 600
    rig.call("cuCtxSynchronize")
    assert rig.status("cuEventQuery", event) == 0
    assert rig.read(address, 1)[0] == 4


def test_a_worker_ends_with_its_stream(rig):
    before = threading.active_count()
    streams, address = [rig.stream() for _ in range(5)], rig.device(1)
    for stream in streams:
        rig.call("cuMemsetD8Async", address, 0, 1, stream)
    workers = [thread for thread in threading.enumerate() if thread.name == "emulated stream"]
    assert len(workers) == 5
    for stream in streams:
        rig.call("cuStreamDestroy", stream)
    for worker in workers:
        worker.join(10)
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("flag", "wanted", "closed", "opened"),
    [(0, 5, 4, 5), (0, 5, 4, 6), (1, 5, 6, 5), (0, 1, 0xFFFFFFFF, 1), (0, 0xFFFFFFFF, 0xFFFFFFFE, 0)],
)
def test_a_stream_waits_for_a_word_in_memory(rig, flag, wanted, closed, opened):
    stream = rig.stream()
    host, octets = rig.pinned(4, 2)
    word = octets.view(np.uint32)
    word[0] = closed
    gate = rig.call("cuMemHostGetDevicePointer", host, 0)
    rig.call("cuStreamWaitValue32", stream, gate, wanted, flag)
    assert rig.status("cuStreamQuery", stream) == 600
    word[0] = opened
    rig.call("cuStreamSynchronize", stream)


def test_words_are_written_by_one_stream_and_awaited_by_another(rig):
    writing, waiting, word, address = rig.stream(), rig.stream(), rig.device(4), rig.device(1)
    rig.call("cuMemsetD8", word, 0, 4)
    rig.call("cuStreamWaitValue32", waiting, word, 77, 1)
    rig.call("cuMemsetD8Async", address, 3, 1, waiting)
    assert rig.status("cuStreamQuery", waiting) == 600
    rig.call("cuStreamWriteValue32", writing, word, 77, 0)
    rig.call("cuStreamSynchronize", waiting)
    assert rig.read(word, 4).view(np.uint32)[0] == 77


def test_a_word_must_be_aligned_and_within_reach(rig):
    stream, word = rig.stream(), rig.device(8)
    mapped, _ = rig.pinned(4, 2)
    assert rig.status("cuStreamWaitValue32", stream, word + 2, 1, 0) == 1
    assert rig.status("cuStreamWaitValue32", stream, mapped, 1, 0) == 1
    assert rig.status("cuStreamWriteValue32", stream, 4096, 1, 0) == 1
    assert rig.status("cuStreamWriteValue32", stream, word, 1, 2) == 1
    assert rig.status("cuStreamWaitValue32", stream, word, 1, 2) == 801
    pinned, _ = rig.pinned(4)
    assert rig.status("cuStreamWriteValue32", stream, pinned, 1, 0) == 0


def test_the_submitter_blocks_when_the_queue_is_full(rig):
    stream, address, submitted = rig.stream(), rig.device(1), []

    def submit():
        rig.call("cuCtxSetCurrent", rig.context)
        for number in range(QUEUE_DEPTH + 5):
            rig.call("cuMemsetD8Async", address, 0, 1, stream)
            submitted.append(number)

    submitter = threading.Thread(target=submit)
    with rig.gated(stream):
        submitter.start()
        deadline = time.monotonic() + 30
        while len(submitted) < QUEUE_DEPTH - 1 and time.monotonic() < deadline:
            time.sleep(0.001)
        submitter.join(0.05)
        # The gate itself is pending too.
        assert len(submitted) == QUEUE_DEPTH - 1
    submitter.join(10)
    assert len(submitted) == QUEUE_DEPTH + 5


def test_many_threads_submit_at_once(rig):
    stream, address, function = rig.stream(), rig.device(400), rig.function(b"cudabw_add_u32")
    rig.call("cuMemsetD8", address, 0, 400)

    def submit():
        rig.call("cuCtxSetCurrent", rig.context)
        for _ in range(50):
            parameters = ((address, 1, 100), (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint64))
            assert rig.launch(function, stream, parameters) == 0

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rig.call("cuStreamSynchronize", stream)
    assert (rig.read(address, 400).view(np.uint32) == 200).all()
