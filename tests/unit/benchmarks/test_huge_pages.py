"""Pageable memory on huge pages: proven or refused with the reason."""

import mmap

import pytest

from cudabw.benchmarks import huge_pages as module
from cudabw.benchmarks.huge_pages import huge_pages, require_huge_pages
from cudabw.errors import RefusedError, UnsupportedError
from cudabw.measuring.verification import touch
from cudabw.system.huge_pages import HugePages, huge_bytes_of, read_huge_pages

MIB = 1 << 20
HUGE = 2 * MIB


@pytest.fixture
def system(monkeypatch):
    """A system that says what it is told to."""

    def say(mode="madvise", given=1 << 40):
        monkeypatch.setattr(module, "read_huge_pages", lambda: HugePages(mode, HUGE))
        monkeypatch.setattr(module, "huge_bytes_of", lambda _: given)
        monkeypatch.setattr(mmap, "MADV_HUGEPAGE", mmap.MADV_NORMAL)

    say()
    return say


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("nbytes", [1, 4096, HUGE - 1, HUGE, HUGE + 1, 3 * HUGE])
def test_memory_begins_at_a_huge_page_and_is_as_long_as_asked(device, nbytes):
    with huge_pages(device, nbytes)() as buffer:
        assert (buffer.kind, buffer.nbytes) == ("pageable", nbytes)
        assert int(buffer.host_pointer) % HUGE == 0
        buffer.array()[:] = 7
        assert int(buffer.array().sum()) == 7 * nbytes


@pytest.mark.usefixtures("system")
def test_all_whole_huge_pages_of_it_are_advised_and_nothing_beside_them(device, monkeypatch):
    advised = []
    real = mmap.mmap

    class Recording(real):
        def madvise(self, option, start, length):
            advised.append((start, length, len(self)))
            return super().madvise(option, start, length)

    monkeypatch.setattr(mmap, "mmap", Recording)
    with huge_pages(device, HUGE + 1)():
        ((start, length, whole),) = advised
        assert (length, whole) == (2 * HUGE, 4 * HUGE)
        # Something is left over on both sides.
        assert 0 < start < whole - length


@pytest.mark.parametrize(
    ("mode", "reason", "hint"),
    [
        (None, "this system has no transparent huge pages", ""),
        ("never", r"switched off \(/sys/kernel/mm/transparent_hugepage/enabled: never\)", "echo madvise"),
    ],
)
def test_where_there_are_none_the_reason_is_said_before_memory_is_taken(device, system, mode, reason, hint):
    system(mode)
    with pytest.raises(UnsupportedError, match=reason) as caught:
        huge_pages(device, HUGE)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (None, "/proc/self/smaps does not say"),
        (0, "of 4 MiB of memory the system gave 0 B on huge pages"),
        (HUGE, "of 4 MiB of memory the system gave 2 MiB on huge pages"),
    ],
)
def test_pages_that_are_not_all_huge_are_no_huge_pages(device, system, given, reason):
    system(given=given)
    with huge_pages(device, HUGE + 1)() as buffer, pytest.raises(UnsupportedError, match=reason):
        require_huge_pages(buffer)
    system(given=2 * HUGE)
    with huge_pages(device, HUGE + 1)() as buffer:
        require_huge_pages(buffer)


@pytest.mark.usefixtures("system")
def test_a_system_that_refuses_the_advice_or_the_memory_says_so(device, monkeypatch):
    with pytest.raises(RefusedError, match=r"\d+ bytes of host pageable memory were refused"):
        huge_pages(device, 1 << 60)()
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 9999)
    with pytest.raises(UnsupportedError, match="refuses to advise huge pages: Invalid argument"):
        huge_pages(device, HUGE)()


@pytest.mark.skipif(read_huge_pages().mode not in ("always", "madvise"), reason="this system gives no huge pages")
def test_what_the_real_system_gave_is_proven_only_after_the_first_touch(device):
    with huge_pages(device, 3 * HUGE + 1)() as buffer:
        with pytest.raises(UnsupportedError, match="gave 0 B on huge pages"):
            require_huge_pages(buffer)
        touch(buffer.array())
        # How many a system has left is its own affair.
        if huge_bytes_of(int(buffer.host_pointer)) == 4 * read_huge_pages().page_bytes:
            require_huge_pages(buffer)
        else:
            with pytest.raises(UnsupportedError, match=r"gave .* on huge pages"):
                require_huge_pages(buffer)
