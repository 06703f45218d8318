"""Recording work into a graph, and launching it with the memory it uses in order."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cudabw.errors import ClosedError, CudabwError
from cudabw.runtime.ownership import guard, take
from cudabw.runtime.resources import Closing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudabw.runtime.ownership import Use
    from cudabw.runtime.stream import Stream


class Capture:
    """What is being recorded; its graph is there once the block has ended."""

    def __init__(self) -> None:
        self._graph: Graph | None = None

    @property
    def graph(self) -> Graph:
        """The recorded work.

        Raises:
            CudabwError: The recording has not ended, or has failed.
        """
        if self._graph is None:
            raise CudabwError("the capture has no graph: it has not ended, or has failed")
        return self._graph

    def finish(self, graph: Graph) -> None:
        """Keep the graph."""
        self._graph = graph


@contextmanager
def capture(stream: Stream) -> Iterator[Capture]:
    """Record what is submitted to a stream in this block, instead of running it.

    Memory that the work uses counts as in use from then on, until its ownership is reset: a graph may run
    at any time.

    Raises:
        CudabwError: The stream is being captured already.
        DriverError: The driver refused, or something in the block spoiled the capture.
    """
    device = stream.device
    stream.require_not_capturing("a second capture cannot begin")
    # Relaxed: freeing what was collected meanwhile, on this thread or another, must not spoil the capture.
    mode = device.driver.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    with device.lock:
        # Launches that are repeated without a look at their memory would miss that they are recorded.
        stream.disturb()
        device.call("cuStreamBeginCapture", stream.handle, mode)
        stream.recorded = {}
    recording = Capture()
    try:
        yield recording
    except BaseException:
        _abort(stream)
        raise
    uses = _end(stream)
    recording.finish(Graph(stream, device.call("cuStreamEndCapture", stream.handle), uses))


def _end(stream: Stream) -> tuple[Use, ...]:
    recorded, stream.recorded = stream.recorded, None
    return tuple(recorded or ())


def _abort(stream: Stream) -> None:
    _end(stream)
    # The error that ended the block tells more than the driver's answer to a capture that it spoiled.
    status, handle = stream.device.driver.attempt("cuStreamEndCapture", stream.handle)
    if status == 0:
        stream.device.call("cuGraphDestroy", handle)


class Graph(Closing):
    """Recorded work, ready to be launched many times.

    Args:
        stream: It was recorded from.
        handle: The driver's ``CUgraph``; owned from here on.
        uses: The memory that the work uses.
    """

    def __init__(self, stream: Stream, handle: Any, uses: Sequence[Use]) -> None:  # noqa: ANN401
        self.device = stream.device
        self._uses = uses
        try:
            self._executable: Any = self.device.call("cuGraphInstantiate", handle, 0)
        finally:
            self.device.call("cuGraphDestroy", handle)

    def launch(self, stream: Stream) -> None:
        """Queue all of it, after earlier uses of its memory on other streams.

        Raises:
            ClosedError: The graph, the stream or some of the memory was closed.
            CudabwError: Some of the memory would have to wait during a capture.
        """
        executable = self.executable
        with guard(stream.device, self._uses):
            take(self._uses, stream, stream.device.waits, reaches=True)
            self.device.call("cuGraphLaunch", executable, stream.handle)

    @property
    def executable(self) -> Any:  # noqa: ANN401 - the bindings' handle type
        """The driver's ``CUgraphExec``.

        Raises:
            ClosedError: The graph was closed.
        """
        if self._executable is None:
            raise ClosedError("this graph was closed")
        return self._executable

    def close(self) -> None:
        """Forget the graph; launches that are queued still run. The memory stays marked until it is reset."""
        if self._executable is not None:
            executable, self._executable = self._executable, None
            self.device.call("cuGraphExecDestroy", executable)
