"""The tables of ``cudabw launch-overhead``, from the results alone.

All times in them are microseconds. A sentence on top gives the difference that conversion makes; the tables hold the
times by mode, the paired differences, where the time goes, and what belongs to a set of arguments whatever the mode.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from cudabw.report.console import new_table, print_line, print_whole, symbols_for
from cudabw.report.launch_words import explain, headline, slope_line
from cudabw.report.notes import note_cell, number_notes, state_cell, write_notes
from cudabw.report.times import median, micro, relative
from cudabw.report.titles import title_of
from cudabw.results.launch import Mode, Verdict
from cudabw.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console
    from rich.table import Table

    from cudabw.report.console import Symbols
    from cudabw.report.notes import Numbers
    from cudabw.results.launch import Difference, LaunchCase
    from cudabw.results.launch_sets import ArgumentSetResult
    from cudabw.results.model import RunResult

# The order of the columns: what was asked first.
_COMPARED = (Mode.CONVERTED, Mode.PACKED, Mode.REBOUND, Mode.PREPARED, Mode.SPECIALISED)


def print_launches(result: RunResult, console: Console) -> None:
    """Print the tables of a run, and under them what their figures rest on and why any is missing."""
    symbols = symbols_for(console)
    cases = result.launch_cases
    if not cases:
        return
    numbers = number_notes(cases)
    title = title_of("Kernel launches from Python", result.device)
    print_line(Text(symbols.fold(title), style="bold"), console)
    for line in _above(result):
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


def _above(result: RunResult) -> Iterable[str]:
    yield headline(result.launch_cases)
    if result.launch_overhead is not None:
        yield from map(slope_line, result.launch_overhead.slopes)


def _tables(result: RunResult, numbers: Numbers, symbols: Symbols) -> Iterable[tuple[str, Table]]:
    by_set = [list(cases) for _, cases in groupby(result.launch_cases, key=lambda case: (case.arg_type, case.args))]
    yield (
        "One launch in µs: the call (submit), in bursts (sustained), waited for (+ wait)",
        (_mode_table(by_set, numbers, symbols)),
    )
    if any(case.difference for case in result.launch_cases):
        yield "Differences of submit in µs, taken in pairs", _difference_table(by_set, symbols)
    sets = () if result.launch_overhead is None else result.launch_overhead.sets
    if any(found.stages for found in sets):
        yield "Where the time of a converted launch goes, µs", _stage_table(sets, symbols)
    if any(found.device_s for found in sets):
        yield "Whatever the mode, µs", _set_table(sets, result.launch_cases, symbols)


def _mode_table(by_set: Sequence[Sequence[LaunchCase]], numbers: Numbers, symbols: Symbols) -> Table:
    figures = ("Submit", symbols.plus_minus, "Sustained", "+ wait", "Conv.", "Waits")
    table = new_table(symbols, ("Arguments", "Mode"), (*figures, "Note") if numbers else figures)
    for cases in by_set:
        for number, case in enumerate(cases):
            note = [note_cell((case,), numbers)] if numbers else []
            table.add_row("" if number else _label(case), str(case.mode), *_mode_cells(case, symbols), *note)
        table.add_section()
    return table


def _mode_cells(case: LaunchCase, symbols: Symbols) -> Iterable[Text | str]:
    if case.submit_s is None:
        yield state_cell(case.state)
        yield symbols.dash
    else:
        yield Text(micro(case.submit_s.median), style="bold")
        yield relative(case.submit_s, symbols)
    for seconds in (case.sustained_s, case.synchronised_s):
        yield median(seconds, symbols)
    for count in (case.conversions_per_launch, case.waits_per_launch):
        yield symbols.dash if count is None else f"{count:g}"


def _difference_table(by_set: Sequence[Sequence[LaunchCase]], symbols: Symbols) -> Table:
    differences = [{case.mode: case.difference for case in cases} for cases in by_set]
    over = {mode: found.over for row in differences for mode, found in row.items() if found is not None}
    compared = [mode for mode in _COMPARED if mode in over]
    table = new_table(symbols, ("Arguments",), [f"{mode}\n{symbols.dash} {over[mode]}" for mode in compared])
    for cases, row in zip(by_set, differences, strict=True):
        table.add_row(_label(cases[0]), *(_difference_cell(row.get(mode), symbols) for mode in compared))
    return table


def _difference_cell(difference: Difference | None, symbols: Symbols) -> str:
    if difference is None:
        return symbols.dash
    if difference.verdict is Verdict.NONE:
        return "none seen"
    if difference.low is None or difference.high is None:
        return micro(difference.median)
    half_width = max(difference.median - difference.low, difference.high - difference.median)
    return f"{micro(difference.median)} {symbols.plus_minus}{micro(half_width)}"


def _stage_table(sets: Sequence[ArgumentSetResult], symbols: Symbols) -> Table:
    columns = ("Call", "Convert", "Ownership", "Pack", "Driver", "Sum", "Whole", "Sum/whole")
    table = new_table(symbols, ("Arguments",), columns)
    for found in sets:
        split = found.stages
        if split is None:
            table.add_row(_label(found), *[symbols.dash] * len(columns))
            continue
        stages = (split.call_s, split.convert_s, split.ownership_s, split.pack_s, split.driver_s)
        share = format_percent(split.sum_s / split.total_s) if split.total_s else symbols.dash
        table.add_row(
            _label(found),
            *(micro(stage.median) for stage in stages),
            micro(split.sum_s),
            micro(split.total_s),
            share if split.adds_up else f"{share} !",
        )
    return table


def _set_table(sets: Sequence[ArgumentSetResult], cases: Sequence[LaunchCase], symbols: Symbols) -> Table:
    sustained = {(case.arg_type, case.args, case.mode): case.sustained_s for case in cases}
    columns = (
        "Kernel",
        "First\nlaunch",
        "Module\nload",
        "Prepare",
        "Repaid after\nlaunches",
        "Hidden by kernels of\nprep. / conv.",
    )
    table = new_table(symbols, ("Arguments",), columns)
    for found in sets:
        hidden = (sustained.get((found.arg_type, found.args, mode)) for mode in (Mode.PREPARED, Mode.CONVERTED))
        table.add_row(
            _label(found),
            median(found.device_s, symbols),
            median(found.first_launch_s, symbols),
            median(found.module_load_s, symbols),
            median(found.prepare_s, symbols),
            symbols.dash if found.repaid_after is None else str(found.repaid_after),
            " / ".join(median(seconds, symbols) for seconds in hidden),
        )
    return table


def _label(of: LaunchCase | ArgumentSetResult) -> str:
    return f"{of.args} {of.arg_type}" if of.args else "0 (blind)"
