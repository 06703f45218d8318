"""How a batch of copies in both directions at once is timed: on two streams behind one gate."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudabw.errors import CudabwError, UnsupportedError
from cudabw.measuring.timing import MOST_QUEUED, Timing
from cudabw.results.model import Clock
from cudabw.runtime.event import Event

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from cudabw.measuring.timing import Work
    from cudabw.runtime.device import Device
    from cudabw.runtime.gate import Gate

# Copies that follow the timed ones of each stream, as a share of them: the direction that ends first goes on, so that
# the other is not timed alone. The directions of an H200 differ by a fortieth.
_FOLLOWING_SHARE = 4

FEWEST_TIMES = 4
"""With fewer copies in a batch, one direction may be over before the other has begun."""

# The threads of the emulated device may begin milliseconds apart.
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
        self._marks = tuple((Event(device), Event(device)) for _ in range(2))

    def time(self, pair: Pair, times: int) -> Timing:
        """Time one batch in which each piece of work runs ``times`` times.

        Returns:
            The seconds of each in ``parts``; ``seconds`` are those in which both together do as much as one of them
            does in one piece, in the window that is common to both.

        Raises:
            UnsupportedError: There is no gate, without which the two do not begin together, or they ran one after the
                other.
            CudabwError: The gate's watchdog opened it too early.
            ValueError: More work than the launch queue surely holds.
        """
        if times > MOST_QUEUED:
            raise ValueError(f"a batch of {times} does not surely fit the launch queue; at most {MOST_QUEUED}")
        if self._gate is None:
            raise UnsupportedError("both directions begin together behind a gate only, which this device cannot have")
        self._run_together(self._gate, pair, times)
        first, second = (end.seconds_since(start) / times for start, end in self._marks)
        rates = sum(1 / seconds for seconds in (first, second) if seconds > 0)
        return Timing(1 / rates if rates else 0.0, Clock.EVENT, gated=True, host_held=False, parts=(first, second))

    def _run_together(self, gate: Gate, pair: Pair, times: int) -> None:
        for _ in range(_ATTEMPTS):
            self._run(gate, pair, times)
            if self._in_common_window():
                return
        # A device with a single copy engine takes one direction after the other.
        raise UnsupportedError(
            "the two directions did not run at the same time, so there is no rate of both",
            hint="Choose a larger --size.",
        )

    def _run(self, gate: Gate, pair: Pair, times: int) -> None:
        gate.close_on(pair.first.stream)
        try:
            # What waits for a stream that the gate holds is held as well.
            pair.second.stream.wait_for(pair.first.stream)
            # The stream that the gate itself holds comes last: for a modelled clock, which does not see the host open
            # the gate, it opens with the last submission to that stream.
            for work, (start, end) in zip((pair.second, pair.first), reversed(self._marks), strict=True):
                work.submit()
                start.record(work.stream)
                work.submit(times)
                end.record(work.stream)
                work.submit(max(1, times // _FOLLOWING_SHARE))
        finally:
            gate.open()
        self._while_running()
        for work in (pair.first, pair.second):
            work.stream.synchronize()
        if gate.expired:
            raise CudabwError("the gate's watchdog opened it before the batch was queued, so its time means nothing")

    def _in_common_window(self) -> bool:
        (first_start, first_end), (second_start, second_end) = self._marks
        late_start = max(0.0, second_start.seconds_since(first_start))
        early_end = min(first_end.seconds_since(first_start), second_end.seconds_since(first_start))
        return early_end >= late_start

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for start, end in self._marks:
            start.close()
            end.close()
