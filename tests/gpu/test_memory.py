"""Memory on a real driver: every kind has the sides it claims, and a registration is undone whatever happens."""

import gc
from itertools import chain, combinations

import numpy as np
import pytest

from cudabw.copying.driver_copy import PreparedCopy, copy
from cudabw.errors import DriverError, MemorySideError
from cudabw.runtime.confirmation import confirm
from cudabw.runtime.memory import (
    DeviceBuffer,
    ManagedBuffer,
    MappedBuffer,
    PageableBuffer,
    PinnedBuffer,
    RegisteredBuffer,
    WriteCombinedBuffer,
)

pytestmark = pytest.mark.gpu

NBYTES = 1 << 16
LARGE = 64 << 20
FLAGS = ("portable", "mapped", "write-combined")


def registered(device, nbytes, flags=()):
    return RegisteredBuffer(device, np.ones(nbytes, np.uint8), flags=flags)


PAGE_LOCKED = {
    "pinned": PinnedBuffer,
    "mapped": MappedBuffer,
    "write-combined": WriteCombinedBuffer,
    "registered": registered,
}


def subsets(flags):
    return list(chain.from_iterable(combinations(flags, count) for count in range(len(flags) + 1)))


@pytest.fixture(scope="module")
def noise():
    return np.random.default_rng(1).integers(0, 256, LARGE, np.uint8)


def known_to_driver(device, address):
    device.activate()
    return device.driver.attempt("cuMemHostGetFlags", address)[0] == 0


def filled(device, make, data):
    buffer = make(device, data.nbytes)
    copy(buffer, PageableBuffer.over(device, data))
    return buffer


def read(buffer):
    out = np.zeros(buffer.nbytes, np.uint8)
    copy(PageableBuffer.over(buffer.device, out), buffer)
    return out


# -- kind x side ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        *((kind, flags) for kind in ("pinned", "mapped", "write-combined") for flags in subsets(FLAGS)),
        *(("registered", flags) for flags in subsets(FLAGS[:2])),
    ],
)
def test_page_locked_memory_has_a_device_side_only_when_mapped(gpu, kind, flags):
    with PAGE_LOCKED[kind](gpu, NBYTES, flags=flags) as buffer:
        assert int(buffer.host_pointer) > 0
        given_by_driver = int(gpu.call("cuMemHostGetDevicePointer", int(buffer.host_pointer), 0))
        # The driver agrees in every case, also where nobody mapped the memory.
        assert given_by_driver != 0
        answer = confirm(buffer)
        assert answer.startswith("page-locked")
        assert ("write-combined" in answer) == ("write-combined" in buffer.flags)
        if "mapped" in buffer.flags:
            assert int(buffer.device_pointer) == given_by_driver
        else:
            with pytest.raises(MemorySideError, match=rf"^{kind} memory has no device pointer$"):
                buffer.device_pointer  # noqa: B018 - the access is what is refused


@pytest.mark.parametrize(
    ("make", "host", "on_device", "answer"),
    [
        (PageableBuffer, True, False, "unknown to the driver"),
        (ManagedBuffer, True, True, "managed"),
        (DeviceBuffer, False, True, "memory of device 0"),
    ],
)
def test_other_memory_has_its_sides_and_is_confirmed(gpu, make, host, on_device, answer):
    with make(gpu, NBYTES) as buffer:
        assert (buffer.has_host_side, buffer.has_device_side) == (host, on_device)
        assert confirm(buffer) == answer
        assert confirm(buffer[1000:2000]) == answer


def test_zero_bytes_are_null_to_the_driver_as_well(gpu):
    status, address = gpu.driver.attempt("cuMemHostAlloc", 0, 0)
    assert (status, int(address or 0)) == (0, 0)
    for make in (PinnedBuffer, MappedBuffer, WriteCombinedBuffer, ManagedBuffer, DeviceBuffer, PageableBuffer):
        with make(gpu, 0) as empty:
            assert len(empty) == 0


@pytest.mark.parametrize(
    "make", [*PAGE_LOCKED.values(), ManagedBuffer, DeviceBuffer], ids=[*PAGE_LOCKED, "managed", "device"]
)
def test_closing_with_a_copy_in_flight_waits_and_the_data_is_right(gpu, stream, noise, make):
    source, target = filled(gpu, make, noise), PinnedBuffer(gpu, LARGE)
    PreparedCopy(target, source, stream).submit(times=4)
    source.close()
    assert stream.completed == stream.submitted
    assert (target.array() == noise).all()
    target.close()


# -- collecting -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", PAGE_LOCKED.values(), ids=PAGE_LOCKED)
def test_dropping_the_last_reference_mid_copy_frees_only_after_the_copy(gpu, stream, gate, noise, make):
    gc.collect()
    gpu.synchronize()
    held = gpu.page_locked_bytes
    with DeviceBuffer(gpu, LARGE) as target:
        source = filled(gpu, make, noise)
        address = int(source.host_pointer)
        gate.close_on(stream)
        copy(target, source, stream=stream)
        del source
        gc.collect()
        assert known_to_driver(gpu, address)
        gate.open()
        assert (read(target) == noise).all()
        stream.synchronize()
        gpu.synchronize()
        assert gpu.page_locked_bytes == held
        assert not known_to_driver(gpu, address)


def test_dropping_a_buffer_while_its_copy_runs_is_safe(gpu, stream, noise):
    with DeviceBuffer(gpu, LARGE) as target:
        for _ in range(20):
            copy(target, filled(gpu, PinnedBuffer, noise[: 1 << 22]), stream=stream)
            gc.collect()
            PinnedBuffer(gpu, 1 << 22).close()
        assert (read(target[: 1 << 22]) == noise[: 1 << 22]).all()


def test_a_view_keeps_the_memory_of_a_buffer_that_was_closed(gpu, noise):
    buffer = filled(gpu, PinnedBuffer, noise)
    address, view = int(buffer.host_pointer), buffer.array()
    buffer.close()
    gpu.reap()
    assert known_to_driver(gpu, address)
    assert (view == noise).all()
    del view
    gpu.reap()
    assert not known_to_driver(gpu, address)


# -- registering ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [slice(0, 8 * 4096), slice(0, 4096), slice(7 * 4096, 12 * 4096)])
def test_registering_twice_or_overlapping_is_712_and_leaves_no_trace(gpu, part):
    array = np.ones(12 * 4096, np.uint8)
    with RegisteredBuffer(gpu, array[: 8 * 4096]):
        held = gpu.page_locked_bytes
        with pytest.raises(DriverError) as refusal:
            RegisteredBuffer(gpu, array[part])
        assert refusal.value.code == 712
        assert refusal.value.hint == "The range, or part of it, is already pinned or registered; unregister that first."
        assert gpu.page_locked_bytes == held
    with RegisteredBuffer(gpu, array[part]):
        pass
    assert not known_to_driver(gpu, array.ctypes.data)


def test_the_driver_refuses_to_register_nothing_and_so_do_we(gpu):
    array = np.ones(NBYTES, np.uint8)
    gpu.activate()
    assert gpu.driver.attempt("cuMemHostRegister", array.ctypes.data, 0, 0)[0] == 1
    with pytest.raises(ValueError, match=r"^an empty array has no bytes to register$"):
        RegisteredBuffer(gpu, array[:0])


def test_a_copy_of_a_half_registered_range_is_explained(gpu):
    array = np.ones(64 * 4096, np.uint8)
    with DeviceBuffer(gpu, array.nbytes) as target, RegisteredBuffer(gpu, array[: 32 * 4096]):
        with pytest.raises(DriverError) as refusal:
            copy(target, PageableBuffer.over(gpu, array))
        assert refusal.value.code == 1
        assert "crosses the edge of a registered range" in refusal.value.hint
    # The failure is not a sticky one.
    gpu.synchronize()


def test_a_range_that_is_not_aligned_can_be_registered_and_copied(gpu, noise):
    array = np.zeros(100_000, np.uint8)
    part = array[1001:80_002]
    part[:] = noise[: part.nbytes]
    with RegisteredBuffer(gpu, part, flags=("mapped",)) as source, DeviceBuffer(gpu, part.nbytes) as target:
        assert "mapped" in confirm(source)
        copy(target, source)
        assert (read(target) == noise[: part.nbytes]).all()
    assert not known_to_driver(gpu, part.ctypes.data)


def test_a_file_that_is_mapped_for_reading_can_be_a_source(gpu, noise, tmp_path):
    if not gpu.attribute("READ_ONLY_HOST_REGISTER_SUPPORTED"):
        pytest.skip("this device cannot register memory for reading only")
    path = tmp_path / "bytes"
    noise[: 1 << 20].tofile(path)
    array = np.memmap(path, np.uint8, "r")
    with RegisteredBuffer(gpu, array) as source, DeviceBuffer(gpu, 1 << 20) as target:
        assert source.read_only
        copy(target, source)
        assert (read(target) == noise[: 1 << 20]).all()
        with pytest.raises(ValueError, match=r"is read-only, so it cannot be a destination$"):
            copy(source, target)
