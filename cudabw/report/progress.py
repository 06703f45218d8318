"""A progress bar on stderr, only where that is a terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console


def _no_progress(done: int, total: int, what: str) -> None:
    """A stream that is no terminal gets no bar."""


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[[int, int, str], None]]:
    """A bar that follows calls with trials done, trials in all and what is measured; gone at the end of the block."""
    if not console.is_terminal:
        yield _no_progress
        return
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)

        def follow(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=total, description=what)

        yield follow
