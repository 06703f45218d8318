from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.system.pseudofiles import (
    count_entries,
    exists,
    is_directory,
    parse_number,
    parse_number_list,
    read_line,
    read_text,
)

if TYPE_CHECKING:
    from pathlib import Path


@given(st.integers(0, 2**64 - 1), st.sampled_from(["", "\n", " "]))
def test_every_number_that_the_kernel_prints_is_read(number: int, end: str) -> None:
    assert parse_number(f"{end}{number}{end}") == number


@pytest.mark.parametrize(
    "text", [None, "", "max", "-1", "+1", "1.5", "1_000", "1 2", "0x10", "\u0664", "\u00b2", "9" * 21]
)
def test_anything_else_is_none(text: str | None) -> None:
    assert parse_number(text) is None


@given(st.text())
def test_any_text_is_a_number_or_none(text: str) -> None:
    number = parse_number(text)
    assert number is None or number >= 0


def test_text_is_read_whatever_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\xffb\n")
    assert read_text(tmp_path / "file") == "a\ufffdb\n"


@pytest.mark.parametrize("name", ["missing", "folder", "null\0byte", "n" * 5000, "file/below"])
def test_what_cannot_be_read_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    assert read_text(tmp_path / name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [("folder", True), ("file", False), ("missing", False), ("null\0byte", False), ("n" * 5000, False)],
)
def test_a_directory_is_told_from_everything_else(tmp_path: Path, name: str, expected: bool) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    assert is_directory(tmp_path / name) is expected


@pytest.mark.parametrize(
    ("name", "there", "entries"),
    [("folder", True, 0), ("file", True, None), ("missing", False, None), ("null\0byte", False, None), (".", True, 2)],
)
def test_what_is_there_is_told_and_counted(tmp_path: Path, name: str, there: bool, entries: int | None) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    assert (exists(tmp_path / name), count_entries(tmp_path / name)) == (there, entries)


@pytest.mark.parametrize(("text", "line"), [("a b\n", "a b"), (" x\0", "x"), ("\n", None), ("", None)])
def test_a_line_is_read_without_what_surrounds_it(tmp_path: Path, text: str, line: str | None) -> None:
    (tmp_path / "file").write_text(text)
    assert read_line(tmp_path / "file") == line
    assert read_line(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("text", "processors"),
    [
        ("0-3\n", {0, 1, 2, 3}),
        ("0-1,8,10-11\n", {0, 1, 8, 10, 11}),
        ("5", {5}),
        ("\n", set()),
        (None, None),
        ("3-1", None),
        ("0-99999999999", None),
        ("a-b", None),
        ("1,-1", None),
    ],
)
def test_a_list_of_processors_is_read(text: str | None, processors: set[int] | None) -> None:
    assert parse_number_list(text) == processors


@given(st.frozensets(st.integers(0, 500)))
def test_every_set_of_processors_is_read_back(numbers: frozenset[int]) -> None:
    assert parse_number_list(",".join(map(str, sorted(numbers)))) == numbers
