"""Who a device is, asked without a context, which takes time and memory on it and may be refused."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudabw.driver.calls import SUCCESS

if TYPE_CHECKING:
    from cudabw.driver.calls import Driver


@dataclass(frozen=True, slots=True)
class Identity:
    """What the driver says of a device.

    Attributes:
        ordinal: Its number among those the driver sees.
        name: The driver's name for it.
        uuid: As ``nvidia-smi`` writes it, ``GPU-...``.
        pci: The PCI address, as in ``0000:3b:00.0``.
        memory_bytes: All of its memory, in bytes.
        integrated: Whether device and host share one memory, so that there is no link between them.
        coherent: Whether the device goes through the host's page tables, which only a coherent link lets it do.
    """

    ordinal: int
    name: str
    uuid: str
    pci: str
    memory_bytes: int
    integrated: bool
    coherent: bool = False


def identify(driver: Driver, ordinal: int) -> Identity:
    """Ask the driver who a device is.

    Args:
        driver: The driver, already initialised.
        ordinal: The device's number, below the driver's count.

    Raises:
        DriverError: The driver could not say.
    """
    device = driver.call("cuDeviceGet", ordinal)
    attributes = driver.api.CUdevice_attribute
    return Identity(
        ordinal=ordinal,
        name=_text(driver.call("cuDeviceGetName", 256, device)),
        uuid=f"GPU-{uuid.UUID(bytes=bytes(driver.call('cuDeviceGetUuid', device).bytes))}",
        pci=_text(driver.call("cuDeviceGetPCIBusId", 32, device)).lower(),
        memory_bytes=int(driver.call("cuDeviceTotalMem", device)),
        integrated=bool(driver.call("cuDeviceGetAttribute", attributes.CU_DEVICE_ATTRIBUTE_INTEGRATED, device)),
        coherent=_uses_host_page_tables(driver, device),
    )


def _uses_host_page_tables(driver: Driver, device: object) -> bool:
    attribute = driver.api.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
    status, value = driver.attempt("cuDeviceGetAttribute", attribute, device)
    return status == SUCCESS and bool(value)


def _text(raw: bytes) -> str:
    # The bindings return their whole buffer; what follows the terminator means nothing.
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace").strip()
