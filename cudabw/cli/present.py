"""What every measuring command does around its measurement: listen, show progress, print, end."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cudabw import __version__
from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.session import utc_now
from cudabw.cli.main import notify, show_error, standard_output
from cudabw.cli.outputs import ResultFiles
from cudabw.cli.parameters import STDOUT
from cudabw.cli.signals import StopSignals
from cudabw.report.console import make_console
from cudabw.report.progress import ProgressBar
from cudabw.report.run_tables import print_run
from cudabw.results.exit_code import FAILED, MEASURED, exit_code, first_of
from cudabw.results.files import to_json
from cudabw.results.model import RunResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

USAGE = 2


def measure_and_present(measure: Callable[[Observer], RunResult], *, as_json: bool, outputs: Sequence[Path]) -> int:
    """Run a measurement, print its results on stdout, keep them in files, and print everything else on stderr.

    Args:
        measure: Runs it.
        as_json: Whether stdout gets the JSON document.
        outputs: Files that get the results as well; ``-`` among them is stdout.

    Returns:
        The exit code that the results mean.
    """
    standard_output()  # raises before the measurement what would be raised after it
    with ProgressBar(sys.stderr) as bar:

        def say(text: str) -> None:
            with bar.hidden():
                notify(text)

        files = ResultFiles([path for path in outputs if path != Path(STDOUT)], say)
        files.begin(RunResult(command_line(), utc_now(), __version__))
        with StopSignals(say) as signals:
            result = measure(Observer(bar.follow, say, signals.check, files.keep))
    unwritten = files.finish(result)
    for text in unwritten:
        show_error(text, "")
    if result.error is not None:
        show_error(result.error.message, result.error.hint)
    if exit_code(result) != USAGE:
        as_json = as_json or Path(STDOUT) in outputs
        write_result(to_json(result) + "\n" if as_json else rendered(partial(print_run, result)))
    return first_of((exit_code(result), FAILED if unwritten else MEASURED))


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


def command_line() -> tuple[str, ...]:
    """What the user asked for: the program's arguments."""
    arguments: tuple[str, ...] = click.get_current_context().find_root().obj
    return arguments
