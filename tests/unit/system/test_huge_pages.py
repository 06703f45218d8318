"""Whether the system has transparent huge pages, and where it gave them."""

import mmap

import numpy as np
import pytest

from cudabw.system.huge_pages import HugePages, huge_bytes_of, read_huge_pages

SMAPS = """\
559fe8a00000-559fe8a21000 rw-p 00000000 00:00 0                          [heap]
Size:                132 kB
AnonHugePages:         0 kB
VmFlags: rd wr mr mw me ac
7f0000200000-7f0000800000 rw-p 00000000 00:00 0
Size:               6144 kB
Rss:                6144 kB
AnonHugePages:      4096 kB
ShmemPmdMapped:        0 kB
VmFlags: rd wr mr mw me ac hg
7f0000800000-7f0000a00000 rw-p 00000000 00:00 0
Size:               2048 kB
AnonHugePages:      2048 kB
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "sys/kernel/mm/transparent_hugepage").mkdir(parents=True)
    return tmp_path


def write(root, enabled="always [madvise] never\n", size="2097152\n"):
    folder = root / "sys/kernel/mm/transparent_hugepage"
    (folder / "enabled").write_text(enabled)
    (folder / "hpage_pmd_size").write_text(size)


@pytest.mark.parametrize("mode", ["always", "madvise", "never"])
def test_the_mode_is_the_one_in_brackets(root, mode):
    write(root, "always madvise never\n".replace(mode, f"[{mode}]"))
    assert read_huge_pages(root) == HugePages(mode, 2 << 20)


@pytest.mark.parametrize(("enabled", "size"), [("", "2097152"), ("always madvise never", "2097152"), ("[always]", "")])
def test_a_system_that_does_not_say_has_none(root, enabled, size):
    assert read_huge_pages(root).mode is None
    write(root, enabled, size)
    assert read_huge_pages(root).mode is None


@pytest.mark.parametrize(
    ("address", "nbytes"),
    [(0x559FE8A00000, 0), (0x7F0000200000, 4 << 20), (0x7F0000800000, 2 << 20), (0x7F0000400000, None)],
)
def test_huge_pages_are_counted_of_the_mapping_that_begins_there(root, address, nbytes):
    (root / "proc/self/smaps").write_text(SMAPS)
    assert huge_bytes_of(address, root) == nbytes


@pytest.mark.parametrize("text", [None, "", "7f0000200000-7f0000800000 rw-p 0 00:00 0\nSize: 1 kB\n", "\x00\xff"])
def test_what_the_system_does_not_say_is_not_known(root, text):
    if text is not None:
        (root / "proc/self/smaps").write_text(text)
    assert huge_bytes_of(0x7F0000200000, root) is None


def test_the_real_system_says_that_small_memory_is_on_none():
    with mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
        array = np.frombuffer(pages, np.uint8)
        address = array.ctypes.data
        # Merged with a neighbour, it is no mapping of its own; what counts is that the format is understood.
        assert huge_bytes_of(address) in (0, None)
        del array
