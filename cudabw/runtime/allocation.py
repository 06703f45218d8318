"""The piece of memory behind a buffer and its slices: who may free it, when, and what still looks at it."""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from cudabw.runtime.ownership import Ownership

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from cudabw.runtime.device import Device


class Allocation:
    """Memory that is freed exactly once: on :meth:`close`, or when nothing refers to it any more.

    NumPy views of it keep it: memory that was closed while a view was alive is freed with the last view.

    Args:
        device: The device it belongs to.
        nbytes: Its length in bytes.
        host_address: Where the CPU finds it; None where it cannot.
        device_address: Where the device finds it; None where it cannot.
        release: Frees it. Holds whatever must live as long as the memory.
        flags: What was asked of the driver for page-locked memory.
        read_only: Whether the bytes may not be written.
    """

    def __init__(
        self,
        device: Device,
        nbytes: int,
        *,
        host_address: int | None,
        device_address: int | None,
        release: Callable[[], None],
        flags: frozenset[str] = frozenset(),
        read_only: bool = False,
    ) -> None:
        self.device = device
        self.nbytes = nbytes
        self.host_address = host_address
        self.device_address = device_address
        self.flags = flags
        self.read_only = read_only
        # Only memory without a host side is out of other devices' reach.
        self.ownership = Ownership(device, local=host_address is None)
        self.closed = False
        self._release: Callable[[], None] | None = release
        self._views = 0

    def view(self, offset: int, nbytes: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A NumPy view of a part of host memory, which keeps the memory as long as it lives."""
        assert self.host_address is not None  # noqa: S101 - the buffer checked; for the type checker
        if nbytes == 0:
            return np.empty(0, dtype)
        window = (ctypes.c_ubyte * nbytes).from_address(self.host_address + offset)
        self._views += 1
        # The finalizer holds self, so that memory which nobody closed lives as long as its views.
        weakref.finalize(window, self._end_view).atexit = False
        array: npt.NDArray[Any] = np.frombuffer(memoryview(window), dtype)
        array.flags.writeable = not self.read_only
        return array

    def close(self) -> None:
        """Hold the host until the last use is over, then free; closing again does nothing."""
        if self.closed:
            return
        # Refused from here on, so that nothing is submitted between the wait and the release.
        self.closed = True
        shared, self.ownership = self.ownership, self.ownership.close()
        try:
            if not self.device.closed:
                self.device.settle(self.ownership)
        except BaseException:
            shared.reopen(self.ownership)
            self.closed, self.ownership = False, shared
            raise
        self.ownership.reset()
        if self._views or self.device.closed_gates:
            # Freeing waits for all of the device's work, also for what a gate holds.
            self._retire_without_views()
        elif (release := self._take_release()) is not None:
            self.device.release(release)

    def _end_view(self) -> None:
        self._views -= 1
        if self.closed:
            self._retire_without_views()

    def _retire_without_views(self) -> None:
        if self._views == 0:
            self._retire()

    def _retire(self) -> None:
        if (release := self._take_release()) is not None:
            self.device.retire(self.ownership, release)

    def _take_release(self) -> Callable[[], None] | None:
        release, self._release = self._release, None
        return release

    def __del__(self) -> None:
        self._retire()
