"""How launches are timed by the host's clock: bursts that fit the queue, with the queue drained between them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, TypeAlias

from cudabw.results.launch import Counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudabw.runtime.device import Device
    from cudabw.runtime.stream import Stream

Repeat: TypeAlias = "Callable[[int], None]"
"""Does something a number of times."""

# A burst this long has hundreds of launches on a GPU, so that the clock's two readings and the first launch after a
# pause hardly count.
BURST_SECONDS = 0.5e-3
FEWEST, MOST = 16, 128
SYNCHRONISED = 8


@dataclass(frozen=True, slots=True)
class Burst:
    """The times of one burst, in seconds of one launch.

    Attributes:
        submit_s: The submitting calls.
        sustained_s: The same launches, until the device was done.
        synchronised_s: Further launches, each of which the host waited for.
        second_half: Time of the second half of the calls over that of the first; None where no time passed.
        counts: Over all of these launches.
    """

    submit_s: float
    sustained_s: float
    synchronised_s: float
    second_half: float | None
    counts: Counts


class BurstTimer:
    """Times bursts on one stream.

    Args:
        stream: Where the launches run; nothing else may use it.
        times: Launches in a burst, at least two.
    """

    def __init__(self, stream: Stream, times: int) -> None:
        self.times = times
        self._stream = stream
        self._device = stream.device
        self._now = stream.device.driver.now

    def time(self, launch: Repeat) -> Burst:
        """Time one burst of launches.

        Raises:
            CudabwError: A launch, or the work itself, failed.
        """
        now, synchronize = self._now, self._stream.synchronize
        early = self.times // 2
        late = self.times - early
        before = count(self._device)
        start = now()
        launch(early)
        middle = now()
        launch(late)
        submitted = now()
        synchronize()
        done = now()
        return Burst(
            submit_s=(submitted - start) / self.times,
            sustained_s=(done - start) / self.times,
            synchronised_s=self._time_synchronised(launch),
            second_half=(submitted - middle) / late / ((middle - start) / early) if middle > start else None,
            counts=_since(before, count(self._device), self.times + SYNCHRONISED),
        )

    def time_calls(self, call: Repeat) -> float:
        """Seconds of one call of something, over as many as a burst has; nothing may be left queued before."""
        start = self._now()
        call(self.times)
        seconds = (self._now() - start) / self.times
        self._stream.synchronize()
        return seconds

    def _time_synchronised(self, launch: Repeat) -> float:
        synchronize = self._stream.synchronize
        start = self._now()
        for _ in repeat(None, SYNCHRONISED):
            launch(1)
            synchronize()
        return (self._now() - start) / SYNCHRONISED


def choose_burst(seconds: float, most: int) -> int:
    """How many launches of ``seconds`` each make a burst, up to ``most`` that surely fit the queue."""
    wanted = MOST if seconds * MOST <= BURST_SECONDS else max(FEWEST, round(BURST_SECONDS / seconds))
    return max(2, min(wanted, most))


def count(device: Device) -> Counts:
    """What the device's counters show now."""
    return Counts(0, device.conversions.arguments, device.waits.stream, device.waits.host)


def _since(before: Counts, after: Counts, launches: int) -> Counts:
    return Counts(
        launches,
        after.conversions - before.conversions,
        after.stream_waits - before.stream_waits,
        after.host_waits - before.host_waits,
    )
