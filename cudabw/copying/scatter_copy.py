"""Many copies by one kernel, which reads their addresses from a table in device memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cudabw.copying.driver_copy import copy
from cudabw.copying.kernel_copy import blocks_for
from cudabw.runtime import ptx
from cudabw.runtime.kernels import Module
from cudabw.runtime.memory import DeviceBuffer, PageableBuffer
from cudabw.runtime.pointers import DevicePointer
from cudabw.runtime.resources import Closing

if TYPE_CHECKING:
    from cudabw.copying.copy_list import CopyList
    from cudabw.runtime.device import Device
    from cudabw.runtime.kernels import Kernel

_BYTES_PER_THREAD = 16
_WARP, _MOST_THREADS = 32, 512
_MOST_ROWS = 65535  # of a grid, on every device


class ScatterCopier(Closing):
    """Copies any number of scattered blocks with one launch, between kinds of memory that have a device pointer.

    Args:
        device: Where the kernel runs.

    Raises:
        DriverError: The driver cannot load the kernel.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self._blocks = blocks_for(device.attribute("MULTIPROCESSOR_COUNT"))
        self._module = Module(device, ptx.read("copies"))
        self._kernel = self._module.kernel("cudabw_copies", ("pointer", "uint64"))
        # Drivers load a kernel at its first launch, which is not to be timed, nor to wait for a gate.
        self._kernel(DevicePointer(0), 0, grid=1, block=_WARP)

    def prepare(self, copies: CopyList) -> ScatterCopy:
        """Write the table of addresses, for copies that are to be submitted many times.

        Raises:
            MemorySideError: A buffer has no device pointer.
            DriverError: The table was refused.
        """
        return ScatterCopy(self._kernel, self._blocks, copies)

    def close(self) -> None:
        """Wait for the device and unload the kernel; closing again does nothing."""
        self._module.close()


class ScatterCopy(Closing):
    """A launch whose table of addresses is on the device; see :mod:`cudabw.copying.many_copies` for ``queue``.

    Args:
        kernel: Loaded.
        blocks: As many as fill a link; more than one share a copy only where there are fewer copies.
        copies: What to copy.

    Attributes:
        stream: That of the copies.
        holds_host: Launching returns before the bytes are there.
        repeatable: A copy does the same work each time.

    Raises:
        MemorySideError: A buffer has no device pointer.
        DriverError: The table was refused.
    """

    holds_host = False
    repeatable = True

    def __init__(self, kernel: Kernel, blocks: int, copies: CopyList) -> None:
        self.stream = copies.stream
        self._copies = copies
        pairs = [(int(dst.device_pointer), int(src.device_pointer), src.nbytes) for dst, src in copies.copies]
        table = np.array(pairs, np.uint64).reshape(-1, 3)
        self._table = DeviceBuffer(self.stream.device, table.nbytes)
        copy(self._table, PageableBuffer.over(self.stream.device, table))
        largest = max((nbytes for _, _, nbytes in pairs), default=0)
        self.block, self.grid = _shape(len(pairs), largest, blocks)
        self._launch = kernel.prepare(self._table, len(pairs), grid=self.grid, block=self.block, stream=self.stream)

    def submit(self, times: int = 1) -> None:
        """Take ownership of all buffers and launch; see :meth:`CopyList.submit`.

        Raises:
            UnsupportedError: Memory of another device cannot be reached.
            LaunchError: The driver refused the launch.
        """
        self._copies.submit(self._launch.launch, times, reaches=True)

    def queue(self) -> None:
        """Call the driver.

        Raises:
            LaunchError: The driver refused the launch.
        """
        self._launch.launcher.launch()

    def close(self) -> None:
        """Wait for the last launch and free the table."""
        self._table.close()


def _shape(copies: int, largest: int, blocks: int) -> tuple[int, tuple[int, int]]:
    """Threads of a block, and the grid: so many blocks share a copy, and so many copies are under way."""
    wanted = -(-largest // _BYTES_PER_THREAD)
    threads = min(_MOST_THREADS, max(_WARP, -(-wanted // _WARP) * _WARP))
    sharing = min(-(-wanted // threads), -(-blocks // max(copies, 1)))
    return threads, (max(1, sharing), min(max(copies, 1), _MOST_ROWS))
