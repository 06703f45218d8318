"""Arguments of calls that follow each other: what is remembered of the last call never stands in for this one."""

import gc
import math
import struct
import weakref
from dataclasses import dataclass

import numpy as np
import pytest

from cudabw.errors import ClosedError, MemorySideError
from cudabw.runtime import ptx
from cudabw.runtime.arguments import convert
from cudabw.runtime.gate import Gate
from cudabw.runtime.kernels import Module
from cudabw.runtime.memory import DeviceBuffer, MappedBuffer, PinnedBuffer
from cudabw.runtime.pointers import DevicePointer
from cudabw.runtime.signature import POINTER


class Calls:
    """A null kernel of given types, and what arrived of each launch."""

    def __init__(self, make_device, *types):
        self._seen = []
        self.device = make_device(kernels={"cudabw_null*": lambda launch, _device: self._seen.append(launch)})
        self.stream = self.device.stream()
        self.types = types
        name, text = ptx.null_kernel(types)
        self.kernel = Module(self.device, text).kernel(name, types)

    def __call__(self, *args, stream=None):
        self.kernel(*args, grid=1, block=1, stream=stream or self.stream)

    def arrived(self):
        """The parameters of each launch since this was asked last."""
        self.device.synchronize()
        launches = [launch.parameters for launch in self._seen]
        self._seen.clear()
        return launches

    def buffers(self, count, kind=DeviceBuffer):
        return [kind(self.device, 256) for _ in range(count)]


def address(memory):
    return struct.pack("<Q", int(getattr(memory, "device_pointer", memory)))


@pytest.fixture
def pair(make_device):
    """Calls of a kernel that takes two pointers."""
    return Calls(make_device, "pointer", "pointer")


class Foreign:
    """A buffer as an array of another library."""

    def __init__(self, buffer):
        self.__cuda_array_interface__ = {**buffer.__cuda_array_interface__, "stream": None}


def test_every_call_launches_with_its_own_arguments(pair):
    a, b, c = pair.buffers(3)
    mapped, empty = MappedBuffer(pair.device, 256), DeviceBuffer(pair.device, 0)
    pointer = DevicePointer(int(c.device_pointer) + 8)
    in_order = [(a, b), (a, b), (b, a), (a, b), (a, a), (a, a[64:]), (a, a), (a, b), (mapped, b), (mapped, b)]
    in_order += [(pointer, b), (pointer, b), (a, b), (a, pointer), (a, b), (empty, b), (empty, empty), (a, b), (c, c)]
    for args in in_order:
        pair(*args)
    assert pair.arrived() == [tuple(address(memory) for memory in args) for args in in_order]


def test_each_argument_of_each_call_is_counted(pair):
    a, b = pair.buffers(2)
    for args in ((a, b), (a, b), (a, b), (b, a), (a, DevicePointer(16)), (a, b)):
        before = pair.device.conversions.arguments
        pair(*args)
        assert pair.device.conversions.arguments - before == 2


def test_every_stream_and_every_extent_launches_with_the_arguments_of_the_call(pair):
    a, b = pair.buffers(2)
    other = pair.device.stream()
    in_order = [(a, b), (a, b), (b, a), (b, a), (a, b), (a, b)]
    for number, args in enumerate(in_order):
        pair(*args, stream=(pair.stream, other)[number % 2])
        pair.kernel(*args, grid=2, block=1, stream=pair.stream)
    arrived = pair.arrived()
    assert sorted(arrived) == sorted(tuple(address(memory) for memory in args) for args in in_order for _ in range(2))


@pytest.mark.parametrize("given", ["", "a", "aba", "ab5", "a5b", "5ab", "5ba", "abab"])
def test_another_number_of_arguments_is_refused_after_a_call(pair, given):
    a, b = pair.buffers(2)
    for _ in range(3):
        pair(a, b)
    converted = pair.device.conversions.arguments
    with pytest.raises(TypeError, match=f"takes 2 arguments, and {len(given)} were given"):
        pair(*({"a": a, "b": b, "5": 5}[one] for one in given))
    assert pair.device.conversions.arguments == converted
    pair(a, b)
    assert pair.arrived() == [(address(a), address(b))] * 4


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda device: PinnedBuffer(device, 64), MemorySideError, "pinned memory has no device pointer"),
        (lambda _: 0x1000, TypeError, "Python int was given where pointer is expected"),
        (lambda _: np.zeros(2), MemorySideError, "is host memory"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_after_a_call(pair, position, make, error, text):
    args = pair.buffers(2)
    pair(*args)
    pair(*args)
    args[position] = make(pair.device)
    with pytest.raises(error, match=f"argument {position} of cudabw_null_u64x2: .*{text}"):
        pair(*args)


def test_a_buffer_is_no_number_also_after_a_call(make_device):
    calls = Calls(make_device, "pointer", "uint64")
    a, b = calls.buffers(2)
    calls(a, 1)
    with pytest.raises(TypeError, match="argument 1 of cudabw_null_u64x2: pointer was given where uint64 is expected"):
        calls(a, b)


@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize("position", [0, 1])
def test_a_buffer_that_was_closed_is_refused_after_a_call(pair, position, tracked):
    args = pair.buffers(2)
    for buffer in args:
        buffer.tracked = tracked
    for _ in range(3):
        pair(*args)
    args[position].close()
    for _ in range(2):
        with pytest.raises(ClosedError, match=rf"argument {position} of cudabw_null_u64x2: this device buffer"):
            pair(*args)
    assert len(pair.arrived()) == 3


def test_a_stream_that_was_closed_is_refused_after_a_call(pair):
    args = pair.buffers(2)
    for _ in range(2):
        pair(*args)
    pair.stream.close()
    with pytest.raises(ClosedError, match="this stream was closed"):
        pair(*args)


def test_memory_is_handed_over_between_calls_with_the_same_buffers(pair):
    args = pair.buffers(2)
    other = pair.device.stream()
    pair(*args)
    with Gate(pair.device) as gate:
        gate.close_on(pair.stream)
        for expected, stream in ((0, None), (1, other), (1, other), (2, None), (2, None)):
            pair(*args, stream=stream)
            assert pair.device.waits.stream == expected
        gate.open()
    assert [buffer.ownership.stream for buffer in args] == [pair.stream] * 2


def test_tracking_can_change_between_calls_with_the_same_buffers(pair):
    args = pair.buffers(2)
    other = pair.device.stream()
    with Gate(pair.device) as gate:
        gate.close_on(pair.stream)
        for expected, tracked in ((0, False), (1, True), (1, False), (2, True)):
            args[0].tracked = tracked
            pair(*args)
            pair(args[0], args[0], stream=other)
            assert pair.device.waits.stream == expected
        gate.open()


def test_a_class_with_a_converter_of_its_own_is_always_asked(pair):
    class Shifted(DeviceBuffer):
        pass

    convert.register(Shifted, lambda buffer: (POINTER, int(buffer.device_pointer) + 16, buffer.ownership))
    plain, shifted = DeviceBuffer(pair.device, 64), Shifted(pair.device, 64)
    for args in ((plain, plain), (plain, shifted), (plain, shifted), (shifted, plain)):
        pair(*args)
    there = struct.pack("<Q", int(shifted.device_pointer) + 16)
    here = address(plain)
    assert pair.arrived() == [(here, here), (here, there), (here, there), (there, here)]


def test_arguments_that_cannot_be_packed_leave_nothing_behind(pair):
    class Words:
        pass

    convert.register(Words, lambda _: (POINTER, "no number", None))
    a, b = pair.buffers(2)
    for _ in range(3):
        pair(a, b)
        with pytest.raises(struct.error):
            pair(b, Words())
    assert pair.arrived() == [(address(a), address(b))] * 3


def test_a_kernel_keeps_no_foreign_array_alive(pair):
    buffer = DeviceBuffer(pair.device, 64)
    array = Foreign(buffer)
    kept = weakref.ref(array)
    for _ in range(2):
        pair(array, buffer)
    del array
    gc.collect()
    assert kept() is None


class Count(int):
    """A number of another class."""


@pytest.mark.parametrize(
    ("ctype", "values"),
    [
        ("int32", [1, 1, Count(2), np.int32(1), 2, -1, Count(1)]),
        ("bool", [True, False, np.bool_(True), False]),
        ("float64", [0.0, -0.0, 0, -0.0, math.nan, np.float64(-0.0), math.nan, 1]),
        ("float32", [0.0, -0.0, np.float32(-0.0), np.float32(0.0), 0.1]),
    ],
)
def test_values_that_compare_equal_arrive_as_they_were_given(make_device, ctype, values):
    calls = Calls(make_device, "pointer", ctype)
    (buffer,) = calls.buffers(1)
    for value in values:
        calls(buffer, value)
    assert calls.arrived() == [(address(buffer), np.array(value, ctype).tobytes()) for value in values]


@pytest.mark.parametrize(("ctype", "value", "equal"), [("int32", 1, True), ("int32", 1, 1.0), ("bool", True, 1)])
def test_an_equal_value_of_another_class_is_refused_after_a_call(make_device, ctype, value, equal):
    calls = Calls(make_device, ctype)
    calls(value)
    with pytest.raises(TypeError, match="argument 0 of cudabw_null"):
        calls(equal)


def test_a_structure_that_was_changed_arrives_changed(make_device):
    @dataclass
    class Pair:
        buffer: object
        number: object

    calls = Calls(make_device, ("pointer", "float64"))
    a, b = calls.buffers(2)
    value, expected = Pair(a, 0.0), []
    for buffer, number in ((a, 0.0), (a, -0.0), (b, -0.0), (a, 2)):
        value.buffer, value.number = buffer, number
        calls(value)
        expected.append((address(buffer) + struct.pack("<d", number),))
        assert buffer.ownership.stream is calls.stream
    assert calls.arrived() == expected
