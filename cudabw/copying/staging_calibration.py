"""How many workers and which slots are fastest here, and from which size staging is worth it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cudabw import stats
from cudabw.copying.driver_copy import PreparedCopy
from cudabw.copying.staging_programs import SMALLEST_PIECE, UPLOAD, Transfer
from cudabw.copying.staging_stores import past_caches, through_caches
from cudabw.system.cpu import cpus_available
from cudabw.system.pseudofiles import parse_number, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cudabw.copying.staging_slots import Crew
    from cudabw.runtime.memory import DeviceBuffer, PageableBuffer
    from cudabw.runtime.stream import Stream

# On an H200 8 to 10 workers were best for h2d, and for d2h all from 4 to 16 within 3 %, with slots of 6 MiB: the copy
# engine loses time with each piece, and the caches hold fewer of larger ones. Numbers closer to each other than these
# cannot be told apart by so few copies; 6 workers, which calibration took for as good as more, lost a tenth to the
# device, and 4 a third.
WORKERS = (4, 8, 12, 24)
SLOTS = (4 << 20, 6 << 20)

# Long enough for the rate to be steady, short enough that all calibration takes two seconds on a GPU.
PROBE_BYTES = 256 << 20
# Where the smallest size is looked for, from here down.
_LARGEST_CROSSOVER = 64 << 20
# The smallest size that two workers can share.
SMALLEST_STAGED = 2 * SMALLEST_PIECE

_REPETITIONS = 5
# Fewer workers leave more CPUs to the program: more of them must earn this much.
_GAIN = 1.02
# Where the two engines are this close, noise decides; the driver's own copy is then the safe choice.
_LEAD = 1.15


@dataclass(frozen=True, slots=True)
class Setting:
    """How copies of one direction are staged.

    Attributes:
        threads: At most so many take part.
        slot: Bytes of a slot, and of a piece at most.
        at_least: Copies of this many bytes or more are staged; None where the driver is faster at every size.
    """

    threads: int
    slot: int
    at_least: int | None = SMALLEST_STAGED

    def transfer(self, direction: str, device: int, host: int, nbytes: int) -> Transfer:
        """A copy between a device and a host address."""
        # The link reads what lies in a cache sooner than the memory behind it, and a program does not read at once
        # all that has arrived: 48 of 55 GB/s against 44 to the device, 42 against 47 from it (on an H200).
        copy_bytes = through_caches() if direction == UPLOAD else past_caches() or through_caches()
        return Transfer(direction, device, host, nbytes, self.threads, self.slot, copy_bytes)


def usable_cpus(*, root: Path = Path("/")) -> int:
    """How many CPUs this process may use: those it may run on, or fewer where its control group has a quota.

    Args:
        root: Where ``/sys`` is found. In a container, the root of the tree there is the container's own group.
    """
    groups = root / "sys" / "fs" / "cgroup"
    quota, _, period = (read_text(groups / "cpu.max") or "").strip().partition(" ")
    if not period:  # version 1 of control groups
        quota, period = (read_text(groups / "cpu" / f"cpu.cfs_{what}_us") or "" for what in ("quota", "period"))
    limit, per = parse_number(quota), parse_number(period)
    cpus = cpus_available() or 1
    return min(cpus, max(1, round(limit / per))) if limit and per else cpus


class Calibration:
    """Times copies of one direction between probes of its own.

    Args:
        crew: The workers, as many as may be tried, with slots as large as may be tried.
        stream: Where the copies are ordered; no other work is there.
        direction: ``h2d`` or ``d2h``.
        host: Pageable memory, touched.
        memory: Device memory of the same length.
    """

    def __init__(self, crew: Crew, stream: Stream, direction: str, host: PageableBuffer, memory: DeviceBuffer) -> None:
        self._crew = crew
        self._stream = stream
        self._direction = direction
        self._host = host
        self._memory = memory
        self._pair = (memory, host) if direction == UPLOAD else (host, memory)

    def choose(self, workers: Iterable[int], slots: Iterable[int], at_least: int | None) -> Setting:
        """The fastest setting, one property after the other.

        Args:
            workers: To choose from, rising; the first is kept unless another is clearly faster.
            slots: To choose from, in bytes.
            at_least: As it shall be; None to find it.
        """
        slots = list(slots)
        setting = self._fastest([Setting(count, max(slots)) for count in workers])
        setting = self._fastest([replace(setting, slot=slot) for slot in slots])
        return replace(setting, at_least=self._find_size(setting) if at_least is None else at_least)

    def _fastest(self, settings: list[Setting]) -> Setting:
        if len(settings) == 1:
            return settings[0]
        nbytes = self._host.nbytes
        times = self._seconds([self._staged(setting, nbytes) for setting in settings])
        best = min(times)
        return next(setting for setting, time in zip(settings, times, strict=True) if time <= best * _GAIN)

    def _find_size(self, setting: Setting) -> int | None:
        """The smallest size from which on staging leads at every size that is tried."""
        found = None
        nbytes = min(self._host.nbytes, _LARGEST_CROSSOVER)
        while nbytes >= SMALLEST_STAGED:
            staged, driver = self._seconds([self._staged(setting, nbytes), self._driver(nbytes)])
            if staged * _LEAD > driver:
                break
            found = nbytes
            nbytes //= 2
        return found

    def _staged(self, setting: Setting, nbytes: int) -> Callable[[], None]:
        addresses = int(self._memory.device_pointer), int(self._host.host_pointer)
        transfer = setting.transfer(self._direction, *addresses, nbytes)
        return lambda: self._crew.run(transfer, self._stream)

    def _driver(self, nbytes: int) -> Callable[[], None]:
        destination, source = self._pair
        copy = PreparedCopy(destination[:nbytes], source[:nbytes], self._stream)

        def submit_and_wait() -> None:
            copy.submit()
            self._stream.synchronize()

        return submit_and_wait

    def _seconds(self, ways: list[Callable[[], None]]) -> list[float]:
        """The median time of each way, taken in turns after a warm-up."""
        now = self._crew.device.driver.now
        self._crew.device.activate()
        times: list[list[float]] = [[] for _ in ways]
        for repetition in range(_REPETITIONS + 1):
            for way, taken in zip(ways, times, strict=True):
                # CPUs that had nothing to do while another way was timed take their time to wake.
                way()
                start = now()
                way()
                if repetition:
                    taken.append(now() - start)
        return [stats.median(taken) for taken in times]
