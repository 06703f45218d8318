"""An emulated driver with a current context, and the few helpers that its tests share."""

import ctypes
from contextlib import contextmanager

import numpy as np
import pytest

from cudabw.driver.emulated import EmulatedDriver

PTX = b"""//
.version 6.4
.target sm_50
.address_size 64
.visible .entry cudabw_null() { ret; }
.visible .entry cudabw_null_16(.param .u64 a, .param .u32 b) { ret; }
.visible .entry cudabw_fill_u32(.param .u64 dst, .param .u32 value, .param .u64 count) { ret; }
.visible .entry cudabw_add_u32(.param .u64 dst, .param .u32 value, .param .u64 count) { ret; }
.visible .entry cudabw_copy(.param .u64 dst, .param .u64 src, .param .u64 nbytes) { ret; }
.visible .entry cudabw_null_narrow() .maxntid 64, 2, 1 { ret; }
.visible .entry cudabw_null_struct(.param .u8 tag, .param .align 8 .b8 block[24], .param .f32 last) { ret; }
.visible .entry stranger() { ret; }
"""


class Rig:
    """One emulated driver; `call` gives a function's value and insists on success."""

    def __init__(self, **arguments):
        self.api = EmulatedDriver(**arguments)
        self.call("cuInit", 0)
        self.context = self.call("cuDevicePrimaryCtxRetain", 0)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *arguments):
        status, *values = getattr(self.api, name)(*arguments)
        assert int(status) == 0, f"{name}: {status!r}"
        return values[0] if len(values) == 1 else tuple(values) or None

    def status(self, name, *arguments):
        return int(getattr(self.api, name)(*arguments)[0])

    def stream(self, flags=1):
        return self.call("cuStreamCreate", flags)

    def event(self, flags=0):
        return self.call("cuEventCreate", flags)

    def device(self, nbytes):
        return int(self.call("cuMemAlloc", nbytes))

    def pinned(self, nbytes, flags=0):
        """Address and bytes of pinned memory."""
        address = self.call("cuMemHostAlloc", nbytes, flags)
        return address, host_bytes(address, nbytes)

    def function(self, name):
        return self.call("cuModuleGetFunction", self.call("cuModuleLoadData", PTX), name)

    def launch(self, function, stream, params=None, grid=(1, 1, 1), block=(1, 1, 1), shared=0):
        return self.status("cuLaunchKernel", function, *grid, *block, shared, stream, params, 0)

    def read(self, address, nbytes):
        """What device memory holds, past all queues."""
        out = np.zeros(nbytes, np.uint8)
        self.call("cuMemcpyDtoH", out, address, nbytes)
        return out

    @contextmanager
    def gated(self, *streams):
        """Everything queued on these streams inside the block waits until its end."""
        address, octets = self.pinned(4, 2)
        word = octets.view(np.uint32)
        word[0] = 0
        flag = self.call("cuMemHostGetDevicePointer", address, 0)
        for stream in streams:
            self.call("cuStreamWaitValue32", stream, flag, 1, 0)
        try:
            yield
        finally:
            word[0] = 1


def host_bytes(address, nbytes):
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


@pytest.fixture
def make_rig():
    rigs = []

    def make(**arguments):
        rigs.append(Rig(**arguments))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.api.close()


@pytest.fixture
def rig(make_rig):
    return make_rig()


@pytest.fixture(scope="session")
def ptx():
    return PTX
