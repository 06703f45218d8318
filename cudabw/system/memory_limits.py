"""What bounds and shapes host memory beside its amount: locked memory, transparent huge pages, reserved huge pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cudabw.system.pseudofiles import parse_number, read_text

if TYPE_CHECKING:
    from pathlib import Path

_HUGE_PAGE_FIELDS: Final = ("Hugepagesize", "HugePages_Total", "HugePages_Free")


@dataclass(frozen=True, slots=True)
class LockedMemory:
    """How much memory this process may lock (``RLIMIT_MEMLOCK``).

    Attributes:
        soft_bytes: The limit that holds; None without one.
        hard_bytes: Up to where this process may raise it itself; None without a limit.
    """

    soft_bytes: int | None
    hard_bytes: int | None


@dataclass(frozen=True, slots=True)
class HugePages:
    """Huge pages that are set aside, of the default size.

    Attributes:
        size_bytes: Of one page.
        total: How many there are.
        free: How many of them nobody uses.
    """

    size_bytes: int
    total: int
    free: int


def locked_memory(root: Path) -> LockedMemory | None:
    """Read the limits on locked memory; None where they cannot be read. Never raises."""
    text = read_text(root / "proc" / "self" / "limits") or ""
    match = re.search(r"^Max locked memory +(unlimited|\d{1,20}) +(unlimited|\d{1,20}) ", text, re.ASCII | re.MULTILINE)
    return None if match is None else LockedMemory(parse_number(match[1]), parse_number(match[2]))


def transparent_huge_pages(root: Path) -> str | None:
    """The mode that is chosen, ``always``, ``madvise`` or ``never``; None where it cannot be read. Never raises."""
    text = read_text(root / "sys" / "kernel" / "mm" / "transparent_hugepage" / "enabled") or ""
    match = re.search(r"\[(\w+)\]", text, re.ASCII)
    return None if match is None else match[1]


def huge_pages(root: Path) -> HugePages | None:
    """Count the huge pages that are set aside; None where they cannot be read. Never raises."""
    text = read_text(root / "proc" / "meminfo") or ""
    found = [re.search(rf"^{name}: +(\d{{1,20}})\b", text, re.ASCII | re.MULTILINE) for name in _HUGE_PAGE_FIELDS]
    size, total, free = (None if match is None else int(match[1]) for match in found)
    return None if size is None or total is None or free is None else HugePages(size * 1024, total, free)
