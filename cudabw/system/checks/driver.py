"""Whether the driver starts, whether its parts have one version, and whether NVML can be asked."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from cudabw.driver.calls import format_version
from cudabw.system.checks.check import Check, attention, ok, unknown, wrong
from cudabw.system.container import container_kind
from cudabw.system.software import package_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudabw.driver.calls import Driver
    from cudabw.system.checks.check import Sight
    from cudabw.system.checks.machine import Machine

_LIBRARY_VERSION = re.compile(r"libcuda\.so\.(\d{3,}\.[\d.]+)$", re.ASCII)


def _look_at_start(machine: Machine) -> Iterator[Sight]:
    if machine.failure is not None:
        yield wrong(machine.failure.message, machine.failure.hint)
    elif machine.driver is not None:
        where = f", {machine.driver.path}" if machine.driver.path else ""
        yield ok(f"CUDA {format_version(machine.driver.version())}{where}")


def _look_at_versions(machine: Machine) -> Iterator[Sight]:
    path = _library_path(machine)
    parts = {
        "kernel module": machine.probe.kernel_module_version(),
        "libcuda": _version_of_library(path),
        "NVML": _version_of_nvml(machine),
    }
    known = {version for version in parts.values() if version is not None}
    seen = ", ".join(f"{name} {version or 'unknown'}" for name, version in parts.items())
    bindings = _bindings() or "not installed"
    if not known:
        yield unknown(f"no version of a driver is told; cuda-bindings {bindings}")
    elif len(known) == 1:
        yield _with_bindings(machine.driver, f"{seen}; cuda-bindings {bindings}")
    elif "/compat" in (path or ""):
        yield attention(
            f"{seen}; libcuda is a forward-compatibility library, {path}",
            "Take its folder off LD_LIBRARY_PATH unless the newer CUDA is needed.",
        )
    else:
        yield wrong(f"{seen}: they differ", _bring_together(machine))


def _bring_together(machine: Machine) -> str:
    if container_kind(machine.root) is not None:
        return "Remove the libcuda that the container's image brings, so that the host's is used."
    return "sudo reboot"  # which ends what an update of the driver began


def _with_bindings(driver: Driver | None, seen: str) -> Sight:
    bindings = _bindings()
    if driver is None or bindings is None:
        return ok(seen)
    supported = driver.version() // 1000
    if int(bindings.split(".")[0]) <= supported:
        return ok(seen)
    return attention(
        f"{seen}; the driver is for CUDA {format_version(driver.version())}, so newer functions are missing",
        f"pip install 'cuda-python=={supported}.*'",
    )


def _look_at_nvml(machine: Machine) -> Iterator[Sight]:
    if machine.nvml is not None:
        yield ok(f"NVIDIA driver {machine.nvml.driver_version() or 'of unknown version'}")
    else:
        yield attention(
            "NVML does not start",
            "nvidia-smi must work; a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility.",
        )


def _library_path(machine: Machine) -> str | None:
    """The file of libcuda, with links resolved: the one that was loaded, else the one that would be."""
    if machine.driver is not None and machine.driver.path is not None:
        return machine.driver.path
    found = machine.probe.find_library(machine.environ)
    return None if found is None else os.path.realpath(machine.root / found.lstrip("/"))


def _version_of_library(path: str | None) -> str | None:
    match = _LIBRARY_VERSION.search(path or "")
    return match[1] if match else None


def _version_of_nvml(machine: Machine) -> str | None:
    # "13.580.159.03": the library's interface first, then the driver that it belongs to.
    version = None if machine.nvml is None else machine.nvml.library_version()
    return version.partition(".")[2] or None if version else None


def _bindings() -> str | None:
    return package_version("cuda-bindings")


DRIVER = Check("driver", "Without it nothing runs on a GPU.", _look_at_start, hardware=True)
VERSIONS = Check(
    "versions",
    "Library and kernel module of different versions do not work together.",
    _look_at_versions,
    hardware=True,
)
NVML = Check(
    "nvml",
    "Links, clocks and modes are read through NVML; without it they stay unknown.",
    _look_at_nvml,
    hardware=True,
)
