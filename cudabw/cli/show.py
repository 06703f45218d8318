"""``cudabw show``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from cudabw.cli.parameters import RESULT_FILE, format_option
from cudabw.errors import UsageError

if TYPE_CHECKING:
    from cudabw.results.model import RunResult

_EXAMPLES = """\b
Examples:
  cudabw show result.json
  cudabw show result.json --markdown >> "$GITHUB_STEP_SUMMARY"
  ssh server cudabw bandwidth --json | cudabw show - --hist
"""


@click.command(short_help="Show the results in a file, as the run printed them.", epilog=_EXAMPLES)
@click.argument("file", type=RESULT_FILE, metavar="FILE")
@format_option("markdown", "Tables as GitHub shows them.")
@format_option("csv", "One row for each case, and its device and run.")
@format_option("hist", "How the samples of each case lie, as bars of text.")
@format_option("chart", "Rates over sizes, as bars of text.")
@format_option("json", "The document itself, as this version writes it.")
def command(*, file: str, **formats: bool) -> int:
    """Show the results in FILE, a JSON file of an earlier run, or - for stdin.

    Without an option, they are the tables that the run itself printed.
    """
    from cudabw.cli.inputs import load_result

    wanted = [name for name, chosen in formats.items() if chosen]
    if len(wanted) > 1:
        raise UsageError(f"results are shown in one way: --{wanted[0]} or --{wanted[1]}")
    _show(load_result(file), wanted[0] if wanted else "tables")
    return 0


def _show(result: RunResult, how: str) -> None:
    from cudabw.cli.printing import rendered, standard_encoding, write_data, write_result
    from cudabw.report.csv_rows import run_to_csv
    from cudabw.report.markdown import run_to_markdown
    from cudabw.report.run_tables import print_run
    from cudabw.results.files import to_json

    match how:
        case "markdown":
            write_result(run_to_markdown(result, standard_encoding()))
        case "csv":
            write_data(run_to_csv(result))
        case "json":
            write_result(to_json(result) + "\n")
        case "chart":
            from cudabw.report.chart import has_rates, print_chart

            if not has_rates(result):
                raise UsageError("there are no rates to draw", hint="--hist draws the samples of every case.")
            write_result(rendered(partial(print_chart, result)))
        case "hist":
            from cudabw.report.histogram import print_histograms

            write_result(rendered(partial(print_histograms, result)))
        case _:
            write_result(rendered(partial(print_run, result)))
