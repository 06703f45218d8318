"""A progress bar on stderr, only where that is a terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cudabw.report.console import make_console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO


def _no_progress(done: int, total: int, what: str) -> None:
    """A stream that is no terminal gets no bar."""


@contextmanager
def progress_bar(stream: TextIO | None) -> Iterator[Callable[[int, int, str], None]]:
    """A bar that follows calls with trials done, trials in all and what is measured; gone at the end of the block."""
    # Not the console's word for it, which FORCE_COLOR turns: a bar in a file is no use in any colour.
    if stream is None or not stream.isatty():
        yield _no_progress
        return
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=make_console(stream), transient=True) as progress:
        task = progress.add_task("", total=None)

        def follow(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=total, description=what)

        yield follow
