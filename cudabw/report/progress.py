"""A progress bar on stderr, only where that is a terminal."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cudabw.report.console import make_console

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self, TextIO


class ProgressBar:
    """A bar that appears with the first step and is gone at the end of its ``with`` block.

    It is drawn when a step is done and at no other time, because a thread that redraws would disturb what is timed.

    Args:
        stream: Where it is drawn, if that is a terminal.
    """

    def __init__(self, stream: TextIO | None) -> None:
        # Not the console's word for it, which FORCE_COLOR turns: a bar in a file is no use in any colour.
        self._progress = _bar_on(stream) if stream is not None and stream.isatty() else None
        self._task = None if self._progress is None else self._progress.add_task("", total=None)
        self._shown = False
        self._lock = threading.RLock()

    def follow(self, done: int, total: int, what: str) -> None:
        """Show how many of all trials are done, and what is measured."""
        if self._progress is None or self._task is None:
            return
        with self._lock:
            if not self._shown:
                self._progress.start()
                self._shown = True
            self._progress.update(self._task, completed=done, total=total, description=what, refresh=True)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Takes the bar off the terminal while something else is written there, from any thread."""
        with self._lock:
            self._hide()
            yield

    def _hide(self) -> None:
        if self._progress is not None and self._shown:
            self._progress.stop()
            self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._hide()


def _bar_on(stream: TextIO) -> Progress:
    # Short of the edge: the ^C that a terminal echoes would otherwise begin a line that nothing takes away again.
    bar = BarColumn(bar_width=20)
    columns = (TextColumn("{task.description:<28}"), bar, MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=make_console(stream), transient=True, auto_refresh=False)
