"""The first signal asks a run to stop and keep what is finished; the second ends the process at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from cudabw.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = "\x1b[?25h"


class StopSignals:
    """While entered, SIGINT and SIGTERM are remembered instead of raised.

    Signals are read by a thread of their own from the descriptor that the interpreter writes
    them to, because a handler would run only when the main thread comes back from the driver.

    Args:
        notify: Told on that thread that the run is going to stop.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._received: int | None = None

    def check(self) -> None:
        """Do nothing unless a signal asked to stop.

        Raises:
            Interrupted: A signal came.
        """
        if self._received is not None:
            raise Interrupted(self._received)

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._old_descriptor = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._old_handlers = {number: signal.signal(number, _ignore) for number in _SIGNALS}
        threading.Thread(target=self._watch, name="cudabw-signals", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_descriptor)
        os.close(self._write)  # the watching thread reads the end, and closes its side

    def _watch(self) -> None:
        while data := os.read(self._read, 1):
            number = data[0]
            if number not in _SIGNALS:
                continue
            if self._received is not None:
                _end_at_once(number)
            self._received = number
            self._notify("stopping as soon as what runs is done; a second signal ends at once")
        os.close(self._read)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Only to keep the default action from ending the process; the watching thread acts."""


def _end_at_once(number: int) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(sys.stderr.fileno(), _SHOW_CURSOR.encode())  # a progress bar may have hidden it
    os._exit(128 + number)
