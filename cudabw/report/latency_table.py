"""The tables of ``cudabw latency``, from the results alone.

All times in them are microseconds. The first holds one copy at a time; the others hold many at once, by the size of a
copy and by their number, with a sentence on top that says from where on which way is worth it.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from rich.text import Text

from cudabw.report.console import new_table, print_line, print_whole, symbols_for
from cudabw.report.latency_words import crossovers, explain
from cudabw.report.notes import note_cell, number_notes, state_cell, write_notes
from cudabw.report.times import median, micro, relative
from cudabw.report.titles import EMULATED_COPIES, title_of
from cudabw.results.latency import Pace, Way
from cudabw.units import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console
    from rich.table import Table

    from cudabw.report.console import Symbols
    from cudabw.report.notes import Numbers
    from cudabw.results.latency import LatencyCase, SmallCopiesCase
    from cudabw.results.launch import Seconds
    from cudabw.results.model import Case, RunResult, State

_MEMORY = ("Memory", "Dir.")

_Case = TypeVar("_Case", "LatencyCase", "SmallCopiesCase")


def print_latency(result: RunResult, console: Console) -> None:
    """Print the tables of a run, and under them what their figures rest on and why any is missing."""
    symbols = symbols_for(console)
    cases: tuple[Case, ...] = (*result.latency_cases, *result.small_copies_cases)
    if not cases:
        return
    numbers = number_notes(cases)
    title = title_of("Small copies", result.device, emulated=EMULATED_COPIES)
    print_line(Text(symbols.fold(title), style="bold"), console)
    for line in crossovers(result):
        print_line(Text(symbols.fold(line), style="bold"), console)
    for caption, table in _tables(result, numbers, symbols):
        console.print()
        print_line(Text(symbols.fold(caption), style="dim"), console)
        print_whole(table, console)
    console.print()
    for line in explain(result):
        print_line(Text(symbols.fold(line), style="dim"), console)
    for note in write_notes(cases, numbers, symbols):
        print_line(note, console)


def _tables(result: RunResult, numbers: Numbers, symbols: Symbols) -> Iterable[tuple[str, Table]]:
    if result.latency_cases:
        yield (
            "One copy in µs: submitted and waited for, and queued among others",
            _one_copy(result.latency_cases, numbers, symbols),
        )
    many = result.small_copies_cases
    most = _usual_number(many)
    by_size = [case for case in many if case.copies == most]
    several_numbers = _sizes_with_several_numbers(many)
    # One size in several numbers has a table of its own below.
    if by_size and not (several_numbers and len({case.size_bytes for case in by_size}) == 1):
        copies = "1 copy" if most == 1 else f"{most} scattered copies at once"
        caption = f"{copies}, by size: µs for each, submitted and waited for"
        yield caption, _ways(by_size, "Size", lambda case: format_size(case.size_bytes), numbers, symbols)
    for size in several_numbers:
        by_number = [case for case in many if case.size_bytes == size]
        caption = f"Scattered copies of {format_size(size)} at once, by their number: µs for each"
        yield caption, _ways(by_number, "Copies", lambda case: str(case.copies), numbers, symbols)
    if any(case.build_s for case in many):
        yield "Prepared once before, µs for all copies", _prepared(many, symbols)


def _usual_number(cases: Sequence[SmallCopiesCase]) -> int:
    """The number of copies that most sizes were measured with; of several, the largest."""
    sizes: dict[int, set[int]] = {}
    for case in cases:
        sizes.setdefault(case.copies, set()).add(case.size_bytes)
    return max(sizes, key=lambda copies: (len(sizes[copies]), copies), default=0)


def _sizes_with_several_numbers(cases: Sequence[SmallCopiesCase]) -> list[int]:
    sizes = dict.fromkeys(case.size_bytes for case in cases)
    return [size for size in sizes if len({case.copies for case in cases if case.size_bytes == size}) > 1]


def _one_copy(cases: Sequence[LatencyCase], numbers: Numbers, symbols: Symbols) -> Table:
    figures = ("Size", "End to end", symbols.plus_minus, "Call", "Queued", symbols.plus_minus)
    table = new_table(symbols, _MEMORY, figures)
    table.add_column("Clock", no_wrap=True)
    if numbers:
        table.add_column("Note", no_wrap=True)
    for memory, row in _grouped(cases, lambda case: case.size_bytes, table):
        paces = {case.pace: case for case in row}
        alone, queued = paces.get(Pace.END_TO_END), paces.get(Pace.QUEUED)
        table.add_row(
            *memory,
            format_size(row[0].size_bytes),
            *_cells(alone.state if alone else None, alone.seconds if alone else None, symbols),
            median(alone.submit_s if alone else None, symbols),
            *_cells(queued.state if queued else None, queued.seconds if queued else None, symbols),
            symbols.dash if queued is None or queued.clock is None else str(queued.clock),
            *([note_cell(row, numbers)] if numbers else []),
        )
    return table


def _ways(
    cases: Sequence[SmallCopiesCase],
    heading: str,
    value: Callable[[SmallCopiesCase], str],
    numbers: Numbers,
    symbols: Symbols,
) -> Table:
    columns = [column for way in Way for column in (str(way).capitalize(), f"{symbols.plus_minus}\n%")]
    table = new_table(symbols, _MEMORY, (heading, *columns))
    if numbers:
        table.add_column("Note", no_wrap=True)
    for memory, row in _grouped(cases, lambda case: (case.size_bytes, case.copies), table):
        ways = {case.way: case for case in row}
        figures: list[Text | str] = []
        for way in Way:
            case = ways.get(way)
            figure, spread = _cells(case.state if case else None, case.per_copy_s if case else None, symbols)
            figures += [figure, spread.removesuffix(" %")]
        note = [note_cell(row, numbers)] if numbers else []
        table.add_row(*memory, value(row[0]), *figures, *note)
    return table


def _prepared(cases: Sequence[SmallCopiesCase], symbols: Symbols) -> Table:
    ways = [way for way in Way if any(case.way is way and case.build_s for case in cases)]
    table = new_table(symbols, ("Memory",), ("Copies", *(str(way).capitalize() for way in ways)))
    kinds = list(dict.fromkeys(case.kind for case in cases))
    for kind, copies in sorted(
        {(case.kind, case.copies) for case in cases}, key=lambda row: (kinds.index(row[0]), row[1])
    ):
        row = [case for case in cases if (case.kind, case.copies) == (kind, copies)]
        # It hardly depends on the direction, nor on the size.
        built = {case.way: case.build_s for case in reversed(row) if case.build_s is not None}
        table.add_row(kind, str(copies), *(median(built.get(way), symbols) for way in ways))
    return table


def _grouped(
    cases: Sequence[_Case], same: Callable[[_Case], object], table: Table
) -> Iterable[tuple[tuple[str, str], list[_Case]]]:
    """The cases of each row, with the memory that is named in the first row of its section."""
    for memory, section in groupby(cases, key=lambda case: (case.kind, case.direction)):
        shown = memory
        rows: dict[object, list[_Case]] = {}
        for case in section:
            rows.setdefault(same(case), []).append(case)
        for row in rows.values():
            yield shown, row
            shown = ("", "")
        table.add_section()


def _cells(state: State | None, seconds: Seconds | None, symbols: Symbols) -> tuple[Text | str, str]:
    if seconds is None:
        return (symbols.dash if state is None else state_cell(state)), symbols.dash
    return Text(micro(seconds.median), style="bold"), relative(seconds, symbols)
