"""What checks look at: a machine as the doctor found it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cudabw.driver.hints import SystemProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cudabw.driver.calls import Driver
    from cudabw.driver.nvml import Nvml, NvmlDevice
    from cudabw.errors import CudabwError
    from cudabw.results.model import Link
    from cudabw.system.link import LinkReader


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        ordinal: CUDA's number for it; None where CUDA does not show it and NVML alone knows it.
        name: Its name.
        pci: Its PCI address.
        nvml: The same GPU in NVML.
        link: Where its link is read.
    """

    ordinal: int | None
    name: str
    pci: str | None
    nvml: NvmlDevice | None
    link: LinkReader


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine and what is known of its driver.

    Attributes:
        environ: The environment variables.
        emulated: Whether host memory plays the device, so that there is no hardware to look at.
        driver: The driver that started.
        failure: Why none did.
        nvml: NVML, where it can be used.
        gpus: Those that CUDA shows; where no driver started, those that NVML knows.
        link_under_load: Reads the link of the device of a number while copies run on it; raises
            :class:`~cudabw.errors.CudabwError` where it cannot copy.
        root: Where ``/proc``, ``/sys`` and ``/dev`` are found.
    """

    environ: Mapping[str, str]
    emulated: bool = False
    driver: Driver | None = None
    failure: CudabwError | None = None
    nvml: Nvml | None = None
    gpus: tuple[Gpu, ...] = ()
    link_under_load: Callable[[Driver, int, LinkReader], Link] | None = None
    root: Path = Path("/")

    @property
    def probe(self) -> SystemProbe:
        """What the system's files say about the driver."""
        return SystemProbe(self.root)
