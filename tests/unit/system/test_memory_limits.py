from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cudabw.system.memory_limits import HugePages, LockedMemory, huge_pages, locked_memory, transparent_huge_pages

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max processes             63432                63432                processes
Max locked memory         {soft:<20} {hard:<20} bytes
Max file locks            unlimited            unlimited            locks
"""


def write(root: Path, name: str, text: str) -> Path:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        ("8388608", "8388608", LockedMemory(8388608, 8388608)),
        ("65536", "unlimited", LockedMemory(65536, None)),
        ("unlimited", "unlimited", LockedMemory(None, None)),
    ],
)
def test_both_limits_on_locked_memory_are_read(tmp_path: Path, soft: str, hard: str, expected: LockedMemory) -> None:
    assert locked_memory(write(tmp_path, "proc/self/limits", LIMITS.format(soft=soft, hard=hard))) == expected


@pytest.mark.parametrize("text", ["", "Max locked memory\n", "Max locked memory  -1  -1  bytes\n"])
def test_limits_that_cannot_be_read_are_not_held_for_unlimited(tmp_path: Path, text: str) -> None:
    assert locked_memory(write(tmp_path, "proc/self/limits", text)) is None
    assert locked_memory(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("always [madvise] never\n", "madvise"),
        ("[always] madvise never\n", "always"),
        ("always madvise [never]\n", "never"),
        ("always madvise never\n", None),
        ("", None),
    ],
)
def test_the_chosen_mode_of_transparent_huge_pages_is_read(tmp_path: Path, text: str, mode: str | None) -> None:
    assert transparent_huge_pages(write(tmp_path, "sys/kernel/mm/transparent_hugepage/enabled", text)) == mode


def test_huge_pages_that_are_set_aside_are_counted(tmp_path: Path) -> None:
    meminfo = "MemTotal: 1 kB\nHugePages_Total:      64\nHugePages_Free:       60\nHugepagesize:       2048 kB\n"
    assert huge_pages(write(tmp_path, "proc/meminfo", meminfo)) == HugePages(2 << 20, 64, 60)


@pytest.mark.parametrize("missing", ["HugePages_Total", "HugePages_Free", "Hugepagesize"])
def test_huge_pages_of_which_a_part_is_not_known_are_not_known(tmp_path: Path, missing: str) -> None:
    lines = ["HugePages_Total: 1", "HugePages_Free: 1", "Hugepagesize: 2048 kB"]
    text = "".join(f"{line}\n" for line in lines if not line.startswith(missing))
    assert huge_pages(write(tmp_path, "proc/meminfo", text)) is None
