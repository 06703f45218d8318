"""The tables of ``cudabw bandwidth``: one row for each kind, engine, size and NUMA node, from the results alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from cudabw.report.console import new_table, print_line, print_whole, symbols_for
from cudabw.report.link_words import link_carries, without_pcie
from cudabw.report.memory_words import memory_label
from cudabw.report.node_words import has_nodes, node_cell, nodes_explained
from cudabw.report.notes import count_outliers, format_trials, note_cell, number_notes, state_cell, write_notes
from cudabw.report.titles import print_title
from cudabw.results.model import Pages
from cudabw.units import format_percent, format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from cudabw.report.console import Symbols
    from cudabw.report.notes import Numbers
    from cudabw.results.model import CaseResult, RunResult

_SECTIONS = (
    ("Host ↔ device bandwidth", {"h2d": "h2d", "d2h": "d2h"}),
    (
        "Both directions at once",
        {"bidirectional-h2d": "h2d", "bidirectional-d2h": "d2h", "bidirectional-total": "total"},
    ),
    ("Copies within the device", {"d2d": "copied"}),
)
"""The title of each table, and the heading of each direction in it."""

_USUAL_ENGINE = "driver"
_MOST_ROOMY = 2


def print_bandwidth(result: RunResult, console: Console) -> None:
    """Print the table of a run, and under it what its figures rest on and why any is missing."""
    symbols = symbols_for(console)
    notes = number_notes(result.bandwidth_cases)
    for title, headings in _SECTIONS:
        cases = [case for case in result.bandwidth_cases if case.direction in headings]
        if cases:
            print_title(title, result.device, console, symbols)
            print_whole(_table(cases, headings, notes, symbols), console)
            console.print()
    for line in _footer(result, symbols):
        print_line(line, console)


def _table(cases: Sequence[CaseResult], headings: Mapping[str, str], numbers: Numbers, symbols: Symbols) -> Table:
    directions = [way for way in headings if any(case.direction == way for case in cases)]
    # Three figures leave no room for shares of a link, nor for units behind them.
    crowded = len(headings) > _MOST_ROOMY
    with_link = not crowded and any(case.link_fraction is not None for case in cases)
    # The driver is what a reader expects; an engine that is one of several takes its room from the headings.
    with_engine = any(case.engine != _USUAL_ENGINE for case in cases)
    with_node = has_nodes(cases)
    with_pages = any(case.pages is not Pages.WARM for case in cases)
    with_notes = any(case.id in numbers for case in cases)
    narrow = crowded or with_engine or with_node or with_pages
    shown = [headings[way] for way in directions]
    table = _empty(
        shown,
        symbols,
        narrow=narrow,
        with_engine=with_engine,
        with_node=with_node,
        with_link=with_link,
        with_notes=with_notes,
    )
    for row in _rows(cases):
        some = next(iter(row.values()))
        figures = [cell for way in directions for cell in _cells(row.get(way), symbols, with_link=with_link)]
        table.add_row(
            memory_label(some.kind, some.pages),
            *([some.engine] if with_engine else []),
            format_size(some.size_bytes),
            *([node_cell(row.values(), symbols)] if with_node else []),
            *([_without_unit(cell) for cell in figures] if narrow else figures),
            _clocks(row.values(), symbols),
            *([note_cell(row.values(), numbers)] if with_notes else []),
        )
    return table


def _empty(
    headings: Sequence[str],
    symbols: Symbols,
    *,
    narrow: bool,
    with_engine: bool,
    with_node: bool,
    with_link: bool,
    with_notes: bool,
) -> Table:
    """The table without rows; units stand under the headings, or behind them and the figures where there is room."""
    table = new_table(symbols)
    unit, percent = ("\nGB/s", "\n%") if narrow else (" GB/s", "")
    table.add_column("Memory", no_wrap=True)
    if with_engine:
        table.add_column("Engine", no_wrap=True)
    table.add_column("Size", justify="right", no_wrap=True)
    if with_node:
        table.add_column("Node", justify="right", no_wrap=True)
    for heading in headings:
        table.add_column(f"{heading}{unit}", justify="right", no_wrap=True, style="bold")
        table.add_column(f"{symbols.plus_minus}{percent}", justify="right", no_wrap=True)
        if with_link:
            table.add_column(f"link{percent}", justify="right", no_wrap=True)
    table.add_column("Clock", no_wrap=True)
    if with_notes:
        table.add_column("Note", no_wrap=True)
    return table


def _without_unit(cell: Text | str) -> Text | str:
    return cell.removesuffix(" %") if isinstance(cell, str) else cell


def _rows(cases: Sequence[CaseResult]) -> Iterable[dict[str, CaseResult]]:
    """Cases that differ in nothing but the direction side by side, in the order in which they first appear."""
    rows: dict[str, dict[str, CaseResult]] = {}
    for case in cases:
        rows.setdefault(case.id.replace(f"/{case.direction}/", "/"), {})[case.direction] = case
    return rows.values()


def _cells(case: CaseResult | None, symbols: Symbols, *, with_link: bool) -> Iterable[Text | str]:
    absent = symbols.dash
    if case is None:
        return [absent] * (3 if with_link else 2)
    if case.rate_bytes_per_s is None:
        return [state_cell(case.state), *[absent] * (2 if with_link else 1)]
    rate = case.rate_bytes_per_s
    figures: list[Text | str] = [format_rate(rate.median), _spread(case, symbols)]
    if with_link:
        figures.append(absent if case.link_fraction is None else format_percent(case.link_fraction))
    return figures


def _spread(case: CaseResult, symbols: Symbols) -> str:
    rate = case.rate_bytes_per_s
    if rate is None or rate.low is None or rate.high is None:
        return symbols.dash
    spread = max(rate.median - rate.low, rate.high - rate.median) / rate.median
    return format_percent(spread) if spread <= 1 else ">100 %"


def _clocks(cases: Iterable[CaseResult], symbols: Symbols) -> str:
    clocks = dict.fromkeys(str(case.clock) for case in cases if case.clock is not None)
    return ", ".join(clocks) or symbols.dash


def _footer(result: RunResult, symbols: Symbols) -> Iterable[Text]:
    if any(case.rate_bytes_per_s for case in result.bandwidth_cases):
        yield Text(symbols.fold(_explanation(result)), style="dim")
    outliers = count_outliers((case.rate_bytes_per_s for case in result.bandwidth_cases), "batches")
    if outliers is not None:
        yield Text(symbols.fold(outliers), style="dim")
    yield from write_notes(result.bandwidth_cases, number_notes(result.bandwidth_cases), symbols)


def _explanation(result: RunResult) -> str:
    measured = [case for case in result.bandwidth_cases if case.rate_bytes_per_s]
    several = any(len(case.trials) > 1 for case in measured)
    words = [f"Median of {format_trials(measured)}" if several else "One trial"]
    if several:
        words.append("± is its 99 % interval")
    link = result.device.link if result.device else None
    if link and (instead := without_pcie(link)) is not None:
        words.append(f"no PCIe link: {instead}")
    elif link and link.ceiling_bytes_per_s:
        words.append(f"link: {link_carries(link, when='under load')}")
    if has_nodes(result.bandwidth_cases):
        words.append(nodes_explained(result.bandwidth_cases, result.device))
    return "; ".join(words) + "."
