"""What every measuring command does around its measurement: listen, show progress, print, end."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cudabw import __version__
from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.session import utc_now
from cudabw.cli.github import report_to_github, summary_file
from cudabw.cli.main import notify, show_error, standard_output
from cudabw.cli.outputs import ResultFiles
from cudabw.cli.parameters import STDOUT, tags
from cudabw.cli.printing import rendered, write_result
from cudabw.cli.signals import StopSignals
from cudabw.report.annotations import run_annotations
from cudabw.report.markdown import run_to_markdown
from cudabw.report.progress import ProgressBar
from cudabw.report.run_tables import print_run
from cudabw.results.exit_code import FAILED, MEASURED, USAGE, exit_code, first_of
from cudabw.results.files import to_json
from cudabw.results.model import RunResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console


def measure_and_present(
    measure: Callable[[Observer], RunResult],
    *,
    as_json: bool,
    outputs: Sequence[Path],
    github: bool,
    strict: bool = False,
    print_report: Callable[[RunResult, Console], None] = print_run,
) -> int:
    """Run a measurement, print its results on stdout, keep them in files, and print everything else on stderr.

    Args:
        measure: Runs it.
        as_json: Whether stdout gets the JSON document.
        outputs: Files that get the results as well; ``-`` among them is stdout.
        github: Whether GitHub Actions gets a summary and annotations as well.
        strict: Whether a figure that is not simply ok makes the exit code 4.
        print_report: Prints the results for people.

    Returns:
        The exit code that the results mean.
    """
    standard_output()  # raises before the measurement what would be raised after it
    summary = summary_file() if github else None
    with ProgressBar(sys.stderr) as bar:

        def say(text: str) -> None:
            with bar.hidden():
                notify(text)

        files = ResultFiles([path for path in outputs if path != Path(STDOUT)], say)
        tagged = partial(replace, tags=tags())

        def keep(so_far: Callable[[], RunResult]) -> None:
            files.keep(lambda: tagged(so_far()))

        files.begin(tagged(RunResult(command_line(), utc_now(), __version__)))
        with StopSignals(say) as signals:
            result = tagged(measure(Observer(bar.follow, say, signals.check, keep)))
    unwritten = [*files.finish(result)]
    if summary is not None:
        unwritten += report_to_github(summary, run_to_markdown(result), run_annotations(result, strict=strict))
    for text in unwritten:
        show_error(text, "")
    if result.error is not None:
        show_error(result.error.message, result.error.hint)
    code = exit_code(result, strict=strict)
    if code != USAGE:
        as_json = as_json or Path(STDOUT) in outputs
        write_result(to_json(result) + "\n" if as_json else rendered(partial(print_report, result)))
    return first_of((code, FAILED if unwritten else MEASURED))


def command_line() -> tuple[str, ...]:
    """What the user asked for: the program's arguments."""
    arguments: tuple[str, ...] = click.get_current_context().find_root().obj
    return arguments
