"""The progress bar."""

import io

import pytest

from cudabw.report.progress import ProgressBar


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")


def follow_a_run(stream):
    with ProgressBar(stream) as bar:
        bar.follow(0, 6, "pinned h2d 64 MiB")
        bar.follow(4, 6, "mapped d2h 4 KiB")


def test_a_terminal_sees_what_is_measured_and_how_much_is_done():
    terminal = Terminal()
    follow_a_run(terminal)
    shown = terminal.getvalue()
    assert "mapped d2h 4 KiB" in shown
    assert "4/6" in shown


def test_the_bar_is_gone_and_the_cursor_back_at_the_end():
    terminal = Terminal()
    follow_a_run(terminal)
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l")
    assert terminal.getvalue().endswith("\x1b[2K")


def test_what_is_written_meanwhile_stands_on_a_line_of_its_own():
    terminal = Terminal()
    with ProgressBar(terminal) as bar:
        with bar.hidden():
            terminal.write("before\n")
        bar.follow(0, 6, "pinned h2d 64 MiB")
        with bar.hidden():
            terminal.write("between\n")
        bar.follow(1, 6, "pinned d2h 64 MiB")
    shown = terminal.getvalue()
    assert shown.startswith("before\n")
    assert "\x1b[2Kbetween\n" in shown
    assert shown.index("pinned h2d") < shown.index("between") < shown.index("pinned d2h")


@pytest.mark.parametrize("force", ["", "1"])
def test_what_is_no_terminal_gets_no_bar_whatever_the_environment_says(monkeypatch, force):
    monkeypatch.setenv("FORCE_COLOR", force)
    stream = io.StringIO()
    follow_a_run(stream)
    assert stream.getvalue() == ""


def test_a_closed_stderr_gets_no_bar(capsys):
    follow_a_run(None)
    assert capsys.readouterr() == ("", "")
