"""Which stream last used a piece of memory, and whether that use may still be running.

Ownership is taken when work is *submitted*. Converting an argument never touches it, so that
launching again with converted arguments cannot skip the bookkeeping and race.

The state of an :class:`Ownership` is guarded by the lock of the device that its memory belongs to. A
submission holds that lock from here until the driver has the work; :func:`guard` gives the locks of one that
uses memory of several devices.

A launch that is repeated need not look at its memory again while nothing has changed. Each stream has an
``epoch`` for that, an object that is replaced whenever something is taken from the stream, is closed, or is about
to be known as finished. A launch that took ownership in the present epoch of its stream still has it, and
its memory still counts as in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cudabw.errors import ClosedError
from cudabw.runtime.locks import Locks
from cudabw.runtime.peer import require_peer_access

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cudabw.runtime.counters import WaitCounters
    from cudabw.runtime.device import Device
    from cudabw.runtime.locks import Lock
    from cudabw.runtime.stream import Stream


class Use(Protocol):
    """Memory that a submission uses: an :class:`Ownership`, or memory that somebody else owns.

    Attributes:
        ticket: The number of the submission on its stream.
        captured: Set when the use is recorded into a graph.
    """

    ticket: int
    captured: bool

    @property
    def holder(self) -> Stream | None:
        """The stream that uses it again without anything but the ticket changing; None to ask every time."""

    @property
    def device(self) -> Device | None:
        """The device whose lock guards it; None when no lock does."""

    @property
    def repeatable(self) -> bool:
        """Whether one look is enough for as long as the stream's epoch stays the same."""

    @property
    def owned(self) -> bool:
        """Whether a stream owns it after this, so that submitting must hold the lock."""

    def hand_over(self, taking: HandOver) -> None:
        """Give the memory to the submission, which waits for earlier uses as needed."""


class Ownership:
    """The last use of one allocation.

    Args:
        device: The device it was allocated for.
        local: Whether it is memory of that device, which another reaches only with peer access.

    Attributes:
        device: As given.
        stream: The stream that used it last; None before any use, and while it is not tracked.
        ticket: That stream's ``submitted`` when it was used.
        captured: Whether a use was recorded into a graph, which may run at any time, until :meth:`reset`.
        holder: The same stream if it is one of the device, whose lock is then all that using it again takes.
    """

    __slots__ = ("_closed", "_dependents", "_local", "_tracked", "captured", "device", "holder", "stream", "ticket")

    def __init__(self, device: Device, *, local: bool = False) -> None:
        self.device = device
        self.stream: Stream | None = None
        self.holder: Stream | None = None
        self.ticket = 0
        self.captured = False
        self._local = local
        self._tracked = True
        self._closed = False
        # Streams with launches that looked at this memory while it was not tracked.
        self._dependents: set[Stream] = set()

    @property
    def dirty(self) -> bool:
        """Whether the last use may still be running."""
        return self.stream is not None and self.ticket > self.stream.completed

    @property
    def in_use(self) -> bool:
        """Whether the last use, or a graph that recorded one, may still be running."""
        return self.dirty or (self.captured and self.stream is not None)

    @property
    def tracked(self) -> bool:
        """Whether uses are ordered here.

        Setting it to False forgets the last use: from then on whoever opted out orders all uses,
        reading by the host and freeing among them.
        """
        return self._tracked

    @tracked.setter
    def tracked(self, tracked: bool) -> None:
        with self.device.lock:
            self._forget()
            self._tracked = tracked
            self.captured = False

    @property
    def owned(self) -> bool:
        """Whether a stream may own it."""
        return self._tracked

    @property
    def repeatable(self) -> bool:
        """A change of owner or of tracking disturbs the streams that rely on it."""
        return True

    def reset(self) -> None:
        """Forget the last use and any graph; the caller knows that both are over."""
        with self.device.lock:
            self._forget()
            self.captured = False

    def close(self) -> Ownership:
        """Refuse every later use.

        Returns:
            The last use, for whoever frees the memory to wait for.
        """
        with self.device.lock:
            last = Ownership(self.device)
            last.stream, last.ticket, last.captured = self.stream, self.ticket, self.captured
            self._forget()
            self._closed = True
        return last

    def reopen(self, last: Ownership) -> None:
        """Undo :meth:`close`, because the memory could not be freed."""
        self.stream = last.stream
        self._closed = False

    def hand_over(self, taking: HandOver) -> None:
        """Make a submission's stream the owner.

        Raises:
            ClosedError: The memory was closed.
            CudabwError: The stream would have to wait while it or the present owner is being captured.
            UnsupportedError: The memory is of another device, which the stream's device cannot reach.
        """
        if self._closed:
            raise ClosedError("memory that this work uses was closed")
        if self._local and taking.reaches and self.device is not taking.stream.device:
            require_peer_access(taking.stream.device, self.device)
        if not self._tracked:
            self._rely(taking.stream)
            return
        owner = self.stream
        if owner is not None and owner is not taking.stream:
            if self.captured or self.ticket > owner.completed:
                taking.wait_for(owner)
            owner.disturb()
        self.stream = taking.stream
        self.holder = taking.stream if taking.stream.device is self.device else None
        self.ticket = taking.ticket

    def _rely(self, stream: Stream) -> None:
        if stream not in self._dependents:
            self._dependents = {known for known in self._dependents if not known.closed}
            self._dependents.add(stream)

    def _forget(self) -> None:
        """Have no owner, and let every launch that relied on the present one know."""
        if self.stream is not None:
            self.stream.disturb()
        self.stream = self.holder = None
        for stream in self._dependents:
            stream.disturb()
        self._dependents = set()


class HandOver:
    """One submission that takes memory over; waits at most once for each earlier owner.

    Args:
        stream: The stream that it is submitted on.
        ticket: Its number there.
        waits: Counts the waits.
        reaches: Whether a kernel reaches into the memory, which takes peer access on another device. Copies
            need none.
    """

    __slots__ = ("_waited", "_waits", "reaches", "stream", "ticket")

    def __init__(self, stream: Stream, ticket: int, waits: WaitCounters, *, reaches: bool) -> None:
        self.stream = stream
        self.ticket = ticket
        self.reaches = reaches
        self._waits = waits
        self._waited: set[Stream | int] = set()

    def wait_for(self, owner: Stream) -> None:
        """Let the stream wait for all work of an earlier owner; the host does not wait."""
        # Closing a stream waits for its work.
        if owner in self._waited or owner.closed:
            return
        self.stream.wait_for(owner)
        self._count(owner)

    def wait_for_handle(self, handle: int) -> None:
        """Let the stream wait for all work of a stream that another library made, given by its handle."""
        if handle in self._waited or handle == int(self.stream.handle):
            return
        self.stream.wait_for_handle(handle)
        self._count(handle)

    def _count(self, owner: Stream | int) -> None:
        self._waits.stream += 1
        self._waited.add(owner)


def use_again(uses: Iterable[Use], stream: Stream) -> bool:
    """The usual case of :func:`take`: a stream that uses again what it has already.

    It takes no more than the lock of the stream's device.

    Returns:
        Whether that was so; otherwise all remains to be done.
    """
    # After closing the stream, and while it is being captured, this is never so.
    if stream.runs_in is not stream.epoch:
        return False
    ticket = stream.submitted + 1
    for use in uses:
        if use.holder is not stream:
            return False
        use.ticket = ticket
    stream.submitted = ticket
    return True


def take(uses: Iterable[Use], stream: Stream, waits: WaitCounters, *, reaches: bool = False) -> None:
    """Make ``stream`` the owner, for work that is submitted next under the same :func:`guard`.

    A stream that takes over from another waits for it on the device if that use may still
    be running; the host does not wait. The same stream again, or a finished use, costs nothing. While the stream is
    being captured the memory is marked as such.

    Args:
        uses: What the work uses; the same memory may come twice.
        stream: The stream that the work really runs on.
        waits: Counts the waits.
        reaches: Whether a kernel reaches into the memory; see :class:`HandOver`.

    Raises:
        ClosedError: Some of the memory, or the stream, was closed.
        CudabwError: Something would have to wait during a capture.
        UnsupportedError: Memory of another device cannot be reached.
    """
    if use_again(uses, stream):
        return
    stream.require_open()
    stream.submitted += 1
    taking = HandOver(stream, stream.submitted, waits, reaches=reaches)
    for use in uses:
        use.hand_over(taking)
    if stream.capturing:
        _mark_captured(uses, stream)


def _mark_captured(uses: Iterable[Use], stream: Stream) -> None:
    for use in uses:
        use.captured = True
        if stream.recorded is not None:
            stream.recorded[use] = None


def settle(ownership: Ownership, waits: WaitCounters) -> None:
    """Hold the host until the last use is over, before the host reads, writes or frees the memory.

    Memory that a graph uses is waited for every time, because the graph may have been launched again.

    Raises:
        CudabwError: The owner is being captured.
    """
    stream = ownership.stream
    if stream is not None and not stream.closed and ownership.in_use:
        stream.synchronize()
        waits.host += 1


def guard(device: Device, uses: Iterable[Use]) -> Lock:
    """What makes handing over and submitting one step.

    Args:
        device: Of the stream.
        uses: What the work uses.

    Returns:
        The device's own lock, or all locks of the devices that the memory belongs to.
    """
    others = {use.device for use in uses} - {device, None}
    return Locks([device, *_present(others)]) if others else device.lock


def _present(devices: Iterable[Device | None]) -> Iterator[Device]:
    return (device for device in devices if device is not None)
