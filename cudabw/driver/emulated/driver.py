"""The emulated driver itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cuda.bindings import driver as cuda

from cudabw.driver.emulated.clock import Clock, HostClock
from cudabw.driver.emulated.devices import Devices
from cudabw.driver.emulated.faults import Fault, FaultBook
from cudabw.driver.emulated.kernels import Kernel, known_kernels
from cudabw.driver.emulated.launches import Launches
from cudabw.driver.emulated.machine import Machine
from cudabw.driver.emulated.queues import Queues
from cudabw.driver.emulated.shape import Shape
from cudabw.driver.emulated.versions import Versioned


class EmulatedDriver(Devices, Queues, Launches, Versioned):
    """A CUDA device made of host memory, with the surface of the module ``cuda.bindings.driver``.

    Functions have the names, parameters and status tuples of the installed bindings; enumerations, structures
    and handle types are theirs. A driver function that is not emulated does not exist.

    Args:
        shape: The devices.
        faults: What goes wrong.
        clock: Time of host threads and streams; the host's clock when None.
        kernels: What the device can run, in place of this package's kernels; see
            `cudabw.driver.emulated.kernels.known_kernels`.

    Raises:
        ValueError: A fault names a function that is not emulated.
    """

    emulated = True

    def __init__(
        self,
        shape: Shape | None = None,
        faults: Sequence[Fault] = (),
        clock: Clock | None = None,
        kernels: Mapping[str, Kernel] | None = None,
    ) -> None:
        for fault in faults:
            if fault.function is not None and not hasattr(type(self), fault.function):
                raise ValueError(f"{fault.function} is not emulated, so it cannot fail")
        self._machine = Machine(
            shape or Shape(), FaultBook(faults), clock or HostClock(), known_kernels() if kernels is None else kernels
        )

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the bindings have under this name
        if name.startswith("_") or re.match(r"cu[A-Z]", name):
            raise AttributeError(f"the emulated driver has no {name}")
        return getattr(cuda, name)

    def now(self) -> float:
        """Time of the calling host thread, in seconds, on the driver's clock."""
        return self._machine.clock.now()

    @property
    def tick_s(self) -> float:
        """Seconds of one tick of the host's clock; 0 for a model."""
        return self._machine.clock.host_tick_s

    def throttled_by(self) -> tuple[str, ...]:
        """What slows the device down, as NVML says it of a GPU: what a fault says."""
        return self._machine.faults.throttle()

    def close(self) -> None:
        """End the worker threads and give all memory back; what is queued is not run."""
        self._machine.close()
