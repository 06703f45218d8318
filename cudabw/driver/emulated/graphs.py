"""Stream capture and graphs."""
# ruff: noqa: N802, N803 - functions and parameters are named as in the bindings

from __future__ import annotations

import threading
from dataclasses import dataclass

from cuda.bindings import driver as cuda

from cudabw.driver.emulated.calls import Enumerator, Handle, Surface, entry, integer
from cudabw.driver.emulated.machine import THREAD_LOCAL_CAPTURE
from cudabw.driver.emulated.refusals import (
    ILLEGAL_STATE,
    INVALID_VALUE,
    STREAM_CAPTURE_INVALIDATED,
    STREAM_CAPTURE_WRONG_THREAD,
    Refusal,
)
from cudabw.driver.emulated.streams import Capture, Operation, Stream, in_order

RELAXED_CAPTURE = THREAD_LOCAL_CAPTURE + 1


@dataclass(slots=True, eq=False)
class Graph:
    """Recorded work, in order; empty while it is being recorded."""

    context: int
    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ExecutableGraph:
    """Work that can be launched again and again."""

    context: int
    operations: tuple[Operation, ...]


class Graphs(Surface):
    """Driver functions about capture and graphs."""

    @entry()
    def cuStreamBeginCapture(self, hStream: Handle, mode: Enumerator) -> None:
        """Record what is submitted to a stream from here on, instead of running it."""
        stream = self._machine.handles.find(integer(hStream), Stream)
        if stream.capture is not None:
            raise Refusal(ILLEGAL_STATE)
        if integer(mode) > RELAXED_CAPTURE:
            raise Refusal(INVALID_VALUE)
        graph = self._machine.handles.add(Graph(stream.context))
        self._machine.begin_capture(
            stream, Capture(next(self._machine.numbers), integer(mode), threading.get_ident(), graph)
        )

    @entry(values=1)
    def cuStreamEndCapture(self, hStream: Handle) -> object:
        """The graph of what was recorded."""
        stream = self._machine.handles.find(integer(hStream), Stream)
        capture = stream.capture
        if capture is None:
            raise Refusal(ILLEGAL_STATE)
        if capture.mode != RELAXED_CAPTURE and capture.thread != threading.get_ident():
            raise Refusal(STREAM_CAPTURE_WRONG_THREAD)
        self._machine.end_capture(stream)
        if not capture.valid:
            self._machine.handles.take(capture.graph, Graph)
            raise Refusal(STREAM_CAPTURE_INVALIDATED)
        self._machine.handles.find(capture.graph, Graph).operations = tuple(capture.operations)
        return cuda.CUgraph(capture.graph)

    @entry(values=1)
    def cuStreamIsCapturing(self, hStream: Handle) -> object:
        """Whether a stream is capturing, and whether its capture is still valid."""
        return _status(self._machine.handles.find(integer(hStream), Stream).capture)

    def _capture_info(self, stream_handle: Handle) -> tuple[object, object, object]:
        """Status, unique number and graph of a stream's capture."""
        capture = self._machine.handles.find(integer(stream_handle), Stream).capture
        number, graph = (capture.number, capture.graph) if capture is not None else (0, 0)
        return _status(capture), cuda.cuuint64_t(number), cuda.CUgraph(graph)

    @entry(values=1)
    def cuGraphInstantiate(self, hGraph: Handle, flags: int) -> object:
        """A graph that can be launched; later changes to the other do not reach it."""
        graph = self._machine.handles.find(integer(hGraph), Graph)
        if integer(flags) & ~0xF:
            raise Refusal(INVALID_VALUE)
        return cuda.CUgraphExec(self._machine.handles.add(ExecutableGraph(graph.context, graph.operations)))

    @entry()
    def cuGraphLaunch(self, hGraphExec: Handle, hStream: Handle) -> None:
        """Queue all the work of a graph, in the order in which it was recorded, as one operation."""
        graph = self._machine.handles.find(integer(hGraphExec), ExecutableGraph)
        stream = self._machine.handles.find(integer(hStream), Stream)

        if stream.capture is None:
            self._machine.clock.spend("launch")
        stream.submit(in_order(graph.operations))

    @entry()
    def cuGraphExecDestroy(self, hGraphExec: Handle) -> None:
        """Forget an executable graph; launches that are queued still run."""
        self._machine.handles.take(integer(hGraphExec), ExecutableGraph)

    @entry()
    def cuGraphDestroy(self, hGraph: Handle) -> None:
        """Forget a graph."""
        self._machine.handles.take(integer(hGraph), Graph)


def _status(capture: Capture | None) -> object:
    states = cuda.CUstreamCaptureStatus
    if capture is None:
        return states.CU_STREAM_CAPTURE_STATUS_NONE
    return states.CU_STREAM_CAPTURE_STATUS_ACTIVE if capture.valid else states.CU_STREAM_CAPTURE_STATUS_INVALIDATED
