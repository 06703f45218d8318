"""The locks that make handing memory over and submitting the work that uses it one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from cudabw.runtime.device import Device


class Locks:
    """The locks of several devices as one, taken in the same order by everybody."""

    __slots__ = ("_devices",)

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = sorted(devices, key=lambda device: (device.ordinal, id(device)))

    def acquire(self) -> bool:
        """Take all of them."""
        for device in self._devices:
            device.lock.acquire()
        return True

    def release(self) -> None:
        """Give all of them back."""
        for device in reversed(self._devices):
            device.lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Lock(Protocol):
    """What a device's lock and :class:`Locks` have in common."""

    def acquire(self) -> bool:
        """Wait for it and take it."""

    def release(self) -> None:
        """Give it back."""

    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
