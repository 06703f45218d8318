"""Pageable memory on transparent huge pages, or the reason why there is none."""

from __future__ import annotations

import mmap
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cudabw.errors import RefusedError, UnsupportedError
from cudabw.runtime.memory import PageableBuffer
from cudabw.system.huge_pages import huge_bytes_of, read_huge_pages
from cudabw.units import format_size

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from cudabw.runtime.buffer import Buffer
    from cudabw.runtime.device import Device


def huge_pages(device: Device, nbytes: int) -> Callable[[], PageableBuffer]:
    """Get ready to get memory for which huge pages are asked.

    Raises:
        UnsupportedError: The system has none, or they are switched off.
    """
    found = read_huge_pages()
    if found.mode is None:
        raise UnsupportedError("this system has no transparent huge pages (/sys/kernel/mm/transparent_hugepage)")
    if found.mode == "never":
        raise UnsupportedError(
            "transparent huge pages are switched off (/sys/kernel/mm/transparent_hugepage/enabled: never)",
            hint="As root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    return partial(_allocate, device, nbytes, found.page_bytes)


def require_huge_pages(buffer: Buffer) -> None:
    """Do nothing if all pages of a touched buffer, from :func:`huge_pages`, are huge.

    Raises:
        UnsupportedError: The system gave others, or does not say which it gave.
    """
    wanted = _rounded_up(buffer.nbytes, read_huge_pages().page_bytes)
    given = huge_bytes_of(int(buffer.host_pointer))
    if given is None:
        raise UnsupportedError("whether the memory is on huge pages is not known: /proc/self/smaps does not say")
    if given < wanted:
        raise UnsupportedError(
            f"of {format_size(wanted)} of memory the system gave {format_size(given)} on huge pages "
            "(AnonHugePages in /proc/self/smaps)",
            hint="Memory may be too fragmented. As root: echo 1 > /proc/sys/vm/compact_memory",
        )


def _allocate(device: Device, nbytes: int, page: int) -> PageableBuffer:
    return PageableBuffer.over(device, _map(nbytes, page))


def _map(nbytes: int, page: int) -> npt.NDArray[np.uint8]:
    """Fresh memory that begins at a huge page and is a mapping of its own for /proc/self/smaps."""
    length = _rounded_up(nbytes, page)
    try:
        # A part of a page at least is left over on either side: without the advice it stays a mapping of its own.
        pages = mmap.mmap(-1, length + 2 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise RefusedError(f"{nbytes} bytes of host pageable memory were refused ({error})") from error
    whole = np.frombuffer(pages, np.uint8)
    start = page - whole.ctypes.data % page
    try:
        pages.madvise(mmap.MADV_HUGEPAGE, start, length)
    except OSError as error:
        raise UnsupportedError(f"the system refuses to advise huge pages: {error.strerror}") from error
    return whole[start : start + nbytes]


def _rounded_up(nbytes: int, page: int) -> int:
    return -(-nbytes // page) * page
