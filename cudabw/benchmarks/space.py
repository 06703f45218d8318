"""Whether there is room: asked before allocating, with the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.benchmarks.transfers import SCRATCH_BYTES
from cudabw.copying.staging_calibration import PROBE_BYTES, SLOTS, SMALLEST_STAGED, WORKERS, usable_cpus
from cudabw.copying.staging_slots import SLOTS_PER_WORKER
from cudabw.errors import RefusedError
from cudabw.system.host_memory import host_memory
from cudabw.units import format_size

if TYPE_CHECKING:
    from cudabw.benchmarks.bandwidth_plan import Staging
    from cudabw.runtime.device import Device
    from cudabw.system.numa import NumaNode

# What the process, the driver and the rest of the machine need besides our buffers.
HOST_RESERVE_BYTES = 256 << 20
# More managed memory than this share of the card's free memory can hang the card.
MANAGED_SHARE = 4


def host_bytes(kind: str, nbytes: int, *, emulated: bool) -> int:
    """Host memory that one trial holds at once: the buffer, the scratch, and an emulated device's own memory."""
    on_device = device_bytes(kind, nbytes)
    # The emulated device moves managed pages through a shadow of its own.
    return (0 if kind == "device" else nbytes) + SCRATCH_BYTES + (on_device if emulated else 0)


def device_bytes(kind: str, nbytes: int) -> int:
    """Device memory that one trial holds at once."""
    if kind == "device":
        return 2 * nbytes
    if kind == "write-combined":
        return nbytes + min(nbytes, SCRATCH_BYTES)
    return nbytes


def setup_device_bytes(kind: str, nbytes: int) -> int:
    """Device memory at most that having memory ready takes, without a copy: some devices hold managed memory."""
    return nbytes if kind == "managed" else 0


def staging_bytes(nbytes: int, staging: Staging | None) -> int:
    """Host memory at most that a staged copy needs besides: the slots of all threads, and what calibration copies.

    Calibration copies as much on the device as well, less where little is free.
    """
    if staging is None or nbytes < SMALLEST_STAGED:
        return 0
    threads = min(staging.threads or max(WORKERS), usable_cpus())
    return PROBE_BYTES + threads * SLOTS_PER_WORKER * (staging.slot or max(SLOTS))


def require_space(
    device: Device, kind: str, nbytes: int, staging: Staging | None = None, node: NumaNode | None = None
) -> None:
    """Refuse what cannot fit.

    Args:
        device: The device.
        kind: Kind of memory.
        nbytes: Bytes of one copy.
        staging: Of the staged engine; None for any other.
        node: What host memory will be bound to, beyond which the system would end this process.

    Raises:
        RefusedError: Says what is needed and what is there, in host or device memory.
    """
    on_host = host_bytes(kind, nbytes, emulated=device.driver.emulated) + staging_bytes(nbytes, staging)
    require_room(device, kind, on_host=on_host, on_device=device_bytes(kind, nbytes))
    if node is not None:
        _require_host(kind, on_host, node.available_bytes, f"NUMA node {node.number}")


def require_room(device: Device, kind: str, *, on_host: int, on_device: int) -> None:
    """Refuse what cannot fit.

    Args:
        device: The device.
        kind: Kind of memory.
        on_host: Bytes of host memory, an emulated device's own included.
        on_device: Bytes of device memory.

    Raises:
        RefusedError: Says what is needed and what is there, in host or device memory.
    """
    _require_device(device, kind, on_device)
    memory = host_memory()
    _require_host(kind, on_host, memory.available_bytes, str(memory.limit_source))


def _require_host(kind: str, needed: int, available: int | None, source: str) -> None:
    if available is None:
        return
    left = available - HOST_RESERVE_BYTES
    if needed > left:
        raise RefusedError(
            f"{kind} needs {format_size(needed)} of host memory, and {_readable(left)} can be used ({source})",
            hint="Choose a smaller --size.",
        )


def _require_device(device: Device, kind: str, needed: int) -> None:
    free = device.free_bytes
    if needed > free:
        raise RefusedError(
            f"{kind} needs {format_size(needed)} of device memory, and {_readable(free)} is free "
            f"on device {device.ordinal}",
            hint="Choose a smaller --size, or free memory on the device.",
        )
    if kind == "managed" and needed > free // MANAGED_SHARE:
        raise RefusedError(
            f"managed needs {format_size(needed)}, more than a quarter of the {_readable(free)} free "
            f"on device {device.ordinal}",
            hint="Choose a smaller --size: too much managed memory can hang a device.",
        )


def _readable(nbytes: int) -> str:
    return format_size(max(0, nbytes) >> 20 << 20)
