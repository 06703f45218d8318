"""From Python values to C values: what is accepted, what is refused, and that nothing else happens."""

import ctypes
import math
import struct
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.driver.emulated.shape import Shape
from cudabw.errors import ClosedError, CudabwError, MemorySideError, UnsupportedError
from cudabw.runtime import ptx
from cudabw.runtime.arguments import convert, fit, natural_type
from cudabw.runtime.kernels import Module
from cudabw.runtime.memory import DeviceBuffer, ManagedBuffer, MappedBuffer, PageableBuffer, PinnedBuffer
from cudabw.runtime.pointers import DevicePointer, HostPointer
from cudabw.runtime.signature import POINTER, TYPES, ctype_of, layout, offsets, structure

INTEGERS = [name for name in TYPES if "int" in name and name != "pointer"]
FLOATS = ["float16", "float32", "float64"]
CTYPES = {
    "bool": ctypes.c_bool,
    "int8": ctypes.c_int8,
    "int16": ctypes.c_int16,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8,
    "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


@dataclass
class Pair:
    first: object
    second: object


class Foreign:
    """An array of another library."""

    def __init__(self, address, shape=(16,), typestr="<f4", **interface):
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": typestr,
            "version": 3,
            **interface,
        }


def packed(value, expected):
    """The bytes of a value as a parameter of a type."""
    ctype, content, _ = fit(convert(value), ctype_of(expected))
    assert ctype == ctype_of(expected)
    return struct.pack(f"<{ctype.code}", content)


def limits(name):
    info = np.iinfo(name)
    return int(info.min), int(info.max)


# -- Python's numbers ----------------------------------------------------------------------------------------------


@given(data=st.data())
@pytest.mark.parametrize("name", INTEGERS)
def test_an_int_becomes_any_integer_that_holds_it(name, data):
    value = data.draw(st.integers(*limits(name)))
    assert packed(value, name) == np.array(value, name).tobytes()


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("side", [0, 1])
def test_an_int_out_of_range_is_refused_with_the_range(name, side):
    bounds = limits(name)
    packed(bounds[side], name)
    with pytest.raises(OverflowError, match=f"is out of the range of {name}, {bounds[0]} to {bounds[1]}"):
        packed(bounds[side] + (-1, 1)[side], name)


@given(value=st.floats(width=32))
def test_a_float_becomes_the_nearest_floating_value(value):
    assert packed(value, "float32") == np.array(value, np.float32).tobytes()
    assert packed(value, "float64") == np.array(value, np.float64).tobytes()


@pytest.mark.parametrize(("name", "value"), [("float16", 1e5), ("float32", 1e39), ("float32", -1e39)])
def test_a_float_out_of_range_is_refused(name, value):
    with pytest.raises(OverflowError, match=f"is out of the range of {name}"):
        packed(value, name)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 0.1])
def test_infinity_nan_and_rounding_are_fine(name, value):
    assert packed(value, name) == np.array(value, name).tobytes()


def test_an_int_becomes_a_float_only_where_that_is_exact():
    assert packed(1 << 24, "float32") == struct.pack("<f", float(1 << 24))
    with pytest.raises(OverflowError, match="16777217 has no exact float32"):
        packed((1 << 24) + 1, "float32")
    with pytest.raises(OverflowError, match="is out of the range of float64"):
        packed(10**400, "float64")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "int32"),
        (1.0, "bool"),
        (1, "bool"),
        (True, "int32"),
        (True, "float32"),
        (1, "complex64"),
        (1, ("int32",)),
        (np.int32(1), "uint32"),
        (np.int32(1), "int64"),
        (np.float32(1), "float64"),
        (np.float64(1), "float32"),
        (np.int32(1), "float32"),
        (np.bool_(True), "int8"),
        (ctypes.c_int32(1), "uint32"),
        (DevicePointer(8), "uint64"),
        (np.uint64(8), "pointer"),
        ((1, 2), ("int32",)),
        ((1, 2.0), ("int32", "int32")),
    ],
)
def test_another_class_or_dtype_is_refused(value, expected):
    with pytest.raises(TypeError, match=r"was given where .* is expected"):
        packed(value, expected)


def test_an_int_is_no_pointer_and_the_remedy_is_named():
    with pytest.raises(
        TypeError, match="Python int was given where pointer is expected; wrap an address in DevicePointer"
    ):
        packed(0x1000, "pointer")


# -- typed scalars -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in TYPES if name != "pointer"])
def test_numpy_scalars_are_passed_exactly(name):
    value = np.frombuffer(bytes(range(64, 80)), name, count=1)[0] if name != "bool" else np.bool_(True)
    assert packed(value, name) == value.tobytes()


@pytest.mark.parametrize("name", CTYPES)
def test_ctypes_scalars_are_passed_exactly(name):
    assert packed(CTYPES[name](1), name) == bytes(CTYPES[name](1))


def test_an_address_in_ctypes_is_a_pointer():
    assert packed(ctypes.c_void_p(0x1234), "pointer") == struct.pack("<Q", 0x1234)
    assert packed(ctypes.c_void_p(None), "pointer") == bytes(8)


@pytest.mark.parametrize("value", [np.datetime64("2020"), np.longdouble(1), np.str_("x"), np.void(b"ab")])
def test_numpy_scalars_without_a_c_type_are_refused(value):
    with pytest.raises(TypeError, match="has no C type"):
        convert(value)


@pytest.mark.parametrize("value", [None, "text", b"bytes", [1, 2], {}, object(), int])
def test_other_classes_are_refused(value):
    with pytest.raises(TypeError, match=f"a kernel does not take a {type(value).__name__}"):
        convert(value)


def test_another_class_can_be_added():
    class Metres:
        def __init__(self, value):
            self.value = value

    with pytest.raises(TypeError):
        convert(Metres(2.5))
    convert.register(Metres, lambda metres: convert(np.float32(metres.value)))
    assert packed(Metres(2.5), "float32") == struct.pack("<f", 2.5)


# -- structures ----------------------------------------------------------------------------------------------------


class CExample(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int8), ("b", ctypes.c_double), ("c", ctypes.c_int16), ("d", ctypes.c_float))


@pytest.mark.parametrize("members", [(np.int8(1), np.float64(2.5), np.int16(3), np.float32(4)), (1, 2.5, 3, 4.0)])
def test_a_tuple_is_laid_out_as_c_lays_out_a_structure(members):
    expected = CExample(1, 2.5, 3, 4)
    assert packed(members, ("int8", "float64", "int16", "float32")) == bytes(expected)


def test_structures_nest_and_dataclasses_are_structures():
    class Inner(ctypes.Structure):
        _fields_ = (("a", ctypes.c_int8), ("b", ctypes.c_int32))

    class Outer(ctypes.Structure):
        _fields_ = (("a", ctypes.c_int16), ("inner", Inner), ("c", ctypes.c_int8))

    value = (np.int16(1), Pair(np.int8(2), 3), np.int8(4))
    assert packed(value, ("int16", ("int8", "int32"), "int8")) == bytes(Outer(1, Inner(2, 3), 4))


def test_members_are_checked_as_arguments_are():
    with pytest.raises(OverflowError, match="300 is out of the range of int8"):
        packed((300, 1), ("int8", "int8"))
    with pytest.raises(TypeError, match="Python float was given where int8 is expected"):
        packed((1.0, 1), ("int8", "int8"))
    with pytest.raises(TypeError, match="at least one member"):
        convert(())


def test_memory_in_a_structure_is_owned_as_any_other(device):
    buffers = [DeviceBuffer(device, 64) for _ in range(2)]
    assert convert((buffers[0], (1.5, buffers[1])))[2] == tuple(buffer.ownership for buffer in buffers)
    name, text = ptx.null_kernel([("pointer", ("float32", "pointer"))])
    kernel = Module(device, text).kernel(name, [("pointer", ("float32", "pointer"))])
    stream = device.stream()
    for _ in range(2):
        kernel((buffers[0], (1.5, buffers[1])), grid=1, block=1, stream=stream)
        assert [buffer.ownership.stream for buffer in buffers] == [stream, stream]
        for buffer in buffers:
            buffer.ownership.reset()
    stream.synchronize()


# -- memory --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [DeviceBuffer, MappedBuffer, ManagedBuffer])
def test_a_buffer_is_its_device_address(device, memory):
    buffer = memory(device, 4096)
    assert convert(buffer) == (POINTER, int(buffer.device_pointer), buffer.ownership)
    assert convert(buffer[256:]) == (POINTER, int(buffer.device_pointer) + 256, buffer.ownership)


def test_a_device_pointer_is_its_address_and_owns_nothing():
    assert convert(DevicePointer(0x1234)) == (POINTER, 0x1234, None)


@pytest.mark.parametrize("memory", [PinnedBuffer, PageableBuffer])
def test_memory_without_a_device_side_is_refused_with_the_remedy(device, memory):
    with pytest.raises(MemorySideError, match="has no device pointer") as refused:
        convert(memory(device, 4096))
    assert "MappedBuffer" in refused.value.hint


def test_host_addresses_and_arrays_are_refused_with_the_remedy():
    with pytest.raises(MemorySideError, match="is an address of the host") as refused:
        convert(HostPointer(0x1234))
    assert "device_pointer" in refused.value.hint
    with pytest.raises(MemorySideError, match="is host memory") as refused:
        convert(np.arange(3))
    assert "DeviceBuffer" in refused.value.hint


def test_a_closed_buffer_is_refused(device):
    buffer = DeviceBuffer(device, 64)
    buffer.close()
    with pytest.raises(ClosedError, match="this device buffer of 64 bytes was closed"):
        convert(buffer)


def test_conversion_leaves_no_trace_and_calls_no_driver(device):
    buffer = MappedBuffer(device, 64)
    owner = device.stream()
    foreign = Foreign(int(buffer.device_pointer), stream=int(owner.handle))
    before = device.waits.stream, device.waits.host, device.conversions.arguments
    api, device.driver.api = device.driver.api, None
    try:
        for value in (buffer, foreign, (buffer, 1), 1, 1.0, np.int32(1), DevicePointer(1), ctypes.c_int(1)):
            convert(value)
    finally:
        device.driver.api = api
    assert buffer.ownership.stream is None
    assert (device.waits.stream, device.waits.host, device.conversions.arguments) == before


# -- arrays of other libraries -------------------------------------------------------------------------------------


@pytest.fixture
def null(device):
    name, text = ptx.null_kernel(["pointer"])
    return Module(device, text).kernel(name, ["pointer"])


def launch(kernel, value, stream):
    kernel(value, grid=1, block=1, stream=stream)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((16,), None), ((2, 8), (32, 4)), ((2, 8), (4, 8)), ((1, 16), (999, 4)), ((), ()), ((0, 3), (7, 7))],
)
def test_a_contiguous_foreign_array_is_its_address(device, shape, strides):
    buffer = DeviceBuffer(device, 64)
    ctype, content, _ = convert(Foreign(int(buffer.device_pointer), shape, strides=strides))
    assert (ctype, content) == (POINTER, int(buffer.device_pointer))


@pytest.mark.parametrize(("shape", "strides"), [((8,), (8,)), ((2, 8), (64, 4)), ((16,), (-4,)), ((2, 2), (4, 4))])
def test_a_foreign_array_that_is_not_contiguous_is_refused_with_the_remedy(shape, strides):
    with pytest.raises(ValueError, match="is not contiguous; pass a contiguous copy"):
        convert(Foreign(0x1000, shape, strides=strides))


def test_an_interface_that_breaks_its_own_rules_is_refused():
    with pytest.raises(ValueError, match="stream 0 is ambiguous"):
        convert(Foreign(0x1000, stream=0))
    with pytest.raises(ValueError, match="masked"):
        convert(Foreign(0x1000, mask=Foreign(0x2000)))


def test_the_stream_that_a_foreign_array_names_is_waited_for_at_each_submission(device, null):
    stream, named = device.stream(), device.stream()
    buffer = DeviceBuffer(device, 64)
    array = Foreign(int(buffer.device_pointer), stream=int(named.handle))
    prepared = null.prepare(array, grid=1, block=1, stream=stream)
    assert device.waits.stream == 0
    prepared()
    prepared()
    launch(null, array, stream)
    assert device.waits.stream == 3
    launch(null, array, named)
    assert device.waits.stream == 3


def test_a_foreign_array_without_a_stream_needs_no_wait(device, null):
    buffer = DeviceBuffer(device, 64)
    prepared = null.prepare(Foreign(int(buffer.device_pointer)), grid=1, block=1, stream=device.stream())
    prepared()
    prepared()
    assert device.waits.stream == 0


def test_a_foreign_stream_that_is_being_captured_is_refused_and_its_capture_goes_on(device, null):
    stream, named = device.stream(), device.stream()
    buffer = DeviceBuffer(device, 64)
    device.call("cuStreamBeginCapture", named.handle, 2)
    with pytest.raises(CudabwError, match="the stream that an array names is being captured"):
        launch(null, Foreign(int(buffer.device_pointer), stream=int(named.handle)), stream)
    device.call("cuGraphDestroy", device.call("cuStreamEndCapture", named.handle))


def test_memory_that_the_driver_does_not_know_is_refused(device, null):
    with pytest.raises(CudabwError, match="the driver knows no memory at 0x10"):
        launch(null, Foreign(0x10), device.stream())


@pytest.mark.parametrize("memory", [MappedBuffer, ManagedBuffer])
def test_foreign_host_and_managed_memory_is_reached_from_every_device(make_device, memory):
    near = make_device(shape=Shape(devices=2))
    far = make_device(1, driver=near.driver)
    buffer = memory(far, 64)
    name, text = ptx.null_kernel(["pointer"])
    launch(Module(near, text).kernel(name), Foreign(int(buffer.device_pointer)), near.stream())
    buffer.close()
    far.close()


def test_a_foreign_array_of_a_device_out_of_reach_is_refused(make_device):
    near = make_device(shape=Shape(devices=2))
    far = make_device(1, driver=near.driver)
    buffer = DeviceBuffer(far, 64)
    name, text = ptx.null_kernel(["pointer"])
    with pytest.raises(UnsupportedError, match="cannot reach memory of device 1"):
        launch(Module(near, text).kernel(name), Foreign(int(buffer.device_pointer)), near.stream())
    buffer.close()
    far.close()


def test_our_buffers_offer_the_interface_that_we_take(device):
    buffer = MappedBuffer(device, 64)

    class View:
        __cuda_array_interface__ = buffer.__cuda_array_interface__

    assert convert(View())[:2] == convert(buffer)[:2]


# -- types ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("specification", "name"),
    [
        ("pointer", "pointer"),
        ("uint32", "uint32"),
        (np.float32, "float32"),
        (np.dtype("i2"), "int16"),
        (float, "float64"),
        (bool, "bool"),
        (ctypes.c_uint16, "uint16"),
        (ctypes.c_void_p, "pointer"),
        (DevicePointer, "pointer"),
        (DeviceBuffer, "pointer"),
        (TYPES["int8"], "int8"),
        (("int8", np.float64), "struct(int8, float64)"),
    ],
)
def test_a_type_can_be_named_in_many_ways(specification, name):
    assert str(ctype_of(specification)) == name


@pytest.mark.parametrize("specification", ["int", "double*", None, HostPointer, np.dtype(">i4"), object()])
def test_anything_else_is_no_type(specification):
    with pytest.raises(TypeError, match="is no C type; there are pointer, bool, int8"):
        ctype_of(specification)


def test_parameters_lie_at_their_alignment():
    types = [TYPES["int8"], POINTER, TYPES["int16"], structure([TYPES["int8"], TYPES["int32"]])]
    assert offsets(types) == [0, 8, 16, 20]
    assert layout(types)[1] == struct.calcsize("<" + layout(types)[0]) == 28


@pytest.mark.parametrize(
    ("value", "size", "name"),
    [
        (1, 4, "int32"),
        (-1, 1, "int8"),
        (1 << 31, 4, "uint32"),
        ((1 << 31) - 1, 4, "int32"),
        (1, None, "int64"),
        (1 << 63, None, "uint64"),
        (1.5, 4, "float32"),
        (1.5, None, "float64"),
        (np.int8(1), 4, "int8"),
        ((1, 1.5, np.int8(1)), 24, "struct(int64, float64, int8)"),
    ],
)
def test_an_example_gives_a_type(value, size, name):
    assert str(natural_type(convert(value), size)) == name


def test_no_number_has_three_bytes():
    with pytest.raises(TypeError, match="1 was given, and no int has the 3 bytes"):
        natural_type(convert(1), 3)
