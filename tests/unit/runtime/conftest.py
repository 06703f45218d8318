"""What tests of queued work copy."""

import pytest

from cudabw.runtime.memory import DeviceBuffer, PinnedBuffer


@pytest.fixture
def pair(device):
    """A pinned source full of sevens, and device memory for it."""
    source = PinnedBuffer(device, 1 << 12)
    source.array()[:] = 7
    return DeviceBuffer(device, 1 << 12), source
