"""What all tests of benchmarks share."""

import pytest

from cudabw.measuring import full_speed


@pytest.fixture(autouse=True)
def no_cpu_slows_down(monkeypatch):
    """No trial is taken again because others use this machine as well: tests count them."""
    monkeypatch.setattr(full_speed, "SLOW", float("inf"))
