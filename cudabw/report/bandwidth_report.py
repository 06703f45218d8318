"""All that is printed of a run that moved bytes: the table, and what stands below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from cudabw.report.bandwidth_table import print_bandwidth
from cudabw.report.console import print_line
from cudabw.report.fits_table import print_fits
from cudabw.report.setup_table import print_setup_cost
from cudabw.results.advice import advise

if TYPE_CHECKING:
    from rich.console import Console

    from cudabw.results.model import RunResult


def print_bandwidth_report(result: RunResult, console: Console) -> None:
    """Print the table of rates, then fitted curves, what memory costs, and advice, where there is any."""
    print_bandwidth(result, console)
    print_fits(result, console)
    print_setup_cost(result, console)
    print_advice(result, console)


def print_advice(result: RunResult, console: Console) -> None:
    """Print what follows from the figures under an empty line; nothing where nothing does."""
    lines = advise(result)
    if not lines:
        return
    console.print()
    console.print(Text("What follows", style="bold"))
    for line in lines:
        print_line(Text(f"- {line}"), console)
