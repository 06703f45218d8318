"""How a batch of copies in both directions at once is timed: on two streams behind one gate."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from cudabw.errors import CudabwError, UnsupportedError
from cudabw.measuring.timing import MOST_QUEUED, Timing
from cudabw.results.model import Clock
from cudabw.runtime.event import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from cudabw.measuring.timing import Work
    from cudabw.runtime.device import Device
    from cudabw.runtime.gate import Gate

# Copies that follow the timed ones of each stream, as a share of them at first: the direction that ends first goes on,
# so that the other is not timed alone. The directions of an H200 differ by a fortieth.
_FOLLOWING_SHARE = 4
_MOST_FOLLOWING = 2 * MOST_QUEUED

FEWEST_TIMES = 4
"""With fewer copies in a batch, one direction may be over before the other has begun."""

_SPARE = 1.1

# The second is with as many copies as the first has shown to be needed.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Pair:
    """Two pieces of work, each on a stream of its own, to run at once."""

    first: Work
    second: Work

    @property
    def repeatable(self) -> bool:
        """Whether running both again does the same work."""
        return self.first.repeatable and self.second.repeatable


class PairTimer(AbstractContextManager["PairTimer"]):
    """Times batches of two pieces of work at once, each by events on its own stream.

    Args:
        device: Where the work runs.
        gate: Holds both streams while work is queued; None where the device cannot.
        while_running: Called once while a batch runs.
    """

    def __init__(self, device: Device, gate: Gate | None, while_running: Callable[[], None] = lambda: None) -> None:
        self._gate = gate
        self._while_running = while_running
        # Of each stream: where the timed copies begin and end, and where those end that follow.
        self._marks = tuple((Event(device), Event(device), Event(device)) for _ in range(2))

    def time(self, pair: Pair, times: int) -> Timing:
        """Time one batch in which each piece of work runs ``times`` times.

        Returns:
            The seconds of each in ``parts``; ``seconds`` are those in which both together do as much as one of them
            does in one piece, in the window that is common to both.

        Raises:
            UnsupportedError: There is no gate, without which the two do not begin together, or one was timed while the
                other did not run.
            CudabwError: The gate's watchdog opened it too early.
            ValueError: More work than the launch queue surely holds.
        """
        if times > MOST_QUEUED:
            raise ValueError(f"a batch of {times} does not surely fit the launch queue; at most {MOST_QUEUED}")
        if self._gate is None:
            raise UnsupportedError("both directions begin together behind a gate only, which this device cannot have")
        self._run_together(self._gate, pair, times)
        first, second = (end.seconds_since(start) / times for start, end, _ in self._marks)
        rates = sum(1 / seconds for seconds in (first, second) if seconds > 0)
        return Timing(1 / rates if rates else 0.0, Clock.EVENT, gated=True, host_held=False, parts=(first, second))

    def _run_together(self, gate: Gate, pair: Pair, times: int) -> None:
        following = [max(1, times // _FOLLOWING_SHARE)] * 2
        for _ in range(_ATTEMPTS):
            self._run(gate, pair, times, following)
            missing = self._missing(times)
            if not any(missing):
                return
            following = [count + more for count, more in zip(following, missing, strict=True)]
            if max(following) > _MOST_FOLLOWING:
                break
        # A device with a single copy engine takes one direction after the other.
        raise UnsupportedError(
            "the two directions did not run at the same time, so there is no rate of both",
            hint="Choose a larger --size.",
        )

    def _run(self, gate: Gate, pair: Pair, times: int, following: Sequence[int]) -> None:
        gate.close_on(pair.first.stream)
        try:
            # What waits for a stream that the gate holds is held as well.
            pair.second.stream.wait_for(pair.first.stream)
            # The stream that the gate itself holds comes last: for a modelled clock, which does not see the host open
            # the gate, it opens with the last submission to that stream.
            queued = tuple(zip((pair.first, pair.second), self._marks, following, strict=True))
            for work, (start, end, last), more in reversed(queued):
                work.submit()
                start.record(work.stream)
                work.submit(times)
                end.record(work.stream)
                work.submit(more)
                last.record(work.stream)
        finally:
            gate.open()
        self._while_running()
        for work in (pair.first, pair.second):
            work.stream.synchronize()
        if gate.expired:
            raise CudabwError("the gate's watchdog opened it before the batch was queued, so its time means nothing")

    def _missing(self, times: int) -> tuple[int, ...]:
        """How many more copies of each would have run while the other was timed."""
        return tuple(
            _copies_in(other[1].seconds_since(mine[2]), mine[1].seconds_since(mine[0]) / times)
            for mine, other in (self._marks, reversed(self._marks))
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for mark in chain.from_iterable(self._marks):
            mark.close()


def _copies_in(seconds: float, each: float) -> int:
    """Copies in a time that is not over, and some to spare; a copy that takes no time never fills one."""
    if seconds <= 0:
        return 0
    return 1 + math.ceil(_SPARE * seconds / each) if each > 0 else _MOST_FOLLOWING + 1
