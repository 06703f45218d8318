"""``--github``: a summary of the results beside a job of GitHub Actions, and annotations of what went wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cudabw.cli.main import tell
from cudabw.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

VARIABLE: Final = "GITHUB_STEP_SUMMARY"


def summary_file() -> Path:
    """The file that GitHub Actions shows as the summary of the step.

    Raises:
        UsageError: There is none, or it cannot be written.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        raise UsageError(
            f"--github writes to the file that ${VARIABLE} names, and it is not set",
            hint="GitHub Actions sets it; elsewhere -o FILE.md writes the same.",
        )
    try:
        with Path(name).open("a"):
            return Path(name)
    except OSError as error:
        raise UsageError(f"${VARIABLE}: {name} cannot be written: {error.strerror or error}") from error


def report_to_github(summary: Path, markdown: str, annotations: Iterable[str]) -> Sequence[str]:
    """Add to the summary, and print annotations on stderr, which GitHub reads as it does stdout.

    Returns:
        What could not be written, one text for each failure.
    """
    for annotation in annotations:
        tell(annotation)
    try:
        with summary.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"{markdown}\n")
    except OSError as error:
        return [f"{summary} could not be written: {error.strerror or error}"]
    return []
