import threading

import numpy as np
import pytest
from cuda.bindings import driver as cuda

GLOBAL, THREAD_LOCAL, RELAXED = cuda.CUstreamCaptureMode
STATUS = cuda.CUstreamCaptureStatus


@pytest.fixture
def stream(rig):
    return rig.stream()


def begin(rig, stream, mode=RELAXED):
    rig.call("cuStreamBeginCapture", stream, mode)


def test_captured_work_is_recorded_and_runs_on_every_launch_in_order(rig, stream):
    address, word = rig.device(8), rig.device(4)
    rig.call("cuMemsetD8", address, 1, 8)
    begin(rig, stream)
    rig.call("cuMemsetD8Async", address, 2, 8, stream)
    rig.call("cuMemsetD8Async", address, 3, 4, stream)
    rig.call("cuStreamWriteValue32", stream, word, 5, 0)
    graph = rig.call("cuStreamEndCapture", stream)
    rig.call("cuStreamSynchronize", stream)
    assert list(rig.read(address, 8)) == [1] * 8
    executable = rig.call("cuGraphInstantiate", graph, 0)
    rig.call("cuGraphDestroy", graph)
    for _ in range(2):
        rig.call("cuMemsetD8", address, 1, 8)
        rig.call("cuGraphLaunch", executable, stream)
        rig.call("cuStreamSynchronize", stream)
        assert list(rig.read(address, 8)) == [3] * 4 + [2] * 4
    assert rig.read(word, 4).view(np.uint32)[0] == 5
    rig.call("cuGraphExecDestroy", executable)
    assert rig.status("cuGraphLaunch", executable, stream) == 400
    assert rig.status("cuGraphInstantiate", graph, 0) == 400


def test_a_capture_says_so(rig, stream):
    assert rig.call("cuStreamIsCapturing", stream) == STATUS.CU_STREAM_CAPTURE_STATUS_NONE
    status, number, graph, *_ = rig.call("cuStreamGetCaptureInfo", stream)
    assert (status, int(number), int(graph)) == (STATUS.CU_STREAM_CAPTURE_STATUS_NONE, 0, 0)
    begin(rig, stream)
    assert rig.call("cuStreamIsCapturing", stream) == STATUS.CU_STREAM_CAPTURE_STATUS_ACTIVE
    status, number, graph, *_ = rig.call("cuStreamGetCaptureInfo", stream)
    assert status == STATUS.CU_STREAM_CAPTURE_STATUS_ACTIVE
    assert int(number) == 1
    assert int(rig.call("cuStreamEndCapture", stream)) == int(graph)
    begin(rig, stream)
    assert int(rig.call("cuStreamGetCaptureInfo", stream)[1]) == 2


@pytest.mark.parametrize("spoil", ["cuStreamSynchronize", "cuStreamQuery"])
def test_synchronising_a_capturing_stream_is_refused_and_spoils_the_capture(rig, stream, spoil):
    begin(rig, stream)
    assert rig.status(spoil, stream) == 900
    assert rig.call("cuStreamIsCapturing", stream) == STATUS.CU_STREAM_CAPTURE_STATUS_INVALIDATED
    assert rig.status("cuMemsetD8Async", rig.device(4), 0, 4, stream) == 901
    assert rig.api.cuStreamEndCapture(stream) == (cuda.CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, None)
    assert rig.status("cuStreamSynchronize", stream) == 0


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (("cuCtxSynchronize",), 900),
        (("cuMemAlloc", 4), 900),
        (("cuMemHostAlloc", 4, 0), 900),
        (("cuMemsetD8", 0, 0, 0), 906),
    ],
)
@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL])
def test_a_strict_capture_does_not_survive_unsafe_calls(rig, stream, call, status, mode):
    begin(rig, stream, mode)
    assert rig.status(*call) == status
    assert rig.status("cuStreamEndCapture", stream) == 901


def test_a_relaxed_capture_does(rig, stream):
    begin(rig, stream)
    rig.device(4)
    assert rig.status("cuStreamEndCapture", stream) == 0


@pytest.mark.parametrize(("mode", "status"), [(GLOBAL, 900), (THREAD_LOCAL, 0), (RELAXED, 0)])
def test_another_thread_disturbs_only_a_global_capture(rig, stream, mode, status):
    begin(rig, stream, mode)
    seen = []

    def allocate():
        rig.call("cuCtxSetCurrent", rig.context)
        seen.append(rig.status("cuMemAlloc", 4))

    thread = threading.Thread(target=allocate)
    thread.start()
    thread.join()
    assert seen == [status]


@pytest.mark.parametrize(("mode", "status"), [(GLOBAL, 908), (THREAD_LOCAL, 908), (RELAXED, 0)])
def test_only_a_relaxed_capture_is_ended_by_another_thread(rig, stream, mode, status):
    begin(rig, stream, mode)
    seen = []

    def end():
        rig.call("cuCtxSetCurrent", rig.context)
        seen.append(rig.status("cuStreamEndCapture", stream))

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    assert seen == [status]


def test_captures_begin_and_end_once(rig, stream):
    assert rig.status("cuStreamEndCapture", stream) == 401
    begin(rig, stream)
    assert rig.status("cuStreamBeginCapture", stream, RELAXED) == 401
    assert rig.status("cuStreamBeginCapture", rig.stream(), 3) == 1


def test_captures_stay_apart_from_other_streams(rig, stream):
    other, event = rig.stream(), rig.event()
    rig.call("cuEventRecord", event, other)
    begin(rig, stream)
    assert rig.status("cuStreamWaitEvent", stream, event, 0) == 905
    assert rig.status("cuStreamEndCapture", stream) == 901
    begin(rig, stream)
    rig.call("cuEventRecord", event, stream)
    assert rig.status("cuStreamWaitEvent", stream, event, 0) == 0
    assert rig.status("cuStreamWaitEvent", other, event, 0) == 905
    assert rig.status("cuStreamEndCapture", stream) == 901


def test_a_captured_event_cannot_be_waited_for_by_the_host(rig, stream):
    event = rig.event()
    begin(rig, stream)
    rig.call("cuEventRecord", event, stream)
    assert rig.status("cuEventQuery", event) == 907
    assert rig.status("cuEventSynchronize", event) == 907
    assert rig.status("cuStreamEndCapture", stream) == 901


def test_destroying_a_capturing_stream_ends_its_capture(rig, stream):
    begin(rig, stream, GLOBAL)
    rig.call("cuStreamDestroy", stream)
    assert rig.status("cuMemAlloc", 4) == 0


def test_a_captured_copy_of_pageable_memory_reads_it_when_the_graph_runs(rig, stream):
    source, address = np.full(64, 1, np.uint8), rig.device(64)
    begin(rig, stream)
    rig.call("cuMemcpyHtoDAsync", address, source, 64, stream)
    executable = rig.call("cuGraphInstantiate", rig.call("cuStreamEndCapture", stream), 0)
    source[:] = 2
    rig.call("cuGraphLaunch", executable, stream)
    rig.call("cuStreamSynchronize", stream)
    assert (rig.read(address, 64) == 2).all()


def test_a_graph_that_uses_freed_memory_fails_with_an_illegal_address(rig, stream):
    address = rig.device(64)
    begin(rig, stream)
    rig.call("cuMemcpyDtoHAsync", rig.pinned(64)[0], address, 64, stream)
    executable = rig.call("cuGraphInstantiate", rig.call("cuStreamEndCapture", stream), 0)
    rig.call("cuMemFree", address)
    rig.call("cuGraphLaunch", executable, stream)
    assert rig.status("cuStreamSynchronize", stream) == 700


def test_a_graph_captured_into_another_runs_as_part_of_it(rig, stream):
    address = rig.device(4)
    rig.call("cuMemsetD8", address, 0, 4)
    begin(rig, stream)
    rig.call("cuMemsetD8Async", address, 6, 4, stream)
    inner = rig.call("cuGraphInstantiate", rig.call("cuStreamEndCapture", stream), 0)
    begin(rig, stream)
    rig.call("cuGraphLaunch", inner, stream)
    outer = rig.call("cuGraphInstantiate", rig.call("cuStreamEndCapture", stream), 0)
    assert list(rig.read(address, 4)) == [0] * 4
    rig.call("cuGraphLaunch", outer, stream)
    rig.call("cuStreamSynchronize", stream)
    assert list(rig.read(address, 4)) == [6] * 4
