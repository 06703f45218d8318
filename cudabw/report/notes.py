"""What cases have to say beside their figures: numbered in the table, written out under it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cudabw.report.console import Symbols
    from cudabw.results.launch import Seconds
    from cudabw.results.model import Case, Rate, State

Numbers: TypeAlias = "Mapping[str, tuple[int, ...]]"
"""The numbers of the notes of cases, by their ids."""


def number_notes(cases: Sequence[Case]) -> Numbers:
    """The numbers of what each case has to say, by its id; what several say has one number."""
    numbers: dict[str, int] = {}
    return {
        case.id: tuple(numbers.setdefault(text, len(numbers) + 1) for text in said)
        for case in cases
        if (said := _what_it_says(case))
    }


def note_cell(cases: Iterable[Case], numbers: Numbers) -> str:
    """The numbers of the notes of some cases."""
    return " ".join(str(number) for number in sorted({number for case in cases for number in numbers.get(case.id, ())}))


def write_notes(cases: Sequence[Case], numbers: Numbers, symbols: Symbols) -> Iterable[Text]:
    """Each note once, behind its number."""
    texts = {
        number: text
        for case in cases
        for number, text in zip(numbers.get(case.id, ()), _what_it_says(case), strict=False)
    }
    return (Text(symbols.fold(f"[{number}] {text}")) for number, text in sorted(texts.items()))


def count_outliers(figures: Iterable[Rate | Seconds | None], what: str) -> str | None:
    """Say how many samples stand apart, where some do.

    Args:
        figures: Of the cases.
        what: What a sample is, in the plural.
    """
    counted = [figure for figure in figures if figure is not None and figure.outliers is not None]
    outliers = sum(figure.outliers or 0 for figure in counted)
    if not outliers:
        return None
    samples = sum(figure.n or 0 for figure in counted)
    are, their, count = (
        ("is an outlier", "its", "it counts") if outliers == 1 else ("are outliers", "their", "they count")
    )
    return (
        f"{outliers} of {samples} {what} {are}, more than 10 times as far off {their} trial's median as usual; "
        f"{count} like the others."
    )


def format_trials(cases: Iterable[Case]) -> str:
    """How many trials the figures of some cases rest on: ``5 trials`` or ``5 to 9 trials``."""
    counts = [len(case.trials) for case in cases]
    fewest, most = min(counts), max(counts)
    return f"{most} trials" if fewest == most else f"{fewest} to {most} trials"


def state_cell(state: State) -> Text:
    """What stands in place of a figure."""
    return Text(_words(state), style="red" if state.failure else "yellow")


def _what_it_says(case: Case) -> tuple[str, ...]:
    if case.reason is None:
        return case.notes
    why = f"{_words(case.state)}: {case.reason}"
    return (why, *case.notes) if case.state.measured else (why,)


def _words(state: State) -> str:
    return str(state).replace("_", " ")
