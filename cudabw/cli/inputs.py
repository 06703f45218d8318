"""Result files as commands read them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cudabw.cli.main import notify
from cudabw.cli.parameters import STDIN
from cudabw.errors import ResultFileError
from cudabw.results.reading import read_json, read_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabw.results.model import RunResult


def load_result(name: str) -> RunResult:
    """The run in a file, or on stdin for ``-``; says on stderr if it did not come to its end.

    Raises:
        ResultFileError: It cannot be read, or holds no run that this version knows.
    """
    source = "stdin" if name == STDIN else name
    result = _read_stdin() if name == STDIN else read_result(name)
    if result.error is not None:
        notify(f"{source}: the run ended early: {result.error.message}")
    elif result.finished is None:
        notify(f"{source}: the run had not finished when this was written")
    return result


def load_runs(name: str, *, but_not: Sequence[str] = ()) -> list[RunResult]:
    """The run in a file or on stdin, or all runs in the ``.json`` files of a directory, by their names' order.

    Args:
        name: The file or directory, or ``-``.
        but_not: Files that are passed over in a directory.

    Raises:
        ResultFileError: One of them cannot be read, or there is none.
    """
    if name == STDIN or not Path(name).is_dir():
        return [load_result(name)]
    others = [Path(other) for other in but_not if Path(other).exists()]
    files = [
        path
        for path in sorted(Path(name).glob("*.json"))
        if not path.name.startswith(".") and not any(path.samefile(other) for other in others)
    ]
    if not files:
        raise ResultFileError(f"{name} holds no runs to compare with: there is no other .json file in it")
    return [load_result(str(path)) for path in files]


def _read_stdin() -> RunResult:
    if sys.stdin is None:
        raise ResultFileError("stdin is closed")
    try:
        return read_json(sys.stdin.buffer.read(), "stdin")
    except OSError as error:
        raise ResultFileError(f"stdin cannot be read: {error.strerror or error}") from error
