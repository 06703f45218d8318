"""Consoles that fit where they write: no colour into files, ASCII where the terminal has nothing else."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import IO, TYPE_CHECKING

from rich.box import SIMPLE_HEAD, Box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.text import Text

# Wide enough for every table of ours, so that nothing is wrapped or cut in a pipe or a file.
PIPE_WIDTH = 120
_NO_WIDTH = 10_000


@dataclass(frozen=True, slots=True)
class Symbols:
    """The few characters beyond ASCII that reports use, and what stands for them in ASCII."""

    plus_minus: str = "±"
    both_ways: str = "↔"
    dash: str = "–"
    dot: str = "·"
    micro: str = "µ"

    def fold(self, text: str) -> str:
        """A text with these symbols, in the characters that can be printed."""
        for field in fields(self):
            text = text.replace(str(field.default), getattr(self, field.name))
        return text


UNICODE = Symbols()
ASCII = Symbols(plus_minus="+/-", both_ways="<->", dash="-", dot="|", micro="u")

# As rich's SIMPLE_HEAD, with a rule that every terminal can show.
_ASCII_HEAD = Box(str(SIMPLE_HEAD).replace("─", "-"), ascii=True)


def new_table(symbols: Symbols, words: Iterable[str] = (), figures: Iterable[str] = ()) -> Table:
    """An empty table as all reports have it: a rule under the heads, and no line more.

    Args:
        symbols: That can be printed.
        words: The heads of its first columns.
        figures: Those of the columns after them, which stand at the right.
    """
    table = Table(box=_ASCII_HEAD if symbols is ASCII else SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for heading in words:
        table.add_column(heading, no_wrap=True)
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def make_console(stream: IO[str]) -> Console:
    """A console on a stream; honours NO_COLOR, FORCE_COLOR and COLUMNS as rich does."""
    # Some programs that start others say 0 where they know no width, and rich would print nothing.
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS" or value.strip("0")}
    console = Console(file=stream, highlight=False, markup=False, emoji=False, _environ=environ)
    if not stream.isatty() and "COLUMNS" not in environ:
        console.width = PIPE_WIDTH
    return console


def print_whole(table: Table, console: Console) -> None:
    """Print a table at its own width; one that is wider than the console is wrapped by the terminal.

    Rich would cut cells off instead, and half a figure looks like another figure.
    """
    table.width = console.measure(table, options=console.options.update(max_width=_NO_WIDTH)).maximum
    console.print(table, crop=False)


def print_line(text: Text, console: Console) -> None:
    """Print a sentence; in a pipe it stays in one piece, for grep."""
    console.print(text, soft_wrap=not console.is_terminal)


def symbols_for(console: Console) -> Symbols:
    """The symbols that the console's stream can encode."""
    try:
        "±↔–·µ".encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
