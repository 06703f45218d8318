"""What cases have to say beside their figures: numbered in the table, written out under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from cudabw.results.model import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cudabw.report.console import Symbols
    from cudabw.results.model import Case


def number_notes(cases: Sequence[Case]) -> dict[str, int]:
    """A number for each case that has something to say, by its id; cases that say the same share one."""
    numbers: dict[tuple[str, ...], int] = {}
    return {case.id: numbers.setdefault(said, len(numbers) + 1) for case in cases if (said := _what_it_says(case))}


def note_cell(cases: Iterable[Case], numbers: Mapping[str, int]) -> str:
    """The numbers of the notes of some cases."""
    return " ".join(str(number) for number in sorted({numbers[case.id] for case in cases if case.id in numbers}))


def write_notes(cases: Sequence[Case], numbers: Mapping[str, int], symbols: Symbols) -> Iterable[Text]:
    """Each note once, behind its number."""
    texts = {numbers[case.id]: "; ".join(_what_it_says(case)) for case in cases if case.id in numbers}
    return (Text(symbols.fold(f"[{number}] {text}")) for number, text in sorted(texts.items()))


def state_cell(state: State) -> Text:
    """What stands in place of a figure."""
    return Text(_words(state), style="red" if state in (State.FAILED, State.WRONG_DATA) else "yellow")


def _what_it_says(case: Case) -> tuple[str, ...]:
    if case.reason is not None:
        return (f"{_words(case.state)}: {case.reason}",)
    return case.notes


def _words(state: State) -> str:
    return str(state).replace("_", " ")
