"""The facts that a figure was measured under: each probe optional, what cannot be read is None."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from cudabw.system.container import container_kind, in_wsl
from cudabw.system.cpu import cpu_governor, cpu_model, cpus_available
from cudabw.system.host_memory import host_memory
from cudabw.system.memory_limits import huge_pages, locked_memory, transparent_huge_pages
from cudabw.system.placement import Placement
from cudabw.system.plain import plain
from cudabw.system.software import read_software
from cudabw.system.variables import mattering_variables, other_variables
from cudabw.system.virtualization import (
    confidential_guest,
    in_virtual_machine,
    iommu_arguments,
    iommu_units,
    machine_product,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_environment(
    driver_facts: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    gpu: Mapping[str, object] | None = None,
    root: Path = Path("/"),
) -> dict[str, object]:
    """Gather what a reader must know to compare two results. Never raises.

    Args:
        driver_facts: What the driver said about itself, added to ``software`` under its own names; what JSON has
            no value for becomes text, and a number that is not finite becomes None.
        environ: The environment variables, such as ``os.environ``.
        gpu: How the GPU is set up (:func:`cudabw.system.gpu.read_gpu`); None for the emulated device.
        root: Where ``/proc``, ``/sys`` and ``/etc`` are found.

    Returns:
        A new dictionary that JSON can hold, with the keys that ``docs/environment.md`` explains.
    """
    return {
        "software": read_software(root) | {str(name): plain(value) for name, value in driver_facts.items()},
        "gpu": plain(gpu),
        "cpu": _cpu(root),
        "memory": _memory(root),
        "host": _host(root),
        "variables": mattering_variables(environ),
        "other_variables": other_variables(environ),
    }


def _cpu(root: Path) -> dict[str, object]:
    return {
        "model": cpu_model(root),
        "governor": cpu_governor(root),
        "available": cpus_available(),
        "thread_node": Placement().thread_node(),
    }


def _memory(root: Path) -> dict[str, object]:
    locked, huge = locked_memory(root), huge_pages(root)
    return {
        **asdict(host_memory(root=root)),
        "memlock": None if locked is None else asdict(locked),
        "transparent_huge_pages": transparent_huge_pages(root),
        "huge_pages": None if huge is None else asdict(huge),
    }


def _host(root: Path) -> dict[str, object]:
    return {
        "product": machine_product(root),
        "virtual_machine": in_virtual_machine(root),
        "confidential_guest": confidential_guest(root),
        "container": container_kind(root),
        "wsl": in_wsl(root),
        "iommu_units": iommu_units(root),
        "iommu_arguments": plain(iommu_arguments(root)),
    }
