"""The table of ``cudabw compare``: one row for each case, and what its verdicts rest on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.text import Text

from cudabw.report.console import new_table, print_line, print_whole, symbols_for
from cudabw.report.titles import EMULATED
from cudabw.results.compare import Reason, Verdict
from cudabw.results.headline import Quantity
from cudabw.results.model import State
from cudabw.units import format_count, format_percent, format_rate, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.table import Table

    from cudabw.report.console import Symbols
    from cudabw.results.compare import Change, Comparison

_COLOURS: Final = {
    Verdict.FASTER: "green",
    Verdict.SLOWER: "red",
    Verdict.SAME: "",
    Verdict.INCONCLUSIVE: "yellow",
}
_WORDS: Final = {
    Reason.NEAR_MARGIN: "a change, but perhaps less than {margin}",
    Reason.TOO_WIDE: "the interval is too wide to tell a change from none",
    Reason.ONE_TRIAL: "one trial does not tell how far trials scatter",
    Reason.ONE_RUN: "a change by the host's clock, and one earlier run does not show how far runs differ by it",
    Reason.FEW_RUNS: "fewer than two of the earlier runs measured it",
    Reason.OTHER_CLOCK: "timed by another clock",
    Reason.NO_TIME: "it took no time by its clock",
    Reason.NOT_MEASURED: "not measured on both sides",
}


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print what became of each case, and under it what was compared and how."""
    symbols = symbols_for(console)
    console.print(Text(_title(comparison, symbols), style="bold"), soft_wrap=True)
    if comparison.cases:
        console.print()
        print_whole(_table(comparison, symbols), console)
    console.print()
    for line in _footer(comparison):
        print_line(Text(symbols.fold(line)), console)


def _title(comparison: Comparison, symbols: Symbols) -> str:
    runs = f" ({comparison.old_runs} runs)" if comparison.old_runs > 1 else ""
    device = EMULATED if comparison.emulated else comparison.device
    names = f"{comparison.new} against {comparison.old}{runs}"
    return names if device is None else f"{names} {symbols.dot} {device}"


def _table(comparison: Comparison, symbols: Symbols) -> Table:
    table = new_table(symbols, ("Case",), ("Old", "New", "Speed", symbols.plus_minus))
    table.add_column("Verdict", no_wrap=True)
    for change in comparison.cases:
        table.add_row(
            change.label,
            _figure(change, change.old, symbols),
            _figure(change, change.new, symbols),
            symbols.dash if change.speed is None else _signed(change.speed),
            _half_width(change, symbols),
            Text(_verdict(change), style=_COLOURS[change.verdict]),
        )
    return table


def _figure(change: Change, value: float | None, symbols: Symbols) -> str:
    if value is None:
        return symbols.dash
    if change.quantity == Quantity.RATE.value:
        return f"{format_rate(value)} GB/s"
    return format_seconds(value, ascii=symbols.micro == "u")


def _signed(speed: float) -> str:
    shown = format_percent(abs(speed - 1))
    if speed == 1 or shown.startswith("<"):  # too little for its sign to matter
        return shown
    return f"+{shown}" if speed > 1 else f"-{shown}"


def _half_width(change: Change, symbols: Symbols) -> str:
    if change.speed is None or change.low is None or change.high is None:
        return symbols.dash
    half_width = max(change.speed - change.low, change.high - change.speed)
    return format_percent(half_width) if half_width <= 1 else ">100 %"


def _verdict(change: Change) -> str:
    if change.verdict is Verdict.INCONCLUSIVE:
        return f"? {str(change.reason).replace('_', ' ')}"
    return str(change.verdict)


def _footer(comparison: Comparison) -> Iterable[str]:
    yield _summary(comparison)
    if any(change.speed is not None for change in comparison.cases):
        yield from _method(comparison)
    reasons = dict.fromkeys(change.reason for change in comparison.cases if change.verdict is Verdict.INCONCLUSIVE)
    for reason in reasons:
        yield f"? {str(reason).replace('_', ' ')}: {_WORDS[reason].format(margin=_whole(comparison.margin))}."
    for name, labels in ((comparison.old, comparison.only_old), (comparison.new, comparison.only_new)):
        if labels:
            # Labels of launches have commas in them.
            yield f"Only in {name}: {'; '.join(labels)}."
    yield from _unreliable(comparison)
    for fact in comparison.facts:
        yield f"Not the same: {fact.name} was {fact.old}, is {fact.new}."
    speed = comparison.cpu_speed
    if speed is not None and abs(speed - 1) > comparison.margin:
        faster = f"{format_percent(abs(speed - 1))} {'faster' if speed > 1 else 'slower'}"
        yield f"Not the same: the CPU worked {faster} than before; times by the host's clock follow it."


def _unreliable(comparison: Comparison) -> Iterable[str]:
    before = [(change.label, change.old_states) for change in comparison.cases]
    after = [(change.label, (change.new_state,)) for change in comparison.cases]
    for name, cases in ((comparison.old, before), (comparison.new, after)):
        for state in (State.THROTTLED, State.UNSTABLE):
            if labels := [label for label, states in cases if state in states]:
                yield f"{str(state).capitalize()} in {name}: {'; '.join(labels)}."


def _summary(comparison: Comparison) -> str:
    counts = Counter(change.verdict for change in comparison.cases)
    if not counts:
        return "No case is in both."
    found = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    return f"{format_count(len(comparison.cases), 'case')}: {found}."


def _method(comparison: Comparison) -> Iterable[str]:
    margin, confidence = _whole(comparison.margin), _whole(comparison.confidence)
    draws = "trials' medians (Welch)" if comparison.old_runs == 1 else f"{comparison.old_runs} earlier runs"
    yield f"Speed is a rate, or one over a time; ± is the {confidence} interval of its change, from {draws}."
    yield "It compares geometric means of trials, old and new are medians: where trials scatter, these differ."
    yield f"faster, slower: the whole interval is beyond {margin}; same: it is within ±{margin}."
    often = round(1 / (1 - comparison.confidence))
    yield f"By chance at most one in {often} cases that did not change is called faster or slower."


def _whole(fraction: float) -> str:
    return f"{fraction * 100:g} %"
