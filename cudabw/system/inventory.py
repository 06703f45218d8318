"""List the devices of this machine, without a context on any of them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cudabw import __version__
from cudabw.driver.calls import format_version
from cudabw.driver.identity import identify
from cudabw.driver.loader import Backend, load_driver
from cudabw.driver.nvml import Nvml, in_nvml
from cudabw.errors import CudabwError
from cudabw.results.inventory import Inventory
from cudabw.results.model import DeviceInfo, RunError
from cudabw.system.link import link_reader
from cudabw.system.numa import gpu_node

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudabw.driver.calls import Driver
    from cudabw.driver.identity import Identity


def take_inventory(
    backend: str, *, notify: Callable[[str], None], check_interrupt: Callable[[], None] = lambda: None
) -> Inventory:
    """Start a driver and list every device that it shows. A driver that fails is part of the result.

    Args:
        backend: ``auto``, ``cuda`` or ``emulated``.
        notify: Told in one sentence what the user should know.
        check_interrupt: Called often while the driver starts; ends that by raising.
    """
    try:
        driver = load_driver(Backend(backend), notify=notify, check_interrupt=check_interrupt)
        with ExitStack() as owned:
            if driver.emulated:
                owned.callback(driver.api.close)
            nvml = None if driver.emulated else Nvml.open()
            if nvml is not None:
                owned.callback(nvml.close)
            return inventory_of(driver, nvml)
    except CudabwError as error:
        return Inventory(__version__, error=RunError(type(error).__name__, error.message, error.hint, error.exit_code))


def inventory_of(driver: Driver, nvml: Nvml | None, *, root: Path = Path("/")) -> Inventory:
    """List every device that a driver shows.

    Args:
        driver: The driver, already initialised.
        nvml: Where links and the NVIDIA driver's version are read; without it, what sysfs says.
        root: Where ``/sys`` and ``/proc`` are found.

    Raises:
        DriverError: The driver could not say who a device is.
    """
    count = int(driver.call("cuDeviceGetCount"))
    return Inventory(
        tool_version=__version__,
        devices=tuple(_listed(driver, ordinal, nvml, root) for ordinal in range(count)),
        cuda_driver=format_version(driver.version()),
        nvidia_driver=None if nvml is None else nvml.driver_version(),
        cuda_bindings=driver.bindings_version(),
    )


def describe(identity: Identity, *, emulated: bool) -> DeviceInfo:
    """A device as results name it, without its link and its NUMA node."""
    return DeviceInfo(
        ordinal=identity.ordinal,
        name=identity.name,
        uuid=identity.uuid,
        pci=identity.pci,
        emulated=emulated,
        memory_bytes=identity.memory_bytes,
    )


def _listed(driver: Driver, ordinal: int, nvml: Nvml | None, root: Path) -> DeviceInfo:
    identity = identify(driver, ordinal)
    reader = link_reader(identity, in_nvml(nvml, identity), emulated=driver.emulated, root=root)
    node = gpu_node(reader.pci, reader.nvml, root=root)
    device = describe(identity, emulated=driver.emulated)
    return replace(device, link=reader.read(), max_link=reader.read_max(), numa_node=node)
