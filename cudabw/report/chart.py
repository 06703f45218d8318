"""A sweep as bars of text, for a terminal: rates over sizes, one kind of memory after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from cudabw.report.console import ASCII, new_table, print_whole, symbols_for
from cudabw.report.curves import PANELS, name_of_memory
from cudabw.report.notes import state_cell
from cudabw.report.run_tables import print_run
from cudabw.report.titles import EMULATED_COPIES, title_of
from cudabw.units import format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from cudabw.report.console import Symbols
    from cudabw.results.model import CaseResult, DeviceInfo, RunResult

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_SHORTEST: Final = 3
_READABLE: Final = 8
"""Names are broken before bars become shorter than this."""
_LONGEST: Final = 40
_GAP: Final = 2
_LONGEST_WORD: Final = len("write-combined,")
"""Where a name is broken."""


def print_run_and_chart(result: RunResult, console: Console) -> None:
    """Print the tables of a run, and its rates as bars under them."""
    print_run(result, console)
    if has_rates(result):
        console.print()
        print_chart(result, console)


def has_rates(result: RunResult) -> bool:
    """Whether there is a bar to draw."""
    return any(case.rate_bytes_per_s is not None for case in result.bandwidth_cases)


def print_chart(result: RunResult, console: Console) -> None:
    """Print a bar for each rate; nothing where there is none. All bars under one title have the same scale."""
    symbols = symbols_for(console)
    between = False
    for title, panels in PANELS:
        cases = [case for case in result.bandwidth_cases if case.direction in panels]
        if not any(case.rate_bytes_per_s for case in cases):
            continue
        if between:
            console.print()
        between = True
        whole, of_what = _scale(cases, result.device)
        heading = title_of(title, result.device, emulated=EMULATED_COPIES)
        console.print(Text(symbols.fold(heading), style="bold"), soft_wrap=True)
        console.print(Text(f"A whole bar is {format_rate(whole)} GB/s, {of_what}.", style="dim"), soft_wrap=True)
        console.print()
        print_whole(_chart(cases, list(panels), whole, console.width, symbols), console)


def _scale(cases: Sequence[CaseResult], device: DeviceInfo | None) -> tuple[float, str]:
    """The rate of a whole bar, and what it is."""
    fastest = max(case.rate_bytes_per_s.median for case in cases if case.rate_bytes_per_s is not None)
    ceiling = device.link.ceiling_bytes_per_s if device is not None else None
    if ceiling is not None and ceiling >= fastest and any(case.link_fraction for case in cases):
        return ceiling, "what the link can carry"
    return fastest, "the fastest here"


def _chart(cases: Sequence[CaseResult], directions: Sequence[str], whole: float, width: int, symbols: Symbols) -> Table:
    shown = [way for way in directions if any(case.direction == way for case in cases)]
    rows = _rows(cases)
    names = max(len(name) for name, _ in rows)
    sizes = max(len(format_size(size)) for *_, size in rows)
    headings = [f"{way.rpartition('-')[2]}\nGB/s" for way in shown]
    figures = sum(max(_width(heading), *(len(_figure(case)) for case in cases)) for heading in headings)
    # A gap stands behind every column, of which the last one's is half as wide.
    rest = width - sizes - figures - _GAP * (1 + 2 * len(shown)) - 1
    length = max((rest - names) // len(shown), min((rest - _LONGEST_WORD) // len(shown), _READABLE))
    length = min(max(length, _SHORTEST), _LONGEST)
    table = new_table(symbols)
    table.add_column("Memory", max_width=max(rest - length * len(shown), _LONGEST_WORD))
    table.add_column("Size", justify="right", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True, style="bold")
        table.add_column("", no_wrap=True, style="cyan", min_width=length)
    before = ""
    for (name, size), row in rows.items():
        if before not in ("", name):
            table.add_section()
        table.add_row(
            "" if name == before else name,
            format_size(size),
            *(cell for way in shown for cell in _cells(row.get(way), whole, length, symbols)),
        )
        before = name
    return table


def _width(heading: str) -> int:
    return max(map(len, heading.split("\n")))


def _rows(cases: Iterable[CaseResult]) -> Mapping[tuple[str, int], Mapping[str, CaseResult]]:
    """Cases by name and size, and by direction; the sizes of each name from the smallest on."""
    named = [(name_of_memory(case.kind, case.pages, case.engine, case.numa_node), case) for case in cases]
    order = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in named))}
    rows: dict[tuple[str, int], dict[str, CaseResult]] = {}
    for name, case in sorted(named, key=lambda pair: (order[pair[0]], pair[1].size_bytes)):
        rows.setdefault((name, case.size_bytes), {})[case.direction] = case
    return rows


def _cells(case: CaseResult | None, whole: float, length: int, symbols: Symbols) -> tuple[Text | str, str]:
    if case is None:
        return symbols.dash, ""
    rate = case.rate_bytes_per_s
    return _figure(case), "" if rate is None else _bar(rate.median / whole * length, symbols)


def _figure(case: CaseResult) -> Text:
    rate = case.rate_bytes_per_s
    return state_cell(case.state) if rate is None else Text(format_rate(rate.median))


def _bar(length: float, symbols: Symbols) -> str:
    if symbols is ASCII:
        return "#" * round(length)
    eighths = round(length * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()
