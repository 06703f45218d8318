"""Keeping the thread that is timed on a CPU that runs at full speed.

What the host's clock times is the speed of one CPU. That of a virtual machine, or one whose sibling hyperthread is
busy, runs at little more than half its speed for seconds, while its neighbours do not (``docs/method.md`` has figures).
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from cudabw import stats
from cudabw.results.cpu_speed import CpuSpeed
from cudabw.system.cpu import Affinity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Taken = TypeVar("Taken")

SLOW = 1.15
"""A CPU is slow where a piece of work takes so much longer than at full speed. On a virtual machine with an H200, 79 of
128 probes of its CPUs were within 1.1 times full speed, 3 within 1.2, and the others took up to 2.2 times as long."""

MOST_REPEATS = 2
"""How often work is timed again at most because its CPU has slowed down. What lasts longer will not go away."""

_MOST_CPUS = 32
_ROUNDS_OF_SURVEY = 3
_TURNS = 3
_STEPS = 1500  # about 40 us: long for the clock, short for the scheduler
_REMEMBERED = 1024
_JUDGED_AGAIN = 64


class FullSpeed:
    """Finds CPUs that run at full speed, and holds the calling thread there while something is timed.

    Full speed is the lower quartile of the latest thousand probes: the work of a few thousand steps of the
    interpreter, the fastest of three turns. Where no time passes, as on a modelled clock, or a thread cannot be held,
    nothing is held and nothing repeated.

    Args:
        now: The clock of what is timed, in seconds.
        affinity: Where this thread may run.
    """

    def __init__(self, now: Callable[[], float], affinity: Affinity | None = None) -> None:
        self._now = now
        self._affinity = affinity or Affinity()
        self._cpus: list[int] | None = None
        self._held_on: int | None = None
        self._slow_at_first = 0
        self._probes: deque[float] = deque(maxlen=_REMEMBERED)
        self._since_judged = 0
        self._judged: list[float] = []
        self._used: set[int] = set()
        self._taken = self._repeated = self._kept = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold this thread on a CPU at full speed, or the fastest there is, where the system can hold it."""
        allowed = self._affinity.allowed()
        try:
            if self._cpus is None:
                self._survey(allowed)
            self._settle()
            if self._held_on is None:
                self._affinity.hold(allowed)
            yield
        finally:
            self._held_on = None
            self._affinity.hold(allowed)

    def take(self, work: Callable[[], Taken], warm_up: Callable[[], object] | None = None) -> Taken:
        """Do work that is timed; if the CPU has slowed down by its end, once more on another, a few times.

        Args:
            work: Done while the thread is held.
            warm_up: Done first on another CPU, whose caches know nothing of the work.
        """
        taken, repeats = work(), 0
        while (slow := self._has_slowed()) and repeats < MOST_REPEATS:
            repeats += 1
            self._settle()
            if warm_up is not None:
                warm_up()
            taken = work()
        self._taken += 1
        self._repeated += repeats
        self._kept += slow
        return taken

    def found(self) -> CpuSpeed | None:
        """What became of the work so far; None where nothing is known of any CPU."""
        if not self._used:
            return None
        return CpuSpeed(
            cpus=tuple(sorted(self._used)),
            usable=len(self._cpus or ()),
            slow_at_first=self._slow_at_first,
            probe_s=stats.median(self._judged),
            taken=self._taken,
            repeated=self._repeated,
            kept=self._kept,
        )

    def _survey(self, allowed: frozenset[int]) -> None:
        """Probe every CPU a few times, or an even choice of them where they are many."""
        cpus = sorted(allowed)[:: -(-len(allowed) // _MOST_CPUS) or 1]
        probes: dict[int, list[float]] = {cpu: [] for cpu in cpus if self._affinity.hold((cpu,))}
        for _ in range(_ROUNDS_OF_SURVEY):
            for cpu, taken in probes.items():
                self._affinity.hold((cpu,))
                taken.append(self._probe())
        self._cpus = [cpu for cpu, taken in probes.items() if min(taken) > 0]
        if self._cpus:
            self._judge()
        self._slow_at_first = sum(self._is_slow(stats.median(probes[cpu])) for cpu in self._cpus)

    def _settle(self) -> None:
        """Move to the next CPU at full speed, beginning where the thread was last."""
        probes: dict[int, float] = {}
        for cpu in list(self._cpus or ()):
            if self._affinity.hold((cpu,)):
                probes[cpu] = self._probe()
                if not self._is_slow(probes[cpu]):
                    break
        else:
            if not probes:
                return
            cpu = min(probes, key=probes.__getitem__)
            self._affinity.hold((cpu,))
        self._begin_with(cpu)

    def _begin_with(self, cpu: int) -> None:
        assert self._cpus is not None  # noqa: S101 - a CPU was found among them; for the type checker
        at = self._cpus.index(cpu)
        self._cpus = self._cpus[at:] + self._cpus[:at]
        self._held_on = cpu
        self._used.add(cpu)

    def _has_slowed(self) -> bool:
        return self._held_on is not None and self._is_slow(self._probe())

    def _is_slow(self, seconds: float) -> bool:
        if self._since_judged >= _JUDGED_AGAIN:
            self._judge()
        return seconds > SLOW * self._judged[-1]

    def _probe(self) -> float:
        now, fastest = self._now, float("inf")
        for _ in range(_TURNS):
            start = now()
            total = 0
            for step in range(_STEPS):
                total += step
            fastest = min(fastest, now() - start)
        self._probes.append(fastest)
        self._since_judged += 1
        return fastest

    def _judge(self) -> None:
        """Find out anew what full speed is."""
        self._judged.append(stats.quantile(list(self._probes), 0.25))
        self._since_judged = 0
