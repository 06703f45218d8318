"""The devices of a machine and the software that reaches them: the data of ``cudabw devices``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from cudabw.results.model import SCHEMA_VERSION, DeviceInfo, Link, RunError


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """One device.

    Attributes:
        device: Who it is; its link is the one at this moment, and an idle link is slower than a busy one.
        integrated: Whether it shares the host's memory, so that there is no link.
        max_link: The best that its link can be, without a ceiling where the generation is not known.
    """

    device: DeviceInfo
    integrated: bool = False
    max_link: Link = field(default_factory=Link)


@dataclass(frozen=True, slots=True)
class Inventory:
    """All devices that the driver shows.

    Attributes:
        cuda_driver: The CUDA version that the driver supports, such as ``13.0``.
        nvidia_driver: The version of the NVIDIA driver, such as ``580.159.03``.
        cuda_bindings: The version of cuda-bindings.
        error: Why there is nothing to list.
    """

    tool_version: str
    devices: tuple[ListedDevice, ...] = ()
    cuda_driver: str | None = None
    nvidia_driver: str | None = None
    cuda_bindings: str | None = None
    error: RunError | None = None


def inventory_to_json(inventory: Inventory) -> str:
    """The inventory as one JSON document."""
    document = {
        "schema": SCHEMA_VERSION,
        "tool": {"name": "cudabw", "version": inventory.tool_version},
        "error": None if inventory.error is None else asdict(inventory.error),
        "cuda_driver": inventory.cuda_driver,
        "nvidia_driver": inventory.nvidia_driver,
        "cuda_bindings": inventory.cuda_bindings,
        "devices": [_device(listed) for listed in inventory.devices],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _device(listed: ListedDevice) -> dict[str, object]:
    return {
        **asdict(listed.device),
        "max_link": asdict(listed.max_link),
        "integrated": listed.integrated,
    }
