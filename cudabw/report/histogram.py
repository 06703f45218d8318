"""How the samples of each case lie, as bars of text: one bump, two, or a tail."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from rich.text import Text

from cudabw.report.console import symbols_for
from cudabw.report.notes import state_cell
from cudabw.report.titles import title_of
from cudabw.results.headline import Quantity, headline_of, label_of
from cudabw.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from cudabw.report.console import Symbols
    from cudabw.results.model import Case, RunResult

MOST_BINS: Final = 10
LONGEST_BAR: Final = 48

_UNITS: Final = {Quantity.RATE: ("GB/s", 1e-9), Quantity.TIME: ("µs", 1e6)}
# Samples that differ by rounding alone are the same.
_ROUNDING: Final = 1e-9


def print_histograms(result: RunResult, console: Console) -> None:
    """Print the samples of each case: the lower end of each bin, a bar, and how many are in it."""
    symbols = symbols_for(console)
    if result.cases:
        console.print(Text(symbols.fold(title_of("Samples", result.device)), style="bold"), soft_wrap=True)
    for case in result.cases:
        console.print()
        for line in _of_case(case, symbols):
            console.print(line, soft_wrap=True)


def _of_case(case: Case, symbols: Symbols) -> Iterable[Text]:
    found = headline_of(case)
    if found is None:
        what = (state_cell(case.state), f": {case.reason}") if case.reason is not None else ("no samples",)
        yield Text.assemble((f"{label_of(case)}: ", "bold"), *what)
        return
    unit, scale = _UNITS[found.quantity]
    samples = [sample * scale for trial in found.trials for sample in trial]
    counts = f"{format_count(len(samples), 'sample')} of {format_count(len(found.trials), 'trial')}"
    yield Text(symbols.fold(f"{label_of(case)}: {counts}, {unit}"), style="bold")
    yield from map(Text, _bars(samples))


def _bars(samples: Sequence[float]) -> Iterable[str]:
    low, high = min(samples), max(samples)
    if high - low <= _ROUNDING * abs(high):
        yield _bar(f"{low:.6g}", len(samples), len(samples))
        return
    # By Sturges, as few samples as there are here would show nothing in finer bins.
    bins = min(MOST_BINS, 1 + math.ceil(math.log2(len(samples))))
    found, edges = np.histogram(samples, bins=bins)
    decimals = max(0, 1 - math.floor(math.log10(edges[1] - edges[0])))
    ends = [f"{edge:.{decimals}f}" for edge in edges[:-1]]
    width = max(map(len, ends))
    for end, count in zip(ends, found.tolist(), strict=True):
        yield _bar(end.rjust(width), count, max(found))


def _bar(end: str, count: int, most: int) -> str:
    length = max(round(count / most * LONGEST_BAR), min(count, 1))
    return f"  {end} | {'#' * length}{' ' * (length > 0)}{count or ''}".rstrip()
