"""The link read while copies run."""

import itertools

import pytest

from cudabw.benchmarks.link_under_load import link_under_load
from cudabw.driver.emulated import Fault
from cudabw.errors import CudabwError
from cudabw.results.model import Link


class Reader:
    """A link that is slow at first and then awake."""

    instead = None

    def __init__(self):
        self.readings = itertools.chain([Link(1, 16, 4e9, "nvml")], itertools.repeat(Link(5, 16, 63e9, "nvml")))

    def read(self):
        return next(self.readings)


def clock():
    return itertools.count(0, 0.05).__next__


def test_the_fastest_link_that_was_seen_counts(make_device):
    assert link_under_load(make_device().driver, 0, Reader(), clock=clock()) == Link(5, 16, 63e9, "nvml")


def test_bytes_really_move_meanwhile(make_device, monkeypatch):
    driver, copies = make_device().driver, []
    copy = driver.api.cuMemcpyHtoDAsync
    monkeypatch.setattr(
        driver.api, "cuMemcpyHtoDAsync", lambda *arguments: copies.append(arguments[2]) or copy(*arguments)
    )
    link_under_load(driver, 0, Reader(), clock=clock())
    assert copies
    assert set(copies) == {32 << 20}


def test_a_device_that_cannot_copy_raises_what_the_driver_says(make_device):
    driver = make_device(faults=[Fault(function="cuMemHostAlloc", status=2)]).driver
    with pytest.raises(CudabwError, match="cuMemHostAlloc"):
        link_under_load(driver, 0, Reader())
