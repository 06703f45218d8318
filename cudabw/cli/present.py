"""What every measuring command does around its measurement: listen, show progress, print, end."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from cudabw.benchmarks.observer import Observer
from cudabw.cli.main import notify, show_error, standard_output
from cudabw.cli.signals import StopSignals
from cudabw.report.console import make_console
from cudabw.report.progress import ProgressBar
from cudabw.results.exit_code import exit_code
from cudabw.results.files import to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from cudabw.results.model import RunResult

USAGE = 2


def measure_and_present(
    measure: Callable[[Observer], RunResult],
    print_tables: Callable[[RunResult, Console], None],
    *,
    as_json: bool,
) -> int:
    """Run a measurement, print its results on stdout and everything else on stderr.

    Returns:
        The exit code that the results mean.
    """
    standard_output()  # raises before the measurement what would be raised after it
    with ProgressBar(sys.stderr) as bar:

        def say(text: str) -> None:
            with bar.hidden():
                notify(text)

        with StopSignals(say) as signals:
            result = measure(Observer(bar.follow, say, signals.check))
    if result.error is not None:
        show_error(result.error.message, result.error.hint)
    code = exit_code(result)
    if code != USAGE:
        write_result(to_json(result) + "\n" if as_json else rendered(partial(print_tables, result)))
    return code


def write_result(text: str) -> None:
    """Write to stdout, replacing what its encoding lacks; a failure to write is raised here, not at the end.

    Raises:
        OSError: It could not be written.
    """
    stream = standard_output()
    encoding = stream.encoding or "ascii"
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def rendered(print_report: Callable[[Console], None]) -> str:
    """What a report prints on a console that fits stdout."""
    # Captured, because rich would turn a closed pipe into an exit code of its own.
    console = make_console(standard_output())
    with console.capture() as captured:
        print_report(console)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


def command_line() -> tuple[str, ...]:
    """What the user asked for: the program's arguments."""
    arguments: tuple[str, ...] = click.get_current_context().find_root().obj
    return arguments
