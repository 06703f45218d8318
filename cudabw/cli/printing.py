"""What is written to stdout: reports for people in the characters that they have, and data for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.cli.main import standard_output
from cudabw.report.console import make_console

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console


def write_result(text: str) -> None:
    """Write to stdout, replacing what its encoding lacks; a failure to write is raised here, not at the end.

    Raises:
        OSError: It could not be written.
    """
    stream, encoding = standard_output(), standard_encoding()
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def write_data(text: str) -> None:
    """Write to stdout for a program to read: in UTF-8, whatever the locale.

    Raises:
        OSError: It could not be written.
    """
    stream = standard_output()
    stream.flush()
    stream.buffer.write(text.encode("utf-8", "backslashreplace"))
    stream.flush()


def standard_encoding() -> str:
    """The encoding of stdout."""
    return standard_output().encoding or "ascii"


def rendered(print_report: Callable[[Console], None]) -> str:
    """What a report prints on a console that fits stdout."""
    # Captured, because rich would turn a closed pipe into an exit code of its own.
    console = make_console(standard_output())
    with console.capture() as captured:
        print_report(console)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))
