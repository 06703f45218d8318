import ctypes
import struct

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from cudabw.driver.emulated import Shape
from cudabw.driver.emulated.kernels import Launch, find_kernel, known_kernels
from cudabw.driver.emulated.parameters import parameter_bytes
from cudabw.driver.emulated.ptx import Parameter

U64, U32 = ctypes.c_uint64, ctypes.c_uint32


def values(*numbers):
    return (numbers, (U64, U32, U64))


def packed(*numbers):
    """Cells and the array of pointers to them, as a C caller has them; keep both alive."""
    cells = [ctype(number) for ctype, number in zip((U64, U32, U64), numbers, strict=True)]
    return cells, (ctypes.c_void_p * 3)(*(ctypes.addressof(cell) for cell in cells))


def config(stream, grid=(1, 1, 1), block=(1, 1, 1)):
    made = cuda.CUlaunchConfig()
    made.gridDimX, made.gridDimY, made.gridDimZ = grid
    made.blockDimX, made.blockDimY, made.blockDimZ = block
    made.hStream = stream
    return made


@pytest.fixture
def words(rig):
    """Device memory of sixteen words, all zero."""
    address = rig.device(64)
    rig.call("cuMemsetD8", address, 0, 64)
    return address


def read_words(rig, address):
    return list(rig.read(address, 64).view(np.uint32))


# -- modules and functions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "status"),
    [(b"garbage", 218), (b"\xff\xfe", 218), (b"\x7fELF\x02", 200), (b"", 218), (0, 1)],
)
def test_an_image_that_is_no_ptx_is_refused(rig, image, status):
    assert rig.api.cuModuleLoadData(image) == (cuda.CUresult(status), None)


def test_an_image_may_be_bytes_a_buffer_or_an_address(rig, ptx):
    terminated = ctypes.create_string_buffer(ptx)
    for image in (ptx, bytearray(ptx), np.frombuffer(ptx, np.uint8), ctypes.addressof(terminated)):
        module = rig.call("cuModuleLoadData", image)
        assert rig.status("cuModuleGetFunction", module, b"cudabw_null") == 0


def test_functions_are_found_by_name_until_the_module_is_unloaded(rig, ptx):
    module, stream = rig.call("cuModuleLoadData", ptx), rig.stream()
    function = rig.call("cuModuleGetFunction", module, b"cudabw_null")
    assert rig.api.cuModuleGetFunction(module, b"missing") == (cuda.CUresult.CUDA_ERROR_NOT_FOUND, None)
    assert rig.launch(function, stream) == 0
    rig.call("cuModuleUnload", module)
    assert rig.launch(function, stream) == 400
    assert rig.status("cuModuleGetFunction", module, b"cudabw_null") == 400


def test_parameters_are_laid_out_as_in_the_ptx(rig):
    function = rig.function(b"cudabw_null_struct")
    assert [rig.call("cuFuncGetParamInfo", function, index) for index in range(3)] == [(0, 1), (8, 24), (32, 4)]
    assert rig.api.cuFuncGetParamInfo(function, 3) == (cuda.CUresult.CUDA_ERROR_INVALID_VALUE, None, None)


def test_function_attributes(rig):
    attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
    assert rig.call("cuFuncGetAttribute", attribute, rig.function(b"cudabw_null_narrow")) == 128
    assert rig.call("cuFuncGetAttribute", attribute, rig.function(b"cudabw_null")) == 1024


# -- launching -------------------------------------------------------------------------------------------


def test_kernels_run_on_device_memory(rig, words):
    stream = rig.stream()
    assert rig.launch(rig.function(b"cudabw_fill_u32"), stream, values(words, 7, 16)) == 0
    assert rig.launch(rig.function(b"cudabw_add_u32"), stream, values(words + 8, 0xFFFFFFFF, 2)) == 0
    rig.call("cuStreamSynchronize", stream)
    assert read_words(rig, words) == [7, 7, 6, 6] + [7] * 12


def test_the_copy_kernel_is_exact_to_the_byte(rig):
    source, target, stream = rig.device(64), rig.device(64), rig.stream()
    rig.call("cuMemcpyHtoD", source, bytes(range(64)), 64)
    rig.call("cuMemsetD8", target, 0, 64)
    parameters = ((target + 3, source + 5, 7), (U64, U64, U64))
    assert rig.launch(rig.function(b"cudabw_copy"), stream, parameters) == 0
    rig.call("cuStreamSynchronize", stream)
    assert bytes(rig.read(target, 64)) == bytes(3) + bytes(range(5, 12)) + bytes(54)


@pytest.mark.parametrize("form", ["array", "address", "buffer", "values", "handles", "ctypes"])
def test_every_form_of_parameters_means_the_same(rig, words, form):
    cells, array = packed(words, 5, 16)
    handle = cuda.CUdeviceptr(words)
    forms = {
        "array": array,
        "address": ctypes.addressof(array),
        "buffer": np.frombuffer(bytes(array), np.uint64),
        "values": values(words, 5, 16),
        "handles": ((handle, 5, 16), (None, U32, U64)),
        "ctypes": ((ctypes.c_void_p(words), U32(5), U32(16)), (ctypes.c_void_p, U32, U64)),
    }
    stream = rig.stream()
    assert rig.launch(rig.function(b"cudabw_fill_u32"), stream, forms[form]) == 0
    rig.call("cuStreamSynchronize", stream)
    assert read_words(rig, words) == [5] * 16
    assert cells


def test_rebinding_parameters_after_the_launch_cannot_reach_it(rig, words):
    stream, function = rig.stream(), rig.function(b"cudabw_fill_u32")
    cells, array = packed(words, 5, 16)
    with rig.gated(stream):
        assert rig.launch(function, stream, array) == 0
        cells[1].value = 6
        array[2] = 0
    rig.call("cuStreamSynchronize", stream)
    assert read_words(rig, words) == [5] * 16


def test_changing_the_configuration_after_the_launch_cannot_reach_it(make_rig):
    seen = []
    rig = make_rig(kernels={"cudabw_null": lambda launch, _view: seen.append((launch.grid, launch.block))})
    stream, function = rig.stream(), rig.function(b"cudabw_null")
    configuration = config(stream, (2, 3, 4), (8, 4, 2))
    with rig.gated(stream):
        rig.call("cuLaunchKernelEx", configuration, function, None, 0)
        configuration.gridDimX = 9
    rig.call("cuStreamSynchronize", stream)
    assert seen == [((2, 3, 4), (8, 4, 2))]


def test_missing_parameters_and_configurations_are_refused(rig, words):
    stream, function = rig.stream(), rig.function(b"cudabw_fill_u32")
    array = (ctypes.c_void_p * 3)()
    assert rig.launch(function, stream, None) == 1
    assert rig.launch(function, stream, array) == 1
    assert rig.launch(function, stream, ((words,), (U64,))) == 1
    assert rig.status("cuLaunchKernelEx", None, function, values(words, 0, 0), 0) == 1
    with pytest.raises(TypeError, match="different length"):
        rig.launch(function, stream, ((words,), ()))
    with pytest.raises(TypeError):
        rig.launch(function, stream, ((object(),), (None,)))


@pytest.mark.parametrize(
    ("grid", "block", "shared", "status"),
    [
        ((1, 1, 1), (1024, 1, 1), 49152, 0),
        ((2**31 - 1, 65535, 65535), (1, 1, 64), 0, 0),
        ((0, 1, 1), (1, 1, 1), 0, 1),
        ((1, 65536, 1), (1, 1, 1), 0, 1),
        ((1, 1, 1), (0, 1, 1), 0, 1),
        ((1, 1, 1), (1, 1, 65), 0, 1),
        ((1, 1, 1), (1024, 2, 1), 0, 1),
        ((1, 1, 1), (1, 1, 1), 49153, 1),
    ],
)
def test_limits_of_a_launch(rig, grid, block, shared, status):
    assert rig.launch(rig.function(b"cudabw_null"), rig.stream(), None, grid, block, shared) == status


def test_more_threads_than_a_kernel_was_compiled_for_is_out_of_resources(rig):
    function, stream = rig.function(b"cudabw_null_narrow"), rig.stream()
    assert rig.launch(function, stream, None, block=(64, 2, 1)) == 0
    assert rig.launch(function, stream, None, block=(129, 1, 1)) == 701


def test_launches_that_cannot_be_are_refused(rig):
    stream, function = rig.stream(), rig.function(b"cudabw_null")
    assert rig.launch(function, 0) == 400
    assert rig.launch(stream, stream) == 400
    assert rig.launch(rig.function(b"stranger"), stream) == 801
    assert rig.status("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, None, 4096) == 801


def test_a_kernel_runs_on_streams_of_its_own_context_only(make_rig):
    rig = make_rig(shape=Shape(devices=2))
    function = rig.function(b"cudabw_null")
    rig.call("cuCtxSetCurrent", rig.call("cuDevicePrimaryCtxRetain", 1))
    assert rig.launch(function, rig.stream()) == 400


# -- reach -----------------------------------------------------------------------------------------------


def fill(rig, stream, address):
    return rig.launch(rig.function(b"cudabw_fill_u32"), stream, values(address, 1, 4))


def test_a_kernel_reaches_mapped_managed_and_pinned_memory_by_its_device_address(rig):
    stream = rig.stream()
    mapped, octets = rig.pinned(16, 2)
    pinned, others = rig.pinned(16)
    managed = int(rig.call("cuMemAllocManaged", 16, 1))
    for address in (int(rig.call("cuMemHostGetDevicePointer", mapped, 0)), pinned, managed):
        assert fill(rig, stream, address) == 0
    rig.call("cuStreamSynchronize", stream)
    assert list(octets) == list(others) == [1, 0, 0, 0] * 4


@pytest.mark.parametrize("where", ["null", "host", "mapped by its host address", "freed", "past the end"])
def test_an_address_out_of_reach_fails_at_the_next_synchronisation_and_for_good(rig, where):
    stream, freed, ended = rig.stream(), rig.device(16), rig.device(12)
    own = np.zeros(16, np.uint8)
    mapped, _ = rig.pinned(16, 2)
    event = rig.event()
    rig.call("cuMemFree", freed)
    addresses = {"null": 0, "host": own.ctypes.data, "freed": freed, "past the end": ended}
    assert fill(rig, stream, addresses.get(where, mapped)) == 0
    rig.call("cuEventRecord", event, stream)
    assert rig.status("cuStreamSynchronize", stream) == 700
    assert rig.status("cuEventSynchronize", event) == 700
    assert rig.status("cuMemAlloc", 4) == 700
    assert rig.status("cuStreamCreate", 0) == 700
    assert not own.any()


def test_work_behind_a_failed_kernel_is_not_done(rig, words):
    stream = rig.stream()
    host, octets = rig.pinned(64)
    with rig.gated(stream):
        fill(rig, stream, 0)
        rig.call("cuMemsetD8Async", words, 9, 64, stream)
        rig.call("cuMemcpyDtoHAsync", host, words, 64, stream)
    assert rig.status("cuCtxSynchronize") == 700
    assert not octets.any()


def test_memory_of_a_peer_is_reached_once_access_is_enabled(make_rig):
    rig = make_rig(shape=Shape(devices=2, peer_access=True))
    peer = rig.call("cuDevicePrimaryCtxRetain", 1)
    rig.call("cuCtxPushCurrent", peer)
    there = rig.device(16)
    rig.call("cuCtxPopCurrent")
    stream = rig.stream()
    rig.call("cuCtxEnablePeerAccess", peer, 0)
    assert fill(rig, stream, there) == 0
    rig.call("cuStreamSynchronize", stream)
    assert list(rig.read(there, 16)) == [1, 0, 0, 0] * 4


def test_memory_of_a_peer_is_out_of_reach_without(make_rig):
    rig = make_rig(shape=Shape(devices=2, peer_access=True))
    rig.call("cuCtxPushCurrent", rig.call("cuDevicePrimaryCtxRetain", 1))
    there = rig.device(16)
    rig.call("cuCtxPopCurrent")
    stream = rig.stream()
    fill(rig, stream, there)
    assert rig.status("cuStreamSynchronize", stream) == 700


def test_a_kernel_that_breaks_is_a_failed_launch(make_rig):
    def broken(_launch, _view):
        raise ZeroDivisionError

    rig = make_rig(kernels={"cudabw_null": broken})
    stream = rig.stream()
    assert rig.launch(rig.function(b"cudabw_null"), stream) == 0
    assert rig.status("cuStreamSynchronize", stream) == 719


# -- parts -----------------------------------------------------------------------------------------------


def test_kernels_are_found_by_name_before_prefix():
    kernels = {"a*": 1, "ab*": 2, "abc": 3}
    assert [find_kernel(kernels, name) for name in ("abc", "abd", "ax", "b")] == [3, 2, 1, None]
    assert find_kernel(known_kernels(), "cudabw_null_4_pointers") is not None


def test_structures_and_enumerators_are_packed_by_value():
    class Pair(ctypes.Structure):
        _fields_ = (("first", U32), ("second", U32))

    layout = [Parameter(0, 8), Parameter(8, 4), Parameter(16, 8)]
    given = ((Pair(1, 2), cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY, True), (None, None, ctypes.c_bool))
    assert parameter_bytes(given, layout) == (struct.pack("<II", 1, 2), struct.pack("<i", 2), b"\1" + bytes(7))


def test_a_launch_unpacks_its_parameters():
    launch = Launch("k", (1, 1, 1), (1, 1, 1), 0, (struct.pack("<Q", 9), struct.pack("<I", 8)))
    assert launch.unpack("QI") == (9, 8)
    with pytest.raises(ValueError, match="zip"):
        launch.unpack("Q")


def test_a_view_of_nothing_needs_no_address(make_rig):
    rig = make_rig(kernels={"cudabw_null": lambda _launch, view: (view.array(0, 0, np.uint32), view.copy(0, 0, 0))})
    stream = rig.stream()
    rig.launch(rig.function(b"cudabw_null"), stream)
    rig.call("cuStreamSynchronize", stream)
