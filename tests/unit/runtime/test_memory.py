"""What each kind of memory is, which sides it has, how it is sliced, registered, refused and closed."""

from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudabw.copying.driver_copy import PreparedCopy, copy
from cudabw.driver.emulated import Fault, Shape
from cudabw.errors import ClosedError, CudabwError, DriverError, MemorySideError, RefusedError, UnsupportedError
from cudabw.runtime.memory import (
    DeviceBuffer,
    ManagedBuffer,
    MappedBuffer,
    PageableBuffer,
    PinnedBuffer,
    RegisteredBuffer,
    WriteCombinedBuffer,
)
from cudabw.runtime.pointers import DevicePointer, HostPointer

NBYTES = 64
FLAGS = ("portable", "mapped", "write-combined")
USE_MAPPED = (
    'Allocate a MappedBuffer, or pass flags=("mapped",): the driver would give an address '
    "for memory that was never mapped, and nothing promises that a kernel may use it."
)
USE_ANOTHER_KIND = "Use a MappedBuffer, whose bytes a kernel can reach, or copy into a DeviceBuffer."
REGISTER_MAPPED = 'Register it with flags=("mapped",), so that the device is given an address.'
COPY_TO_HOST = "Copy it into a host buffer first: copy(host_buffer, device_buffer)."


def registered(device, nbytes, flags=()):
    return RegisteredBuffer(device, np.zeros(nbytes, np.uint8), flags=flags)


MAKERS = {
    "pageable": PageableBuffer,
    "pinned": PinnedBuffer,
    "mapped": MappedBuffer,
    "write-combined": WriteCombinedBuffer,
    "registered": registered,
    "managed": ManagedBuffer,
    "device": DeviceBuffer,
}
ALLOCATED = [kind for kind in MAKERS if kind != "registered"]


def subsets(flags):
    return list(chain.from_iterable(combinations(flags, count) for count in range(len(flags) + 1)))


PAGE_LOCKED = [
    *((kind, flags) for kind in ("pinned", "mapped", "write-combined") for flags in subsets(FLAGS)),
    *(("registered", flags) for flags in subsets(FLAGS[:2])),
]


def test_pageable_memory_is_private_to_the_process_as_an_allocators_is(device):
    with PageableBuffer(device, 1 << 16) as buffer:
        address = int(buffer.host_pointer)
        for line in Path("/proc/self/maps").read_text().splitlines():
            start, end = (int(number, 16) for number in line.split(" ")[0].split("-"))
            if start <= address < end:
                assert line.split()[1] == "rw-p"
                return
    pytest.fail("it is in no mapping")


@pytest.fixture(params=MAKERS)
def kind(request):
    return request.param


@pytest.fixture
def buffer(device, kind):
    return MAKERS[kind](device, NBYTES)


def count_calls(device):
    """The names of the driver functions that are called from now on."""
    machine, names = device.driver.api._machine, []
    enter = machine.enter

    def recording(function, needs, nbytes):
        names.append(function)
        enter(function, needs, nbytes)

    machine.enter = recording
    return names


def known_to_driver(device, address):
    return device.driver.attempt("cuMemHostGetFlags", address)[0] == 0


# -- kind x side ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "host", "on_device"),
    [
        ("pageable", True, False),
        ("pinned", True, False),
        ("mapped", True, True),
        ("write-combined", True, False),
        ("registered", True, False),
        ("managed", True, True),
        ("device", False, True),
    ],
)
def test_each_kind_has_its_sides_and_no_other(buffer, kind, host, on_device):
    assert buffer.kind == kind
    assert len(buffer) == buffer.nbytes == NBYTES
    assert (buffer.has_host_side, buffer.has_device_side) == (host, on_device)
    if host:
        assert type(buffer.host_pointer) is HostPointer
        assert int(buffer.host_pointer) > 0
    if on_device:
        assert type(buffer.device_pointer) is DevicePointer
        assert int(buffer.device_pointer) > 0


@pytest.mark.parametrize(
    ("kind", "side", "remedy"),
    [
        ("pageable", "device", USE_ANOTHER_KIND),
        ("pinned", "device", USE_MAPPED),
        ("write-combined", "device", USE_MAPPED),
        ("registered", "device", REGISTER_MAPPED),
        ("device", "host", COPY_TO_HOST),
    ],
)
def test_a_side_that_does_not_exist_is_refused_with_kind_side_and_remedy(buffer, kind, side, remedy):
    with pytest.raises(MemorySideError) as refusal:
        getattr(buffer, f"{side}_pointer")
    assert refusal.value.message == f"{kind} memory has no {side} pointer"
    assert refusal.value.hint == remedy


@pytest.mark.parametrize(("kind", "flags"), PAGE_LOCKED)
def test_page_locked_memory_has_a_device_side_only_when_mapped(device, kind, flags):
    buffer = MAKERS[kind](device, NBYTES, flags=flags)
    implied = {kind} & set(FLAGS)
    assert buffer.flags == set(flags) | implied
    assert buffer.has_device_side == ("mapped" in buffer.flags)
    bits = {"portable": 1, "mapped": 2, "write-combined": 4}
    assert device.call("cuMemHostGetFlags", int(buffer.host_pointer)) == sum(bits[flag] for flag in buffer.flags)
    # The driver gives an address whether the memory was mapped or not: the refusal is ours.
    given_by_driver = int(device.call("cuMemHostGetDevicePointer", int(buffer.host_pointer), 0))
    assert given_by_driver != 0
    if "mapped" in buffer.flags:
        assert int(buffer.device_pointer) == given_by_driver
    else:
        with pytest.raises(MemorySideError, match=rf"^{kind} memory has no device pointer$"):
            buffer.device_pointer  # noqa: B018 - the access is what is refused


def test_mapped_memory_has_two_addresses_and_managed_memory_one(device):
    mapped, managed = MappedBuffer(device, NBYTES), ManagedBuffer(device, NBYTES)
    assert int(mapped.device_pointer) != int(mapped.host_pointer)
    assert int(managed.device_pointer) == int(managed.host_pointer)
    assert managed.device_pointer != managed.host_pointer


@pytest.mark.parametrize("make", [PinnedBuffer, MappedBuffer, WriteCombinedBuffer])
def test_an_unknown_flag_is_refused_before_the_driver_is_asked(device, make):
    names = count_calls(device)
    with pytest.raises(ValueError, match=r"^unknown flag 'fast': choose from portable, mapped, write-combined$"):
        make(device, NBYTES, flags=("mapped", "fast"))
    assert names == []


def test_registered_memory_cannot_be_made_write_combined(device):
    with pytest.raises(ValueError, match=r"^unknown flag 'write-combined': choose from portable, mapped$"):
        registered(device, NBYTES, flags=("write-combined",))


@pytest.mark.parametrize("kind", ALLOCATED)
def test_a_negative_length_is_refused(device, kind):
    with pytest.raises(ValueError, match=r"^a buffer's length is not negative: -1$"):
        MAKERS[kind](device, -1)


@pytest.mark.parametrize("kind", ALLOCATED)
def test_zero_bytes_are_a_null_buffer_and_no_driver_call(device, kind):
    names = count_calls(device)
    empty = MAKERS[kind](device, 0)
    assert len(empty) == 0
    if empty.has_host_side:
        assert int(empty.host_pointer) == 0
        assert empty.array().shape == (0,)
    if empty.has_device_side:
        assert int(empty.device_pointer) == 0
    empty.close()
    assert [name for name in names if not name.startswith("cuCtx")] == []


def test_a_buffer_says_what_it_is(device):
    buffer = PinnedBuffer(device, NBYTES)
    assert repr(buffer) == "<PinnedBuffer 64 bytes, device 0>"
    buffer.close()
    assert repr(buffer) == "<PinnedBuffer closed 64 bytes, device 0>"


# -- arrays and interfaces --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind != "device"])
def test_an_array_shows_the_very_bytes_of_the_buffer(buffer):
    array = buffer.array(np.uint32)
    assert (array.dtype, array.shape) == (np.uint32, (NBYTES // 4,))
    assert array.ctypes.data == int(buffer.host_pointer)
    array[:] = 0x01020304
    assert buffer[4:8].array().tolist() == [4, 3, 2, 1]


def test_device_memory_has_no_array(device):
    with pytest.raises(MemorySideError, match=r"^device memory has no host pointer$"):
        DeviceBuffer(device, NBYTES).array()


@pytest.mark.parametrize("dtype", [np.float64, "V0"])
def test_an_array_needs_a_whole_number_of_elements(device, dtype):
    with pytest.raises(ValueError, match=r"^12 bytes are no whole number of .* bytes each\)$"):
        PinnedBuffer(device, 12).array(dtype)


@pytest.mark.parametrize("kind", ["pageable", "pinned", "write-combined", "registered"])
def test_the_array_interface_does_not_exist_without_a_device_side(buffer, kind):
    assert not hasattr(buffer, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match=rf"^{kind} memory has no device pointer. "):
        buffer.__cuda_array_interface__  # noqa: B018 - the access is what is refused


@pytest.mark.parametrize("kind", ["mapped", "managed", "device"])
def test_the_array_interface_gives_the_bytes_on_the_device(buffer):
    assert buffer[3:10].__cuda_array_interface__ == {
        "shape": (7,),
        "typestr": "|u1",
        "data": (int(buffer.device_pointer) + 3, False),
        "strides": None,
        "stream": None,
        "version": 3,
    }


def test_the_array_interface_names_the_stream_that_may_still_use_the_bytes(device):
    buffer, source = DeviceBuffer(device, NBYTES), PinnedBuffer(device, NBYTES)
    with device.stream() as stream:
        copy(buffer, source, stream=stream)
        assert buffer.__cuda_array_interface__["stream"] == int(stream.handle)
        stream.synchronize()
        assert buffer.__cuda_array_interface__["stream"] is None


def test_the_array_interface_says_when_the_bytes_are_read_only(device):
    array = np.zeros(NBYTES, np.uint8)
    array.flags.writeable = False
    buffer = RegisteredBuffer(device, array, flags=("mapped",))
    assert buffer.__cuda_array_interface__["data"] == (int(buffer.device_pointer), True)


# -- slices -----------------------------------------------------------------------------------------------


bounds = st.none() | st.integers(-2 * NBYTES, 2 * NBYTES)


@pytest.fixture(scope="module")
def counted():
    return np.arange(NBYTES, dtype=np.uint8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=st.builds(slice, bounds, bounds, st.sampled_from([None, 1, 1, 2, -1])))
def test_a_slice_is_the_bytes_that_python_slicing_names(device, counted, part):
    buffer = PageableBuffer.over(device, counted)
    start, stop, step = part.indices(NBYTES)
    if step != 1:
        with pytest.raises(ValueError, match=rf"^a buffer's slice is contiguous: step {step} is not 1$"):
            buffer[part]
        return
    piece = buffer[part]
    assert piece.array().tolist() == counted[part].tolist()
    assert type(piece) is PageableBuffer
    if stop > start:
        assert piece.host_pointer - buffer.host_pointer == start


def test_a_slice_of_a_slice_counts_from_the_slice(device):
    buffer = MappedBuffer(device, NBYTES)
    piece = buffer[8:32][4:10]
    assert piece.nbytes == 6
    assert piece.host_pointer - buffer.host_pointer == 12
    assert piece.device_pointer - buffer.device_pointer == 12


def test_a_single_index_is_refused(device):
    with pytest.raises(TypeError, match=r"^a buffer is sliced in bytes, as in buffer\[4096:8192\]; for elements "):
        PinnedBuffer(device, NBYTES)[0]


def test_a_slice_shares_the_state_of_its_buffer(device):
    buffer, other = DeviceBuffer(device, NBYTES), PinnedBuffer(device, NBYTES)
    piece = buffer[8:16]
    assert piece.ownership is buffer.ownership
    with device.stream() as stream:
        copy(piece, other[:8], stream=stream)
        assert buffer.ownership.stream is stream
        assert buffer.ownership.dirty


def test_a_slice_does_not_free_and_says_so(device):
    buffer = PinnedBuffer(device, NBYTES)
    piece = buffer[8:16]
    with pytest.raises(CudabwError) as refusal:
        piece.close()
    assert refusal.value.message == "a slice does not own its memory"
    assert refusal.value.hint == "Close the buffer that the slice was taken from."
    assert not buffer.closed
    assert not piece.closed


def test_a_slice_ends_with_its_buffer(device):
    buffer = PinnedBuffer(device, NBYTES)
    piece = buffer[8:16]
    buffer.close()
    assert piece.closed
    with pytest.raises(ClosedError, match=r"^this pinned buffer of 8 bytes was closed$"):
        piece.array()


# -- closing ----------------------------------------------------------------------------------------------


def reach(name):
    """Reads a property, or calls a method that needs nothing more."""

    def access(buffer):
        value = getattr(buffer, name)
        return value() if callable(value) else value

    return access


NAMES = {name for name in dir(MappedBuffer) if not name.startswith("_")} - {
    "always_on_device",
    "close",
    "closed",
    "kind",
}
ACCESSORS = {name: reach(name) for name in sorted(NAMES | {"__cuda_array_interface__"})} | {
    "slice": lambda buffer: buffer[0:1],
    "destination": lambda buffer: copy(buffer, DeviceBuffer(buffer.device, NBYTES)),
    "source": lambda buffer: copy(DeviceBuffer(buffer.device, NBYTES), buffer),
}


@pytest.mark.parametrize("access", ACCESSORS.values(), ids=ACCESSORS)
def test_nothing_is_usable_after_close(buffer, kind, access):
    buffer.close()
    assert buffer.closed
    with pytest.raises(ClosedError, match=rf"^this {kind} buffer of 64 bytes was closed$"):
        access(buffer)


# A launch converts its arguments without a look at the device, because it needs an open stream anyway.
@pytest.mark.parametrize("name", sorted(ACCESSORS.keys() - {"destination", "source", "c_value"}))
def test_nothing_is_usable_after_its_device_was_closed(device, name):
    buffer = MappedBuffer(device, NBYTES)
    device.close()
    with pytest.raises(ClosedError, match=r"^device 0, which this mapped buffer belongs to, was closed$"):
        ACCESSORS[name](buffer)


def test_closing_again_does_nothing(buffer, device):
    buffer.close()
    names = count_calls(device)
    buffer.close()
    assert names == []


def test_a_block_closes_its_buffer(device):
    with PinnedBuffer(device, NBYTES) as buffer:
        assert not buffer.closed
    assert buffer.closed


def test_closing_gives_the_memory_back(device):
    free, address = device.free_bytes, []
    with DeviceBuffer(device, 1 << 20), MappedBuffer(device, 1 << 20) as mapped, ManagedBuffer(device, 4096):
        assert device.free_bytes == free - (1 << 20)
        assert device.page_locked_bytes == 1 << 20
        address.append(int(mapped.host_pointer))
        assert known_to_driver(device, address[0])
    assert device.free_bytes == free
    assert device.page_locked_bytes == 0
    assert not known_to_driver(device, address[0])


def test_a_prepared_copy_ends_with_either_buffer(device):
    source, destination = PinnedBuffer(device, NBYTES), DeviceBuffer(device, NBYTES)
    prepared = PreparedCopy(destination, source, device.default_stream)
    source.close()
    with pytest.raises(ClosedError, match=r"^this pinned buffer of 64 bytes was closed$"):
        prepared.submit()


def test_busy_is_true_while_queued_work_may_use_the_memory(device, gate):
    buffer, source = DeviceBuffer(device, NBYTES), PinnedBuffer(device, NBYTES)
    assert not buffer.busy
    with device.stream() as stream:
        gate.close_on(stream)
        copy(buffer[:8], source[:8], stream=stream)
        assert buffer.busy
        assert source[32:].busy
        gate.open()
        # Past the library, so that only the question itself can find out.
        device.call("cuStreamSynchronize", stream.handle)
        assert buffer.ownership.dirty
        assert not buffer.busy
        assert not source.busy


def test_an_array_is_given_only_when_queued_work_is_done(device):
    # A long queue: without the wait, the last copy would not have run yet.
    source, target = DeviceBuffer(device, 1 << 20), PinnedBuffer(device, 1 << 20)
    copy(source, PageableBuffer.over(device, np.full(1 << 20, 7, np.uint8)))
    with device.stream() as stream:
        prepared = PreparedCopy(target, source, stream)
        prepared.submit(times=200)
        waited = device.waits.host
        array = target.array()
        assert device.waits.host == waited + 1
        assert not target.ownership.dirty
        assert (array == 7).all()


# -- registering ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
def test_registering_pins_exactly_the_bytes_of_the_array(device, order):
    block = np.arange(4096, dtype=np.uint8)
    array = block[100:124].view(np.uint32).reshape((2, 3), order=order)
    buffer = RegisteredBuffer(device, array)
    assert buffer.nbytes == 24
    assert int(buffer.host_pointer) == array.ctypes.data
    assert device.page_locked_bytes == 24
    assert buffer.array().tolist() == list(range(100, 124))
    start = array.ctypes.data
    assert [known_to_driver(device, start + at) for at in (-1, 0, 23, 24)] == [False, True, True, False]


@pytest.mark.parametrize("take", [RegisteredBuffer, PageableBuffer.over])
def test_an_array_that_is_no_single_range_is_refused(device, take):
    with pytest.raises(ValueError, match="is not contiguous") as refusal:
        take(device, np.zeros((4, 8), np.uint8)[:, ::2])
    assert str(refusal.value) == (
        "an array of shape (4, 4) and strides (8, 2) is not contiguous, so its bytes are no single range; "
        "use numpy.ascontiguousarray(array)"
    )


@pytest.mark.parametrize("dtype", [object, [("name", object), ("age", int)]])
def test_an_array_of_objects_is_refused(device, dtype):
    for take in (RegisteredBuffer, PageableBuffer.over):
        with pytest.raises(ValueError, match=r"holds references to Python objects, not bytes to copy$"):
            take(device, np.zeros(4, dtype))


def test_an_empty_array_cannot_be_registered(device):
    with pytest.raises(ValueError, match=r"^an empty array has no bytes to register$"):
        RegisteredBuffer(device, np.zeros((3, 0)))


@pytest.mark.parametrize("make", [RegisteredBuffer, PageableBuffer.over])
def test_a_read_only_array_can_be_a_source_and_no_destination(device, make):
    array = np.arange(NBYTES, dtype=np.uint8)
    array.flags.writeable = False
    buffer, target, back = make(device, array), DeviceBuffer(device, NBYTES), PinnedBuffer(device, NBYTES)
    assert buffer.read_only
    assert not buffer.array().flags.writeable
    copy(target, buffer)
    copy(back, target)
    assert back.array().tolist() == list(range(NBYTES))
    with pytest.raises(ValueError, match=rf"^this {buffer.kind} buffer is read-only, so it cannot be a destination$"):
        copy(buffer, target)


@pytest.mark.parametrize(("writeable", "supported", "bits"), [(False, 0, 0), (False, 1, 8), (True, 1, 0)])
def test_a_read_only_array_is_registered_as_such_where_the_device_can(device, monkeypatch, writeable, supported, bits):
    array, asked = np.zeros(NBYTES, np.uint8), []
    array.flags.writeable = writeable
    api = device.driver.api
    monkeypatch.setattr(device, "attribute", lambda name: {"READ_ONLY_HOST_REGISTER_SUPPORTED": supported}[name])
    monkeypatch.setattr(api, "cuMemHostRegister", lambda *arguments: (asked.append(arguments), (0,))[1], raising=False)
    monkeypatch.setattr(api, "cuMemHostUnregister", lambda _address: (0,), raising=False)
    with RegisteredBuffer(device, array):
        assert asked == [(array.ctypes.data, NBYTES, bits)]


@pytest.mark.parametrize("part", [slice(0, 8192), slice(0, 4096), slice(8191, 12288), slice(100, 200)])
def test_registering_twice_or_overlapping_is_explained_and_leaves_no_trace(device, part):
    array = np.zeros(12288, np.uint8)
    with RegisteredBuffer(device, array[:8192]):
        with pytest.raises(DriverError) as refusal:
            RegisteredBuffer(device, array[part])
        assert refusal.value.code == 712
        assert refusal.value.message == (
            "cuMemHostRegister failed with CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED (712)"
        )
        assert refusal.value.hint == "The range, or part of it, is already pinned or registered; unregister that first."
        assert device.page_locked_bytes == 8192
    with RegisteredBuffer(device, array[part]):
        pass


def test_registering_page_locked_memory_is_explained(device):
    with pytest.raises(DriverError) as refusal:
        RegisteredBuffer(device, PinnedBuffer(device, NBYTES).array())
    assert refusal.value.code == 712


def test_neighbouring_ranges_can_be_registered(device):
    array = np.zeros(8192, np.uint8)
    with RegisteredBuffer(device, array[:4000]), RegisteredBuffer(device, array[4000:]):
        assert device.page_locked_bytes == 8192


@pytest.mark.parametrize("half", [slice(0, 4096), slice(4096, 8192)])
def test_a_copy_of_a_half_registered_range_is_explained(device, half):
    array = np.zeros(8192, np.uint8)
    target = DeviceBuffer(device, 8192)
    with RegisteredBuffer(device, array[half]), pytest.raises(DriverError) as refusal:
        copy(target, PageableBuffer.over(device, array))
    assert refusal.value.message == "cuMemcpyHtoDAsync failed with CUDA_ERROR_INVALID_VALUE (1)"
    assert "crosses the edge of a registered range" in refusal.value.hint


def test_closing_undoes_the_registration(device):
    array = np.zeros(NBYTES, np.uint8)
    buffer = RegisteredBuffer(device, array)
    buffer.close()
    assert not known_to_driver(device, array.ctypes.data)
    assert device.page_locked_bytes == 0
    RegisteredBuffer(device, array).close()


def test_a_registered_array_lives_as_long_as_it_is_registered(device):
    buffer = RegisteredBuffer(device, np.arange(NBYTES, dtype=np.uint8))
    assert buffer.array().tolist() == list(range(NBYTES))


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(function="cuMemHostRegister", status=801, nth=1), UnsupportedError),
        (Fault(function="cuMemHostRegister", status=2, nth=1), RefusedError),
        (Fault(function="cuMemHostGetDevicePointer", status=205, nth=1), DriverError),
    ],
    ids=lambda value: getattr(value, "function", None),
)
def test_registering_that_fails_leaves_no_trace(make_device, fault, error):
    device = make_device(faults=[fault])
    array = np.zeros(NBYTES, np.uint8)
    with pytest.raises(error):
        RegisteredBuffer(device, array, flags=("mapped",))
    assert not known_to_driver(device, array.ctypes.data)
    assert device.page_locked_bytes == 0
    with RegisteredBuffer(device, array, flags=("mapped",)):
        assert device.page_locked_bytes == NBYTES


# -- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("pinned", "cuMemHostAlloc"),
        ("mapped", "cuMemHostAlloc"),
        ("write-combined", "cuMemHostAlloc"),
        ("registered", "cuMemHostRegister"),
    ],
)
def test_refused_host_memory_is_called_host_memory_with_bytes_asked_and_held(make_device, kind, function):
    device = make_device(faults=[Fault(function=function, status=2, at_least_bytes=1 << 20)])
    held = PinnedBuffer(device, 4096)
    with pytest.raises(RefusedError) as refusal:
        MAKERS[kind](device, 1 << 20)
    assert refusal.value.message == (
        f"1048576 bytes of host {kind} memory were refused ({function}: CUDA_ERROR_OUT_OF_MEMORY, 2); "
        "this process holds 4096 bytes of page-locked host memory"
    )
    assert refusal.value.hint.startswith("Host pinned memory was refused, not device memory: ")
    assert device.page_locked_bytes == 4096
    held.close()


def test_refused_device_memory_is_said_with_what_is_free(make_device):
    device = make_device(shape=Shape(memory=1 << 20))
    held = DeviceBuffer(device, 1 << 19)
    with pytest.raises(RefusedError) as refusal:
        DeviceBuffer(device, (1 << 19) + 1)
    assert refusal.value.message == (
        "524289 bytes of device memory were refused (cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY, 2); "
        "524288 of 1048576 bytes are free on device 0"
    )
    held.close()


def test_refused_managed_memory_is_said_with_what_is_free(make_device):
    device = make_device(faults=[Fault(function="cuMemAllocManaged", status=2)], shape=Shape(memory=1 << 20))
    with pytest.raises(RefusedError, match=r"^64 bytes of managed memory were refused .* bytes are free"):
        ManagedBuffer(device, NBYTES)


@pytest.mark.parametrize("nbytes", [1 << 60, 1 << 64])
def test_pageable_memory_that_the_system_refuses_is_called_host_memory(device, nbytes):
    with pytest.raises(RefusedError) as refusal:
        PageableBuffer(device, nbytes)
    assert refusal.value.message.startswith(f"{nbytes} bytes of host pageable memory were refused (")


@pytest.mark.parametrize("kind", ["pinned", "registered", "managed", "device"])
def test_another_failure_of_the_driver_is_passed_on(make_device, kind):
    functions = {"pinned": "HostAlloc", "registered": "HostRegister", "managed": "AllocManaged", "device": "Alloc"}
    device = make_device(faults=[Fault(function=f"cuMem{functions[kind]}", status=304)])
    with pytest.raises(DriverError) as failure:
        MAKERS[kind](device, NBYTES)
    assert failure.value.code == 304


def test_mapped_memory_without_an_address_is_freed_at_once(make_device):
    device = make_device(faults=[Fault(function="cuMemHostGetDevicePointer", status=205, nth=1)])
    names = count_calls(device)
    with pytest.raises(DriverError):
        MappedBuffer(device, NBYTES)
    assert names.count("cuMemHostAlloc") == names.count("cuMemFreeHost") == 1
    assert device.page_locked_bytes == 0
