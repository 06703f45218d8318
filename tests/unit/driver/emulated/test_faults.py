import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from cudabw.driver.emulated import EmulatedDriver, Fault, Shape
from cudabw.driver.emulated.faults import FaultBook
from cudabw.driver.emulated.refusals import Refusal


def test_the_nth_call_fails_and_does_nothing(make_rig):
    rig = make_rig(faults=[Fault(function="cuMemAlloc", status=2, nth=2)])
    before = rig.call("cuMemGetInfo")
    first = rig.device(512)
    assert rig.api.cuMemAlloc(512) == (cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY, None)
    rig.call("cuMemFree", first)
    assert rig.call("cuMemGetInfo") == before
    rig.device(512)


def test_without_a_number_every_call_fails(make_rig):
    rig = make_rig(faults=[Fault(function="cuStreamCreate", status=999)])
    assert [rig.status("cuStreamCreate", 0) for _ in range(3)] == [999] * 3


def test_only_calls_of_enough_bytes_are_counted(make_rig):
    rig = make_rig(faults=[Fault(function="cuMemHostAlloc", status=2, nth=2, at_least_bytes=4096)])
    assert [rig.status("cuMemHostAlloc", size, 0) for size in (4096, 64, 64, 4095, 4096, 4096)] == [0, 0, 0, 0, 2, 0]


def test_the_bytes_of_a_batch_count_together(make_rig):
    rig = make_rig(faults=[Fault(function="cuMemcpyBatchAsync", status=46, at_least_bytes=100)])
    stream, device = rig.stream(), rig.device(64)
    other = rig.device(64)

    def batch(sizes):
        ends = [device] * len(sizes), [other] * len(sizes)
        attributes = cuda.CUmemcpyAttributes()
        attributes.srcAccessOrder = cuda.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
        return rig.status("cuMemcpyBatchAsync", *ends, sizes, len(sizes), [attributes], [0], 1, stream)

    assert batch([64, 35]) == 0
    assert batch([64, 36]) == 46


def test_keyword_arguments_are_counted_too(make_rig):
    rig = make_rig(faults=[Fault(function="cuMemAlloc", status=2, at_least_bytes=100)])
    assert int(rig.api.cuMemAlloc(bytesize=100)[0]) == 2
    assert int(rig.api.cuMemAlloc(bytesize=99)[0]) == 0


def test_a_status_that_the_bindings_do_not_know_is_a_value_error_as_in_the_bindings(make_rig):
    rig = make_rig(faults=[Fault(function="cuMemGetInfo", status=98765)])
    with pytest.raises(ValueError, match="98765"):
        rig.api.cuMemGetInfo()


@pytest.mark.parametrize("direction", ["h2d", "d2h", None])
def test_a_dropped_copy_reports_success_and_changes_nothing(make_rig, direction):
    rig = make_rig(faults=[Fault(copy="drop", nth=2, direction=direction)])
    device, out = rig.device(64), np.zeros(64, np.uint8)
    host = np.full(64, 1, np.uint8)
    rig.call("cuMemsetD8", device, 7, 64)
    for _ in range(2):
        rig.call("cuMemcpyHtoD", device, host, 64)
        host[:] = 2
        rig.call("cuMemcpyDtoH", out, device, 64)
    expected = {"h2d": 1, "d2h": 1, None: 2}[direction]
    assert (out == expected).all()


def test_the_second_copy_of_any_direction_is_dropped(make_rig):
    rig = make_rig(faults=[Fault(copy="drop", nth=2)])
    device, out = rig.device(64), np.zeros(64, np.uint8)
    rig.call("cuMemcpyHtoD", device, np.full(64, 1, np.uint8), 64)
    rig.call("cuMemcpyDtoH", out, device, 64)
    assert not out.any()


def test_a_corrupted_copy_differs_in_one_byte(make_rig):
    rig = make_rig(faults=[Fault(copy="corrupt", direction="h2d", at_least_bytes=64)])
    device, source = rig.device(64), np.arange(64, dtype=np.uint8)
    rig.call("cuMemcpyHtoD", device, source, 63)
    assert (rig.read(device, 63) == source[:63]).all()
    rig.call("cuMemcpyHtoD", device, source, 64)
    assert (rig.read(device, 64) != source).sum() == 1


def test_copies_made_by_kernels_are_copies(make_rig):
    rig = make_rig(faults=[Fault(copy="drop", direction="h2d")])
    stream, device = rig.stream(), rig.device(64)
    host, octets = rig.pinned(64, 2)
    octets[:] = 5
    rig.call("cuMemsetD8", device, 0, 64)
    parameters = ((device, int(rig.call("cuMemHostGetDevicePointer", host, 0)), 64), (ctypes.c_uint64,) * 3)
    assert rig.launch(rig.function(b"cudabw_copy"), stream, parameters) == 0
    rig.call("cuStreamSynchronize", stream)
    assert not rig.read(device, 64).any()


def test_a_delay_is_added_in_real_time(make_rig):
    rig = make_rig(faults=[Fault(function="cuMemGetInfo", delay_s=0.02)])
    before = time.perf_counter()
    rig.call("cuMemGetInfo")
    assert time.perf_counter() - before >= 0.02


@pytest.mark.parametrize("status", [None, 46])
def test_a_lost_device_answers_every_later_call(make_rig, status):
    rig = make_rig(faults=[Fault(lose_device=True, function="cuMemcpyHtoDAsync", nth=2, status=status)])
    stream, device = rig.stream(), rig.device(64)
    host, _ = rig.pinned(64)
    assert rig.status("cuMemcpyHtoDAsync", device, host, 64, stream) == 0
    expected = status or 719
    assert rig.status("cuMemcpyHtoDAsync", device, host, 64, stream) == expected
    assert rig.status("cuStreamSynchronize", stream) == expected
    assert rig.status("cuMemFree", device) == expected
    assert rig.api.cuMemAlloc(4) == (cuda.CUresult(expected), None)
    assert rig.status("cuDeviceGetCount") == expected


def test_the_device_can_be_lost_after_a_number_of_calls_of_any_kind():
    api = EmulatedDriver(faults=[Fault(lose_device=True, nth=3)])
    assert [int(api.cuDriverGetVersion()[0]) for _ in range(4)] == [0, 0, 719, 719]


def test_losing_the_device_frees_whoever_waits_behind_a_closed_gate(make_rig):
    rig = make_rig(faults=[Fault(lose_device=True, function="cuMemGetInfo")])
    stream, word = rig.stream(), rig.device(4)
    rig.call("cuMemsetD8", word, 0, 4)
    rig.call("cuStreamWaitValue32", stream, word, 1, 0)
    seen = []

    def wait():
        rig.call("cuCtxSetCurrent", rig.context)
        entered.set()
        seen.append(rig.status("cuStreamSynchronize", stream))

    entered = threading.Event()
    waiter = threading.Thread(target=wait)
    waiter.start()
    entered.wait()
    assert rig.status("cuMemGetInfo") == 719
    waiter.join(10)
    assert seen == [719]


def test_a_hanging_call_returns_for_no_signal():
    program = """
        import signal, threading
        from cudabw.driver.emulated import EmulatedDriver, Fault

        signal.signal(signal.SIGINT, lambda *_: print("handled", flush=True))
        api = EmulatedDriver(faults=[Fault(function="cuInit", hang=True)])
        threading.Timer(0.05, print, ("alive",), {"flush": True}).start()
        api.cuInit(0)
        print("returned", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "alive\n"
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
        process.kill()
        assert process.stdout.read() == ""


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"function": "cuInit"},
        {"status": 2},
        {"function": "cuInit", "status": 2, "hang": True},
        {"function": "cuInit", "status": 0},
        {"function": "cuInit", "status": 2, "nth": 0},
        {"function": "cuInit", "status": 2, "at_least_bytes": 0},
        {"function": "cuInit", "status": 2, "direction": "h2d"},
        {"function": "init", "status": 2},
        {"function": "cuInit", "copy": "drop"},
        {"copy": "lose"},
        {"copy": "drop", "direction": "up"},
        {"function": "cuInit", "delay_s": -1.0},
        {"hang": True},
    ],
)
def test_a_fault_that_cannot_be_meant_is_refused(arguments):
    with pytest.raises(ValueError, match=r"."):
        Fault(**arguments)


def test_a_fault_in_a_function_that_is_not_emulated_is_refused_rather_than_never_seen():
    with pytest.raises(ValueError, match="cuMemAllocPitch is not emulated"):
        EmulatedDriver(Shape(), [Fault(function="cuMemAllocPitch", status=1)])


def test_faults_are_counted_once_however_many_threads_call():
    book, fired = FaultBook([Fault(function="cuInit", status=1, nth=200)]), []

    def call():
        for _ in range(100):
            try:
                book.enter("cuInit", 0)
            except Refusal:
                fired.append(True)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fired == [True]


def test_whoever_asks_is_told_what_slows_the_device_down(make_rig):
    faults = [Fault(throttle="hw_slowdown", nth=2), Fault(throttle="sw_power_cap", nth=2), Fault(throttle="x", nth=3)]
    rig = make_rig(faults=faults)
    rig.call("cuMemGetInfo")
    assert [rig.api.throttled_by() for _ in range(4)] == [(), ("hw_slowdown", "sw_power_cap"), ("x",), ()]


def test_without_a_fault_nothing_slows_the_device_down(make_rig):
    assert make_rig(faults=[Fault(function="cuMemAlloc", status=2)]).api.throttled_by() == ()


@pytest.mark.parametrize(
    "other", [{"function": "cuMemAlloc"}, {"at_least_bytes": 1}, {"status": 2}, {"direction": "h2d"}]
)
def test_a_slow_device_has_nothing_beside_it_but_a_number(other):
    with pytest.raises(ValueError, match=r"throttle|direction"):
        Fault(throttle="hw_slowdown", **other)
