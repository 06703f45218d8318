"""What in this Python process disturbs the time of a short call, and keeping its garbage collector out of it."""

from __future__ import annotations

import gc
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Threads of ours: they wait, but for those that play the emulated device.
_OURS = ("cudabw", "emulated")


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep the cyclic garbage collector from running inside a timed interval; afterwards it is as it was."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def describe_collector() -> str:
    """What the garbage collector does while times are taken, for the results."""
    return "off while timing" if gc.isenabled() else "off while timing, as before"


def disturbances() -> tuple[str, ...]:
    """Say what in this process adds to the time of Python code, one sentence for each."""
    found = []
    if threads := _other_threads():
        found.append(
            f"Other Python threads are running ({', '.join(threads)}), which may hold the interpreter while a launch "
            "is timed."
        )
    if sys.gettrace() is not None or sys.getprofile() is not None:
        found.append("A Python tracer or profiler is active, which adds to the time of every line or call.")
    return tuple(found)


def _other_threads() -> list[str]:
    return [
        thread.name
        for thread in threading.enumerate()
        if thread is not threading.current_thread() and not _is_ours(thread)
    ]


def _is_ours(thread: threading.Thread) -> bool:
    # The progress bar's thread has no name of its own.
    return thread.name.startswith(_OURS) or type(thread).__module__.startswith("rich.")
