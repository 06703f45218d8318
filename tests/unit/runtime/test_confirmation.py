"""The driver's own answer proves what a buffer is, and a contradiction is an error."""

import numpy as np
import pytest

from cudabw.driver.emulated import Shape
from cudabw.errors import CudabwError, DriverError
from cudabw.runtime.confirmation import confirm
from cudabw.runtime.device import Device
from cudabw.runtime.memory import (
    DeviceBuffer,
    ManagedBuffer,
    MappedBuffer,
    PageableBuffer,
    PinnedBuffer,
    RegisteredBuffer,
    WriteCombinedBuffer,
)

NBYTES = 4096
HINT = "The figure would not be what its row claims, so it was not taken."


def registered(device, nbytes, flags=()):
    return RegisteredBuffer(device, np.zeros(nbytes, np.uint8), flags=flags)


@pytest.fixture
def two_devices(make_device):
    first = make_device(shape=Shape(devices=2, memory=1 << 30))
    with Device(first.driver, 1) as second:
        yield first, second


@pytest.mark.parametrize(
    ("make", "flags", "answer"),
    [
        (PinnedBuffer, (), "page-locked"),
        (PinnedBuffer, ("portable",), "page-locked, portable"),
        (MappedBuffer, (), "page-locked, mapped"),
        (MappedBuffer, ("portable",), "page-locked, portable, mapped"),
        (WriteCombinedBuffer, (), "page-locked, write-combined"),
        (PinnedBuffer, ("portable", "mapped", "write-combined"), "page-locked, portable, mapped, write-combined"),
        (registered, (), "page-locked"),
        (registered, ("mapped",), "page-locked, mapped"),
    ],
)
def test_page_locked_memory_is_confirmed_with_its_flags(device, make, flags, answer):
    assert confirm(make(device, NBYTES, flags=flags)) == answer


@pytest.mark.parametrize(
    ("make", "answer"),
    [(PageableBuffer, "unknown to the driver"), (ManagedBuffer, "managed"), (DeviceBuffer, "memory of device 0")],
)
def test_other_memory_is_confirmed_by_what_the_driver_knows(device, make, answer):
    assert confirm(make(device, NBYTES)) == answer


@pytest.mark.parametrize("make", [MappedBuffer, PinnedBuffer, ManagedBuffer, DeviceBuffer])
def test_a_slice_is_confirmed_like_the_whole(device, make):
    buffer = make(device, NBYTES)
    assert confirm(buffer[100:200]) == confirm(buffer)


def test_memory_of_the_second_device_is_confirmed_as_such(two_devices):
    assert confirm(DeviceBuffer(two_devices[1], NBYTES)) == "memory of device 1"


def contradiction(buffer):
    with pytest.raises(CudabwError) as refusal:
        confirm(buffer)
    assert refusal.value.hint == HINT
    return refusal.value.message


def disguised(buffer, kind):
    """The memory of a buffer under the name of another kind."""
    other = object.__new__(kind)
    other._take_part(buffer._allocation, 0, buffer.nbytes, owner=False)
    return other


def test_pageable_memory_that_is_page_locked_is_a_contradiction(device):
    buffer = PageableBuffer.over(device, MappedBuffer(device, NBYTES).array())
    assert contradiction(buffer) == (
        "the driver contradicts a pageable buffer of 4096 bytes: it says 'page-locked, flags 2'"
    )


def test_pageable_memory_on_a_driver_that_fails_is_no_confirmation(make_device):
    from cudabw.driver.emulated import Fault

    device = make_device(faults=[Fault(function="cuMemHostGetFlags", status=999)])
    assert contradiction(PageableBuffer(device, NBYTES)) == (
        "the driver contradicts a pageable buffer of 4096 bytes: it says 'status 999'"
    )


def test_page_locked_memory_that_the_driver_does_not_know_is_an_error(device):
    buffer = disguised(PageableBuffer(device, NBYTES), PinnedBuffer)
    with pytest.raises(DriverError, match=r"^cuMemHostGetFlags failed"):
        confirm(buffer)


@pytest.mark.parametrize(("make", "claimed"), [(PinnedBuffer, {"write-combined"}), (WriteCombinedBuffer, set())])
def test_caching_that_differs_from_what_was_asked_is_a_contradiction(device, make, claimed):
    buffer = make(device, NBYTES)
    buffer._allocation.flags = frozenset(claimed)
    assert contradiction(buffer).startswith(
        f"the driver contradicts a {buffer.kind} buffer of 4096 bytes: it says 'page-locked"
    )


def test_a_mapped_buffer_with_another_address_than_the_drivers_is_a_contradiction(device):
    buffer = MappedBuffer(device, NBYTES)
    address = int(buffer.device_pointer)
    buffer._allocation.device_address += 8
    assert contradiction(buffer) == (
        "the driver contradicts a mapped buffer of 4096 bytes: "
        f"it says 'page-locked, mapped, device address 0x{address:x}'"
    )


@pytest.mark.parametrize(
    ("make", "kind", "answer"),
    [(MappedBuffer, DeviceBuffer, "memory type 1"), (DeviceBuffer, ManagedBuffer, "not managed")],
)
def test_memory_of_another_kind_is_a_contradiction(device, make, kind, answer):
    assert contradiction(disguised(make(device, NBYTES), kind)) == (
        f"the driver contradicts a {kind.kind} buffer of 4096 bytes: it says {answer!r}"
    )


def test_memory_of_another_device_is_a_contradiction(two_devices):
    first, second = two_devices
    buffer = DeviceBuffer(second, NBYTES)
    buffer.device = first
    assert contradiction(buffer) == "the driver contradicts a device buffer of 4096 bytes: it says 'memory of device 1'"
