"""The files of ``-o``: checked before measuring, kept up to date while it goes on, and whole at every moment."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudabw.errors import UsageError
from cudabw.report.csv_rows import run_to_csv
from cudabw.report.markdown import run_to_markdown
from cudabw.results.files import to_json
from cudabw.results.writing import is_replaceable, require_writable, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from cudabw.results.model import RunResult

RENDERERS: dict[str, Callable[[RunResult], str]] = {
    ".json": lambda result: to_json(result) + "\n",
    ".csv": run_to_csv,
    ".md": run_to_markdown,
}
"""What is written into a file, by the end of its name."""

# Writing takes place between trials, and takes a twentieth of the time at most.
LEAST_INTERVAL_S = 1.0
COST_SHARE = 1 / 20


@dataclass(slots=True)
class _File:
    """One file, and whether its user was told that it could not be written."""

    path: Path
    complained: bool = False

    def write(self, result: RunResult) -> None:
        text = RENDERERS[self.path.suffix.lower()](result)
        write_whole(self.path, text.encode("utf-8", "backslashreplace"))


@contextmanager
def _before_measuring(file: _File) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"-o {file.path} cannot be written: {error.strerror or error}",
            hint="Nothing was measured; choose a file in a directory that can be written.",
        ) from error


class ResultFiles:
    """Where the results of a run go besides stdout.

    Args:
        paths: The files, each ending in one of ``RENDERERS``.
        notify: Told what could not be written while the run goes on.
        clock: Real time.
    """

    def __init__(
        self, paths: Sequence[Path], notify: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._files = [_File(path) for path in dict.fromkeys(paths)]
        self._notify = notify
        self._clock = clock
        self._next = 0.0

    def begin(self, result: RunResult) -> None:
        """Put a run without results in place of whatever the files held, so that none of them looks fresh.

        Raises:
            UsageError: One of them cannot be written; then none was changed, unless the disk is full.
        """
        for file in self._files:
            with _before_measuring(file):
                require_writable(file.path)
        for file in self._files:
            with _before_measuring(file):
                self._replace(file, result)
        self._next = self._clock() + LEAST_INTERVAL_S

    def keep(self, so_far: Callable[[], RunResult]) -> None:
        """Write the results so far, unless they were written just now; never raises."""
        start = self._clock()
        if start < self._next or not self._files:
            return
        result = so_far()
        for file in self._files:
            try:
                self._replace(file, result)
            except OSError as error:
                self._complain(file, error)
        end = self._clock()
        self._next = end + max(LEAST_INTERVAL_S, (end - start) / COST_SHARE)

    def finish(self, result: RunResult) -> Sequence[str]:
        """Write the results of the run into each file; gives what went wrong, one text for each that failed."""
        failures = []
        for file in self._files:
            try:
                file.write(result)
            except OSError as error:
                failures.append(f"{file.path} could not be written: {error.strerror or error}")
        return failures

    def _replace(self, file: _File, result: RunResult) -> None:
        # What goes into a pipe stays there: it gets the results once, at the end.
        if is_replaceable(file.path):
            file.write(result)

    def _complain(self, file: _File, error: OSError) -> None:
        if not file.complained:
            file.complained = True
            self._notify(f"{file.path} could not be written: {error.strerror or error}; measuring goes on")
