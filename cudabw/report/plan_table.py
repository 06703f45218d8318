"""The table of ``--dry-run``: one row for each kind of memory in each section, and under it what the run needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from cudabw.report.console import new_table, print_whole, symbols_for
from cudabw.report.memory_words import memory_label
from cudabw.results.plan import PlannedCase, PlannedCopies, PlannedLaunch, PlannedSetup
from cudabw.units import format_about_size, format_count, format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console
    from rich.table import Table

    from cudabw.report.console import Symbols
    from cudabw.results.model import Pages
    from cudabw.results.plan import PlannedSection, RunPlan

_MOST_LISTED: Final = 2


def print_plan(plan: RunPlan, console: Console) -> None:
    """Print what a run will do, without having done any of it."""
    symbols = symbols_for(console)
    title = f"Plan of {plan.suite} {symbols.dot} backend {plan.backend}, device {plan.device}"
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print()
    tables = (
        _table(plan, symbols),
        _setup_table(plan, symbols),
        _copies_table(plan, symbols),
        _launch_table(plan, symbols),
    )
    for table in tables:
        if table.row_count:
            print_whole(table, console)
            console.print()
    for line in _footer(plan):
        console.print(line, soft_wrap=True)


def _table(plan: RunPlan, symbols: Symbols) -> Table:
    table = new_table(symbols)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("Memory", no_wrap=True)
    table.add_column("Engine", no_wrap=True)
    table.add_column("Direction")
    table.add_column("Sizes", no_wrap=True)
    with_node = any(_nodes(cases) for section in plan.sections for cases in _rows(section))
    if with_node:
        table.add_column("Node", justify="right", no_wrap=True)
    table.add_column("Trials", justify="right", no_wrap=True)
    table.add_column("Cases", justify="right", no_wrap=True)
    for number, section in enumerate(plan.sections, start=1):
        for cases in _rows(section):
            table.add_row(str(number), *_cells(cases, symbols, with_node=with_node))
    return table


def _copies_table(plan: RunPlan, symbols: Symbols) -> Table:
    table = new_table(symbols)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("Small copies", no_wrap=True)
    table.add_column("Direction")
    table.add_column("Sizes", no_wrap=True)
    table.add_column("At once")
    table.add_column("Trials", justify="right", no_wrap=True)
    table.add_column("Cases", justify="right", no_wrap=True)
    for number, section in enumerate(plan.sections, start=1):
        copies = [case for case in section.cases if isinstance(case, PlannedCopies)]
        for kind, benchmark in dict.fromkeys((case.kind, case.benchmark) for case in copies):
            cases = [case for case in copies if (case.kind, case.benchmark) == (kind, benchmark)]
            table.add_row(
                str(number),
                kind,
                ", ".join(dict.fromkeys(case.direction for case in cases)),
                _sizes(list(dict.fromkeys(case.size_bytes for case in cases))),
                ", ".join(map(str, sorted({case.copies for case in cases}))),
                str(cases[0].trials),
                str(len(cases)),
            )
    return table


def _launch_table(plan: RunPlan, symbols: Symbols) -> Table:
    table = new_table(symbols)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("Launches with", no_wrap=True)
    table.add_column("Arguments")
    table.add_column("Trials", justify="right", no_wrap=True)
    table.add_column("Cases", justify="right", no_wrap=True)
    for number, section in enumerate(plan.sections, start=1):
        launches = [case for case in section.cases if isinstance(case, PlannedLaunch)]
        for arg_type in dict.fromkeys(case.arg_type for case in launches):
            cases = [case for case in launches if case.arg_type == arg_type]
            counts = ", ".join(dict.fromkeys(str(case.args) for case in cases))
            table.add_row(str(number), arg_type, counts, str(cases[0].trials), str(len(cases)))
    return table


def _rows(section: PlannedSection) -> Iterable[Sequence[PlannedCase]]:
    """The cases of one kind and engine together, in the order in which they first appear."""
    rows: dict[tuple[str, Pages, str], list[PlannedCase]] = {}
    for case in section.cases:
        if isinstance(case, PlannedCase):
            rows.setdefault((case.kind, case.pages, case.engine), []).append(case)
    return rows.values()


def _setup_table(plan: RunPlan, symbols: Symbols) -> Table:
    table = new_table(symbols)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("Cost of memory")
    table.add_column("Sizes", no_wrap=True)
    table.add_column("Trials", justify="right", no_wrap=True)
    table.add_column("Cases", justify="right", no_wrap=True)
    for number, section in enumerate(plan.sections, start=1):
        setups = [case for case in section.cases if isinstance(case, PlannedSetup)]
        if setups:
            kinds = ", ".join(dict.fromkeys(case.kind for case in setups))
            sizes = _sizes(list(dict.fromkeys(case.size_bytes for case in setups)))
            table.add_row(str(number), kinds, sizes, str(setups[0].trials), str(len(setups)))
    return table


def _cells(cases: Sequence[PlannedCase], symbols: Symbols, *, with_node: bool) -> Iterable[str]:
    first = cases[0]
    yield memory_label(first.kind, first.pages)
    yield first.engine
    yield ", ".join(dict.fromkeys(case.direction for case in cases))
    yield _sizes(list(dict.fromkeys(case.size_bytes for case in cases)))
    if with_node:
        yield _nodes(cases) or symbols.dash
    yield str(first.trials)
    yield str(len(cases))


def _nodes(cases: Sequence[PlannedCase]) -> str:
    return ", ".join(dict.fromkeys(str(case.node) for case in cases if case.node is not None))


def _sizes(sizes: Sequence[int]) -> str:
    if len(sizes) <= _MOST_LISTED:
        return ", ".join(format_size(size) for size in sizes)
    return f"{format_size(min(sizes))} to {format_size(max(sizes))} ({len(sizes)})"


def _footer(plan: RunPlan) -> Iterable[Text]:
    further = [
        f"± {100 * section.precision:g} % in section {number}"
        for number, section in enumerate(plan.sections, start=1)
        if section.precision is not None
    ]
    trials = f"{format_count(plan.trials, 'trial')}{' or more' if further else ''}"
    yield Text(
        f"{format_count(len(plan.cases), 'case')}, {trials}; "
        f"about {format_about_size(plan.copied_bytes)} copied in about {_about_seconds(plan.seconds)}."
    )
    yield Text(f"Memory at most: {_memory(plan)}.")
    if further:
        yield Text(f"More trials, while there is time, until intervals are within {', '.join(further)}.")
    budgets = [
        f"{section.time_budget_s:g} s in section {number}"
        for number, section in enumerate(plan.sections, start=1)
        if section.time_budget_s is not None
    ]
    if budgets:
        yield Text(f"Time budget: {', '.join(budgets)}.")
    yield Text(
        f"Estimates assume copies at {format_rate(plan.copy_bytes_per_s)} GB/s, "
        f"filling and checking memory at {format_rate(plan.touch_bytes_per_s)} GB/s.",
        style="dim",
    )


def _memory(plan: RunPlan) -> str:
    emulated = format_size(plan.peak_emulated_bytes)
    if plan.backend == "emulated":
        return f"{emulated} host, the emulated device's own included"
    real = f"{format_size(plan.peak_host_bytes)} host, {format_size(plan.peak_device_bytes)} device"
    return real if plan.backend == "cuda" else f"{real} (emulated: {emulated} host)"


def _about_seconds(seconds: float) -> str:
    for length, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * length:
            return f"{_two_figures(seconds / length)} {unit}"
    return f"{_two_figures(seconds)} s"


def _two_figures(value: float) -> str:
    return f"{float(f'{value:.2g}'):.10g}"
