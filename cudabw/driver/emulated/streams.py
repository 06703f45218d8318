"""Streams as in-order queues with a worker thread each, and the records of events."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cudabw.driver.emulated.clock import NO_WORK, Clock, Work
from cudabw.driver.emulated.refusals import LAUNCH_FAILED, STREAM_CAPTURE_INVALIDATED, Refusal

QUEUE_DEPTH = 1020
"""Operations that may be pending before the submitter blocks, as measured on an H200."""

# Python lets a thread go on for 5 ms while another waits to run, unless it sleeps or is outside of Python for long.
_TURN_S = 100e-6
_LONG_S = 50e-6
_PAUSE_S = 1e-6


class Health:
    """Whether the work of a context still runs.

    The first failure of queued work stops all that is queued behind it, surfaces at the next
    synchronisation, and from then on is the answer to every call.
    """

    def __init__(self) -> None:
        self.failed = 0
        self.surfaced = 0
        self.stopped = False

    @property
    def halted(self) -> bool:
        """Whether queued work is to be skipped."""
        return self.stopped or self.failed != 0

    def fail(self, status: int) -> None:
        """Queued work failed; the first failure is kept."""
        self.failed = self.failed or status

    def surface(self) -> None:
        """Raise Refusal with the status of queued work that has failed, if any."""
        self.surfaced = self.failed
        self.check()

    def check(self) -> None:
        """Raise Refusal with the status that has surfaced, if any."""
        if self.surfaced:
            raise Refusal(self.surfaced)


class Traffic:
    """How many streams have work: where several have, their threads take short turns.

    Without that, one thread is through with hundreds of small copies before another begins, where the engines of a
    device begin within a microsecond.
    """

    def __init__(self) -> None:
        self._busy = 0
        self._lock = threading.Lock()

    def enter(self) -> None:
        """A stream that had none was given work."""
        with self._lock:
            self._busy += 1

    def leave(self) -> None:
        """A stream has done all its work."""
        with self._lock:
            self._busy -= 1

    @property
    def crowded(self) -> bool:
        """Whether several streams have work."""
        return self._busy > 1


def _ignore(_end: float) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing to do on a stream.

    Attributes:
        body: Does it, given the stream it runs on, and returns what the clock is to charge.
        finished: Is told when it ended, in seconds of the stream's clock; also when the body was skipped.
    """

    body: Callable[[Stream], Work]
    finished: Callable[[float], None] = _ignore


def in_order(operations: Sequence[Operation]) -> Operation:
    """Several operations, one after the other, as one."""

    def body(running: Stream) -> Work:
        submitted_at = running.submitted_at
        for operation in operations:
            running.execute(operation, submitted_at)
        return NO_WORK

    return Operation(body)


class Record:
    """One recording of an event."""

    def __init__(self) -> None:
        self.stamp = 0.0
        self._done = threading.Event()

    @property
    def complete(self) -> bool:
        """Whether the stream has come past it."""
        return self._done.is_set()

    def finish(self, stamp: float) -> None:
        """The stream has come past it, at ``stamp`` seconds."""
        self.stamp = stamp
        self._done.set()

    def wait(self) -> float:
        """Block until the stream has come past it; returns when that was."""
        self._done.wait()
        return self.stamp


@dataclass(slots=True, eq=False)
class Capture:
    """Work that is being recorded instead of run.

    Attributes:
        number: Unique in this driver.
        mode: Numeric ``CUstreamCaptureMode``.
        thread: Identifier of the thread that began it.
        graph: Handle of the graph being recorded.
        operations: What was recorded so far.
        valid: False once something was done that a capture does not survive.
    """

    number: int
    mode: int
    thread: int
    graph: int
    operations: list[Operation] = field(default_factory=list)
    valid: bool = True


class Stream:
    """An in-order queue; its worker thread starts with the first operation.

    Args:
        ordinal: Of this stream in the driver; seeds the noise of a modelled clock.
        context: Handle of the context it belongs to.
        device: Ordinal of the device.
        health: Of the context.
        clock: Of the driver.
        traffic: Of all streams.
        blocking: Whether synchronous copies wait for it, as for a stream without the non-blocking flag.

    Attributes:
        capture: What it records, while it is capturing.
        time: When its last operation ended, in seconds of the clock.
        submitted_at: When the operation that it runs was submitted.
    """

    def __init__(
        self,
        ordinal: int,
        context: int,
        device: int,
        health: Health,
        clock: Clock,
        traffic: Traffic,
        *,
        blocking: bool,
    ) -> None:
        self.context = context
        self.device = device
        self.health = health
        self.blocking = blocking
        self.capture: Capture | None = None
        self.time = 0.0
        self.submitted_at = 0.0
        self._ordinal = ordinal
        self._executed = 0
        self._clock = clock
        self._traffic = traffic
        self._queue: deque[tuple[Operation, float]] = deque()
        self._pending = 0
        self._ends_at = 0
        self._finished = 0
        self._closing = False
        self._changed = threading.Condition()
        self._worker: threading.Thread | None = None

    def submit(self, operation: Operation) -> None:
        """Queue an operation, or record it while capturing; blocks while the queue is full.

        Raises:
            Refusal: 901, the stream's capture was invalidated.
        """
        if self.capture is not None:
            if not self.capture.valid:
                raise Refusal(STREAM_CAPTURE_INVALIDATED)
            self.capture.operations.append(operation)
            return
        self._clock.spend("submit")
        with self._changed:
            while self._pending >= QUEUE_DEPTH:
                self._changed.wait()
            self._queue.append((operation, self._clock.now()))
            if not self._pending:
                self._traffic.enter()
            self._pending += 1
            self._ends_at += 1
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="emulated stream", daemon=True)
                self._worker.start()
            self._changed.notify_all()

    @property
    def idle(self) -> bool:
        """Whether everything submitted has ended."""
        with self._changed:
            return self._pending == 0

    @property
    def ended(self) -> bool:
        """Whether it was closed and has drained."""
        with self._changed:
            return self._closing and self._pending == 0

    def drain(self) -> None:
        """Wait until everything submitted so far has ended, and move the host thread to that time."""
        with self._changed:
            last = self._ends_at
            while self._finished < last:
                self._changed.wait()
            ended = self.time
        self._clock.catch_up(ended)

    def latest_submission(self) -> float:
        """When the last operation now queued was submitted, in seconds; 0 when none is."""
        with self._changed:
            return self._queue[-1][1] if self._queue else 0.0

    def execute(self, operation: Operation, submitted_at: float) -> None:
        """Run one operation on the calling thread, which is the worker."""
        self.submitted_at = submitted_at
        work = NO_WORK
        if not self.health.halted:
            try:
                work = operation.body(self)
            except Refusal as refusal:
                self.health.fail(refusal.status)
            except Exception:  # noqa: BLE001 - whatever breaks inside a kernel is a failed launch
                self.health.fail(LAUNCH_FAILED)
        self.time = self._clock.finish(work, self.time, submitted_at, (self._ordinal, self._executed))
        self._executed += 1
        operation.finished(self.time)

    def close(self) -> None:
        """Let the worker end once the queue has drained; does not wait."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait for the worker to end, after `close`."""
        if self._worker is not None:
            self._worker.join()

    def _work(self) -> None:
        turn = 0.0
        while (entry := self._next()) is not None:
            start = time.perf_counter()
            self.execute(*entry)
            seconds = time.perf_counter() - start
            turn = turn + seconds if seconds < _LONG_S else 0.0
            with self._changed:
                self._pending -= 1
                if not self._pending:
                    self._traffic.leave()
                self._finished += 1
                self._changed.notify_all()
            if turn > _TURN_S and self._traffic.crowded:
                time.sleep(_PAUSE_S)
                turn = 0.0

    def _next(self) -> tuple[Operation, float] | None:
        with self._changed:
            while not self._queue:
                if self._closing:
                    return None
                self._changed.wait()
            return self._queue.popleft()
