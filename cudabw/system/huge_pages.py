"""Transparent huge pages: whether the system has them, and where it really gave them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cudabw.system.pseudofiles import parse_number, read_text

_FOLDER: Final = Path("sys/kernel/mm/transparent_hugepage")

# "always [madvise] never"
_CHOSEN: Final = re.compile(r"\[([a-z_]+)\]", re.ASCII)
# "7f0000000000-7f0000200000 rw-p 00000000 00:00 0", and the facts about it, one a line: "AnonHugePages:      2048 kB"
_MAPPING: Final = re.compile(r"([0-9a-f]+)-[0-9a-f]+ ", re.ASCII)
_HUGE: Final = re.compile(r"AnonHugePages:\s+([0-9]{1,15}) kB", re.ASCII)


@dataclass(frozen=True, slots=True)
class HugePages:
    """What the system says of transparent huge pages.

    Attributes:
        mode: ``always``, ``madvise`` (for memory that asks), ``never``; None where there are none.
        page_bytes: Bytes of one.
    """

    mode: str | None
    page_bytes: int


def read_huge_pages(root: Path = Path("/")) -> HugePages:
    """Read whether the system has transparent huge pages. Never raises.

    Args:
        root: Where ``/sys`` is found.
    """
    chosen = _CHOSEN.search(read_text(root / _FOLDER / "enabled") or "")
    nbytes = parse_number(read_text(root / _FOLDER / "hpage_pmd_size"))
    return HugePages(chosen[1] if chosen and nbytes else None, nbytes or 0)


def huge_bytes_of(address: int, root: Path = Path("/")) -> int | None:
    """Give how many bytes of a mapping of this process are on huge pages; None where the system does not say.

    Args:
        address: Where the mapping begins.
        root: Where ``/proc`` is found.
    """
    found = False
    for line in (read_text(root / "proc/self/smaps") or "").splitlines():
        if (start := _MAPPING.match(line)) is not None:
            found = int(start[1], 16) == address
        elif found and (huge := _HUGE.match(line)) is not None:
            return int(huge[1]) << 10
    return None
