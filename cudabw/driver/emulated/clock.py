"""Which clock the emulated device runs on: the host's, or a modelled one for tests."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

DIRECTIONS = ("h2d", "d2h", "d2d", "p2p", "h2h", "memset")
PAGE_LOCKING = ("pin", "unpin")
KINDS = ("pageable", "pinned", "mapped", "write-combined", "registered", "managed", "kernel")


@dataclass(frozen=True, slots=True)
class Work:
    """What one operation of a stream did, for the clock to charge.

    Attributes:
        direction: One of ``DIRECTIONS``; empty when no bytes moved.
        kind: The memory kind of the host side, ``kernel`` when a kernel moved the bytes, or empty.
        nbytes: How many bytes moved.
        launched: Whether it was a kernel.
        not_before: The stream's time may not lie before this, in seconds.
    """

    direction: str = ""
    kind: str = ""
    nbytes: int = 0
    launched: bool = False
    not_before: float = 0.0


NO_WORK = Work()


class Clock(Protocol):
    """Time of the host threads and of the streams, in seconds.

    Attributes:
        host_tick_s: One tick of the host threads' time; 0 where it is exact.
    """

    host_tick_s: float

    def now(self) -> float:
        """Time of the calling host thread."""

    def spend(self, call: Literal["submit", "launch"]) -> None:
        """The calling host thread submitted something."""

    def lock_pages(self, call: Literal["pin", "unpin"], nbytes: int) -> None:
        """The calling host thread had memory pinned or unpinned."""

    def catch_up(self, instant: float) -> None:
        """The calling host thread waited for something that ended at ``instant``."""

    def finish(self, work: Work, stream_time: float, submitted_at: float, draw: tuple[int, int]) -> float:
        """When work ends that was submitted at ``submitted_at`` to a stream busy until ``stream_time``.

        Args:
            work: What was done.
            stream_time: Time of the stream before it.
            submitted_at: Time of the submitting host thread.
            draw: Ordinals of the stream and of the operation in it; seeds the noise.
        """

    def elapsed(self, start: float, end: float) -> float:
        """The time between two events that the streams passed at these instants."""


class HostClock:
    """The host's monotonic clock, for host threads and streams alike."""

    host_tick_s = time.get_clock_info("perf_counter").resolution

    def now(self) -> float:
        """``time.perf_counter``."""
        return time.perf_counter()

    def spend(self, call: Literal["submit", "launch"]) -> None:
        """Nothing: real time passes on its own."""

    def lock_pages(self, call: Literal["pin", "unpin"], nbytes: int) -> None:
        """Nothing, likewise."""

    def catch_up(self, instant: float) -> None:
        """Nothing: whoever waited is already later."""

    def finish(
        self,
        work: Work,  # noqa: ARG002 - the protocol's
        stream_time: float,  # noqa: ARG002
        submitted_at: float,  # noqa: ARG002
        draw: tuple[int, int],  # noqa: ARG002
    ) -> float:
        """The moment the worker is done."""
        return time.perf_counter()

    def elapsed(self, start: float, end: float) -> float:
        """Their difference."""
        return end - start


class ModelledClock:
    """Virtual time per host thread and per stream, from given rates.

    Each starts at zero. A copy of n bytes takes n / rate seconds of its stream and starts at the later of
    the stream's time and the host's at submission. Waiting moves the waiting side to the later of the two.

    Args:
        rates: Bytes per second by direction (``"h2d"``) or by direction and kind (``"h2d/pageable"``, which
            wins); ``p2p`` falls back to ``d2d``. ``pin`` and ``unpin`` are those at which the host pins memory and
            unpins it. What is not given takes no time.
        submit_s: Host seconds that each submission to a stream takes.
        launch_s: Host seconds that each launch of a kernel or graph takes besides.
        kernel_s: Stream seconds that each kernel takes, besides the bytes it moves.
        latency_s: Stream seconds that each copy takes, besides its bytes.
        tick_s: Events are stamped with whole multiples of this; 0 for an exact clock.
        noise: Standard deviation of the logarithm of a factor on every stream duration.
        seed: Of the noise; the same seed, stream and operation give the same factor.

    Raises:
        ValueError: An unknown rate, or a number out of range.
    """

    host_tick_s = 0.0

    def __init__(
        self,
        rates: Mapping[str, float],
        *,
        submit_s: float = 0.0,
        launch_s: float = 0.0,
        kernel_s: float = 0.0,
        latency_s: float = 0.0,
        tick_s: float = 0.0,
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        for name, rate in rates.items():
            _check_rate(name, rate)
        for label, value in (
            ("submit_s", submit_s),
            ("launch_s", launch_s),
            ("kernel_s", kernel_s),
            ("latency_s", latency_s),
            ("tick_s", tick_s),
            ("noise", noise),
        ):
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{label} must be zero or more, not {value}")
        self._rates = dict(rates)
        self._spend_s = {"submit": submit_s, "launch": launch_s}
        self._kernel_s = kernel_s
        self._latency_s = latency_s
        self._tick_s = tick_s
        self._noise = noise
        self._seed = seed
        self._host = threading.local()

    def now(self) -> float:
        """Virtual time of the calling thread."""
        time_of_thread: float = getattr(self._host, "time", 0.0)
        return time_of_thread

    def advance(self, seconds: float) -> None:
        """Let the calling thread take ``seconds`` of virtual time."""
        self._host.time = self.now() + seconds

    def spend(self, call: Literal["submit", "launch"]) -> None:
        """Charge the calling thread for a submission."""
        self.advance(self._spend_s[call])

    def lock_pages(self, call: Literal["pin", "unpin"], nbytes: int) -> None:
        """Charge the calling thread for memory that it had pinned or unpinned."""
        self.advance(nbytes / self._rates.get(call, math.inf))

    def catch_up(self, instant: float) -> None:
        """Move the calling thread to ``instant`` if that is later."""
        self._host.time = max(self.now(), instant)

    def finish(self, work: Work, stream_time: float, submitted_at: float, draw: tuple[int, int]) -> float:
        """The later of all that the work had to wait for, plus what it takes."""
        start = max(stream_time, submitted_at, work.not_before)
        return start + self._duration(work) * self._factor(draw)

    def elapsed(self, start: float, end: float) -> float:
        """The difference of the two stamps."""
        if not self._tick_s:
            return end - start
        return (math.floor(end / self._tick_s) - math.floor(start / self._tick_s)) * self._tick_s

    def _duration(self, work: Work) -> float:
        fixed = self._kernel_s if work.launched else self._latency_s if work.direction else 0.0
        return fixed + work.nbytes / self._rate(work)

    def _rate(self, work: Work) -> float:
        directions = (work.direction, "d2d") if work.direction == "p2p" else (work.direction,)
        for direction in directions:
            for name in (f"{direction}/{work.kind}", direction):
                if name in self._rates:
                    return self._rates[name]
        return math.inf

    def _factor(self, draw: tuple[int, int]) -> float:
        if not self._noise:
            return 1.0
        # Text seeds are hashed the same way in every process; hash() is not.
        source = random.Random(f"{self._seed}/{draw[0]}/{draw[1]}")  # noqa: S311 - noise, not a secret
        return math.exp(self._noise * source.gauss(0.0, 1.0))


def _check_rate(name: str, rate: float) -> None:
    direction, _, kind = name.partition("/")
    if name not in PAGE_LOCKING and (direction not in DIRECTIONS or ("/" in name and kind not in KINDS)):
        raise ValueError(
            f"unknown rate {name!r}: a direction ({', '.join(DIRECTIONS)}), optionally /kind ({', '.join(KINDS)}); "
            f"or {' or '.join(PAGE_LOCKING)}"
        )
    if not (rate > 0 and math.isfinite(rate)):
        raise ValueError(f"rate {name!r} must be above zero, not {rate}")
