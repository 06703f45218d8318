"""Peer access: kernels of one device reaching into the memory of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.errors import UnsupportedError

if TYPE_CHECKING:
    from cudabw.runtime.device import Device

PEER_ACCESS_UNSUPPORTED = 217  # CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
PEER_ACCESS_ALREADY_ENABLED = 704  # CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, by another library for example


def require_peer_access(device: Device, other: Device) -> None:
    """Let kernels of a device reach the memory of another; the driver is asked once for each pair.

    Raises:
        UnsupportedError: There is no peer access between the two; names both and both remedies.
        DriverError: The driver failed.
    """
    if other not in device.peers:
        enable_peer_access(device, other.ordinal)
        device.peers.add(other)


def enable_peer_access(device: Device, ordinal: int) -> None:
    """As :func:`require_peer_access`, for a device given by its number; asks the driver every time."""
    if ordinal == device.ordinal:
        return
    driver = device.driver
    other = driver.call("cuDeviceGet", ordinal)
    if not driver.call("cuDeviceCanAccessPeer", device.handle, other):
        raise _no_access(device, ordinal)
    # Whoever owns memory there has retained the context: retaining it again only tells which one it is.
    context = driver.call("cuDevicePrimaryCtxRetain", other)
    try:
        device.activate()
        status, _ = driver.attempt("cuCtxEnablePeerAccess", context, 0)
    finally:
        driver.call("cuDevicePrimaryCtxRelease", other)
    if status == PEER_ACCESS_UNSUPPORTED:
        raise _no_access(device, ordinal)
    if status != PEER_ACCESS_ALREADY_ENABLED:
        driver.check("cuCtxEnablePeerAccess", status)


def _no_access(device: Device, ordinal: int) -> UnsupportedError:
    return UnsupportedError(
        f"a kernel on device {device.ordinal} cannot reach memory of device {ordinal}: "
        "there is no peer access between the two",
        hint=f"Copy it into memory of device {device.ordinal} first, or use managed or mapped host memory, "
        "which every device reaches.",
    )
