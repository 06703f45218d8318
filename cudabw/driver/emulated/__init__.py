"""A CUDA device made of host memory, function for function like ``cuda.bindings.driver``.

For tests, and for machines without a GPU: the code that runs on the GPU is the code that runs here.
"""

from cudabw.driver.emulated.clock import Clock, HostClock, ModelledClock
from cudabw.driver.emulated.configuration import VARIABLE, from_environment
from cudabw.driver.emulated.driver import EmulatedDriver
from cudabw.driver.emulated.faults import Fault
from cudabw.driver.emulated.shape import Shape

__all__ = [
    "VARIABLE",
    "Clock",
    "EmulatedDriver",
    "Fault",
    "HostClock",
    "ModelledClock",
    "Shape",
    "from_environment",
]
