"""How one batch of queued work is timed, by the device's events or by the host's clock."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cudabw.errors import CudabwError, DriverError, UnsupportedError
from cudabw.results.model import Clock
from cudabw.runtime.event import Event
from cudabw.runtime.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from types import TracebackType
    from typing import Self

    from cudabw.runtime.device import Device
    from cudabw.runtime.stream import Stream

# The launch queue of an H200 holds 1020 pieces of work (design, section 4); a submission beyond that
# would hold the host behind its own gate. A quarter of it leaves room for events and warm-ups.
MOST_QUEUED = 256


class Work(Protocol):
    """Something that can be queued on a stream many times."""

    @property
    def stream(self) -> Stream:
        """The stream that the work is queued on."""

    @property
    def holds_host(self) -> bool:
        """Whether submitting returns only when the work is done."""

    @property
    def repeatable(self) -> bool:
        """Whether running it again does the same work."""

    def submit(self, times: int = 1) -> None:
        """Queue the work."""


class Once:
    """Work that is the same only the first time, such as a copy into memory that was never touched.

    Args:
        work: What it is the first time.
    """

    repeatable = False

    def __init__(self, work: Work) -> None:
        self.work = work
        self.stream = work.stream
        self.holds_host = work.holds_host
        self.submit = work.submit


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of one batch.

    Attributes:
        seconds: Seconds for each piece of work; not positive where the clock saw no time pass.
        clock: Which clock timed it.
        gated: Whether a gate kept the time to queue out.
        host_held: Whether submitting took most of the interval, so that the host was held while the work ran; what
            was queued behind a closed gate has shown that it was not.
        parts: Of work of several streams at once, the seconds of each.
    """

    seconds: float
    clock: Clock
    gated: bool
    host_held: bool
    parts: tuple[float, ...] = ()


class BatchTimer(AbstractContextManager["BatchTimer"]):
    """Times batches on one device.

    Work that is asynchronous for the host is queued behind a closed gate between two events, and the
    gate is opened when all is queued: the time to queue is not in the interval. Work that holds the host is
    timed by the host's clock, with the synchronisation inside the interval.

    Args:
        device: Where the work runs.
        gate: Holds the stream while work is queued; None where the device cannot.
        while_running: Called once while a gated batch runs, for readings that need traffic.
    """

    def __init__(self, device: Device, gate: Gate | None, while_running: Callable[[], None] = lambda: None) -> None:
        self._gate = gate
        self._while_running = while_running
        self._now = device.driver.now
        self._start = Event(device)
        self._end = Event(device)

    def time(self, work: Work, times: int) -> Timing:
        """Time one batch of ``times`` pieces of work.

        Raises:
            CudabwError: The gate's watchdog opened it before everything was queued.
            ValueError: More work than the launch queue surely holds.
        """
        if times > MOST_QUEUED:
            raise ValueError(f"a batch of {times} does not surely fit the launch queue; at most {MOST_QUEUED}")
        if work.holds_host:
            return self._by_host(work, times)
        return self._by_events(work, times)

    def _by_host(self, work: Work, times: int) -> Timing:
        if work.repeatable:
            # The driver's staging buffers and the CPU's caches are as cold after a pause as they never are in a loop.
            work.submit()
        work.stream.synchronize()
        start = self._now()
        work.submit(times)
        submitted = self._now()
        work.stream.synchronize()
        done = self._now()
        held = _held(start, submitted, done)
        return Timing((done - start) / times, Clock.HOST, gated=False, host_held=held)

    def _by_events(self, work: Work, times: int) -> Timing:
        if self._gate is not None:
            self._gate.close_on(work.stream)
        try:
            if work.repeatable:
                # Keeps the engine busy until the start event, so that the first copy pays for no idle gap.
                work.submit()
            self._start.record(work.stream)
            start = self._now()
            work.submit(times)
            submitted = self._now()
            self._end.record(work.stream)
        finally:
            if self._gate is not None:
                self._gate.open()
        self._while_running()
        work.stream.synchronize()
        if self._gate is not None and self._gate.expired:
            raise CudabwError("the gate's watchdog opened it before the batch was queued, so its time means nothing")
        held = self._gate is None and _held(start, submitted, self._now())
        seconds = self._end.seconds_since(self._start) / times
        return Timing(seconds, Clock.EVENT, gated=self._gate is not None, host_held=held)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._start.close()
        self._end.close()


def _held(start: float, submitted: float, done: float) -> bool:
    return submitted - start > (done - start) / 2


def choose_times(seconds: float, target_s: float) -> int:
    """How many pieces of work of ``seconds`` each make a batch of at least ``target_s``, within the queue."""
    if seconds * MOST_QUEUED <= target_s:
        return MOST_QUEUED
    return max(1, -int(-target_s // seconds))


def gate_for(stream: Stream, owned: ExitStack) -> Gate | None:
    """A gate that holds this stream; None where there can be none, which each row then says."""
    try:
        gate = owned.enter_context(Gate(stream.device))
        # Only closing it shows whether the device can wait for a value.
        gate.close_on(stream)
    except (UnsupportedError, DriverError):
        # Its word of mapped memory can be refused as well.
        return None
    gate.open()
    return gate
