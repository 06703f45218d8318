"""Who a device is, asked without a context, which takes time and memory on it and may be refused."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    """

    ordinal: int
    name: str
    uuid: str
    pci: str
    memory_bytes: int
    integrated: bool


def identify(driver: Driver, ordinal: int) -> Identity:
    """Ask the driver who a device is.

    Args:
        driver: The driver, already initialised.
        ordinal: The device's number, below the driver's count.

    Raises:
        DriverError: The driver could not say.
    """
    device = driver.call("cuDeviceGet", ordinal)
    integrated = driver.api.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_INTEGRATED
    return Identity(
        ordinal=ordinal,
        name=_text(driver.call("cuDeviceGetName", 256, device)),
        uuid=f"GPU-{uuid.UUID(bytes=bytes(driver.call('cuDeviceGetUuid', device).bytes))}",
        pci=_text(driver.call("cuDeviceGetPCIBusId", 32, device)).lower(),
        memory_bytes=int(driver.call("cuDeviceTotalMem", device)),
        integrated=bool(driver.call("cuDeviceGetAttribute", integrated, device)),
    )


def _text(raw: bytes) -> str:
    # The bindings return their whole buffer; what follows the terminator means nothing.
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace").strip()
