"""Looks at everything that a measurement depends on and says what is well and what is not; changes nothing."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cudabw import __version__
from cudabw.driver.hints import SystemProbe
from cudabw.driver.identity import identify
from cudabw.driver.loader import Backend, load_driver
from cudabw.driver.nvml import Nvml, in_nvml
from cudabw.errors import CudabwError, Interrupted, UsageError
from cudabw.results.diagnosis import Diagnosis
from cudabw.results.model import RunError
from cudabw.system.checks.devices import DEVICES
from cudabw.system.checks.driver import DRIVER, NVML, VERSIONS
from cudabw.system.checks.gpu_modes import COMPUTE_MODE, ECC, MIG, PERSISTENCE
from cudabw.system.checks.gpu_state import PROCESSES, THROTTLING
from cudabw.system.checks.host_memory import HUGE_PAGES, MEMLOCK, MEMORY
from cudabw.system.checks.link import LINK
from cudabw.system.checks.machine import Gpu, Machine
from cudabw.system.checks.mps import MPS
from cudabw.system.checks.nodes import NODES
from cudabw.system.checks.numa import NUMA
from cudabw.system.checks.platform import CONFIDENTIAL, GOVERNOR, IOMMU, WSL
from cudabw.system.checks.variables import LAUNCHING, PROFILERS
from cudabw.system.link import LinkReader, link_reader
from cudabw.system.pci import sysfs_address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cudabw.driver.calls import Driver
    from cudabw.results.diagnosis import Finding
    from cudabw.results.model import Link
    from cudabw.system.checks.check import Check

# Processes are counted before the link is woken, which makes this one of them.
CHECKS: Final[tuple[Check, ...]] = (
    *(DRIVER, VERSIONS, NVML, NODES, DEVICES),
    *(PROCESSES, LINK, NUMA, IOMMU, THROTTLING, PERSISTENCE, COMPUTE_MODE, MIG, ECC, MPS),
    *(MEMORY, MEMLOCK, HUGE_PAGES, GOVERNOR, PROFILERS, LAUNCHING, WSL, CONFIDENTIAL),
)
"""All checks, in the order of reports."""


def examine(
    backend: str,
    *,
    notify: Callable[[str], None],
    check_interrupt: Callable[[], None] = lambda: None,
    link_under_load: Callable[[Driver, int, LinkReader], Link] | None = None,
    environ: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
) -> Diagnosis:
    """Make every check, whatever the others come to. A driver that fails is part of the diagnosis.

    Args:
        backend: ``cuda`` or ``auto`` for the GPU, without a fallback; ``emulated`` for the emulated device.
        notify: Told in one sentence what the user should know now.
        check_interrupt: Called between checks and while the driver starts; ends the look by raising.
        link_under_load: Reads a device's link while copies run on it.
        environ: The environment variables.
        root: Where ``/proc``, ``/sys`` and ``/dev`` are found.

    Raises:
        UsageError: The environment describes an emulated device that cannot be meant.
    """
    emulated = backend == Backend.EMULATED
    machine = Machine(environ, emulated=emulated, link_under_load=link_under_load, root=root)
    findings: list[Finding] = []
    try:
        with ExitStack() as owned:
            machine = _with_driver(machine, notify, check_interrupt, owned)
            machine = _with_gpus(machine, owned)
            for check in CHECKS:
                check_interrupt()
                findings += check.run(machine)
    except Interrupted as error:
        return _diagnosis(machine, findings, error)
    return _diagnosis(machine, findings, machine.failure)


def _diagnosis(machine: Machine, findings: list[Finding], error: CudabwError | None) -> Diagnosis:
    told = None if error is None else RunError(type(error).__name__, error.message, error.hint, error.exit_code)
    return Diagnosis(__version__, machine.emulated, tuple(findings), isinstance(error, Interrupted), told)


def _with_driver(
    machine: Machine, notify: Callable[[str], None], check_interrupt: Callable[[], None], owned: ExitStack
) -> Machine:
    # The doctor never falls back: what keeps the GPU from being used is what it is asked about.
    backend = Backend.EMULATED if machine.emulated else Backend.CUDA
    try:
        driver = load_driver(
            backend,
            notify=notify,
            check_interrupt=check_interrupt,
            environ=machine.environ,
            probe=SystemProbe(machine.root),
        )
    except (Interrupted, UsageError):
        raise
    except CudabwError as error:
        return replace(machine, failure=error)
    if driver.emulated:
        owned.callback(driver.api.close)
    return replace(machine, driver=driver)


def _with_gpus(machine: Machine, owned: ExitStack) -> Machine:
    if machine.emulated:
        return machine
    nvml = Nvml.open()
    if nvml is not None:
        owned.callback(nvml.close)
    gpus = _known_to_nvml(nvml, machine.root) if machine.driver is None else _shown(machine.driver, nvml, machine.root)
    return replace(machine, nvml=nvml, gpus=gpus)


def _shown(driver: Driver, nvml: Nvml | None, root: Path) -> tuple[Gpu, ...]:
    return tuple(_gpu(driver, ordinal, nvml, root) for ordinal in range(int(driver.call("cuDeviceGetCount"))))


def _gpu(driver: Driver, ordinal: int, nvml: Nvml | None, root: Path) -> Gpu:
    try:
        identity = identify(driver, ordinal)
    except CudabwError as error:
        return Gpu(ordinal, f"unknown ({error.message})", None, None, LinkReader(None, root=root))
    nvml_device = in_nvml(nvml, identity)
    reader = link_reader(identity, nvml_device, emulated=driver.emulated, root=root)
    return Gpu(ordinal, identity.name, identity.pci, nvml_device, reader)


def _known_to_nvml(nvml: Nvml | None, root: Path) -> tuple[Gpu, ...]:
    devices = () if nvml is None else nvml.devices() or ()
    addresses = [(device, sysfs_address(device.pci())) for device in devices]
    return tuple(
        Gpu(None, device.name() or "a GPU", address, device, LinkReader(address, device, root=root))
        for device, address in addresses
    )
