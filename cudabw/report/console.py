"""Consoles that fit where they write: no colour into files, ASCII where the terminal has nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from rich.console import Console

# Wide enough for every table of ours, so that nothing is wrapped or cut in a pipe or a file.
PIPE_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Symbols:
    """The few characters beyond ASCII that reports use, and what stands for them in ASCII."""

    plus_minus: str = "±"
    both_ways: str = "↔"
    dash: str = "–"
    dot: str = "·"

    def fold(self, text: str) -> str:
        """A text with these symbols, in the characters that can be printed."""
        for have, want in (("±", self.plus_minus), ("↔", self.both_ways), ("–", self.dash), ("·", self.dot)):
            text = text.replace(have, want)
        return text


UNICODE = Symbols()
ASCII = Symbols(plus_minus="+/-", both_ways="<->", dash="-", dot="|")


def make_console(stream: IO[str]) -> Console:
    """A console on a stream; honours NO_COLOR, FORCE_COLOR and COLUMNS as rich does."""
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in console._environ:  # noqa: SLF001 - rich offers no other way to ask
        console.width = PIPE_WIDTH
    return console


def symbols_for(console: Console) -> Symbols:
    """The symbols that the console's stream can encode."""
    try:
        "±↔–·µ".encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
