"""The table of fitted curves: what a copy costs whatever its size, and the rate of large ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from cudabw.report.console import new_table, print_line, print_whole, symbols_for
from cudabw.report.memory_words import memory_label
from cudabw.report.titles import print_title
from cudabw.units import format_about_size, format_percent, format_rate, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console
    from rich.table import Table

    from cudabw.report.console import Symbols
    from cudabw.results.fits import Fit
    from cudabw.results.model import RunResult


def print_fits(result: RunResult, console: Console) -> None:
    """Print the fits of a run under an empty line; nothing where there are none."""
    if not result.fits:
        return
    symbols = symbols_for(console)
    console.print()
    print_title("Fitted curves", result.device, console, symbols)
    print_whole(_table(result.fits, symbols), console)
    console.print()
    for line in _explain(result.fits):
        print_line(Text(line, style="dim"), console)


def _table(fits: Sequence[Fit], symbols: Symbols) -> Table:
    figures = ("Start-up", "Rate\nGB/s", "Half\nrate at", "Off by")
    table = new_table(symbols, ("Memory", "Engine", "Direction"), figures)
    for fit in fits:
        table.add_row(
            memory_label(fit.kind, fit.pages, fit.numa_node), fit.engine, fit.direction, *_figures(fit, symbols)
        )
    return table


def _figures(fit: Fit, symbols: Symbols) -> tuple[str, ...]:
    off = symbols.dash if fit.largest_residual is None else format_percent(fit.largest_residual)
    if fit.rate_bytes_per_s is None:
        return symbols.dash, "no line", symbols.dash, off
    rate = format_rate(fit.rate_bytes_per_s)
    if fit.startup_s is None or fit.half_rate_bytes is None:
        return "not seen", rate, symbols.dash, off
    startup = symbols.fold(format_seconds(fit.startup_s))
    return startup, rate, format_about_size(fit.half_rate_bytes), off


def _explain(fits: Sequence[Fit]) -> Iterable[str]:
    counts = sorted({len(fit.sizes_bytes) for fit in fits})
    sizes = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    yield f"time = start-up + size / rate, through the medians at {sizes} sizes; off by: the largest distance from it."
    if any(fit.half_rate_bytes is not None for fit in fits):
        yield "At the half-rate size, a copy reaches half of the rate."
    if any(fit.rate_bytes_per_s is None for fit in fits):
        yield "No line: the best one misses a point by more than 25 %, or times do not grow with the size."
