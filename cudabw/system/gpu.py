"""A GPU beside its link: how it is set up, who else uses it, and how it runs before and after a measurement."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from cudabw.driver.nvml_state import THROTTLING_REASONS
from cudabw.system.pci import pci_folder
from cudabw.system.pseudofiles import read_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cudabw.driver.nvml import Nvml, NvmlDevice
    from cudabw.driver.nvml_state import NvmlClocks


def read_gpu(
    nvml: Nvml | None, device: NvmlDevice | None, pci: str | None, *, root: Path = Path("/")
) -> dict[str, object]:
    """Gather how a GPU is set up and how it runs now. Never raises.

    Read it before this process makes a context on the device: in a container its own number differs from the one
    that NVML knows, so that it could not be told from others afterwards.

    Args:
        nvml: NVML, where it can be used.
        device: The GPU in NVML.
        pci: Its PCI address.
        root: Where ``/sys`` is found.

    Returns:
        A new dictionary that JSON can hold; what could not be read is None. ``after`` is None until the run ends.
    """
    modes = None if device is None else device.modes()
    return {
        "mig": modes and modes.mig,
        "ecc": modes and modes.ecc,
        "compute_mode": modes and modes.compute_mode,
        "persistence": modes and modes.persistence,
        "virtualization": modes and modes.virtualization,
        "confidential_computing": None if nvml is None else nvml.confidential(),
        "iommu_domain": iommu_domain(pci, root=root),
        "other_processes": other_processes(device),
        "before": read_clocks(device),
        "after": None,
    }


def read_clocks(device: NvmlDevice | None) -> dict[str, object] | None:
    """How a GPU runs now, and whether it throttles; None where NVML cannot be asked. Never raises."""
    if device is None:
        return None
    clocks = device.clocks()
    reasons = None if clocks.reasons is None else list(clocks.reasons)
    return {**asdict(clocks), "reasons": reasons, "throttled": throttled(clocks)}


def with_gpu_after(environment: Mapping[str, object], device: NvmlDevice | None) -> dict[str, object]:
    """An environment with how its GPU runs now that the run has ended. Never raises.

    Args:
        environment: As :func:`cudabw.system.environment.read_environment` gives it.
        device: The GPU in NVML.
    """
    gpu = environment.get("gpu")
    return {**environment, "gpu": {**gpu, "after": read_clocks(device)} if isinstance(gpu, dict) else gpu}


def throttled(clocks: NvmlClocks) -> bool | None:
    """Whether a GPU holds its clocks down to protect itself; None where NVML does not say."""
    return None if clocks.reasons is None else not THROTTLING_REASONS.isdisjoint(clocks.reasons)


def other_processes(device: NvmlDevice | None) -> int | None:
    """How many other processes have a context on a GPU; None where NVML does not say. Never raises."""
    processes = None if device is None else device.processes()
    return None if processes is None else len(processes - {os.getpid()})


def iommu_domain(pci: str | None, *, root: Path = Path("/")) -> str | None:
    """How the IOMMU treats a device: ``identity`` leaves its addresses alone, ``DMA`` and ``DMA-FQ`` translate them.

    None where there is no IOMMU, or it cannot be seen. Never raises.
    """
    folder = pci_folder(pci, root)
    return None if folder is None else read_line(folder / "iommu_group" / "type")
