"""The table of a suite's limits: one row for each figure that is bounded, from the results alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from cudabw.report.console import new_table, print_line, print_whole, symbols_for
from cudabw.report.titles import EMULATED, title_of
from cudabw.results.headline import label_of
from cudabw.results.limits import Bound, LimitState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from cudabw.report.console import Symbols
    from cudabw.results.limits import LimitResult
    from cudabw.results.model import RunResult

_CAPTIONS: Final[Mapping[Bound, str]] = {
    Bound.MIN_RATE: "Rate in GB/s, at least",
    Bound.MIN_LINK: "Share of the link in %, at least",
    Bound.MAX_TIME: "The call of a launch (submit) or a small copy in µs, at most",
    Bound.MAX_PER_ARGUMENT: "Converting each further argument in ns, at most",
}

_SHOWN_PER_UNIT: Final[Mapping[Bound, float]] = {
    Bound.MIN_RATE: 1e-9,
    Bound.MIN_LINK: 1e2,
    Bound.MAX_TIME: 1e6,
    Bound.MAX_PER_ARGUMENT: 1e9,
}

_UNREADABLE: Final = 1e5
"""From here on only an interval of few trials goes, and its digits mean nothing."""

_RULE: Final = "Pass: also the worse end of the 99 % interval meets the limit. Fail: even the better end misses it."

_WORDS: Final = {LimitState.PASS: "pass", LimitState.FAIL: "fail", LimitState.CANNOT_TELL: "cannot tell"}
_STYLES: Final = {LimitState.PASS: "green", LimitState.FAIL: "red", LimitState.CANNOT_TELL: "yellow"}


def print_limits(result: RunResult, console: Console) -> None:
    """Print whether each limit of a run is met; nothing where it has none, or measured nothing."""
    if not result.limits or not result.cases:
        return
    symbols = symbols_for(console)
    by_bound = {bound: [found for found in result.limits if found.bound is bound] for bound in _CAPTIONS}
    reasons = (found.reason for rows in by_bound.values() for found in rows)
    notes = list(dict.fromkeys(reason for reason in reasons if reason is not None))
    title = title_of("Limits", result.device, emulated=f"{EMULATED}: no limit can be told")
    console.print(Text(symbols.fold(title), style="bold"), soft_wrap=True)
    print_line(Text(count_limits(result.limits), style="bold"), console)
    for bound, rows in by_bound.items():
        if rows:
            console.print()
            print_line(Text(symbols.fold(_CAPTIONS[bound]), style="dim"), console)
            print_whole(_table(rows, result, notes, symbols), console)
    console.print()
    print_line(Text(_RULE, style="dim"), console)
    for number, note in enumerate(notes, start=1):
        print_line(Text(symbols.fold(f"[{number}] {note}")), console)


def count_limits(limits: Sequence[LimitResult]) -> str:
    """How many limits are met, in one line."""
    words = {
        LimitState.PASS: "met",
        LimitState.FAIL: "not met",
        LimitState.CANNOT_TELL: "cannot be told",
    }
    counts = {state: sum(found.state is state for found in limits) for state in words}
    told = ", ".join(f"{count} {words[state]}" for state, count in counts.items() if count)
    return f"Of {len(limits)} limits: {told}." if len(limits) > 1 else f"The one limit: {told.partition(' ')[2]}."


def limit_label(found: LimitResult, result: RunResult) -> str:
    """What a person calls the case that is limited; the pattern where it matched none."""
    if found.of is None:
        return found.cases
    if found.bound is Bound.MAX_PER_ARGUMENT:
        return f"{found.of.rpartition('/')[2]} arguments"
    return next((label_of(case) for case in result.cases if case.id == found.of), found.of)


def describe_limit(found: LimitResult) -> str:
    """A limit, its figure and its verdict in a sentence."""
    what = f"{_CAPTIONS[found.bound]} {_shown(found.limit, found.bound)}"
    figure = "no figure" if found.median is None else _shown(found.median, found.bound)
    if found.low is not None and found.high is not None:
        figure += f" ({_shown(found.low, found.bound)} to {_shown(found.high, found.bound)})"
    return f"{what}; measured: {figure}; {found.reason or 'met'}."


def _table(rows: Iterable[LimitResult], result: RunResult, notes: Sequence[str], symbols: Symbols) -> Table:
    table = new_table(symbols, ("Case",), ("Limit", "Figure"))
    for heading in ("Interval", "Verdict"):
        table.add_column(heading, no_wrap=True)
    for found in rows:
        table.add_row(
            limit_label(found, result),
            _shown(found.limit, found.bound),
            symbols.dash if found.median is None else Text(_shown(found.median, found.bound), style="bold"),
            _interval(found, symbols),
            _verdict(found, notes),
        )
    return table


def _interval(found: LimitResult, symbols: Symbols) -> str:
    if found.low is None or found.high is None:
        return symbols.dash
    return f"{_shown(found.low, found.bound)} to {_shown(found.high, found.bound)}"


def _verdict(found: LimitResult, notes: Sequence[str]) -> Text:
    note = "" if found.reason is None else f" [{notes.index(found.reason) + 1}]"
    return Text(f"{_WORDS[found.state]}{note}", style=_STYLES[found.state])


def _shown(value: float, bound: Bound) -> str:
    """In the unit of the caption, finer than elsewhere, because a limit may be close."""
    shown = value * _SHOWN_PER_UNIT[bound]
    if abs(shown) >= _UNREADABLE:
        return f"{shown:.1e}"
    if 0 < abs(shown) < 0.1:
        return f"{shown:.2g}"
    return f"{shown:.{2 if abs(shown) < 100 else 1}f}"
