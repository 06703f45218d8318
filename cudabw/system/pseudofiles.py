"""Read the small text files of /proc and /sys, of which any may be missing, unreadable or strange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_MOST_DIGITS: Final = 20
"""Digits of 2**64, the widest number that the kernel prints into these files."""

_MOST_PROCESSORS: Final = 1 << 16
"""More than any machine has: what claims more is no list of processors."""


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


def parse_cpu_list(text: str | None) -> frozenset[int]:
    """Read a list of processors as the kernel writes it, such as ``0-3,8``; empty for what is none."""
    numbers: set[int] = set()
    for part in (text or "").strip().split(","):
        first, dash, last = part.partition("-")
        low, high = parse_number(first), parse_number(last if dash else first)
        if low is not None and high is not None and high - low < _MOST_PROCESSORS:
            numbers.update(range(low, high + 1))
    return frozenset(numbers)
