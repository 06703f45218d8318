"""Measures what a CUDA machine really gives: host-device bandwidth and the cost of a launch.

>>> import cudabw
>>> d2h, h2d = cudabw.empirical_bandwidth(nbytes=64 << 20, pinned=True)  # doctest: +SKIP

What is named here is loaded when it is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudabw.benchmarks.api import (
        empirical_bandwidth,
        measure_bandwidth,
        measure_latency,
        measure_launch_overhead,
    )
    from cudabw.benchmarks.observer import Observer
    from cudabw.copying.driver_copy import copy
    from cudabw.copying.staged_copy import StagedCopier
    from cudabw.driver.loader import Backend, load_driver
    from cudabw.errors import (
        ClosedError,
        CudabwError,
        DriverError,
        MemorySideError,
        NoDriverError,
        RefusedError,
        ResultFileError,
        UnsupportedError,
        WrongDataError,
    )
    from cudabw.results.model import RunResult
    from cudabw.results.reading import read_result
    from cudabw.runtime.device import Device
    from cudabw.runtime.event import Event
    from cudabw.runtime.gate import Gate
    from cudabw.runtime.memory import (
        DeviceBuffer,
        ManagedBuffer,
        MappedBuffer,
        PageableBuffer,
        PinnedBuffer,
        RegisteredBuffer,
        WriteCombinedBuffer,
    )
    from cudabw.runtime.pointers import DevicePointer, HostPointer
    from cudabw.runtime.stream import Stream

__version__ = "0.1.0"

_HOMES = {
    "cudabw.benchmarks.api": (
        "empirical_bandwidth",
        "measure_bandwidth",
        "measure_latency",
        "measure_launch_overhead",
    ),
    "cudabw.copying.driver_copy": ("copy",),
    "cudabw.copying.staged_copy": ("StagedCopier",),
    "cudabw.benchmarks.observer": ("Observer",),
    "cudabw.driver.loader": ("Backend", "load_driver"),
    "cudabw.errors": (
        "ClosedError",
        "CudabwError",
        "DriverError",
        "MemorySideError",
        "NoDriverError",
        "RefusedError",
        "ResultFileError",
        "UnsupportedError",
        "WrongDataError",
    ),
    "cudabw.results.model": ("RunResult",),
    "cudabw.results.reading": ("read_result",),
    "cudabw.runtime.device": ("Device",),
    "cudabw.runtime.memory": (
        "DeviceBuffer",
        "ManagedBuffer",
        "MappedBuffer",
        "PageableBuffer",
        "PinnedBuffer",
        "RegisteredBuffer",
        "WriteCombinedBuffer",
    ),
    "cudabw.runtime.pointers": ("DevicePointer", "HostPointer"),
    "cudabw.runtime.event": ("Event",),
    "cudabw.runtime.gate": ("Gate",),
    "cudabw.runtime.stream": ("Stream",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Backend",
    "ClosedError",
    "CudabwError",
    "Device",
    "DeviceBuffer",
    "DevicePointer",
    "DriverError",
    "Event",
    "Gate",
    "HostPointer",
    "ManagedBuffer",
    "MappedBuffer",
    "MemorySideError",
    "NoDriverError",
    "Observer",
    "PageableBuffer",
    "PinnedBuffer",
    "RefusedError",
    "RegisteredBuffer",
    "ResultFileError",
    "RunResult",
    "StagedCopier",
    "Stream",
    "UnsupportedError",
    "WriteCombinedBuffer",
    "WrongDataError",
    "__version__",
    "copy",
    "empirical_bandwidth",
    "load_driver",
    "measure_bandwidth",
    "measure_latency",
    "measure_launch_overhead",
    "read_result",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
