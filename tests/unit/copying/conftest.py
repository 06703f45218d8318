"""Buffers of every kind with known bytes, and a record of the driver's calls."""

import numpy as np
import pytest

from cudabw.benchmarks.transfers import HOST_BUFFERS
from cudabw.runtime.memory import DeviceBuffer


@pytest.fixture
def make_buffer(device):
    """Makes a buffer of a kind, of zeros."""

    def make(kind, nbytes):
        buffer = DeviceBuffer(device, nbytes) if kind == "device" else HOST_BUFFERS[kind](device, nbytes)()
        if nbytes and kind != "device":
            buffer.array()[:] = 0
        return buffer

    return make


@pytest.fixture
def calls(device):
    """The names of the driver functions called after the test has emptied the list."""
    return record(device)


def record(device):
    """A list that every driver function called from now on is added to."""
    machine, names = device.driver.api._machine, []
    enter = machine.enter

    def recording(function, needs, nbytes):
        names.append(function)
        enter(function, needs, nbytes)

    machine.enter = recording
    return names


@pytest.fixture(scope="session")
def noise():
    """More random bytes than any test moves."""
    return np.random.default_rng(7).integers(0, 256, (1 << 20) + 128, np.uint8)
