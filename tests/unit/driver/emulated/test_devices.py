import ctypes
import threading

import pytest
from cuda.bindings import driver as cuda

from cudabw.driver.emulated import EmulatedDriver, Shape
from cudabw.driver.emulated.streams import Record

ATTRIBUTE = cuda.CUdevice_attribute


def status(api, name, *arguments):
    return int(getattr(api, name)(*arguments)[0])


def test_nothing_works_before_initialisation_but_the_version():
    api = EmulatedDriver()
    assert api.cuDeviceGetCount() == (cuda.CUresult.CUDA_ERROR_NOT_INITIALIZED, None)
    assert status(api, "cuMemAlloc", 4) == 3
    assert api.cuDriverGetVersion() == (cuda.CUresult.CUDA_SUCCESS, cuda.CUDA_VERSION)
    assert status(api, "cuInit", 1) == 1
    assert status(api, "cuInit", 0) == 0
    assert api.cuDeviceGetCount()[1] == 1


def test_a_device_says_that_it_is_emulated(rig):
    name = rig.call("cuDeviceGetName", 64, 0)
    assert len(name) == 64
    assert name.split(b"\0")[0] == b"Emulated CUDA device"
    assert rig.call("cuDeviceGetName", 9, 0) == b"Emulated\0"


def test_devices_differ_in_identity(make_rig):
    rig = make_rig(shape=Shape(devices=2, memory=1 << 20))
    assert rig.call("cuDeviceGetPCIBusId", 13, 0) == b"0000:01:00.0\0"
    assert rig.call("cuDeviceGetPCIBusId", 13, 1) == b"0000:02:00.0\0"
    uuids = [bytes(ctypes.string_at(int(rig.call("cuDeviceGetUuid", n).getPtr()), 16)) for n in (0, 1)]
    assert uuids == [b"cudabw-emulated\0", b"cudabw-emulated\1"]
    assert rig.call("cuDeviceTotalMem", 1) == 1 << 20
    assert rig.status("cuDeviceGet", 2) == 101
    assert rig.status("cuDeviceGetName", 64, 2) == 101


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COMPUTE_CAPABILITY_MAJOR", 9),
        ("COMPUTE_CAPABILITY_MINOR", 0),
        ("MAX_THREADS_PER_BLOCK", 1024),
        ("UNIFIED_ADDRESSING", 1),
        ("CAN_MAP_HOST_MEMORY", 1),
        ("HOST_REGISTER_SUPPORTED", 1),
        ("MANAGED_MEMORY", 1),
        ("CONCURRENT_MANAGED_ACCESS", 1),
        ("CAN_USE_STREAM_MEM_OPS_V1", 1),
        ("CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM", 0),
        ("PCI_BUS_ID", 1),
        ("INTEGRATED", 0),
        ("MULTICAST_SUPPORTED", 0),
    ],
)
def test_attributes(rig, name, value):
    assert rig.call("cuDeviceGetAttribute", getattr(ATTRIBUTE, f"CU_DEVICE_ATTRIBUTE_{name}"), 0) == value


def test_error_names_and_strings(rig):
    assert rig.call("cuGetErrorName", cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY) == b"CUDA_ERROR_OUT_OF_MEMORY"
    assert rig.call("cuGetErrorString", cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY) == b"out of memory"
    assert rig.api.cuGetErrorName(98765) == (cuda.CUresult.CUDA_ERROR_INVALID_VALUE, None)


def test_without_a_current_context_calls_return_201(rig):
    rig.call("cuCtxSetCurrent", None)
    assert int(rig.call("cuCtxGetCurrent")) == 0
    assert rig.api.cuMemGetInfo() == (cuda.CUresult.CUDA_ERROR_INVALID_CONTEXT, None, None)
    assert rig.status("cuStreamCreate", 0) == 201
    assert rig.status("cuCtxPopCurrent") == 201


def test_the_current_context_is_per_thread(rig):
    seen = []
    thread = threading.Thread(target=lambda: seen.append(rig.status("cuMemAlloc", 4)))
    thread.start()
    thread.join()
    assert seen == [201]
    assert rig.status("cuMemAlloc", 4) == 0


def test_contexts_are_pushed_and_popped(make_rig):
    rig = make_rig(shape=Shape(devices=2))
    other = rig.call("cuDevicePrimaryCtxRetain", 1)
    rig.call("cuCtxPushCurrent", other)
    assert int(rig.call("cuCtxGetDevice")) == 1
    assert int(rig.call("cuCtxPopCurrent")) == int(other)
    assert int(rig.call("cuCtxGetDevice")) == 0
    assert rig.status("cuCtxPushCurrent", rig.stream()) == 201
    assert rig.status("cuCtxSetCurrent", 0xDEAD0) == 201


def test_a_context_released_as_often_as_retained_is_destroyed_with_all_it_owns(rig):
    rig.call("cuDevicePrimaryCtxRetain", 0)
    stream, address = rig.stream(), rig.device(1 << 20)
    rig.call("cuDevicePrimaryCtxRelease", 0)
    assert rig.status("cuStreamQuery", stream) == 0
    rig.call("cuDevicePrimaryCtxRelease", 0)
    assert rig.status("cuStreamQuery", stream) == 709
    assert rig.status("cuDevicePrimaryCtxRelease", 0) == 201
    rig.call("cuCtxSetCurrent", rig.call("cuDevicePrimaryCtxRetain", 0))
    assert rig.status("cuStreamQuery", stream) == 400
    assert rig.status("cuMemFree", address) == 1
    assert rig.call("cuMemGetInfo") == (2 << 30, 2 << 30)


def test_releasing_a_context_does_not_wait_for_a_closed_gate(rig):
    stream, word = rig.stream(), rig.device(4)
    rig.call("cuMemsetD8", word, 0, 4)
    rig.call("cuStreamWaitValue32", stream, word, 1, 0)
    rig.call("cuDevicePrimaryCtxRelease", 0)


def test_closing_ends_the_workers_even_where_one_waits_for_another_device(make_rig, monkeypatch):
    before, entered, wait = threading.active_count(), threading.Event(), Record.wait

    def announced_wait(record):
        entered.set()
        return wait(record)

    monkeypatch.setattr(Record, "wait", announced_wait)
    rig = make_rig(shape=Shape(devices=2))
    waiting = rig.stream()
    rig.call("cuCtxSetCurrent", rig.call("cuDevicePrimaryCtxRetain", 1))
    held, event, word = rig.stream(), rig.event(), rig.device(4)
    rig.call("cuMemsetD8", word, 0, 4)
    entered.clear()
    rig.call("cuStreamWaitValue32", held, word, 1, 0)
    rig.call("cuEventRecord", event, held)
    rig.call("cuStreamWaitEvent", waiting, event, 0)
    entered.wait()
    closer = threading.Thread(target=rig.api.close, daemon=True)
    closer.start()
    closer.join(10)
    assert threading.active_count() == before


def test_peer_access_is_enabled_once_and_only_where_the_machine_has_it(make_rig):
    rig = make_rig(shape=Shape(devices=2, peer_access=True))
    peer = rig.call("cuDevicePrimaryCtxRetain", 1)
    assert rig.call("cuDeviceCanAccessPeer", 0, 1) == 1
    assert rig.call("cuDeviceCanAccessPeer", 0, 0) == 0
    assert rig.status("cuCtxEnablePeerAccess", peer, 0) == 0
    assert rig.status("cuCtxEnablePeerAccess", peer, 0) == 704
    assert rig.status("cuCtxEnablePeerAccess", rig.context, 0) == 101
    apart = make_rig(shape=Shape(devices=2))
    assert apart.call("cuDeviceCanAccessPeer", 0, 1) == 0
    assert apart.status("cuCtxEnablePeerAccess", apart.call("cuDevicePrimaryCtxRetain", 1), 0) == 217


@pytest.mark.parametrize("arguments", [{"devices": -1}, {"devices": 65}, {"memory": 0}])
def test_a_shape_out_of_range_is_refused(arguments):
    with pytest.raises(ValueError, match="must be"):
        Shape(**arguments)
