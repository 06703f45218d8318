"""Measures what a CUDA machine really gives: host-device bandwidth and the cost of a launch.

>>> import cudabw
>>> d2h, h2d = cudabw.empirical_bandwidth(nbytes=64 << 20, pinned=True)  # doctest: +SKIP

What is named here is loaded when it is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudabw.benchmarks.api import empirical_bandwidth, measure_bandwidth

__version__ = "0.1.0"

_HOME = {
    "empirical_bandwidth": "cudabw.benchmarks.api",
    "measure_bandwidth": "cudabw.benchmarks.api",
}

__all__ = ["__version__", "empirical_bandwidth", "measure_bandwidth"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
