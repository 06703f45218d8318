"""The devices of a machine and the software that reaches them: the data of ``cudabw devices``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from cudabw.results.model import SCHEMA_VERSION, DeviceInfo, RunError


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
    devices: tuple[DeviceInfo, ...] = ()
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
        "devices": [asdict(device) for device in inventory.devices],
    }
    return json.dumps(document, indent=2, allow_nan=False)
