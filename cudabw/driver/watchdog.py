"""Run work that may never return, so that it can be reported and a signal still acts."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_SLICE_S = 0.05
_FIRST_NOTICE_S = 3.0
_NEXT_NOTICE_S = 10.0


def watch(
    work: Callable[[Callable[[str], None]], T],
    *,
    notify: Callable[[str], None],
    check_interrupt: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Run work that may never return in a daemon thread, and report a step that takes long.

    Args:
        work: Called with a function that it tells the name of each step it begins.
        notify: Told which step is running and for how long, after 3 s and then every 10 s.
        check_interrupt: Called about every 50 ms; whatever it raises ends the wait, the only thing
            that does besides the work itself.
        clock: The clock that the notices go by, in seconds.

    Returns:
        What the work returned; what it raised is raised.
    """
    outcome: Future[T] = Future()
    steps = [("start-up", clock())]
    threading.Thread(target=_settle, args=(outcome, work, steps, clock), name="cudabw-start", daemon=True).start()
    reported, due = steps[0], steps[0][1] + _FIRST_NOTICE_S
    while not wait([outcome], timeout=_SLICE_S).done:
        check_interrupt()
        current, now = steps[-1], clock()
        if current is not reported:
            reported, due = current, current[1] + _FIRST_NOTICE_S
        if now >= due:
            notify(f"Starting the driver: {current[0]} has not returned for {now - current[1]:.0f} s; still waiting.")
            due = now + _NEXT_NOTICE_S
    return outcome.result()


def _settle(
    outcome: Future[T],
    work: Callable[[Callable[[str], None]], T],
    steps: list[tuple[str, float]],
    clock: Callable[[], float],
) -> None:
    try:
        outcome.set_result(work(lambda name: steps.append((name, clock()))))
    except BaseException as error:  # noqa: BLE001 - handed to the waiting thread, which raises it
        outcome.set_exception(error)
