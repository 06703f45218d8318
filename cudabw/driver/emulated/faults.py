"""Faults that the emulated driver commits on request."""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NoReturn

from cudabw.driver.emulated.refusals import LAUNCH_FAILED, Refusal

COPY_DIRECTIONS = ("h2d", "d2h", "d2d", "p2p", "h2h")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong. It does exactly one of six things.

    * ``status``: the call returns this status and does nothing;
    * ``copy``: the copy reports success, but its destination is unchanged (``drop``) or has one byte changed
      (``corrupt``), whether the copy engine or a kernel moves the bytes;
    * ``delay_s``: the call takes this much longer, in real time;
    * ``hang``: the call never returns, and no Python signal handler runs while it hangs;
    * ``lose_device``: this call and every later one returns ``status`` (719 unless given);
    * ``throttle``: whoever asks what slows the device down is told this, in NVML's words such as ``hw_slowdown``.

    Attributes:
        function: The driver function it happens in; every function for ``lose_device`` without one.
        status: See above.
        copy: See above.
        delay_s: See above.
        hang: See above.
        lose_device: See above.
        throttle: See above.
        nth: Only the nth of the calls (or copies, or questions) that match, counted from one; every one when None.
        at_least_bytes: Only calls (or copies) of this many bytes or more match.
        direction: Only copies of this direction match.

    Raises:
        ValueError: It does none or several of these things, or a field does not go with it.
    """

    function: str | None = None
    status: int | None = None
    copy: Literal["drop", "corrupt"] | None = None
    delay_s: float | None = None
    hang: bool = False
    lose_device: bool = False
    throttle: str | None = None
    nth: int | None = None
    at_least_bytes: int | None = None
    direction: str | None = None

    def __post_init__(self) -> None:
        returns_status = self.status is not None and not self.lose_device
        deeds = [
            returns_status,
            self.copy is not None,
            self.delay_s is not None,
            self.hang,
            self.lose_device,
            self.throttle is not None,
        ]
        if sum(deeds) != 1:
            raise ValueError("a fault has exactly one of status, copy, delay_s, hang, lose_device and throttle")
        self._check_scope()
        self._check_numbers()

    @property
    def is_of_calls(self) -> bool:
        """Whether it happens in a call of a driver function."""
        return self.copy is None and self.throttle is None

    def _check_scope(self) -> None:
        if self.copy is not None:
            if self.copy not in ("drop", "corrupt"):
                raise ValueError(f"copy must be 'drop' or 'corrupt', not {self.copy!r}")
            if self.function is not None:
                raise ValueError("a copy fault has a direction, not a function")
            if self.direction not in (None, *COPY_DIRECTIONS):
                raise ValueError(f"direction must be one of {', '.join(COPY_DIRECTIONS)}, not {self.direction!r}")
        elif self.direction is not None:
            raise ValueError("only a copy fault has a direction")
        elif self.throttle is not None:
            if not self.throttle or self.function is not None or self.at_least_bytes is not None:
                raise ValueError("throttle is what slows the device down, with at most nth beside it")
        elif self.function is None and not self.lose_device:
            raise ValueError("a fault needs the function it happens in")
        elif self.function is not None and not re.fullmatch(r"cu[A-Z]\w+", self.function):
            raise ValueError(f"{self.function!r} is no driver function")

    def _check_numbers(self) -> None:
        if self.status is not None and self.status < 1:
            raise ValueError(f"status must be a failure, not {self.status}")
        if self.nth is not None and self.nth < 1:
            raise ValueError(f"nth counts from one, not {self.nth}")
        if self.at_least_bytes is not None and self.at_least_bytes < 1:
            raise ValueError(f"at_least_bytes must be one or more, not {self.at_least_bytes}")
        if self.delay_s is not None and not 0 <= self.delay_s <= 3600:
            raise ValueError(f"delay_s must be 0 to 3600 seconds, not {self.delay_s}")


class FaultBook:
    """Counts calls and copies and says which of them go wrong.

    Args:
        faults: What goes wrong; the first that fires on a call decides.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = tuple(faults)
        self._seen = [0] * len(self._faults)
        self._lock = threading.Lock()
        self.lost = 0
        """The status that every call returns since the device was lost; 0 before."""

    def enter(self, function: str, nbytes: int) -> None:
        """A function is called, with this many bytes to allocate, register or move.

        Raises:
            Refusal: A fault fires, or the device is lost.
        """
        if self.lost:
            raise Refusal(self.lost)
        if not self._faults:
            return
        fired = self._fire(lambda fault: fault.is_of_calls and fault.function in (None, function), nbytes)
        for fault in fired:
            self._commit(fault)

    def copy(self, direction: str, nbytes: int) -> str | None:
        """What happens to this copy: ``drop``, ``corrupt`` or None."""
        if not self._faults:
            return None
        fired = self._fire(lambda fault: fault.copy is not None and fault.direction in (None, direction), nbytes)
        return fired[0].copy if fired else None

    def throttle(self) -> tuple[str, ...]:
        """What slows the device down now."""
        return tuple(str(fault.throttle) for fault in self._fire(lambda fault: fault.throttle is not None, 0))

    def _fire(self, matches: Callable[[Fault], bool], nbytes: int) -> list[Fault]:
        fired = []
        with self._lock:
            for index, fault in enumerate(self._faults):
                if matches(fault) and nbytes >= (fault.at_least_bytes or 0):
                    self._seen[index] += 1
                    if fault.nth in (None, self._seen[index]):
                        fired.append(fault)
        return fired

    def _commit(self, fault: Fault) -> None:
        if fault.delay_s is not None:
            time.sleep(fault.delay_s)
        elif fault.hang:
            hang()
        elif fault.lose_device:
            self.lost = fault.status or LAUNCH_FAILED
            raise Refusal(self.lost)
        elif fault.status is not None:
            raise Refusal(fault.status)


def hang() -> NoReturn:
    """Never return, as a driver hangs: in C, where no Python signal handler can run."""
    libc = ctypes.CDLL(None)
    # A zeroed mutex is an unlocked one of the plain type, which deadlocks when one thread locks it twice.
    mutex = ctypes.create_string_buffer(128)
    while True:
        libc.pthread_mutex_lock(mutex)
