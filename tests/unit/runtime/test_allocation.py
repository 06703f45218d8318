"""Memory is freed once, never while it is in use, and never by a wait that nobody can end."""

import ctypes
import gc
import threading

import numpy as np
import pytest

from cudabw.copying.driver_copy import PreparedCopy, copy
from cudabw.driver.emulated import Fault
from cudabw.errors import CudabwError, DriverError
from cudabw.runtime.memory import (
    DeviceBuffer,
    ManagedBuffer,
    MappedBuffer,
    PageableBuffer,
    PinnedBuffer,
    RegisteredBuffer,
    WriteCombinedBuffer,
)

NBYTES = 1 << 16
PAGE_LOCKED = {
    "pinned": PinnedBuffer,
    "mapped": MappedBuffer,
    "write-combined": WriteCombinedBuffer,
    "registered": lambda device, nbytes: RegisteredBuffer(device, np.zeros(nbytes, np.uint8)),
}
QUEUEABLE = {**PAGE_LOCKED, "managed": ManagedBuffer, "device": DeviceBuffer}


@pytest.fixture
def bytes_to_move():
    return np.random.default_rng(1).integers(0, 256, NBYTES, np.uint8)


def known_to_driver(device, address):
    ordinal = device.driver.api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return device.driver.attempt("cuPointerGetAttribute", ordinal, address)[0] == 0


def any_address(buffer):
    return int(buffer.host_pointer if buffer.has_host_side else buffer.device_pointer)


def filled(device, make, data):
    buffer = make(device, len(data))
    copy(buffer, PageableBuffer.over(device, data))
    return buffer


def read(buffer):
    out = np.zeros(buffer.nbytes, np.uint8)
    copy(PageableBuffer.over(buffer.device, out), buffer)
    return out


# -- closing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", QUEUEABLE.values(), ids=QUEUEABLE)
@pytest.mark.parametrize("role", ["source", "destination"])
def test_closing_with_a_copy_in_flight_waits_and_the_data_is_right(device, stream, bytes_to_move, make, role):
    if role == "source":
        closing, other = filled(device, make, bytes_to_move), PinnedBuffer(device, NBYTES)
        copy(other, closing, stream=stream)
    else:
        closing, other = make(device, NBYTES), filled(device, PinnedBuffer, bytes_to_move)
        PreparedCopy(closing, other, stream).submit(times=100)
    submitted, address, waited = stream.submitted, any_address(closing), device.waits.host
    closing.close()
    assert stream.completed == submitted
    assert device.waits.host == waited + 1
    assert not known_to_driver(device, address)
    assert (other.array() == bytes_to_move).all()


def test_closing_what_nobody_used_does_not_wait(device):
    buffer = PinnedBuffer(device, NBYTES)
    buffer.close()
    assert device.waits.host == 0


def test_closing_what_a_closed_gate_holds_is_refused_and_changes_nothing(device, stream, gate, bytes_to_move):
    source, target = filled(device, PinnedBuffer, bytes_to_move), DeviceBuffer(device, NBYTES)
    gate.close_on(stream)
    copy(target, source, stream=stream)
    with pytest.raises(CudabwError) as refusal:
        source.close()
    assert refusal.value.message == "the host would wait for ever for a stream that a closed gate holds"
    assert refusal.value.hint == "Open it."
    assert not source.closed
    gate.open()
    source.close()
    assert source.closed
    assert (read(target) == bytes_to_move).all()


@pytest.mark.parametrize("make", QUEUEABLE.values(), ids=QUEUEABLE)
def test_closing_while_a_gate_holds_other_work_returns_and_frees_later(device, stream, gate, make):
    idle = make(device, NBYTES)
    address = any_address(idle)
    gate.close_on(stream)
    idle.close()
    assert idle.closed
    assert known_to_driver(device, address)
    gate.open()
    stream.synchronize()
    assert not known_to_driver(device, address)
    assert device.page_locked_bytes == 0


def test_memory_that_could_not_be_waited_for_can_be_closed_again(make_device):
    device = make_device(faults=[Fault(function="cuStreamSynchronize", status=999, nth=1)])
    buffer, source = DeviceBuffer(device, NBYTES), PinnedBuffer(device, NBYTES)
    copy(buffer, source, stream=device.default_stream)
    with pytest.raises(DriverError):
        buffer.close()
    assert not buffer.closed
    buffer.close()
    assert buffer.closed


def test_closing_after_the_device_was_closed_does_nothing(device):
    buffers = [make(device, NBYTES) for make in (*QUEUEABLE.values(), PageableBuffer)]
    device.close()
    for buffer in buffers:
        buffer.close()
        assert buffer.closed


# -- collecting -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", PAGE_LOCKED.values(), ids=PAGE_LOCKED)
def test_dropping_the_last_reference_mid_copy_frees_only_after_the_copy(device, stream, gate, bytes_to_move, make):
    target, source = DeviceBuffer(device, NBYTES), filled(device, make, bytes_to_move)
    address = any_address(source)
    gate.close_on(stream)
    copy(target, source, stream=stream)
    del source
    gc.collect()
    assert known_to_driver(device, address)
    assert device.page_locked_bytes == NBYTES
    gate.open()
    assert (read(target) == bytes_to_move).all()
    stream.synchronize()
    assert not known_to_driver(device, address)
    assert device.page_locked_bytes == 0


def test_dropping_the_destination_mid_copy_frees_only_after_the_copy(device, stream, gate):
    free = device.free_bytes
    source, target = PinnedBuffer(device, NBYTES), DeviceBuffer(device, NBYTES)
    gate.close_on(stream)
    copy(target, source, stream=stream)
    del target
    gc.collect()
    device.reap()
    assert device.free_bytes == free - NBYTES
    gate.open()
    stream.synchronize()
    assert device.free_bytes == free


def test_collecting_does_not_call_the_driver(device):
    machine, names = device.driver.api._machine, []
    buffer, enter = PinnedBuffer(device, NBYTES), machine.enter
    machine.enter = lambda function, needs, nbytes: (names.append(function), enter(function, needs, nbytes))
    del buffer
    gc.collect()
    assert names == []
    device.reap()
    assert names == ["cuCtxPushCurrent", "cuMemFreeHost", "cuCtxPopCurrent"]


def test_memory_in_a_cycle_is_collected(device):
    buffer = PinnedBuffer(device, NBYTES)
    address = int(buffer.host_pointer)
    buffer.myself = buffer
    del buffer
    gc.collect()
    device.reap()
    assert not known_to_driver(device, address)


def test_the_next_allocation_frees_what_was_collected(device):
    address = int(PinnedBuffer(device, NBYTES).host_pointer)
    gc.collect()
    assert known_to_driver(device, address)
    DeviceBuffer(device, 1).close()
    assert not known_to_driver(device, address)


def test_a_slice_keeps_the_memory_of_a_buffer_that_was_dropped(device, bytes_to_move):
    piece = filled(device, PinnedBuffer, bytes_to_move)[16:]
    gc.collect()
    device.reap()
    assert (piece.array() == bytes_to_move[16:]).all()
    assert device.page_locked_bytes == NBYTES


def test_what_another_thread_drops_is_freed_as_well(device):
    held = [PinnedBuffer(device, NBYTES)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    gc.collect()
    device.reap()
    assert device.page_locked_bytes == 0


# -- views ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", {**PAGE_LOCKED, "managed": ManagedBuffer}.values(), ids=[*PAGE_LOCKED, "managed"])
def test_a_view_keeps_the_memory_of_a_buffer_that_was_closed(device, bytes_to_move, make):
    buffer = filled(device, make, bytes_to_move)
    address, view = any_address(buffer), buffer.array()
    buffer.close()
    part = view[1000:2000]
    del view
    gc.collect()
    device.reap()
    assert known_to_driver(device, address)
    assert (part == bytes_to_move[1000:2000]).all()
    del part
    device.reap()
    assert not known_to_driver(device, address)
    assert device.page_locked_bytes == 0


def test_a_view_keeps_the_memory_of_a_buffer_that_was_dropped(device, bytes_to_move):
    view = filled(device, PinnedBuffer, bytes_to_move).array()
    gc.collect()
    device.reap()
    assert (view == bytes_to_move).all()
    assert device.page_locked_bytes == NBYTES
    del view
    gc.collect()
    device.reap()
    assert device.page_locked_bytes == 0


def test_memory_is_freed_with_the_last_of_several_views(device):
    buffer = PinnedBuffer(device, NBYTES)
    first, second = buffer.array(), buffer[8:16].array()
    buffer.close()
    del first
    device.reap()
    assert device.page_locked_bytes == NBYTES
    del second
    device.reap()
    assert device.page_locked_bytes == 0


def test_views_of_pageable_memory_outlive_the_buffer(device, bytes_to_move):
    view = filled(device, PageableBuffer, bytes_to_move).array()
    gc.collect()
    assert (view == bytes_to_move).all()


def test_an_array_under_a_buffer_lives_as_long_as_the_buffer(device):
    array = np.arange(256, dtype=np.uint8)
    buffer = PageableBuffer.over(device, array)
    del array
    gc.collect()
    assert ctypes.string_at(int(buffer.host_pointer), 256) == bytes(range(256))
