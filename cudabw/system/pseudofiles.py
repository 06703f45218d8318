"""Read the small text files of /proc and /sys, of which any may be missing, unreadable or strange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_MOST_DIGITS: Final = 20
"""Digits of 2**64, the widest number that the kernel prints into these files."""

_LARGEST_LISTED: Final = 1 << 16
"""No list of the kernel's goes so far: it is built for at most 8192 CPUs and 1024 nodes."""


def read_text(path: Path) -> str | None:
    """Give a file's text, or None where it cannot be read. Never raises."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):  # ValueError: a path with a null byte in it
        return None


def read_line(path: Path) -> str | None:
    """Give the text of a file that holds one line, without what surrounds it; None for nothing. Never raises."""
    text = read_text(path)
    return (text.strip("\0 \t\n") or None) if text is not None else None


def is_directory(path: Path) -> bool:
    """Say whether this is a directory that can be looked at. Never raises."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # is_dir() itself raises for a name that is too long or a parent that is closed
        return False


def exists(path: Path) -> bool:
    """Say whether there is anything of this name that can be looked at. Never raises."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def count_entries(path: Path) -> int | None:
    """Count what a directory holds, or give None where it cannot be listed. Never raises."""
    try:
        return sum(1 for _ in path.iterdir())
    except (OSError, ValueError):
        return None


def parse_number(text: str | None) -> int | None:
    """Read a whole number that stands alone, or give None: for ``max``, a sign, a fraction and no text at all."""
    digits = text.strip() if text is not None else ""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        return None
    return int(digits)


def parse_number_list(text: str | None) -> frozenset[int] | None:
    """Read the kernel's list of CPUs or nodes, such as ``0-3,8``, or give None; an empty list is one too."""
    if text is None:
        return None
    numbers: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        low, high = parse_number(first), parse_number(last if dash else first)
        if low is None or high is None or not low <= high <= _LARGEST_LISTED:
            return None
        numbers.update(range(low, high + 1))
    return frozenset(numbers)
