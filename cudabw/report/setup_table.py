"""The tables of ``--setup-cost``: what each step to have memory ready takes, and when pinning has paid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from cudabw.report.console import new_table, print_line, print_whole, symbols_for
from cudabw.report.memory_words import memory_label
from cudabw.report.notes import note_cell, number_notes, state_cell, write_notes
from cudabw.report.titles import print_title
from cudabw.results.setup_cost import Change, Repaid
from cudabw.units import format_percent, format_seconds, format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from cudabw.report.console import Symbols
    from cudabw.results.launch import Seconds
    from cudabw.results.model import RunResult
    from cudabw.results.setup_cost import BreakEven, SetupCase

_LOCKED_WHEN_ALLOCATED = ("pinned", "mapped", "write-combined")


def print_setup_cost(result: RunResult, console: Console) -> None:
    """Print what memory costs besides its copies under an empty line; nothing where that was not measured."""
    cases = result.setup_cases
    if not cases:
        return
    symbols = symbols_for(console)
    console.print()
    print_title("The cost of having memory ready", result.device, console, symbols)
    print_whole(_table(cases, symbols), console)
    console.print()
    for line in _footer(result, symbols):
        print_line(line, console)
    if result.break_even:
        console.print()
        print_title("Copies after which pinning has paid", result.device, console, symbols)
        print_whole(_break_even_table(result.break_even, symbols), console)
        console.print()
        for text in _explain_break_even(result.break_even):
            print_line(Text(text, style="dim"), console)


def _table(cases: Sequence[SetupCase], symbols: Symbols) -> Table:
    with_registered = any(case.kind == "registered" for case in cases)
    numbers = number_notes(cases)
    steps = ("Alloc.", "First\ntouch", *(("Pin", "Unpin") if with_registered else ()), "Free")
    table = new_table(symbols, ("Memory",), ("Size", *steps))
    table.add_column("In all", justify="right", no_wrap=True, style="bold")
    table.add_column(symbols.plus_minus, justify="right", no_wrap=True)
    if numbers:
        table.add_column("Note", no_wrap=True)
    for case in cases:
        notes = [note_cell([case], numbers)] if numbers else []
        figures = _figures(case, symbols, with_registered=with_registered)
        table.add_row(case.kind, format_size(case.size_bytes), *figures, *notes)
    return table


def _figures(case: SetupCase, symbols: Symbols, *, with_registered: bool) -> Iterable[Text | str]:
    registration = (case.register_s, case.unregister_s) if with_registered else ()
    for step in (case.allocate_s, case.touch_s, *registration, case.free_s):
        # Two figures say where the time goes, and leave room for all steps in 80 columns.
        yield symbols.dash if step is None else symbols.fold(format_seconds(step.median, figures=2))
    total = case.total_s
    yield state_cell(case.state) if total is None else symbols.fold(format_seconds(total.median))
    yield symbols.dash if total is None else _spread(total, symbols)


def _spread(seconds: Seconds, symbols: Symbols) -> str:
    if seconds.low is None or seconds.high is None or not seconds.median:
        return symbols.dash
    spread = max(seconds.median - seconds.low, seconds.high - seconds.median) / seconds.median
    return format_percent(spread) if spread <= 1 else ">100 %"


def _footer(result: RunResult, symbols: Symbols) -> Iterable[Text]:
    cases = result.setup_cases
    measured = [case for case in cases if case.total_s is not None]
    if measured:
        for text in _explain(measured):
            yield Text(symbols.fold(text), style="dim")
    if measured and all(case.kind != "pageable" for case in cases):
        yield Text("When pinning pays is seen only beside pageable memory.", style="dim")
    yield from write_notes(cases, number_notes(cases), symbols)


def _explain(cases: Sequence[SetupCase]) -> Iterable[str]:
    trials = max(len(case.trials) for case in cases)
    words = f"Median of {trials} trials, each with fresh memory; ± is the 99 % interval of all steps together."
    yield words if trials > 1 else "One trial."
    locked = [kind for kind in _LOCKED_WHEN_ALLOCATED if any(case.kind == kind for case in cases)]
    if locked:
        kinds = " and ".join(filter(None, (", ".join(locked[:-1]), locked[-1])))
        yield f"Allocating {kinds} memory pins it, and freeing unpins it."
    if any(case.kind == "registered" for case in cases):
        yield "Registered memory is pageable memory, pinned where it is after its first touch (pin, unpin)."


def _break_even_table(found: Sequence[BreakEven], symbols: Symbols) -> Table:
    table = new_table(symbols)
    table.add_column("Memory", no_wrap=True)
    table.add_column("Engine", no_wrap=True)
    table.add_column("Size", justify="right", no_wrap=True)
    ways = [way for way in ("h2d", "d2h") if any(one.direction == way for one in found)]
    for way in ways:
        table.add_column(way, justify="right", no_wrap=True, style="bold")
        table.add_column("99 %", justify="right", no_wrap=True)
    rows: dict[tuple[str, int], dict[str, BreakEven]] = {}
    for one in found:
        rows.setdefault((memory_label(one.kind, node=one.numa_node), one.size_bytes), {})[one.direction] = one
    for (memory, size), row in rows.items():
        engines = " / ".join(dict.fromkeys(row[way].engine for way in ways if way in row))
        table.add_row(memory, engines, format_size(size), *_counts(row, ways, symbols))
    return table


def _counts(row: Mapping[str, BreakEven], ways: Sequence[str], symbols: Symbols) -> Iterable[str]:
    for way in ways:
        one = row.get(way)
        if one is None:
            yield from (symbols.dash, symbols.dash)
        elif one.repaid is not Repaid.AFTER:
            yield from (str(one.repaid), symbols.dash)
        else:
            yield from ("at once" if one.copies == 0 else str(one.copies), f"{one.fewest} to {one.most}")


def _explain_break_even(found: Sequence[BreakEven]) -> Iterable[str]:
    yield (
        "What it costs more to have the memory ready, over what each copy takes less than the driver's copy of "
        "pageable memory."
    )
    if any(one.change is Change.REGISTER for one in found):
        yield "Registered: memory that is there already, registered before the copies and unregistered after them."
