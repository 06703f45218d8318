"""The first real GPU."""

import pytest

from cudabw.driver.loader import Backend, load_driver
from cudabw.runtime.device import Device
from cudabw.runtime.gate import Gate


@pytest.fixture(scope="module")
def gpu():
    with Device(load_driver(Backend.CUDA, notify=print)) as device:
        yield device


@pytest.fixture
def stream(gpu):
    with gpu.stream() as stream:
        yield stream


@pytest.fixture
def gate(gpu):
    with Gate(gpu) as gate:
        yield gate
