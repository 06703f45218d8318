"""How a benchmark talks back to whoever runs it, without knowing a console."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudabw.results.model import RunResult


def _ignore_progress(done: int, total: int, what: str) -> None:
    """Nobody looks at the progress."""


def _ignore_notice(text: str) -> None:
    """Nobody reads the notices."""


def _never_interrupted() -> None:
    """Nothing asks the run to stop."""


def _keep_nothing(so_far: Callable[[], RunResult]) -> None:
    """Nobody keeps the results before the run ends."""


@dataclass(frozen=True, slots=True)
class Observer:
    """The callbacks of a run; each may be left out.

    Attributes:
        progress: Called with trials done, trials in all, and what is measured next.
        notify: Called with one sentence that the user should read now.
        check_interrupt: Called between batches; raises :class:`~cudabw.errors.Interrupted` to stop.
        keep: Called after each trial with a function that gives the results so far, at some cost; their ``finished``
            is None.
    """

    progress: Callable[[int, int, str], None] = _ignore_progress
    notify: Callable[[str], None] = _ignore_notice
    check_interrupt: Callable[[], None] = _never_interrupted
    keep: Callable[[Callable[[], RunResult]], None] = _keep_nothing
