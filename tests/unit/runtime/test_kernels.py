"""Kernels: signatures, what each way to launch converts, and what a failed launch says."""

import functools
import gc
import struct
import threading
import weakref

import numpy as np
import pytest

from cudabw.driver.emulated.faults import Fault
from cudabw.driver.emulated.shape import Shape
from cudabw.errors import ClosedError, CudabwError, DriverError
from cudabw.runtime import ptx
from cudabw.runtime.arguments import convert
from cudabw.runtime.capture import capture
from cudabw.runtime.gate import Gate
from cudabw.runtime.kernels import Module
from cudabw.runtime.memory import DeviceBuffer, MappedBuffer
from cudabw.runtime.refusals import LaunchError
from cudabw.runtime.signature import TYPES

WORDS = 64
SIZE = {"grid": 2, "block": 32}
SIGNATURE = ("pointer", "uint32", "uint64")
ONE = np.uint32(1)
ALL = np.uint64(WORDS)


@pytest.fixture
def module(device):
    return Module(device, ptx.read("words"))


@pytest.fixture
def fill(module):
    return module.kernel("cudabw_fill_u32", SIGNATURE)


@pytest.fixture
def add(module):
    return module.kernel("cudabw_add_u32", SIGNATURE)


@pytest.fixture
def stream(device):
    return device.stream()


@pytest.fixture
def buffer(device):
    return MappedBuffer(device, 4 * WORDS)


@pytest.fixture
def conversions(device):
    """How many arguments were converted since it was asked last."""
    seen = device.conversions.arguments

    def since():
        nonlocal seen
        before, seen = seen, device.conversions.arguments
        return seen - before

    return since


def words(buffer):
    return buffer.array(np.uint32).tolist()


def null_kernel(device, types, signature=None):
    name, text = ptx.null_kernel(types)
    return Module(device, text).kernel(name, signature)


# -- what is converted, and how often ------------------------------------------------------------------------------


def test_a_direct_call_converts_each_argument_once(fill, buffer, stream, conversions):
    for _ in range(3):
        fill(buffer, 5, WORDS, **SIZE, stream=stream)
        assert conversions() == 3
    assert words(buffer) == [5] * WORDS


def test_a_direct_call_without_a_signature_converts_each_argument_once(module, buffer, stream, conversions):
    fill = module.kernel("cudabw_fill_u32")
    for _ in range(3):
        fill(buffer, 5, WORDS, **SIZE, stream=stream)
        assert conversions() == 3
    assert words(buffer) == [5] * WORDS


def test_specialising_and_calling_converts_each_argument_twice(module, buffer, stream, conversions):
    fill = module.kernel("cudabw_fill_u32")
    fill.specialise(buffer, 5, WORDS)(buffer, 5, WORDS, **SIZE, stream=stream)
    assert conversions() == 6
    assert words(buffer) == [5] * WORDS


@pytest.mark.parametrize("signature", [None, SIGNATURE])
def test_a_prepared_launch_converts_once_however_often_it_runs(module, buffer, stream, conversions, signature):
    add = module.kernel("cudabw_add_u32", signature).prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    assert conversions() == 3
    for _ in range(5):
        add()
    add.submit(5)
    assert words(buffer) == [10] * WORDS
    assert conversions() == 0


@pytest.mark.parametrize("signature", [None, SIGNATURE])
def test_a_refused_call_counts_no_conversion(module, buffer, stream, conversions, signature):
    add = module.kernel("cudabw_add_u32", signature)
    add(buffer, 1, WORDS, **SIZE, stream=stream)
    conversions()
    for attempt in (add, add.prepare):
        with pytest.raises(TypeError, match="argument 2 of cudabw_add_u32"):
            attempt(buffer, 1, "64", **SIZE, stream=stream)
    assert conversions() == 0


def test_rebinding_converts_that_argument_and_no_other(add, buffer, stream, conversions):
    prepared = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    conversions()
    prepared.rebind(1, 10)
    assert conversions() == 1
    prepared()
    assert conversions() == 0
    assert words(buffer) == [10] * WORDS


def test_moving_to_another_stream_converts_nothing(add, buffer, device, stream, conversions):
    prepared = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    conversions()
    moved = prepared.on(device.stream())
    prepared()
    moved()
    assert moved.stream is not stream
    assert conversions() == 0
    assert device.waits.stream == 1
    assert words(buffer) == [2] * WORDS


def test_converted_arguments_can_be_launched_without_converting_them_again(add, buffer, stream, conversions):
    launcher = add.launcher(**SIZE, stream=stream)
    arguments = launcher.convert((buffer, 1, WORDS))
    conversions()
    launcher.submit(arguments)
    launcher.submit(arguments)
    assert conversions() == 0
    assert words(buffer) == [2] * WORDS


def test_the_stages_one_by_one_are_a_launch(add, buffer, device, stream, conversions):
    launcher = add.launcher(**SIZE, stream=stream)
    arguments = launcher.convert((buffer, 1, WORDS))
    assert conversions() == 3
    assert buffer.ownership.stream is None
    launcher.own(arguments)
    assert buffer.ownership.stream is stream
    launcher.pack(arguments)
    launcher.launch()
    launcher.driver_call()
    launcher.submit(launcher.convert((buffer, 1, WORDS)))
    assert conversions() == 3
    assert words(buffer) == [3] * WORDS
    assert device.waits.stream == 0


def test_the_bare_call_outlives_its_launcher(add, buffer, stream):
    call = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream).launcher.driver_call
    gc.collect()
    # Whatever was freed is likely to be handed out again here.
    taken = [bytearray(b"\xff" * size) for size in (8, 16, 20, 24, 32) for _ in range(200)]
    call()
    stream.synchronize()
    assert taken
    assert words(buffer) == [1] * WORDS


def test_specialising_for_the_same_types_gives_the_same_kernel(module, buffer):
    kernel = module.kernel("cudabw_fill_u32")
    first = kernel.specialise(buffer, ONE, ALL)
    assert kernel.specialise(buffer[4:], np.uint32(7), np.uint64(1)) is first
    assert kernel.specialise(buffer, 1, 1) is not first
    assert [str(ctype) for ctype in first.signature] == ["pointer", "uint32", "uint64"]
    assert [str(ctype) for ctype in kernel.specialise(buffer, -1, 1).signature] == ["pointer", "int32", "int64"]


# -- prepared launches ---------------------------------------------------------------------------------------------


def test_rebinding_does_not_reach_queued_launches(fill, device, buffer, stream):
    other = MappedBuffer(device, 4 * WORDS)
    prepared = fill.prepare(buffer, 5, WORDS, **SIZE, stream=stream)
    with Gate(device) as gate:
        gate.close_on(stream)
        prepared()
        prepared.rebind(0, other)
        prepared.rebind(1, 6)
        prepared()
        gate.open()
    assert words(buffer) == [5] * WORDS
    assert words(other) == [6] * WORDS


def test_rebinding_a_buffer_takes_ownership_of_it(add, device, buffer, stream):
    other = MappedBuffer(device, 4 * WORDS)
    busy = device.stream()
    prepared = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    prepared()
    add(other, 5, WORDS, **SIZE, stream=busy)
    prepared.rebind(0, other)
    prepared()
    assert device.waits.stream == 1
    assert other.ownership.stream is stream
    assert words(other) == [6] * WORDS


def test_a_refused_rebinding_changes_nothing(add, buffer, stream):
    prepared = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    with pytest.raises(OverflowError, match=r"argument 1 of cudabw_add_u32: -1 is out of the range of uint32"):
        prepared.rebind(1, -1)
    with pytest.raises(IndexError, match="there is no argument 3: cudabw_add_u32 takes 3"):
        prepared.rebind(3, 1)
    prepared()
    assert words(buffer) == [1] * WORDS


@pytest.mark.parametrize("replace", [False, True])
def test_a_prepared_launch_keeps_its_arguments_alive(add, device, stream, replace):
    buffer = DeviceBuffer(device, 4 * WORDS)
    kept = weakref.ref(buffer)
    prepared = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    del buffer
    gc.collect()
    assert kept() is not None
    prepared()
    stream.synchronize()
    if replace:
        prepared.rebind(0, DeviceBuffer(device, 4 * WORDS))
        assert kept() is None
        prepared()
    stream.synchronize()


@pytest.mark.parametrize("tracked", [True, False])
def test_a_launch_that_was_kept_knows_of_a_rebinding(add, device, buffer, stream, tracked):
    other, busy = MappedBuffer(device, 4 * WORDS), device.stream()
    buffer.tracked = tracked
    prepared = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    launch = prepared.launch
    launch()
    launch()
    with Gate(device) as gate:
        gate.close_on(busy)
        add(other, 1, WORDS, **SIZE, stream=busy)
        prepared.rebind(0, other)
        launch()
        assert device.waits.stream == 1
        launch()
        assert device.waits.stream == 1
        gate.open()
    assert other.ownership.stream is stream
    assert words(buffer) == [2] * WORDS
    assert words(other) == [3] * WORDS


def test_a_rebinding_that_cannot_be_packed_changes_nothing(add, buffer, stream):
    class Words:
        pass

    convert.register(Words, lambda _: (TYPES["uint32"], "no number", None))
    prepared = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    with pytest.raises(struct.error):
        prepared.rebind(1, Words())
    prepared()
    prepared.on(stream)()
    assert words(buffer) == [2] * WORDS


def test_a_prepared_launch_is_freed_with_its_arguments_as_soon_as_it_is_dropped(add, device, stream):
    buffer = DeviceBuffer(device, 4 * WORDS)
    prepared = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    prepared()
    prepared.rebind(1, 2)
    prepared()
    stream.synchronize()
    kept = weakref.ref(prepared), weakref.ref(buffer), weakref.ref(prepared.launcher)
    gc.disable()
    try:
        del buffer, prepared
        assert [one() for one in kept] == [None] * 3
    finally:
        gc.enable()


def test_a_prepared_launch_takes_no_arguments(add, buffer, stream):
    prepared = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    with pytest.raises(TypeError):
        prepared(buffer)
    assert repr(prepared) == "<PreparedLaunch of cudabw_add_u32>"


def test_preparing_submits_nothing_and_owns_nothing(add, buffer, stream):
    add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    assert buffer.ownership.stream is None
    assert stream.submitted == 0


def test_launches_without_a_stream_run_on_the_default_stream(add, device, buffer):
    add(buffer, 1, WORDS, **SIZE)
    prepared = add.prepare(buffer, 1, WORDS, **SIZE)
    prepared()
    assert prepared.stream is device.default_stream
    assert buffer.ownership.stream is device.default_stream
    assert words(buffer) == [2] * WORDS


def test_a_thread_without_a_context_can_launch(add, buffer, stream):
    prepared = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    prepared()
    failures = []

    def work():
        try:
            prepared()
            prepared()
        except CudabwError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failures == []
    assert words(buffer) == [3] * WORDS


def test_prepared_launches_are_timed_like_copies(add, buffer, stream):
    prepared = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    assert (prepared.holds_host, prepared.repeatable, prepared.stream) == (False, True, stream)


# -- arguments that do not fit -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["call", "first call", "prepare", "rebind", "stage"])
@pytest.mark.parametrize(
    ("position", "value", "error", "text"),
    [
        (1, -1, OverflowError, "-1 is out of the range of uint32, 0 to 4294967295"),
        (1, 1 << 32, OverflowError, "4294967296 is out of the range of uint32, 0 to 4294967295"),
        (1, 1.5, TypeError, "Python float was given where uint32 is expected"),
        (1, np.int32(1), TypeError, "int32 was given where uint32 is expected"),
        (1, True, TypeError, "bool was given where uint32 is expected"),
        (2, "64", TypeError, "a kernel does not take a str"),
        (0, 0x1000, TypeError, "Python int was given where pointer is expected"),
        (0, np.zeros(4), TypeError, "a NumPy array of shape .* is host memory"),
    ],
)
def test_a_wrong_argument_is_named_before_the_driver_is_called(
    fill, buffer, device, stream, how, position, value, error, text
):
    arguments = [buffer, 1, WORDS]
    prepared = fill.prepare(*arguments, **SIZE, stream=stream)
    if how == "call":
        fill(*arguments, **SIZE, stream=stream)
    launcher = fill.launcher(**SIZE, stream=stream)
    arguments[position] = value
    attempts = {
        "call": lambda: fill(*arguments, **SIZE, stream=stream),
        "first call": lambda: fill(*arguments, grid=3, block=3, stream=stream),
        "prepare": lambda: fill.prepare(*arguments, **SIZE, stream=stream),
        "rebind": lambda: prepared.rebind(position, value),
        "stage": lambda: launcher.convert(arguments),
    }
    api, device.driver.api = device.driver.api, None
    try:
        with pytest.raises(error, match=f"argument {position} of cudabw_fill_u32: {text}"):
            attempts[how]()
    finally:
        device.driver.api = api
    stream.synchronize()


@pytest.mark.parametrize("signature", [None, SIGNATURE])
@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_wrong_number_of_arguments_is_refused(module, buffer, stream, signature, count):
    fill = module.kernel("cudabw_fill_u32", signature)
    fill(buffer, 1, WORDS, **SIZE, stream=stream)
    arguments = [buffer, 1, WORDS, 4][:count]
    for attempt in (fill, fill.prepare):
        with pytest.raises(TypeError, match=f"cudabw_fill_u32 takes 3 arguments, and {count} were given"):
            attempt(*arguments, **SIZE, stream=stream)
    with pytest.raises(TypeError, match=f"cudabw_fill_u32 takes 3 arguments, and {count} were given"):
        fill.specialise(*arguments)
    stream.synchronize()


def test_an_example_of_another_size_than_the_parameter_is_refused(module, buffer):
    fill = module.kernel("cudabw_fill_u32")
    for attempt in (fill.specialise, functools.partial(fill.prepare, grid=1, block=1)):
        with pytest.raises(TypeError, match="argument 1 of cudabw_fill_u32: uint64 has 8 bytes, and the kernel's"):
            attempt(buffer, np.uint64(1), ALL)


@pytest.mark.parametrize(
    ("extents", "error", "text"),
    [
        ({"grid": 1.5, "block": 1}, TypeError, "grid is made of whole numbers, not float"),
        ({"grid": "1", "block": 1}, TypeError, "grid is made of whole numbers, not str"),
        ({"grid": (1, 1, 1, 1), "block": 1}, TypeError, "grid has one to three extents, not 4"),
        ({"grid": 1, "block": ()}, TypeError, "block has one to three extents, not 0"),
        ({"grid": -1, "block": 1}, ValueError, "grid holds -1"),
        ({"grid": 1, "block": 1 << 32}, ValueError, "block holds 4294967296"),
        ({"grid": 1, "block": 1, "shared": -4}, ValueError, "shared holds -4"),
    ],
)
def test_extents_are_up_to_three_unsigned_numbers(fill, buffer, stream, extents, error, text):
    with pytest.raises(error, match=text):
        fill(buffer, 1, WORDS, **extents, stream=stream)


@pytest.mark.parametrize("grid", [2, (2,), (2, 1), (2, 1, 1), [2, 1]])
def test_extents_can_be_written_in_many_ways(add, buffer, stream, grid):
    add(buffer, 1, WORDS, grid=grid, block=(32, 1), stream=stream)
    add(buffer, 1, WORDS, grid=grid, block=(32, 1), stream=stream)
    assert words(buffer) == [2] * WORDS


def test_every_call_has_its_own_extents_stream_and_shared_memory(make_device):
    seen = []
    device = make_device(kernels={"cudabw_null*": lambda launch, _device: seen.append(launch)})
    kernel, stream = null_kernel(device, ["pointer"], ["pointer"]), device.stream()
    buffer, large = DeviceBuffer(device, 64), 5000
    in_order = [(1, 1, 0), (1, 2, 0), (1, 2, 64), (1, 2, 0), (2, 2, 0), (large, 2, 0), (large + 1, 2, 0)]
    # Twice each, so that the next comes after a call that found what an earlier one kept.
    in_order = [extents for extents in in_order for _ in range(2)]
    for grid, block, shared in in_order:
        kernel(buffer, grid=grid, block=block, shared=shared, stream=stream)
    device.synchronize()
    assert [(launch.grid[0], launch.block[0], launch.shared_bytes) for launch in seen] == in_order


def test_a_list_of_extents_is_read_at_each_call(make_device):
    seen = []
    device = make_device(kernels={"cudabw_null*": lambda launch, _device: seen.append((launch.grid, launch.block))})
    kernel, stream = null_kernel(device, ["pointer"], ["pointer"]), device.stream()
    buffer, grid, block = DeviceBuffer(device, 64), [1, 1], [1]
    for _ in range(3):
        kernel(buffer, grid=grid, block=block, stream=stream)
        kernel(buffer, grid=grid, block=block, stream=stream)
        grid[1] += 1
        block[0] += 1
    device.synchronize()
    assert seen == [((1, number, 1), (number, 1, 1)) for number in (1, 1, 2, 2, 3, 3)]


def test_a_call_without_a_stream_is_none_on_the_stream_of_the_call_before(add, device, buffer, stream):
    for used in (stream, stream, None, None, stream):
        add(buffer, 1, WORDS, **SIZE, stream=used)
        assert buffer.ownership.stream is (used or device.default_stream)
    assert words(buffer) == [5] * WORDS


def test_a_stream_of_another_device_is_refused(make_device):
    near = make_device(shape=Shape(devices=2))
    far = make_device(1, driver=near.driver)
    kernel = null_kernel(near, ["pointer"], ["pointer"])
    with pytest.raises(ValueError, match="is loaded on device 0, and the stream is one of device 1"):
        kernel.launcher(grid=1, block=1, stream=far.stream())
    far.close()


# -- signatures and what the driver tells --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        (("pointer", "uint32"), "cudabw_fill_u32 takes 3 arguments, and the signature has 2"),
        (("pointer", "uint64", "uint64"), "argument 1 of cudabw_fill_u32: uint64 has 8 bytes, .* parameter has 4"),
        (("pointer", "uint", "uint64"), "'uint' is no C type"),
    ],
)
def test_a_signature_must_fit_the_loaded_kernel(module, signature, text):
    with pytest.raises(TypeError, match=text):
        module.kernel("cudabw_fill_u32", signature)


TYPE_LISTS = [
    [],
    ["pointer"],
    ["pointer"] * 16,
    ["int8", "bool", "float16", "float64", ("int8", "float64", "int16"), "complex64", "uint16"],
]


@pytest.mark.parametrize("types", TYPE_LISTS, ids=len)
def test_null_kernels_take_what_they_were_made_for(device, stream, types):
    kernel = null_kernel(device, types, types)
    assert kernel.name.startswith("cudabw_null")
    assert kernel.parameter_sizes == tuple(ctype.size for ctype in kernel.signature)
    values = {"pointer": DeviceBuffer(device, 64), "bool": True, "complex64": np.complex64(1j)}
    arguments = [(1, 2.0, 3) if isinstance(kind, tuple) else values.get(kind, 1) for kind in types]
    for _ in range(2):
        kernel(*arguments, grid=1, block=1, stream=stream)
    kernel.prepare(*arguments, grid=1, block=1, stream=stream)()
    stream.synchronize()


def test_null_kernels_are_named_after_their_parameters():
    assert ptx.null_kernel([])[0] == "cudabw_null"
    assert ptx.null_kernel(["pointer"] * 3 + ["int32"])[0] == "cudabw_null_u64x3_s32"
    assert ptx.null_kernel(["float32", ("int8", "int32"), "float64"])[0] == "cudabw_null_f32_b8a4_f64"


def test_every_parameter_arrives_where_the_kernel_reads_it(make_device):
    seen = []
    device = make_device(kernels={"cudabw_null*": lambda launch, _device: seen.append(launch.parameters)})
    types = ["int8", "pointer", "int16", ("int8", "float64"), "float32"]
    kernel = null_kernel(device, types, types)
    buffer, stream = DeviceBuffer(device, 64), device.stream()
    kernel(-1, buffer, 2, (3, 4.5), 5.5, grid=1, block=1, stream=stream)
    prepared = kernel.prepare(-1, buffer, 2, (3, 4.5), 5.5, grid=1, block=1, stream=stream)
    prepared.rebind(2, 7)
    prepared()
    stream.synchronize()
    expected = [
        np.int8(-1).tobytes(),
        np.uint64(int(buffer.device_pointer)).tobytes(),
        np.int16(2).tobytes(),
        np.int8(3).tobytes() + bytes(7) + np.float64(4.5).tobytes(),
        np.float32(5.5).tobytes(),
    ]
    assert seen[0] == tuple(expected)
    expected[2] = np.int16(7).tobytes()
    assert seen[1] == tuple(expected)


def test_where_the_driver_cannot_tell_sizes_python_numbers_have_64_bits(make_device):
    class FunctionNotFoundError(RuntimeError):
        pass

    def absent(*_args):
        raise FunctionNotFoundError

    device = make_device()
    device.driver.api.cuFuncGetParamInfo = absent
    kernel = null_kernel(device, ["pointer", "int64", "float64"])
    assert kernel.parameter_sizes is None
    buffer, stream = DeviceBuffer(device, 64), device.stream()
    assert [str(t) for t in kernel.specialise(buffer, 1, 1.0).signature] == ["pointer", "int64", "float64"]
    kernel(buffer, 1, 1.0, grid=1, block=1, stream=stream)
    stream.synchronize()


def test_a_kernel_tells_what_it_needs(fill):
    assert fill.name == "cudabw_fill_u32"
    assert fill.registers == 32
    assert fill.shared_bytes == 0
    assert fill.max_threads == 1024
    assert fill.parameter_sizes == (8, 4, 8)


def test_an_unknown_kernel_is_named(module):
    with pytest.raises(CudabwError, match="the module has no kernel 'nosuch'"):
        module.kernel("nosuch")


def test_text_that_is_no_ptx_is_refused(device):
    with pytest.raises(DriverError, match="cuModuleLoadData failed with CUDA_ERROR_INVALID_PTX"):
        Module(device, "not PTX")


@pytest.mark.parametrize("leave", ["module", "device"])
def test_nothing_is_launched_from_a_closed_module(module, fill, add, device, buffer, stream, leave):
    original, launched = device.driver.api.cuLaunchKernelEx, []
    device.driver.api.cuLaunchKernelEx = lambda *args: (launched.append(args), original(*args))[1]
    fill(buffer, 1, WORDS, **SIZE, stream=stream)
    prepared = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    prepared()
    launcher = fill.launcher(**SIZE, stream=stream)
    arguments = launcher.convert((buffer, 1, WORDS))
    if leave == "module":
        assert words(buffer) == [2] * WORDS
        module.close()
        module.close()
    else:
        device.close()
    for attempt in (
        prepared,
        lambda: fill(buffer, 1, WORDS, **SIZE, stream=stream),
        lambda: fill(buffer, 1, WORDS, grid=9, block=9, stream=stream),
        lambda: fill.prepare(buffer, 1, WORDS, **SIZE, stream=stream),
        lambda: launcher.submit(arguments),
        lambda: module.kernel("cudabw_add_u32"),
    ):
        with pytest.raises(ClosedError):
            attempt()
    assert len(launched) == 2


def test_other_launches_on_the_stream_do_not_revive_a_closed_module(device, buffer, stream):
    original, launched = device.driver.api.cuLaunchKernelEx, []
    device.driver.api.cuLaunchKernelEx = lambda *args: (launched.append(args), original(*args))[1]
    closed, other = Module(device, ptx.read("words")), Module(device, ptx.read("words"))
    add, fill = closed.kernel("cudabw_add_u32", SIGNATURE), other.kernel("cudabw_fill_u32", SIGNATURE)
    prepared = add.prepare(buffer, 1, WORDS, **SIZE, stream=stream)
    for _ in range(2):
        prepared()
        add(buffer, 1, WORDS, **SIZE, stream=stream)
    closed.close()
    fill(buffer, 7, WORDS, **SIZE, stream=stream)
    for attempt in (prepared, lambda: add(buffer, 1, WORDS, **SIZE, stream=stream)):
        with pytest.raises(ClosedError, match="the module of cudabw_add_u32 was closed"):
            attempt()
    assert words(buffer) == [7] * WORDS
    assert len(launched) == 5


def test_a_module_waits_for_its_kernels_before_it_is_unloaded(device, buffer, stream):
    with Module(device, ptx.read("words")) as module:
        module.kernel("cudabw_fill_u32", SIGNATURE)(buffer, 5, WORDS, **SIZE, stream=stream)
    assert not buffer.ownership.dirty
    assert words(buffer) == [5] * WORDS


# -- failed launches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prepared", [False, True])
def test_a_refused_launch_is_explained_with_what_was_asked_and_the_limits(fill, buffer, stream, prepared):
    extents = {"grid": (7, 2), "block": (64, 32), "shared": 1024}
    launch = fill.prepare(buffer, 1, WORDS, **extents, stream=stream)
    with pytest.raises(LaunchError) as refused:
        launch() if prepared else fill(buffer, 1, WORDS, **extents, stream=stream)
    assert (
        str(refused.value)
        == refused.value.message
        == (
            "launching cudabw_fill_u32 failed with CUDA_ERROR_INVALID_VALUE (1): "
            "grid (7, 2, 1), at most (2147483647, 65535, 65535); "
            "block (64, 32, 1), at most (1024, 1024, 64), 2048 threads, "
            "at most 1024 with this kernel's 32 registers a thread; "
            "1024 bytes of dynamic and 0 of static shared memory, at most 49152 together; "
            "24 bytes of parameters in 3 arguments"
        )
    )
    assert (refused.value.code, refused.value.function) == (1, "cuLaunchKernelEx")
    fill(buffer, 5, WORDS, **SIZE, stream=stream)
    assert words(buffer) == [5] * WORDS


@pytest.mark.parametrize("status", [1, 700, 719])
def test_any_status_of_the_driver_is_reported(make_device, status):
    device = make_device(faults=[Fault(function="cuLaunchKernelEx", status=status, nth=2)])
    kernel = null_kernel(device, [], [])
    stream = device.stream()
    prepared = kernel.prepare(grid=1, block=1, stream=stream)
    prepared()
    with pytest.raises(LaunchError, match=rf"launching cudabw_null failed with CUDA_ERROR_\w+ \({status}\)"):
        prepared()


def test_a_kernel_without_arguments_is_launched(device, stream):
    kernel = null_kernel(device, [])
    kernel(grid=1, block=1, stream=stream)
    kernel.specialise()(grid=1, block=1, stream=stream)
    prepared = kernel.prepare(grid=1, block=1, stream=stream)
    prepared()
    prepared()
    with capture(stream) as recording:
        prepared()
    recording.graph.launch(stream)
    stream.synchronize()


def test_kernels_that_vary_their_grid_keep_few_launchers(fill, buffer, stream):
    for grid in range(1, 200):
        fill(buffer, grid, WORDS, grid=grid, block=32, stream=stream)
        if grid % 100 == 0:
            stream.synchronize()
    assert words(buffer) == [199] * WORDS
    assert len(fill._calls.launchers) <= 64
