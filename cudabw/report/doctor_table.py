"""The list of ``cudabw doctor``: every finding; under those that are not well, why they matter and what mends them."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final

from rich.text import Text

from cudabw.report.console import symbols_for
from cudabw.report.titles import EMULATED
from cudabw.results.diagnosis import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from cudabw.results.diagnosis import Diagnosis, Finding

_STYLES: Final = {
    Verdict.OK: "green",
    Verdict.ATTENTION: "yellow",
    Verdict.WRONG: "bold red",
    Verdict.UNKNOWN: "dim",
}
_VERDICT_WIDTH: Final = 11
_NAME_WIDTH: Final = 15
_INDENT: Final = " " * (_VERDICT_WIDTH + _NAME_WIDTH)
_LEAST_WIDTH: Final = 30
"""Of the text beside the names; on a narrower terminal it is wrapped by the terminal."""


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Print every finding, and what they come to."""
    dot = symbols_for(console).dot
    console.print(Text(_title(diagnosis, dot), style="bold"), soft_wrap=True)
    console.print()
    width = max(console.width - len(_INDENT), _LEAST_WIDTH) if console.is_terminal else None
    for finding in diagnosis.findings:
        for line in _lines(finding, width):
            console.print(line, soft_wrap=True)
    console.print()
    for text in _conclusion(diagnosis):
        console.print(Text(text), soft_wrap=True)


def _title(diagnosis: Diagnosis, dot: str) -> str:
    title = f"What cudabw depends on {dot} nothing is changed"
    return f"{title} {dot} {EMULATED}" if diagnosis.emulated else title


def _lines(finding: Finding, width: int | None) -> Iterable[Text]:
    said = finding.seen if finding.device is None else f"GPU {finding.device}: {finding.seen}"
    first, *others = _wrapped(said, width)
    verdict = (f"{finding.verdict:<{_VERDICT_WIDTH}}", _STYLES[finding.verdict])
    yield Text.assemble(verdict, f"{finding.check:<{_NAME_WIDTH}}{first}")
    yield from (Text(f"{_INDENT}{line}") for line in others)
    if finding.verdict in (Verdict.ATTENTION, Verdict.WRONG):
        yield from (Text(f"{_INDENT}{line}", style="dim") for line in _wrapped(f"Why: {finding.why}", width))
        yield from (Text(f"{_INDENT}{line}") for line in _fix(finding, width))


def _fix(finding: Finding, width: int | None) -> list[str]:
    if not finding.fix:
        return []
    # A command is to be copied, so it stays in one piece.
    return _wrapped(f"Fix: {finding.fix}", width if finding.is_advice else None)


def _wrapped(text: str, width: int | None) -> list[str]:
    # In a pipe a finding stays in one piece, for grep.
    return [text] if width is None else wrap(text, width, break_on_hyphens=False) or [""]


def _conclusion(diagnosis: Diagnosis) -> Iterable[str]:
    yield ", ".join(f"{diagnosis.count(verdict)} {verdict}" for verdict in Verdict) + "."
    wrong = diagnosis.count(Verdict.WRONG)
    if diagnosis.emulated:
        yield "The device is emulated by host memory: this says nothing of the health of a GPU."
    elif diagnosis.interrupted:
        yield "Interrupted: not everything was looked at."
    elif diagnosis.error is not None:
        yield "No CUDA driver or GPU can be used."
    elif wrong:
        yield f"{wrong} thing{'s' * (wrong != 1)} to mend."
    else:
        yield "Nothing is wrong."
