"""The ``kernel`` engine: threads of a kernel read or write the host's mapped memory, 16 bytes at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.copying.driver_copy import check
from cudabw.runtime import ptx
from cudabw.runtime.kernels import Module
from cudabw.runtime.pointers import DevicePointer
from cudabw.runtime.resources import Closing

if TYPE_CHECKING:
    from cudabw.runtime.buffer import Buffer
    from cudabw.runtime.device import Device
    from cudabw.runtime.kernels import Kernel
    from cudabw.runtime.stream import Stream

ENGINE = "kernel"

THREADS_PER_BLOCK = 512
_BYTES_PER_THREAD = 16
# What must be under way to fill a link is its rate times its latency, some 100 KB for Gen5 x16: 16 blocks of 512
# threads with 16 bytes each are enough, and more change nothing (measured on an H200; design, section 4).
_FEWEST_BLOCKS = 16
# The other multiprocessors are left to other kernels.
_SHARE = 4


class KernelCopier(Closing):
    """Copies by a kernel, between any kinds of memory that have a device pointer.

    Args:
        device: Where the kernel runs.
        blocks: Of 512 threads; None to choose by the device.

    Attributes:
        blocks: As given or chosen; a small copy takes fewer.

    Raises:
        ValueError: ``blocks`` is not positive.
        DriverError: The driver cannot load the kernel.
    """

    def __init__(self, device: Device, *, blocks: int | None = None) -> None:
        if blocks is not None and blocks < 1:
            raise ValueError(f"blocks is at least 1, not {blocks}")
        self.device = device
        self.blocks = blocks or blocks_for(device.attribute("MULTIPROCESSOR_COUNT"))
        self._module = Module(device, ptx.read("copy"))
        self._kernel = self._module.kernel("cudabw_copy", ("pointer", "pointer", "uint64"))
        # Drivers load a kernel at its first launch, which would wait for ever for a gate that is closed by then.
        self._kernel(DevicePointer(0), DevicePointer(0), 0, grid=1, block=THREADS_PER_BLOCK)

    def copy(self, dst: Buffer, src: Buffer, *, stream: Stream | None = None) -> None:
        """Copy all bytes of ``src`` to the beginning of ``dst``.

        Without a stream the destination is readable when this returns; with one, the copy is queued on it.

        Raises:
            ValueError: ``src`` has more bytes than ``dst``, ``dst`` is read-only, or they overlap.
            MemorySideError: One of them has no device pointer.
            ClosedError: A buffer, the stream or the copier was closed.
            LaunchError: The driver refused the launch.
        """
        prepared = self.prepare(dst, src, stream)
        prepared.submit()
        if stream is None:
            prepared.stream.synchronize()

    def prepare(self, dst: Buffer, src: Buffer, stream: Stream | None = None) -> PreparedKernelCopy:
        """A copy to be submitted many times; raises as :meth:`copy` does.

        Args:
            dst: Destination.
            src: Source.
            stream: Where the kernel runs; None takes the device's own.
        """
        return PreparedKernelCopy(self._kernel, self.blocks, dst, src, stream)

    def close(self) -> None:
        """Wait for the device and unload the kernel; closing again does nothing."""
        self._module.close()


class PreparedKernelCopy:
    """A launch of the copy kernel whose arguments were converted once.

    Args:
        kernel: Loaded.
        blocks: At most so many.
        dst: Destination.
        src: Source.
        stream: Where it runs; None takes the device's own.

    Attributes:
        stream: As given, or the device's own.
        nbytes: Bytes of one copy.
        blocks: Of 512 threads.
        holds_host: Submitting returns before the bytes are there.
        repeatable: A copy does the same work each time.

    Raises:
        ValueError: As for :meth:`KernelCopier.copy`.
        MemorySideError: One of the two has no device pointer.
    """

    holds_host = False
    repeatable = True

    def __init__(self, kernel: Kernel, blocks: int, dst: Buffer, src: Buffer, stream: Stream | None) -> None:
        check(dst, src)
        self.nbytes = src.nbytes
        self.blocks = min(blocks, max(1, -(-src.nbytes // (_BYTES_PER_THREAD * THREADS_PER_BLOCK))))
        self._launch = kernel.prepare(dst, src, src.nbytes, grid=self.blocks, block=THREADS_PER_BLOCK, stream=stream)
        self.stream = self._launch.stream

    def submit(self, times: int = 1) -> None:
        """Take ownership of both buffers and launch.

        Args:
            times: How many times.

        Raises:
            ClosedError: A buffer, the stream or the copier was closed.
            CudabwError: A buffer would have to wait during a capture, or cannot be reached from the device.
            LaunchError: The driver refused the launch.
        """
        if self.nbytes:
            self._launch.submit(times)


def blocks_for(multiprocessors: int) -> int:
    """How many blocks fill a link from a device of so many multiprocessors."""
    return max(_FEWEST_BLOCKS, multiprocessors // _SHARE)
