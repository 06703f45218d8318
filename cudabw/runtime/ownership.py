"""Which stream last used a buffer, and whether that use may still be running.

Ownership is taken when work is *submitted*. Converting an argument never touches it, so that
launching again with converted arguments cannot skip the bookkeeping and race.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudabw.runtime.stream import Stream


class WaitCounters:
    """How many waits ownership has asked for, on the streams and of the host."""

    __slots__ = ("host", "stream")

    def __init__(self) -> None:
        self.stream = 0
        self.host = 0


class Ownership:
    """The last use of one allocation.

    Attributes:
        stream: The stream that used it last; None before any use.
        ticket: That stream's ``submitted`` when it was used.
        captured: Whether the use was recorded into a graph, which may run at any time, until :meth:`reset`.
        tracked: False when the owner of the memory orders its uses by other means.
    """

    __slots__ = ("captured", "stream", "ticket", "tracked")

    def __init__(self) -> None:
        self.stream: Stream | None = None
        self.ticket = 0
        self.captured = False
        self.tracked = True

    @property
    def dirty(self) -> bool:
        """Whether the last use may still be running."""
        return self.stream is not None and self.ticket > self.stream.completed

    def reset(self) -> None:
        """Forget the last use; the caller knows that it is over."""
        self.stream = None
        self.captured = False


def take(ownerships: Iterable[Ownership], stream: Stream, waits: WaitCounters) -> None:
    """Make ``stream`` the owner, for work that is submitted next under the device's lock.

    A stream that takes over from another waits for it on the device if that use may still
    be running; the host does not wait. The same stream again, or a finished use, costs nothing.
    """
    stream.submitted += 1
    for ownership in ownerships:
        if not ownership.tracked:
            continue
        owner = ownership.stream
        if owner is not None and owner is not stream and (ownership.captured or ownership.ticket > owner.completed):
            stream.wait_for(owner)
            waits.stream += 1
        ownership.stream = stream
        ownership.ticket = stream.submitted


def settle(ownership: Ownership, waits: WaitCounters) -> None:
    """Hold the host until the last use is over, before the host reads, writes or frees the memory."""
    stream = ownership.stream
    if ownership.tracked and stream is not None and ownership.ticket > stream.completed:
        stream.synchronize()
        waits.host += 1
