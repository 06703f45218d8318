"""Consoles that fit where they write."""
# ruff: noqa: RUF001 - tables use the typographic dash

import io

import pytest
from rich.table import Table

from cudabw.report.console import ASCII, PIPE_WIDTH, UNICODE, make_console, print_whole, symbols_for


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def stream(kind=io.TextIOWrapper, encoding="utf-8"):
    return kind(io.BytesIO(), encoding=encoding, write_through=True)


def written(out, **style):
    make_console(out).print("[1] x", style="bold red", **style)
    return out.buffer.getvalue().decode()


def test_a_file_gets_no_escape_codes():
    assert written(stream()) == "[1] x\n"


def test_a_terminal_gets_colour():
    assert written(stream(Terminal)) == "\x1b[1;31m[1] x\x1b[0m\n"


def test_no_color_leaves_a_terminal_without_colour(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31" not in written(stream(Terminal))


def test_force_color_colours_a_file_that_keeps_its_width(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = stream()
    assert "\x1b[1;31m" in written(out)
    assert make_console(out).width == PIPE_WIDTH


def test_columns_set_the_width_also_of_a_file(monkeypatch):
    monkeypatch.setenv("COLUMNS", "44")
    assert make_console(stream()).width == 44


def test_a_width_of_0_is_that_of_a_program_that_knows_none(monkeypatch):
    monkeypatch.setenv("COLUMNS", "0")
    assert make_console(stream()).width == PIPE_WIDTH
    assert written(stream()) == "[1] x\n"


@pytest.mark.parametrize(
    ("encoding", "symbols"), [("utf-8", UNICODE), ("ascii", ASCII), ("latin-1", ASCII), ("cp437", ASCII)]
)
def test_symbols_are_those_that_the_stream_can_encode(encoding, symbols):
    assert symbols_for(make_console(stream(encoding=encoding))) == symbols


def test_folding_leaves_nothing_that_ascii_lacks():
    assert ASCII.fold("a ± b ↔ c – d · e") == "a +/- b <-> c - d | e"
    assert UNICODE.fold("a ± b ↔ c – d · e") == "a ± b ↔ c – d · e"


def test_a_table_is_never_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "10")
    out = stream()
    table = Table("a long heading", "another long heading", box=None, padding=0)
    table.add_row("1234567890", "1234567890")
    print_whole(table, make_console(out))
    assert out.buffer.getvalue().decode().splitlines()[1].split() == ["1234567890", "1234567890"]
