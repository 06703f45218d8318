"""Ways in which the driver makes many copies at once: one call for each, one call for all, a graph launched again.

All of them have what timed work has (``stream``, ``holds_host``, ``repeatable``, :meth:`submit`), and ``queue``, which
calls the driver and does nothing else: for whoever has submitted the same work on the same stream before, times the
driver alone, and synchronises before anybody else uses the memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudabw.copying.driver_copy import any_address, route
from cudabw.runtime.capture import capture
from cudabw.runtime.resources import Closing

if TYPE_CHECKING:
    from cudabw.copying.copy_list import CopyList


class LoopedCopies:
    """One call of the driver for each copy.

    Args:
        copies: What to copy.

    Attributes:
        stream: That of the copies.
        holds_host: As of the copies.
        repeatable: A copy does the same work each time.
    """

    repeatable = True

    def __init__(self, copies: CopyList) -> None:
        self.stream = copies.stream
        self.holds_host = copies.holds_host
        self._copies = copies
        self._driver = copies.stream.device.driver
        self._calls = tuple(self._bind(*copy) for copy in copies.copies)

    def _bind(self, dst: Any, src: Any) -> tuple[Any, ...]:  # noqa: ANN401 - buffers
        function, (to, frm) = route(dst, src)
        return getattr(self._driver.api, function), to, frm, src.nbytes, function

    def submit(self, times: int = 1) -> None:
        """Take ownership of all buffers and queue all copies; see :meth:`CopyList.submit`.

        Raises:
            DriverError: The driver refused a copy.
        """
        self._copies.submit(self.queue, times)

    def queue(self) -> None:
        """Call the driver.

        Raises:
            DriverError: The driver refused a copy.
        """
        handle = self.stream.handle
        function = ""
        try:
            for call, to, frm, nbytes, function in self._calls:
                (status,) = call(to, frm, nbytes, handle)
                if status:
                    self._driver.check(function, status)
        except (ValueError, RuntimeError) as error:
            raise self._driver.translate(function, error) from error


class BatchCopy:
    """One call of the driver for all copies (``cuMemcpyBatchAsync``), which drivers have from CUDA 12.8 on.

    Args:
        copies: What to copy.

    Attributes:
        stream: That of the copies.
        holds_host: As of the copies.
        repeatable: A copy does the same work each time.
    """

    repeatable = True

    def __init__(self, copies: CopyList) -> None:
        self.stream = copies.stream
        self.holds_host = copies.holds_host
        self._copies = copies
        self._driver = copies.stream.device.driver
        self._arguments = self._lists()

    def _lists(self) -> tuple[object, ...]:
        api = self._driver.api
        attributes = api.CUmemcpyAttributes()
        attributes.srcAccessOrder = api.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
        pairs = self._copies.copies
        return (
            [api.CUdeviceptr(any_address(dst)) for dst, _ in pairs],
            [api.CUdeviceptr(any_address(src)) for _, src in pairs],
            [src.nbytes for _, src in pairs],
            len(pairs),
            [attributes],  # from the first copy on, for all of them
            [0],
            1,
        )

    def submit(self, times: int = 1) -> None:
        """Take ownership of all buffers and queue all copies; see :meth:`CopyList.submit`.

        Raises:
            UnsupportedError: The driver has no such function.
            DriverError: The driver refused the batch.
        """
        self._copies.submit(self.queue, times)

    def queue(self) -> None:
        """Call the driver.

        Raises:
            UnsupportedError: The driver has no such function.
            DriverError: The driver refused the batch.
        """
        # What cuda-python 12 returns besides, the index of a copy that failed, it returns for a success alone.
        self._driver.call("cuMemcpyBatchAsync", *self._arguments, self.stream.handle)


class GraphCopy(Closing):
    """A graph of one node for each copy, each after the one before, as capturing a loop of copies gives it.

    Args:
        copies: What to copy.

    Attributes:
        stream: That of the copies.
        holds_host: Launching returns before the copies have run.
        repeatable: A copy does the same work each time.

    Raises:
        CudabwError: The copies cannot be captured.
    """

    holds_host = False
    repeatable = True

    def __init__(self, copies: CopyList) -> None:
        self.stream = copies.stream
        self._copies = copies
        self._driver = copies.stream.device.driver
        loop = LoopedCopies(copies)
        # Nothing can be waited for in a capture: what was used elsewhere is handed over before.
        copies.submit(lambda: None)
        with capture(copies.stream) as recording:
            loop.submit()
        self._graph = recording.graph

    def submit(self, times: int = 1) -> None:
        """Take ownership of all buffers and launch the graph; see :meth:`CopyList.submit`.

        Raises:
            DriverError: The driver refused the launch.
        """
        self._copies.submit(self.queue, times)

    def queue(self) -> None:
        """Call the driver.

        Raises:
            ClosedError: The graph was closed.
            DriverError: The driver refused the launch.
        """
        self._driver.call("cuGraphLaunch", self._graph.executable, self.stream.handle)

    def close(self) -> None:
        """Forget the graph; launches that are queued still run."""
        self._graph.close()
