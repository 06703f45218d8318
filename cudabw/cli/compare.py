"""``cudabw compare``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cudabw.cli.parameters import REGRESSION, RESULT_FILE, format_option, github_option
from cudabw.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from cudabw.results.compare import Comparison

_EXAMPLES = """\b
Examples:
  cudabw compare before.json after.json
  cudabw compare baseline/ today.json --fail-on slower=5
  cudabw compare a.json b.json c.json --markdown

\b
Exit codes:
  0  compared
  2  the machines are unlike, or a file holds no results
  3  a case is as --fail-on says
  4  there was nothing to compare
"""


@click.command(short_help="Is a run faster or slower than an earlier one?", epilog=_EXAMPLES)
@click.argument("old", type=RESULT_FILE, metavar="OLD")
@click.argument("new", type=RESULT_FILE, nargs=-1, required=True, metavar="NEW...")
@click.option(
    "--fail-on",
    type=REGRESSION,
    default=None,
    metavar="slower[=PCT]",
    help="Exit 3 if a case is slower, or is slower and has lost PCT percent of its speed or more.",
)
@click.option("--force", is_flag=True, help="Compare results of unlike machines, and those of the emulated device.")
@github_option
@format_option("markdown", "Tables as GitHub shows them.")
@format_option("json", "One JSON document.")
def command(
    *,
    old: str,
    new: tuple[str, ...],
    fail_on: float | None,
    force: bool,
    github: bool,
    markdown: bool,
    json: bool,
) -> int:
    """Compare each NEW run with the run in OLD, case by case: faster, slower, same, or inconclusive and why.

    All are JSON files, of which one may be - for stdin. OLD may be a directory of earlier runs: then how far they
    scatter says what a change is. A change of less than 2 % is the same.
    """
    from cudabw.cli.github import report_to_github, summary_file
    from cudabw.cli.inputs import load_result, load_runs
    from cudabw.cli.main import show_error
    from cudabw.cli.printing import rendered, standard_encoding, write_result
    from cudabw.report.annotations import slower_annotations
    from cudabw.report.markdown import markdown_of
    from cudabw.results.compare import compare, comparisons_to_json
    from cudabw.results.exit_code import BELOW_LIMIT, FAILED, MEASURED, MISSING, first_of

    if markdown and json:
        raise UsageError("comparisons are shown in one way: --markdown or --json")
    summary = summary_file() if github else None
    earlier = load_runs(old, but_not=new)
    found = [compare(earlier, load_result(name), old_name=_short(old), new_name=_short(name)) for name in new]
    if not force:
        for comparison in found:
            _require_alike(comparison)
    if json:
        write_result(comparisons_to_json(found) + "\n")
    elif markdown:
        write_result(markdown_of(partial(_print_all, found), standard_encoding()))
    else:
        write_result(rendered(partial(_print_all, found)))
    slower = [case for each in found for case in each.cases if fail_on is not None and case.is_slower_by(fail_on)]
    unwritten: Sequence[str] = ()
    if summary is not None:
        unwritten = report_to_github(summary, markdown_of(partial(_print_all, found)), slower_annotations(slower))
    for text in unwritten:
        show_error(text, "")
    compared = all(any(case.speed is not None for case in each.cases) for each in found)
    return first_of(
        (FAILED if unwritten else MEASURED, BELOW_LIMIT if slower else MEASURED, MEASURED if compared else MISSING)
    )


def _short(name: str) -> str:
    return "stdin" if name == "-" else Path(name).name or name


def _print_all(comparisons: Sequence[Comparison], console: Console) -> None:
    from cudabw.report.compare_table import print_comparison

    for number, comparison in enumerate(comparisons):
        if number:
            console.print()
        print_comparison(comparison, console)


def _require_alike(comparison: Comparison) -> None:
    unlike = [f"{fact.name} was {fact.old}, is {fact.new}" for fact in comparison.facts if fact.unlike]
    if unlike:
        raise UsageError(
            f"{comparison.new} and {comparison.old} are of unlike machines: {'; '.join(unlike)}",
            hint="--force compares them all the same.",
        )
    if comparison.emulated:
        raise UsageError(
            f"{comparison.new} and {comparison.old} are of the emulated device, whose figures are those of host memory",
            hint="--force compares them all the same.",
        )
