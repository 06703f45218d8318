"""The emulated device as tests meet it: through the same Driver and Device as a GPU."""

import pytest
from hypothesis import settings

from cudabw.driver.calls import Driver
from cudabw.driver.emulated import EmulatedDriver
from cudabw.runtime.device import Device
from cudabw.runtime.gate import Gate

# How long an example takes is the machine's business and fails no test.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def make_device():
    """Makes a device of an emulated driver with the given shape, faults and clock; all are closed afterwards."""
    devices = []
    drivers = []

    def make(ordinal=0, driver=None, **emulated):
        if driver is None:
            api = EmulatedDriver(**emulated)
            driver = Driver(api, emulated=True, now=api.now)
            driver.call("cuInit", 0)
            drivers.append(driver)
        devices.append(Device(driver, ordinal))
        return devices[-1]

    yield make
    for device in devices:
        device.close()
    for driver in drivers:
        driver.api.close()


@pytest.fixture
def device(make_device):
    return make_device()


@pytest.fixture
def stream(device):
    with device.stream() as stream:
        yield stream


@pytest.fixture
def gate(device):
    with Gate(device) as gate:
        yield gate
