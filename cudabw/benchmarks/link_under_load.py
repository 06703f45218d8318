"""The link of a device, read while copies wake it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from cudabw.copying.driver_copy import copy
from cudabw.runtime.device import Device
from cudabw.runtime.memory import DeviceBuffer, PinnedBuffer
from cudabw.system.link import LinkSampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudabw.driver.calls import Driver
    from cudabw.results.model import Link
    from cudabw.system.link import LinkReader

_NBYTES: Final = 32 << 20
"""A copy of this takes half a millisecond on the fastest link and lasts longer than a reading."""
_SECONDS: Final = 0.3
"""Long against the tens of milliseconds in which a link comes up to speed."""


def link_under_load(
    driver: Driver, ordinal: int, reader: LinkReader, *, clock: Callable[[], float] = time.monotonic
) -> Link:
    """Copy to a device for a moment, and give the fastest link seen meanwhile.

    Args:
        driver: The driver, already initialised.
        ordinal: The device's number.
        reader: Where its link is read.
        clock: Gives seconds that never go back.

    Raises:
        CudabwError: Nothing can be copied to the device.
    """
    sampler = LinkSampler(reader, clock=clock, interval_s=0.0)
    with (
        Device(driver, ordinal) as device,
        device.stream() as stream,
        PinnedBuffer(device, _NBYTES) as host,
        DeviceBuffer(device, _NBYTES) as memory,
    ):
        end = clock() + _SECONDS
        while clock() < end:
            copy(memory, host, stream=stream)
            sampler.sample()
            stream.synchronize()
    return sampler.best()
