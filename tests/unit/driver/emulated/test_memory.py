import threading

import numpy as np
import pytest
from cuda.bindings import driver as cuda
from hypothesis import given
from hypothesis import strategies as st

from cudabw.driver.emulated import Shape
from cudabw.driver.emulated.address_space import DEVICE_BASE, MAPPED_BASE, AddressSpace
from cudabw.driver.emulated.refusals import Refusal

PORTABLE, MAPPED, WRITE_COMBINED = 1, 2, 4
POINTER = cuda.CUpointer_attribute


def attribute(rig, name, address):
    return rig.call("cuPointerGetAttribute", getattr(POINTER, f"CU_POINTER_ATTRIBUTE_{name}"), address)


# -- device memory ---------------------------------------------------------------------------------------


def test_device_addresses_are_aligned_apart_from_the_host_and_never_used_again(rig):
    first = rig.device(1000)
    rig.call("cuMemFree", first)
    second = rig.device(1000)
    assert first >= DEVICE_BASE
    assert first % 512 == second % 512 == 0
    assert second > first


def test_device_memory_is_limited_by_the_shape(make_rig):
    rig = make_rig(shape=Shape(memory=4096))
    assert rig.call("cuMemGetInfo") == (4096, 4096)
    address = rig.device(3000)
    assert rig.call("cuMemGetInfo") == (1024, 4096)
    assert rig.api.cuMemAlloc(1025) == (cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY, None)
    rig.call("cuMemFree", address)
    assert rig.call("cuMemGetInfo") == (4096, 4096)
    rig.device(4096)


def test_freeing_device_memory_needs_its_first_address_once(rig):
    address = rig.device(64)
    assert rig.status("cuMemFree", address + 4) == 1
    assert rig.status("cuMemFreeHost", address) == 1
    assert rig.status("cuMemFree", address) == 0
    assert rig.status("cuMemFree", address) == 1
    assert rig.status("cuMemFree", 0) == 0
    assert rig.status("cuMemAlloc", 0) == 1


def test_negative_and_wrongly_typed_arguments_raise_as_in_the_bindings(rig):
    with pytest.raises(OverflowError):
        rig.api.cuMemAlloc(-1)
    with pytest.raises(TypeError):
        rig.api.cuMemFree("0")
    with pytest.raises(TypeError):
        rig.api.cuMemcpyHtoD(rig.device(4), "text", 4)


# -- pinned and mapped memory ----------------------------------------------------------------------------


def test_pinned_memory_is_real_memory_on_whole_pages(rig):
    address, octets = rig.pinned(5000)
    octets[:] = 7
    assert address % 4096 == 0
    assert octets.sum() == 35000


def test_mapped_memory_has_a_device_address_of_its_own(rig):
    address, octets = rig.pinned(4096, MAPPED)
    device = int(rig.call("cuMemHostGetDevicePointer", address, 0))
    assert device >= MAPPED_BASE
    assert int(rig.call("cuMemHostGetDevicePointer", address + 100, 0)) == device + 100
    octets[:] = 9
    assert (rig.read(device, 4096) == 9).all()


@pytest.mark.parametrize("flags", [0, PORTABLE, WRITE_COMBINED])
def test_memory_that_was_not_mapped_yields_its_host_address_as_under_unified_addressing(rig, flags):
    address, _ = rig.pinned(64, flags)
    assert int(rig.call("cuMemHostGetDevicePointer", address, 0)) == address


def test_flags_are_remembered_and_unknown_ones_refused(rig):
    address, _ = rig.pinned(64, PORTABLE | WRITE_COMBINED)
    assert rig.call("cuMemHostGetFlags", address) == PORTABLE | WRITE_COMBINED
    assert rig.status("cuMemHostAlloc", 64, 8) == 1
    assert rig.status("cuMemHostGetDevicePointer", address, 1) == 1


def test_a_pinned_allocation_of_nothing_is_null(rig):
    assert rig.call("cuMemHostAlloc", 0, 0) == 0


def test_more_pinned_memory_than_the_host_has_is_out_of_memory(rig):
    assert rig.api.cuMemHostAlloc(1 << 46, 0) == (cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY, None)


def test_freed_pinned_memory_is_refused_everywhere(rig):
    address, octets = rig.pinned(4096, MAPPED)
    octets[:] = 1
    device_side, target, stream = int(rig.call("cuMemHostGetDevicePointer", address, 0)), rig.device(4096), rig.stream()
    rig.call("cuMemFreeHost", address)
    assert rig.status("cuMemFreeHost", address) == 1
    assert rig.status("cuMemcpyHtoDAsync", target, address, 4096, stream) == 1
    assert rig.status("cuMemcpyHtoDAsync", target, address + 4095, 1, stream) == 1
    assert rig.status("cuMemcpyAsync", target, address, 16, stream) == 1
    assert rig.status("cuMemsetD8", device_side, 0, 1) == 1
    assert rig.status("cuMemHostGetDevicePointer", address, 0) == 1
    assert rig.status("cuMemHostRegister", address, 4096, 0) == 1


# -- registered memory -----------------------------------------------------------------------------------


def test_registering(rig):
    own = np.zeros(8192, np.uint8)
    assert rig.status("cuMemHostGetFlags", own) == 1
    assert rig.status("cuMemHostRegister", own, 0, 0) == 1
    assert rig.status("cuMemHostRegister", own[3:], 5000, 0) == 0
    assert rig.status("cuMemHostRegister", own[3:], 5000, 0) == 712
    assert rig.status("cuMemHostRegister", own, 4, 0) == 712
    assert rig.status("cuMemHostRegister", own[5002:], 100, 0) == 712
    assert rig.status("cuMemHostRegister", own[5003:], 100, PORTABLE) == 0
    assert rig.call("cuMemHostGetFlags", own[5003:]) == PORTABLE
    assert rig.status("cuMemFreeHost", own[3:]) == 1
    assert rig.status("cuMemHostUnregister", own[4:]) == 713
    assert rig.status("cuMemHostUnregister", own[3:]) == 0
    assert rig.status("cuMemHostUnregister", own[3:]) == 713


def test_registering_what_cannot_be_registered(rig):
    pinned, _ = rig.pinned(4096)
    assert rig.status("cuMemHostRegister", pinned, 4096, 0) == 712
    assert rig.status("cuMemHostRegister", rig.device(64), 64, 0) == 1
    own = np.zeros(64, np.uint8)
    assert rig.status("cuMemHostRegister", own, 1 << 39, 0) == 2
    assert rig.status("cuMemHostRegister", own, 64, 16) == 1
    assert rig.status("cuMemHostRegister", own, 64, 8) == 801


def test_registered_and_mapped_memory_has_a_device_address_of_its_own(rig):
    own = np.full(64, 3, np.uint8)
    rig.call("cuMemHostRegister", own, 64, MAPPED)
    device = int(rig.call("cuMemHostGetDevicePointer", own, 0))
    assert device >= MAPPED_BASE
    assert (rig.read(device, 64) == 3).all()
    rig.call("cuMemHostUnregister", own)
    assert rig.status("cuMemsetD8", device, 0, 1) == 1


def test_a_copy_that_is_half_registered_is_refused(rig):
    own, target = np.zeros(8192, np.uint8), rig.device(8192)
    rig.call("cuMemHostRegister", own[2048:], 2048, 0)
    assert rig.status("cuMemcpyHtoD", target, own, 2048) == 0
    assert rig.status("cuMemcpyHtoD", target, own, 2049) == 1
    assert rig.status("cuMemcpyHtoD", target, own[4000:], 1000) == 1
    assert rig.status("cuMemcpyHtoD", target, own[2048:], 2048) == 0
    assert rig.status("cuMemcpyHtoD", target, own[4096:], 4096) == 0


# -- managed memory --------------------------------------------------------------------------------------


def test_managed_memory_has_one_address_for_both_sides(rig):
    address, target, stream = int(rig.call("cuMemAllocManaged", 64, 1)), rig.device(64), rig.stream()
    rig.call("cuMemsetD8Async", address, 5, 64, stream)
    rig.call("cuStreamSynchronize", stream)
    rig.call("cuMemcpyHtoD", target, address, 64)
    assert (rig.read(target, 64) == 5).all()
    assert rig.status("cuMemFree", address) == 0
    assert rig.status("cuMemsetD8", address, 0, 1) == 1
    assert rig.status("cuMemAllocManaged", 64, 3) == 1
    assert rig.status("cuMemAllocManaged", 0, 1) == 1


def prefetch_arguments(ordinal):
    """Where to prefetch to, in the installed bindings' way; -1 is the host."""
    if hasattr(cuda, "cuMemPrefetchAsync_v2"):
        return (ordinal,)
    place, kinds = cuda.CUmemLocation(), cuda.CUmemLocationType
    place.type = kinds.CU_MEM_LOCATION_TYPE_HOST if ordinal == -1 else kinds.CU_MEM_LOCATION_TYPE_DEVICE
    place.id = max(ordinal, 0)
    return (place, 0)


def test_prefetching_needs_managed_memory_and_a_device_that_is_there(rig):
    managed, stream = int(rig.call("cuMemAllocManaged", 64, 1)), rig.stream()
    for ordinal in (0, -1):
        assert rig.status("cuMemPrefetchAsync", managed, 64, *prefetch_arguments(ordinal), stream) == 0
    assert rig.status("cuMemPrefetchAsync", managed, 64, *prefetch_arguments(7), stream) == 101
    assert rig.status("cuMemPrefetchAsync", managed, 65, *prefetch_arguments(0), stream) == 1
    assert rig.status("cuMemPrefetchAsync", rig.device(64), 64, *prefetch_arguments(0), stream) == 1
    advice = cuda.CUmem_advise.CU_MEM_ADVISE_SET_PREFERRED_LOCATION
    assert rig.status("cuMemAdvise", managed, 64, advice, prefetch_arguments(0)[0]) == 0
    assert rig.status("cuMemAdvise", rig.device(64), 64, advice, prefetch_arguments(0)[0]) == 1


# -- freeing while work is queued ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["device", "pinned", "registered"])
def test_freeing_waits_for_queued_work(rig, kind):
    stream, target, event = rig.stream(), rig.device(64), rig.event()
    own = np.zeros(64, np.uint8)
    if kind == "registered":
        rig.call("cuMemHostRegister", own, 64, 0)
    source = own if kind == "registered" else rig.pinned(64)[0]
    address, octets = rig.pinned(4, MAPPED)
    word = octets.view(np.uint32)
    word[0] = 0
    rig.call("cuStreamWaitValue32", stream, rig.call("cuMemHostGetDevicePointer", address, 0), 1, 0)
    rig.call("cuMemcpyHtoDAsync", target, source, 64, stream)
    rig.call("cuEventRecord", event, stream)
    free = {
        "device": ("cuMemFree", target),
        "pinned": ("cuMemFreeHost", source),
        "registered": ("cuMemHostUnregister", source),
    }
    # The gate opens later than the call; a call that did not wait would find the event pending.
    opener = threading.Timer(0.05, word.__setitem__, (0, 1))
    opener.start()
    rig.call(*free[kind])
    assert rig.status("cuEventQuery", event) == 0
    opener.join()


# -- what the driver says about pointers -----------------------------------------------------------------


def test_facts_about_device_memory(rig):
    address = rig.device(1000)
    assert attribute(rig, "MEMORY_TYPE", address + 8) == 2
    assert int(attribute(rig, "DEVICE_POINTER", address + 8)) == address + 8
    assert int(attribute(rig, "RANGE_START_ADDR", address + 8)) == address
    assert attribute(rig, "RANGE_SIZE", address + 8) == 1000
    assert attribute(rig, "DEVICE_ORDINAL", address) == 0
    assert attribute(rig, "IS_MANAGED", address) is False
    assert int(attribute(rig, "CONTEXT", address)) == int(rig.context)
    assert rig.status("cuPointerGetAttribute", POINTER.CU_POINTER_ATTRIBUTE_HOST_POINTER, address) == 1
    base, size = rig.call("cuMemGetAddressRange", address + 999)
    assert (int(base), size) == (address, 1000)
    assert rig.status("cuMemGetAddressRange", address + 1000) == 500


def test_facts_about_mapped_memory_by_either_address(rig):
    host, _ = rig.pinned(64, MAPPED)
    device = int(rig.call("cuMemHostGetDevicePointer", host, 0))
    for address in (host, device):
        assert attribute(rig, "MEMORY_TYPE", address + 4) == 1
        assert attribute(rig, "HOST_POINTER", address + 4) == host + 4
        assert int(attribute(rig, "DEVICE_POINTER", address + 4)) == device + 4
        assert attribute(rig, "MAPPED", address) is True


def test_facts_about_managed_and_unknown_memory(rig):
    managed = int(rig.call("cuMemAllocManaged", 64, 1))
    assert attribute(rig, "IS_MANAGED", managed) is True
    unknown = np.zeros(64, np.uint8).ctypes.data
    assert rig.api.cuPointerGetAttribute(POINTER.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, unknown) == (
        cuda.CUresult.CUDA_ERROR_INVALID_VALUE,
        None,
    )
    names = [POINTER.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, POINTER.CU_POINTER_ATTRIBUTE_IS_MANAGED]
    assert rig.call("cuPointerGetAttributes", 2, names, managed) == [2, True]
    assert rig.call("cuPointerGetAttributes", 2, names, unknown) == [0, 0]


# -- the address space alone -----------------------------------------------------------------------------


@given(sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=8), data=st.data())
def test_an_address_belongs_to_the_allocation_that_holds_it_and_to_no_other(sizes, data):
    space = AddressSpace()
    made = [space.allocate_device(size, 0, 0) for size in sizes]
    gone = data.draw(st.sets(st.sampled_from(made)))
    for allocation in gone:
        space.release(allocation)
    for allocation in made:
        for offset in (0, allocation.size - 1):
            found = space.find(allocation.device + offset)
            assert found == (None if allocation in gone else (allocation, offset))
        assert space.find(allocation.device + allocation.size) is None
        with pytest.raises(Refusal):
            space.device(allocation.device, allocation.size + 1)
