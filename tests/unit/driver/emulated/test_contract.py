"""The emulated driver has the surface of the installed ``cuda.bindings.driver``, function for function."""

import inspect
import re
import textwrap

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from cudabw.driver.emulated import EmulatedDriver, Fault, Shape

FUNCTIONS = sorted(name for name in dir(EmulatedDriver) if re.match(r"cu[A-Z]", name))


def documented_values(name):
    """How many values follow the status, by the Returns section of the real function's docstring."""
    # One docstring of the bindings is indented as a whole, by accident.
    doc = "\n".join(line.rstrip() for line in getattr(cuda, name).__doc__.splitlines())
    section = re.search(r"^ *Returns\n *-+\n(.*?)(?:\n\n *[A-Z][\w ]+\n *-+\n|\Z)", doc, re.DOTALL | re.MULTILINE)
    entries = re.findall(r"^(\w+)(?: : .+)?$", textwrap.dedent(section.group(1)), re.MULTILINE)
    assert entries[0] == "CUresult"
    return len(entries) - 1


class Caller:
    """Calls every function of the driver successfully, once at least, and remembers the tuples it got."""

    def __init__(self):
        self.api = EmulatedDriver(Shape(devices=2, peer_access=True))
        self.results = {}

    def __call__(self, name, *arguments):
        result = getattr(self.api, name)(*arguments)
        assert int(result[0]) == 0, f"{name}: {result[0]!r}"
        self.results[name] = result
        return result[1] if len(result) == 2 else result[1:]


def call_everything(ptx):
    call = Caller()
    try:
        _devices(call)
        _memory(call)
        _copies(call)
        _queues(call)
        _launches(call, ptx)
        _graphs(call)
        call("cuDevicePrimaryCtxRelease", 0)
    finally:
        call.api.close()
    return call.results


def _devices(call):
    call("cuInit", 0)
    call("cuDriverGetVersion")
    call("cuDeviceGetCount")
    device = call("cuDeviceGet", 0)
    for name in ("cuDeviceGetUuid", "cuDeviceTotalMem"):
        call(name, device)
    for name in ("cuDeviceGetName", "cuDeviceGetPCIBusId"):
        call(name, 64, device)
    call("cuDeviceGetAttribute", cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE, device)
    call("cuDeviceCanAccessPeer", 0, 1)
    other = call("cuDevicePrimaryCtxRetain", 1)
    context = call("cuDevicePrimaryCtxRetain", device)
    call("cuCtxSetCurrent", other)
    call("cuCtxPushCurrent", context)
    call("cuCtxPopCurrent")
    call("cuCtxSetCurrent", context)
    call("cuCtxEnablePeerAccess", other, 0)
    for name in ("cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxSynchronize", "cuMemGetInfo"):
        call(name)
    call("cuGetErrorName", cuda.CUresult.CUDA_ERROR_INVALID_VALUE)
    call("cuGetErrorString", cuda.CUresult.CUDA_ERROR_INVALID_VALUE)


def _memory(call):
    call("cuMemFree", call("cuMemAlloc", 64))
    pinned = call("cuMemHostAlloc", 64, 0)
    call("cuMemHostGetDevicePointer", pinned, 0)
    call("cuMemHostGetFlags", pinned)
    call("cuPointerGetAttribute", cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned)
    call("cuPointerGetAttributes", 1, [cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE], pinned)
    call("cuMemFreeHost", pinned)
    own = np.zeros(64, np.uint8)
    call("cuMemHostRegister", own, 64, 0)
    call("cuMemHostUnregister", own)
    stream = call("cuStreamCreate", 1)
    managed = call("cuMemAllocManaged", 64, 1)
    call("cuMemGetAddressRange", managed)
    advice = cuda.CUmem_advise.CU_MEM_ADVISE_SET_READ_MOSTLY
    if "location" in inspect.signature(cuda.cuMemAdvise).parameters:
        place = cuda.CUmemLocation()
        place.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        call("cuMemPrefetchAsync", managed, 64, place, 0, stream)
    else:
        place = 0
        call("cuMemPrefetchAsync", managed, 64, place, stream)
    call("cuMemAdvise", managed, 64, advice, place)


def _copies(call):
    stream, context = call("cuStreamCreateWithPriority", 1, 0), call("cuCtxGetCurrent")
    one, two, host = call("cuMemAlloc", 64), call("cuMemAlloc", 64), call("cuMemHostAlloc", 64, 0)
    for suffix, rest in (("", ()), ("Async", (stream,))):
        call(f"cuMemcpyHtoD{suffix}", one, host, 64, *rest)
        call(f"cuMemcpyDtoH{suffix}", host, one, 64, *rest)
        call(f"cuMemcpyDtoD{suffix}", two, one, 64, *rest)
        call(f"cuMemcpy{suffix}", two, one, 64, *rest)
        call(f"cuMemsetD8{suffix}", one, 0, 64, *rest)
    call("cuMemcpyPeerAsync", one, context, two, context, 64, stream)
    attributes = cuda.CUmemcpyAttributes()
    attributes.srcAccessOrder = cuda.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
    call("cuMemcpyBatchAsync", [one], [two], [64], 1, [attributes], [0], 1, stream)
    call("cuMemsetD32Async", one, 0, 16, stream)
    call("cuMemsetD2D8Async", one, 16, 0, 8, 2, stream)


def _queues(call):
    stream, start, end = call("cuStreamCreate", 1), call("cuEventCreate", 0), call("cuEventCreate", 0)
    word = call("cuMemAlloc", 4)
    call("cuStreamWriteValue32", stream, word, 1, 0)
    call("cuStreamWaitValue32", stream, word, 1, 0)
    call("cuEventRecord", start, stream)
    call("cuEventRecord", end, stream)
    call("cuStreamWaitEvent", stream, start, 0)
    call("cuEventSynchronize", end)
    call("cuEventQuery", end)
    call("cuEventElapsedTime", start, end)
    call("cuStreamSynchronize", stream)
    call("cuStreamQuery", stream)
    call("cuEventDestroy", start)
    call("cuStreamDestroy", stream)


def _launches(call, ptx):
    stream, module = call("cuStreamCreate", 1), call("cuModuleLoadData", ptx)
    function = call("cuModuleGetFunction", module, b"cudabw_null_16")
    call("cuFuncGetAttribute", cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, function)
    call("cuFuncGetParamInfo", function, 1)
    null = call("cuModuleGetFunction", module, b"cudabw_null")
    call("cuLaunchKernel", null, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)
    config = cuda.CUlaunchConfig()
    for field in ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ"):
        setattr(config, field, 1)
    config.hStream = stream
    call("cuLaunchKernelEx", config, null, 0, 0)
    call("cuModuleUnload", module)


def _graphs(call):
    stream = call("cuStreamCreate", 1)
    call("cuStreamBeginCapture", stream, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    call("cuStreamIsCapturing", stream)
    call("cuStreamGetCaptureInfo", stream)
    graph = call("cuStreamEndCapture", stream)
    executable = call("cuGraphInstantiate", graph, 0)
    call("cuGraphLaunch", executable, stream)
    call("cuGraphExecDestroy", executable)
    call("cuGraphDestroy", graph)


@pytest.fixture(scope="module")
def results(ptx):
    return call_everything(ptx)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters_have_the_real_names(name):
    assert list(inspect.signature(getattr(EmulatedDriver, name)).parameters)[1:] == list(
        inspect.signature(getattr(cuda, name)).parameters
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_success_gives_as_many_values_as_the_real_function(name, results):
    assert len(results[name]) - 1 == documented_values(name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_failure_gives_a_status_and_as_many_nones(name):
    api = EmulatedDriver(faults=[Fault(function=name, status=999)])
    arguments = [0 for _ in inspect.signature(getattr(cuda, name)).parameters]
    if name == "cuMemcpyBatchAsync":
        arguments[2] = []
    result = getattr(api, name)(*arguments)
    assert result == (cuda.CUresult.CUDA_ERROR_UNKNOWN, *(None,) * documented_values(name))


def test_what_is_no_function_comes_from_the_bindings():
    api = EmulatedDriver()
    assert api.CUresult is cuda.CUresult
    assert api.CUlaunchConfig is cuda.CUlaunchConfig
    assert api.CU_MEMHOSTALLOC_PORTABLE == cuda.CU_MEMHOSTALLOC_PORTABLE


def test_a_function_that_is_not_emulated_does_not_exist_rather_than_reach_the_real_one():
    api = EmulatedDriver()
    assert hasattr(cuda, "cuCtxCreate")
    with pytest.raises(AttributeError, match="cuCtxCreate"):
        _ = api.cuCtxCreate
    assert not hasattr(api, "no_such_name")


def test_handles_are_the_bindings_own_types(results):
    assert isinstance(results["cuDeviceGet"][1], cuda.CUdevice)
    assert isinstance(results["cuMemAlloc"][1], cuda.CUdeviceptr)
    assert isinstance(results["cuStreamCreate"][1], cuda.CUstream)
    assert isinstance(results["cuEventCreate"][1], cuda.CUevent)
    assert isinstance(results["cuModuleGetFunction"][1], cuda.CUfunction)
    assert isinstance(results["cuDeviceGetUuid"][1], cuda.CUuuid)
    assert isinstance(results["cuMemHostAlloc"][1], int)
    assert isinstance(results["cuDeviceGetName"][1], bytes)
