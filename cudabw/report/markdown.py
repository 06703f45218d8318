"""The same reports as Markdown with GitHub's tables, for pull requests and job summaries."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cudabw.report.run_tables import print_run
from cudabw.results.facts import environment_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cudabw.results.model import RunResult

# What Markdown would take for something else than text.
_ESCAPED = str.maketrans({character: f"\\{character}" for character in "\\*`<|"})


def run_to_markdown(result: RunResult, encoding: str = "utf-8") -> str:
    """The tables of a run, and under them on what and when it was measured."""
    return markdown_of(lambda console: _print_all(result, console), encoding)


def markdown_of(print_report: Callable[[Console], None], encoding: str = "utf-8") -> str:
    """What a report prints, as Markdown: a line in bold is a heading, and each other line a paragraph.

    Args:
        print_report: Prints it on a console.
        encoding: Of where it will be written, which decides between symbols and ASCII.
    """
    console = _MarkdownConsole(encoding)
    print_report(console)
    return "\n\n".join(console.blocks) + "\n"


def _print_all(result: RunResult, console: Console) -> None:
    if result.finished is None:
        console.print(Text("The run had not finished when this was written."))
    if result.error is not None:
        console.print(Text(f"The run ended early: {result.error.message}"))
    print_run(result, console)
    console.print(Text("; ".join(_provenance(result)) + "."))


def _provenance(result: RunResult) -> Iterable[str]:
    device = result.device
    if device is not None:
        yield f"{device.name} (not a GPU)" if device.emulated else device.name
    named = (("CPU", "cpu"), ("NVIDIA driver", "nvidia_driver"), ("cuda-bindings", "cuda_bindings"))
    facts = environment_facts(result.environment)
    for name, key in named:
        if key in facts:
            yield f"{name} {facts[key]}"
    yield f"cudabw {result.tool_version}, {result.started}"


class _MarkdownConsole(Console):
    """A console whose reports become blocks of Markdown instead of lines."""

    def __init__(self, encoding: str) -> None:
        nowhere = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        super().__init__(file=nowhere, color_system=None, highlight=False, markup=False, emoji=False)
        self.blocks: list[str] = []
        self._after_heading = False

    def print(self, *objects: Any, **_: Any) -> None:  # noqa: ANN401 - rich's signature
        for printed in objects:
            if isinstance(printed, Table):
                self.blocks.append(_table(printed))
                self._after_heading = False
            elif isinstance(printed, Text):
                self.blocks.append(self._line(printed))

    def _line(self, text: Text) -> str:
        shown = _escape(text.plain)
        if str(text.style) != "bold":
            self._after_heading = False
            return shown
        # Of several in a row the first is the title, and the others are what it says first.
        line = f"**{shown}**" if self._after_heading else f"### {shown}"
        self._after_heading = True
        return line


def _table(table: Table) -> str:
    heads = _row(column.header for column in table.columns)
    rule = _row("---:" if column.justify == "right" else "---" for column in table.columns)
    rows = zip(*(column.cells for column in table.columns), strict=True)
    return "\n".join([heads, rule, *(_row(cells) for cells in rows)])


def _row(cells: Iterable[object]) -> str:
    shown = (cell.plain if isinstance(cell, Text) else str(cell) for cell in cells)
    return f"| {' | '.join(_escape(cell) for cell in shown)} |"


def _escape(text: str) -> str:
    return " ".join(text.translate(_ESCAPED).split())
