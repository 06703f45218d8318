"""How fine the clocks are that time batches: of two events on a stream, and of the host."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from cudabw.results.model import Clock
from cudabw.runtime.event import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudabw.runtime.device import Device
    from cudabw.runtime.stream import Stream

LEAST_TICKS = 200
"""A batch lasts this many ticks, so that one tick is at most half a percent of it."""

_PAIRS = 48

# Of seconds: events are stamped in nanoseconds, and what their distances as floats differ by beside these is rounding.
_NANOSECONDS = 9


class Ticks:
    """The ticks of the clocks that time batches on one stream, each found out when it is first asked for.

    Args:
        device: The device.
        stream: With nothing held on it whenever a tick is asked for.
    """

    def __init__(self, device: Device, stream: Stream) -> None:
        self._device = device
        self._stream = stream
        self._of_events: float | None = None

    def of(self, clock: Clock) -> float:
        """Seconds of one tick of a clock."""
        if clock is Clock.HOST:
            return self._device.driver.tick_s
        if self._of_events is None:
            self._of_events = event_tick(self._device, self._stream)
        return self._of_events


def event_tick(device: Device, stream: Stream) -> float:
    """Seconds of one tick of the clock that stamps events: the smallest difference between empty pairs of them.

    All their times are whole ticks, and they scatter over several. Where all take the same time, it is that time,
    which no tick exceeds. An H200 has 32 ns.

    Args:
        device: The device.
        stream: With nothing held on it.

    Returns:
        0 where no pair takes any time: the clock is a model.
    """
    with Event(device) as start, Event(device) as end:
        return smallest_step(_time_empty(stream, start, end) for _ in range(_PAIRS))


def smallest_step(times: Iterable[float]) -> float:
    """The smallest difference between times that are whole ticks, zero among them; 0 where all are zero."""
    steps = [round(later - earlier, _NANOSECONDS) for earlier, later in pairwise(sorted({0.0, *times}))]
    return min((step for step in steps if step > 0), default=0.0)


def _time_empty(stream: Stream, start: Event, end: Event) -> float:
    start.record(stream)
    end.record(stream)
    end.synchronize()
    return end.seconds_since(start)
