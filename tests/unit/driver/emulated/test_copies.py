import numpy as np
import pytest
from cuda.bindings import driver as cuda

from cudabw.driver.emulated import Shape
from cudabw.driver.emulated.clock import ModelledClock

MAPPED = 2


@pytest.fixture
def pattern():
    return np.arange(1 << 16, dtype=np.uint32).view(np.uint8)


def batch_arguments(destinations, sources, sizes, stream, starts=(0,), number=1):
    attributes = [cuda.CUmemcpyAttributes() for _ in starts]
    for attribute in attributes:
        attribute.srcAccessOrder = cuda.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
    return destinations, sources, sizes, len(sizes), attributes, list(starts), number, stream


def test_bytes_go_there_and_back(rig, pattern):
    there, back, out = rig.device(pattern.nbytes), rig.device(pattern.nbytes), np.zeros_like(pattern)
    rig.call("cuMemcpyHtoD", there, pattern, pattern.nbytes)
    rig.call("cuMemcpyDtoD", back, there, pattern.nbytes)
    rig.call("cuMemcpyDtoH", out, back, pattern.nbytes)
    assert (out == pattern).all()


def test_part_of_an_allocation_is_copied_to_the_byte(rig):
    address = rig.device(16)
    rig.call("cuMemsetD8", address, 0, 16)
    rig.call("cuMemcpyHtoD", address + 3, b"abc", 3)
    assert bytes(rig.read(address, 16)) == b"\0\0\0abc" + bytes(10)


def test_host_pointers_may_be_integers_buffers_or_read_only(rig):
    address, source = rig.device(4), np.array([1, 2, 3, 4], np.uint8)
    for pointer in (source, source.ctypes.data, np.uint64(source.ctypes.data), bytes(source), bytearray(source)):
        rig.call("cuMemsetD8", address, 0, 4)
        rig.call("cuMemcpyHtoD", address, pointer, 4)
        assert list(rig.read(address, 4)) == [1, 2, 3, 4]


def test_a_device_address_is_no_host_address_and_the_other_way_round(rig):
    device, other, stream = rig.device(64), rig.device(64), rig.stream()
    pinned, _ = rig.pinned(64)
    own = np.zeros(64, np.uint8).ctypes.data
    assert rig.status("cuMemcpyHtoDAsync", device, other, 64, stream) == 1
    assert rig.status("cuMemcpyDtoHAsync", device, other, 64, stream) == 1
    assert rig.status("cuMemcpyHtoDAsync", pinned, own, 64, stream) == 1
    assert rig.status("cuMemcpyDtoHAsync", own, pinned, 64, stream) == 1
    assert rig.status("cuMemcpyDtoDAsync", device, own, 64, stream) == 1
    assert rig.status("cuMemsetD8Async", pinned, 0, 64, stream) == 1
    assert rig.status("cuMemcpyHtoDAsync", device, 0, 64, stream) == 1
    assert rig.status("cuMemcpyHtoDAsync", device, 1 << 60, 64, stream) == 1


def test_mapped_memory_is_addressed_by_side(rig):
    host, octets = rig.pinned(64, MAPPED)
    mapped, device, stream = int(rig.call("cuMemHostGetDevicePointer", host, 0)), rig.device(64), rig.stream()
    octets[:] = 4
    assert rig.status("cuMemcpyDtoDAsync", device, mapped, 64, stream) == 0
    assert rig.status("cuMemcpyDtoDAsync", device, host, 64, stream) == 1
    assert rig.status("cuMemcpyHtoDAsync", device, mapped, 64, stream) == 1


def test_nothing_is_copied_past_the_end_or_after_the_free(rig):
    device, stream = rig.device(64), rig.stream()
    host, _ = rig.pinned(128)
    assert rig.status("cuMemcpyHtoDAsync", device, host, 65, stream) == 1
    assert rig.status("cuMemcpyHtoDAsync", device + 60, host, 5, stream) == 1
    assert rig.status("cuMemcpyDtoHAsync", host + 100, device, 64, stream) == 1
    assert rig.status("cuMemsetD8Async", device, 0, 65, stream) == 1
    rig.call("cuMemFree", device)
    assert rig.status("cuMemcpyHtoDAsync", device, host, 64, stream) == 1
    assert rig.status("cuMemcpyDtoH", host, device, 64) == 1


def test_a_copy_of_nothing_succeeds_without_an_address(rig):
    assert rig.status("cuMemcpyHtoDAsync", 0, 0, 0, rig.stream()) == 0


def test_a_unified_copy_works_out_the_sides(rig, pattern):
    device, stream = rig.device(pattern.nbytes), rig.stream()
    host, octets = rig.pinned(pattern.nbytes)
    own = np.zeros_like(pattern)
    octets[:] = pattern
    rig.call("cuMemcpyAsync", device, host, pattern.nbytes, stream)
    rig.call("cuMemcpyAsync", own.ctypes.data, device, pattern.nbytes, stream)
    assert (own == pattern).all()
    own[:] = 0
    rig.call("cuMemcpy", own.ctypes.data, host, pattern.nbytes)
    assert (own == pattern).all()


@pytest.mark.parametrize("handle", [0, 1, 2, None, 12345])
def test_the_null_stream_and_unknown_ones_are_refused(rig, handle):
    device = rig.device(64)
    host, _ = rig.pinned(64)
    assert rig.status("cuMemcpyHtoDAsync", device, host, 64, handle) == 400
    assert rig.status("cuMemsetD8Async", device, 0, 64, handle) == 400
    assert rig.status("cuMemcpyBatchAsync", *batch_arguments([device], [host], [64], handle)) == 400


def test_an_asynchronous_copy_really_is_one(rig):
    stream, device = rig.stream(), rig.device(64)
    host, octets = rig.pinned(64)
    rig.call("cuMemsetD8", device, 1, 64)
    with rig.gated(stream):
        rig.call("cuMemcpyDtoHAsync", host, device, 64, stream)
        assert rig.status("cuStreamQuery", stream) == 600
        assert (octets == 0).all()
        octets[:] = 9
    rig.call("cuStreamSynchronize", stream)
    assert (octets == 1).all()


def test_a_source_changed_before_the_copy_runs_is_copied_changed(rig):
    stream, device = rig.stream(), rig.device(64)
    host, octets = rig.pinned(64)
    with rig.gated(stream):
        rig.call("cuMemcpyHtoDAsync", device, host, 64, stream)
        octets[:] = 5
    rig.call("cuStreamSynchronize", stream)
    assert (rig.read(device, 64) == 5).all()


def test_a_pageable_copy_holds_the_caller_until_it_is_done(rig):
    stream, device = rig.stream(), rig.device(1 << 20)
    source = np.full(1 << 20, 3, np.uint8)
    for _ in range(20):
        rig.call("cuMemsetD8Async", device, 1, 1 << 20, stream)
    rig.call("cuMemcpyHtoDAsync", device, source, 1 << 20, stream)
    assert rig.status("cuStreamQuery", stream) == 0
    assert (rig.read(device, 1 << 20) == 3).all()


def test_synchronous_copies_wait_for_blocking_streams_only(rig):
    blocking, apart, device, other = rig.stream(0), rig.stream(1), rig.device(1 << 20), rig.device(64)
    with rig.gated(apart):
        rig.call("cuMemsetD8Async", other, 9, 64, apart)
        rig.call("cuMemsetD8Async", device, 7, 1 << 20, blocking)
        assert (rig.read(device, 1 << 20) == 7).all()
        assert rig.status("cuStreamQuery", apart) == 600


def test_memsets(rig):
    stream, address = rig.stream(), rig.device(64)
    rig.call("cuMemsetD8", address, 0, 64)
    rig.call("cuMemsetD8Async", address, 0x1FF, 4, stream)
    rig.call("cuMemsetD32Async", address + 4, 0x04030201, 2, stream)
    rig.call("cuMemsetD2D8Async", address + 16, 16, 8, 3, 3, stream)
    rig.call("cuStreamSynchronize", stream)
    expected = np.zeros(64, np.uint8)
    expected[:4], expected[4:12] = 0xFF, [1, 2, 3, 4] * 2
    for row in range(3):
        expected[16 + 16 * row : 19 + 16 * row] = 8
    assert (rig.read(address, 64) == expected).all()
    assert rig.status("cuMemsetD32Async", address + 2, 0, 1, stream) == 1
    assert rig.status("cuMemsetD2D8Async", address, 2, 0, 3, 2, stream) == 1
    assert rig.status("cuMemsetD2D8Async", address, 32, 0, 33, 2, stream) == 1
    assert rig.status("cuMemsetD2D8Async", address, 60, 0, 5, 2, stream) == 1


def test_a_batch_is_copied_whole_or_not_at_all(rig):
    stream, one, two = rig.stream(), rig.device(64), rig.device(64)
    host, octets = rig.pinned(128)
    octets[:64], octets[64:] = 1, 2
    assert rig.status("cuMemcpyBatchAsync", *batch_arguments([one, two], [host, host + 64], [64, 64], stream)) == 0
    rig.call("cuStreamSynchronize", stream)
    assert (rig.read(one, 64) == 1).all()
    assert (rig.read(two, 64) == 2).all()
    assert rig.status("cuMemcpyBatchAsync", *batch_arguments([one, two], [host + 64, host], [64, 65], stream)) == 1
    rig.call("cuStreamSynchronize", stream)
    assert (rig.read(one, 64) == 1).all()


@pytest.mark.parametrize(("starts", "number"), [((1,), 1), ((0, 0), 2), ((0,), 0)])
def test_a_batch_needs_attributes_for_every_copy(rig, starts, number):
    stream, device = rig.stream(), rig.device(64)
    arguments = batch_arguments([device, device], [rig.device(64)] * 2, [64, 64], stream, starts, number)
    assert rig.status("cuMemcpyBatchAsync", *arguments) == 1


def test_a_batch_needs_to_know_when_its_sources_are_read(rig):
    arguments = batch_arguments([rig.device(64)], [rig.device(64)], [64], rig.stream())
    assert rig.status("cuMemcpyBatchAsync", *arguments) == 0
    arguments[4][0].srcAccessOrder = cuda.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_INVALID
    assert rig.status("cuMemcpyBatchAsync", *arguments) == 1


def test_a_batch_is_submitted_once_whatever_its_length(make_rig):
    clock = ModelledClock({"d2d": 64e6}, submit_s=5e-6)
    rig = make_rig(clock=clock)
    stream, one, two = rig.stream(), rig.device(128), rig.device(128)
    arguments = batch_arguments([one, one + 64], [two, two + 64], [64, 64], stream)
    before = clock.now()
    assert rig.status("cuMemcpyBatchAsync", *arguments) == 0
    assert clock.now() - before == pytest.approx(5e-6)
    rig.call("cuStreamSynchronize", stream)
    assert clock.now() - before == pytest.approx(7e-6)


def test_peer_copies_go_to_the_context_that_owns_the_memory(make_rig):
    rig = make_rig(shape=Shape(devices=2))
    stream, here = rig.stream(), rig.device(64)
    peer = rig.call("cuDevicePrimaryCtxRetain", 1)
    rig.call("cuCtxPushCurrent", peer)
    there = rig.device(64)
    rig.call("cuMemsetD8", there, 6, 64)
    rig.call("cuCtxPopCurrent")
    assert rig.status("cuMemcpyPeerAsync", here, rig.context, there, peer, 64, stream) == 0
    rig.call("cuStreamSynchronize", stream)
    assert (rig.read(here, 64) == 6).all()
    assert rig.status("cuMemcpyPeerAsync", here, peer, there, rig.context, 64, stream) == 1
    assert rig.status("cuMemcpyPeerAsync", here, stream, there, peer, 64, stream) == 201
