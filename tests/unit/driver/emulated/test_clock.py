import ctypes
import itertools
import statistics
import threading

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from cudabw.driver.emulated import EmulatedDriver, ModelledClock, Shape

MIB = 1 << 20


@pytest.fixture
def modelled(make_rig):
    """Makes a rig on a modelled clock."""
    return lambda rates, shape=None, **settings: make_rig(clock=ModelledClock(rates, **settings), shape=shape)


def elapsed_s(rig, stream, work):
    """Seconds of stream time between two events around some work, queued behind a gate."""
    start, end = rig.event(), rig.event()
    with rig.gated(stream):
        rig.call("cuEventRecord", start, stream)
        work()
        rig.call("cuEventRecord", end, stream)
    rig.call("cuEventSynchronize", end)
    return rig.call("cuEventElapsedTime", start, end) / 1e3


@pytest.mark.parametrize("submit_s", [0.0, 1e-3])
@pytest.mark.parametrize(("name", "direction"), [("cuMemcpyHtoDAsync", "h2d"), ("cuMemcpyDtoHAsync", "d2h")])
def test_copies_behind_a_gate_take_exactly_their_bytes_over_the_rate(modelled, name, direction, submit_s):
    rig = modelled({"h2d": 50e9, "d2h": 25e9}, submit_s=submit_s)
    stream, device = rig.stream(), rig.device(MIB)
    host, _ = rig.pinned(MIB)
    ends = (device, host) if direction == "h2d" else (host, device)

    def copies():
        for _ in range(8):
            rig.call(name, *ends, MIB, stream)

    seconds = elapsed_s(rig, stream, copies)
    assert seconds * 1e3 == ctypes.c_float(8 * MIB / {"h2d": 50e9, "d2h": 25e9}[direction] * 1e3).value


def test_the_data_still_moves(modelled):
    rig = modelled({"h2d": 1e9})
    device = rig.device(64)
    rig.call("cuMemcpyHtoD", device, np.full(64, 3, np.uint8), 64)
    assert (rig.read(device, 64) == 3).all()


def test_queueing_takes_no_virtual_time_and_synchronising_moves_the_host_to_the_later_time(modelled):
    rig = modelled({"h2d": 1e9})
    stream, device = rig.stream(), rig.device(1000)
    host, _ = rig.pinned(1000)
    rig.call("cuMemcpyHtoDAsync", device, host, 1000, stream)
    assert rig.api.now() == 0.0
    rig.call("cuStreamSynchronize", stream)
    assert rig.api.now() == 1e-6
    rig.api._machine.clock.advance(1.0)
    rig.call("cuStreamSynchronize", stream)
    assert rig.api.now() == 1.0 + 1e-6


def test_a_copy_starts_when_it_is_submitted_or_when_the_stream_is_free(modelled):
    rig = modelled({"h2d": 1e9})
    clock, stream, device = rig.api._machine.clock, rig.stream(), rig.device(1000)
    host, _ = rig.pinned(1000)
    clock.advance(0.5)
    rig.call("cuMemcpyHtoDAsync", device, host, 1000, stream)
    rig.call("cuMemcpyHtoDAsync", device, host, 1000, stream)
    rig.call("cuStreamSynchronize", stream)
    assert rig.api.now() == pytest.approx(0.500002)


@pytest.mark.parametrize("wait", ["cuEventSynchronize", "cuEventQuery"])
def test_waiting_for_an_event_moves_the_host_no_further_than_the_event(modelled, wait):
    rig = modelled({"h2d": 1e9})
    stream, device, event = rig.stream(), rig.device(1000), rig.event()
    host, _ = rig.pinned(1000)
    rig.call("cuMemcpyHtoDAsync", device, host, 1000, stream)
    rig.call("cuEventRecord", event, stream)
    rig.call("cuMemcpyHtoDAsync", device, host, 1000, stream)
    while rig.status(wait, event) == 600:
        pass
    assert rig.api.now() == 1e-6


def test_a_pageable_copy_advances_the_caller_at_its_own_rate(modelled):
    rig = modelled({"h2d": 50e9, "h2d/pageable": 1e9, "h2d/pinned": 2e9})
    stream, device = rig.stream(), rig.device(1000)
    rig.call("cuMemcpyHtoDAsync", device, np.zeros(1000, np.uint8), 1000, stream)
    assert rig.api.now() == 1e-6
    rig.call("cuMemcpyHtoDAsync", device, rig.pinned(1000)[0], 1000, stream)
    assert rig.api.now() == 1e-6
    rig.call("cuStreamSynchronize", stream)
    assert rig.api.now() == 1.5e-6


@pytest.mark.parametrize(
    ("flags", "kind"), [(0, "pinned"), (2, "mapped"), (4, "write-combined"), (6, "write-combined")]
)
def test_rates_are_by_memory_kind(modelled, flags, kind):
    rig = modelled({f"d2h/{kind}": 1e9})
    stream, device = rig.stream(), rig.device(1000)
    rig.call("cuMemcpyDtoHAsync", rig.pinned(1000, flags)[0], device, 1000, stream)
    rig.call("cuStreamSynchronize", stream)
    assert rig.api.now() == 1e-6


def test_registered_memory_has_its_own_rate(modelled):
    rig = modelled({"h2d/registered": 1e9})
    own, device = np.zeros(1000, np.uint8), rig.device(1000)
    rig.call("cuMemHostRegister", own, 1000, 0)
    rig.call("cuMemcpyHtoD", device, own, 1000)
    assert rig.api.now() == 1e-6


def test_prefetching_managed_memory_takes_time_once(modelled):
    rig = modelled({"h2d/managed": 1e9})
    stream, managed = rig.stream(), int(rig.call("cuMemAllocManaged", 1000, 1))
    if hasattr(cuda, "cuMemPrefetchAsync_v2"):
        where = (0,)
    else:
        place = cuda.CUmemLocation()
        place.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        where = (place, 0)
    for _ in range(2):
        rig.call("cuMemPrefetchAsync", managed, 1000, *where, stream)
    rig.call("cuStreamSynchronize", stream)
    assert rig.api.now() == 1e-6


def test_copies_between_devices_use_the_peer_rate_or_that_of_a_local_copy(modelled):
    for rates, seconds in (({"p2p": 1e9, "d2d": 1e8}, 1e-6), ({"d2d": 1e8}, 1e-5)):
        rig = modelled(rates, shape=Shape(devices=2))
        here, stream = rig.device(1000), rig.stream()
        rig.call("cuCtxPushCurrent", rig.call("cuDevicePrimaryCtxRetain", 1))
        there = rig.device(1000)
        rig.call("cuCtxPopCurrent")
        rig.call("cuMemcpyDtoDAsync", here, there, 1000, stream)
        rig.call("cuStreamSynchronize", stream)
        assert rig.api.now() == seconds


def test_a_stream_that_waits_for_another_moves_to_the_later_time(modelled):
    rig = modelled({"h2d": 1e9})
    first, second, event, end, device = rig.stream(), rig.stream(), rig.event(), rig.event(), rig.device(1000)
    host, _ = rig.pinned(1000)
    rig.call("cuMemcpyHtoDAsync", device, host, 1000, first)
    rig.call("cuEventRecord", event, first)
    rig.call("cuStreamWaitEvent", second, event, 0)
    rig.call("cuMemcpyHtoDAsync", device, host, 1000, second)
    rig.call("cuEventRecord", end, second)
    rig.call("cuCtxSynchronize")
    assert rig.call("cuEventElapsedTime", event, end) == ctypes.c_float(1e-3).value
    assert rig.api.now() == 2e-6


def test_streams_run_side_by_side(modelled):
    rig = modelled({"h2d": 1e9, "d2h": 1e9})
    up, down, device = rig.stream(), rig.stream(), rig.device(2000)
    host, _ = rig.pinned(2000)
    rig.call("cuMemcpyHtoDAsync", device, host, 1000, up)
    rig.call("cuMemcpyDtoHAsync", host + 1000, device + 1000, 1000, down)
    rig.call("cuCtxSynchronize")
    assert rig.api.now() == 1e-6


def test_launching_and_submitting_cost_the_host(modelled):
    rig = modelled({}, submit_s=1e-6, launch_s=2e-6, kernel_s=1e-3)
    stream, function = rig.stream(), rig.function(b"cudabw_null")
    for _ in range(10):
        rig.launch(function, stream)
    assert rig.api.now() == pytest.approx(30e-6)
    rig.call("cuStreamSynchronize", stream)
    assert rig.api.now() == pytest.approx(3e-6 + 10e-3)


def test_a_copy_kernel_moves_bytes_at_the_kernel_rate(modelled):
    rig = modelled({"h2d": 1e12, "h2d/kernel": 1e9}, kernel_s=1e-3)
    stream, device = rig.stream(), rig.device(1000)
    host, _ = rig.pinned(1000, 2)
    source = int(rig.call("cuMemHostGetDevicePointer", host, 0))
    function = rig.function(b"cudabw_copy")
    rig.launch(function, stream, ((device, source, 1000), (ctypes.c_uint64,) * 3))
    rig.call("cuStreamSynchronize", stream)
    assert rig.api.now() == pytest.approx(1e-3 + 1e-6)


def test_a_graph_takes_the_time_of_its_work_from_its_launch_on(modelled):
    rig = modelled({"h2d": 1e9})
    clock, stream, device = rig.api._machine.clock, rig.stream(), rig.device(1000)
    host, _ = rig.pinned(1000)
    rig.call("cuStreamBeginCapture", stream, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    for _ in range(3):
        rig.call("cuMemcpyHtoDAsync", device, host, 1000, stream)
    executable = rig.call("cuGraphInstantiate", rig.call("cuStreamEndCapture", stream), 0)
    clock.advance(1.0)
    rig.call("cuGraphLaunch", executable, stream)
    rig.call("cuStreamSynchronize", stream)
    assert rig.api.now() == pytest.approx(1.000003)


def test_latency_is_added_to_every_copy(modelled):
    rig = modelled({"h2d": 1e9}, latency_s=1e-6)
    rig.call("cuMemcpyHtoD", rig.device(1000), np.zeros(1000, np.uint8), 1000)
    assert rig.api.now() == 2e-6


def test_pinning_and_unpinning_hold_the_host_at_their_own_rates(modelled):
    rig = modelled({"pin": 1e9, "unpin": 2e9})
    now = rig.api.now
    instants = [now()]
    pinned = rig.call("cuMemHostAlloc", 10**6, 0)
    instants.append(now())
    rig.call("cuMemFreeHost", pinned)
    instants.append(now())
    array = np.zeros(10**6, np.uint8)
    rig.call("cuMemHostRegister", array.ctypes.data, array.nbytes, 0)
    instants.append(now())
    rig.call("cuMemHostUnregister", array.ctypes.data)
    instants.append(now())
    assert list(np.diff(instants)) == pytest.approx([1e-3, 0.5e-3] * 2)


def test_each_host_thread_has_its_own_time():
    api = EmulatedDriver(clock=ModelledClock({}))
    api._machine.clock.advance(5.0)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(api.now()))
    thread.start()
    thread.join()
    assert (api.now(), seen) == (5.0, [0.0])


def noisy_times(modelled, seed):
    rig = modelled({"h2d": 1e9}, noise=0.1, seed=seed)
    stream, device, events = rig.stream(), rig.device(1000), [rig.event() for _ in range(201)]
    host, _ = rig.pinned(1000)
    rig.call("cuEventRecord", events[0], stream)
    for event in events[1:]:
        rig.call("cuMemcpyHtoDAsync", device, host, 1000, stream)
        rig.call("cuEventRecord", event, stream)
    rig.call("cuStreamSynchronize", stream)
    return [rig.call("cuEventElapsedTime", *pair) for pair in itertools.pairwise(events)]


def test_noise_is_the_same_for_the_same_seed_and_spreads_as_given(modelled):
    times = noisy_times(modelled, 1)
    assert times == noisy_times(modelled, 1)
    assert times != noisy_times(modelled, 2)
    assert len(set(times)) > 190
    logarithms = [float(np.log(milliseconds / 1e-3)) for milliseconds in times]
    assert statistics.mean(logarithms) == pytest.approx(0.0, abs=0.03)
    assert statistics.stdev(logarithms) == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize(
    ("rates", "settings"),
    [
        ({"up": 1.0}, {}),
        ({"h2d/": 1.0}, {}),
        ({"h2d/flash": 1.0}, {}),
        ({"pin/pinned": 1.0}, {}),
        ({"pin": 0.0}, {}),
        ({"h2d": 0.0}, {}),
        ({"h2d": float("inf")}, {}),
        ({}, {"noise": -1.0}),
        ({}, {"submit_s": float("nan")}),
    ],
)
def test_a_clock_that_cannot_be_is_refused(rates, settings):
    with pytest.raises(ValueError, match=r"rate|must be"):
        ModelledClock(rates, **settings)


@pytest.mark.parametrize("tick_s", [1e-3, 0.3e-3])
def test_events_are_stamped_with_whole_ticks(modelled, tick_s):
    rig = modelled({"h2d": 1e6}, tick_s=tick_s)
    stream, device = rig.stream(), rig.device(4096)
    host, _ = rig.pinned(4096)
    times = [
        elapsed_s(rig, stream, lambda: rig.call("cuMemcpyHtoDAsync", device, host, 1300, stream)) for _ in range(20)
    ]
    assert {round(time / tick_s) for time in times} == {int(1.3e-3 / tick_s), int(1.3e-3 / tick_s) + 1}
    assert times == pytest.approx([round(time / tick_s) * tick_s for time in times])
