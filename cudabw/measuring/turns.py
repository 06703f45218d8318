"""How work that the host waits for is timed: turn after turn of submitting it and waiting until it is done."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Protocol

from cudabw import stats
from cudabw.measuring.timing import Work

if TYPE_CHECKING:
    from cudabw.runtime.device import Device

# Turns of one batch: a median of three is not moved by one that was interrupted.
FEWEST, MOST = 3, 33
TURNS_SECONDS = 0.5e-3


class BareWork(Work, Protocol):
    """Work that can also be queued by the driver's calls alone, once it was submitted on its stream."""

    def queue(self) -> None:
        """Call the driver and do nothing else."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The medians over the turns of one batch, in seconds.

    Attributes:
        submit_s: The submitting calls.
        done_s: The same, until the host knows that the work is done.
    """

    submit_s: float
    done_s: float


class TurnTimer:
    """Times turns by the host's clock.

    Args:
        device: Where the work runs.
    """

    def __init__(self, device: Device) -> None:
        self._driver = device.driver
        self._now = device.driver.now

    def time(self, work: BareWork, times: int) -> Turns:
        """Time one batch; what is inside the interval are the driver's calls, not ours.

        Args:
            work: Done once before, which takes ownership of its memory; nothing else may use that meanwhile.
            times: How many turns.

        Raises:
            CudabwError: The work could not be submitted, or failed.
        """
        work.submit()
        work.stream.synchronize()
        now, queue, handle = self._now, work.queue, work.stream.handle
        wait = self._driver.api.cuStreamSynchronize
        turns: list[tuple[float, float]] = []
        for _ in repeat(None, times):
            start = now()
            queue()
            submitted = now()
            (status,) = wait(handle)
            done = now()
            if status:
                self._driver.check("cuStreamSynchronize", status)
            turns.append((submitted - start, done - start))
        return Turns(*(stats.median(column) for column in zip(*turns, strict=True)))


def choose_turns(seconds: float) -> int:
    """How many turns of ``seconds`` each make a batch."""
    if seconds * MOST <= TURNS_SECONDS:
        return MOST
    return max(FEWEST, round(TURNS_SECONDS / seconds))
