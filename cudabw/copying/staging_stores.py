"""Two ways for the CPU to copy bytes: through its caches, and past them."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import platform
from collections.abc import Callable
from typing import TypeAlias

CopyBytes: TypeAlias = Callable[[int, int, int], object]
"""Copies from the second host address to the first as many bytes as the third argument says, without the GIL."""

# An ordinary store reads the line that it is about to overwrite. For bytes that nobody looks at soon that is a
# third of all memory traffic, which a streaming store (MOVNTDQ, SSE2: every x86-64 has it) does without. The C
# library streams only what is larger than most of a cache, and no library that Python programs surely have can be
# asked to. Hence these instructions, in the System V calling convention:
_STREAMING_X86_64 = bytes.fromhex(
    "4889d1"  #       mov rcx, rdx           rdi: destination, rsi: source, rdx: bytes
    "4883fa40"  #     cmp rdx, 64
    "7250"  #         jb tail
    "89f9"  #         mov ecx, edi
    "f7d9"  #         neg ecx
    "83e13f"  #       and ecx, 63            bytes up to the first whole line of the destination
    "4829ca"  #       sub rdx, rcx
    "f3a4"  #         rep movsb
    "4889d1"  #       mov rcx, rdx
    "48c1e906"  #     shr rcx, 6             whole lines
    "7436"  #         jz rest
    "f30f6f06"  # line: movdqu xmm0, [rsi]
    "f30f6f4e10"  #   movdqu xmm1, [rsi+16]
    "f30f6f5620"  #   movdqu xmm2, [rsi+32]
    "f30f6f5e30"  #   movdqu xmm3, [rsi+48]
    "660fe707"  #     movntdq [rdi], xmm0
    "660fe74f10"  #   movntdq [rdi+16], xmm1
    "660fe75720"  #   movntdq [rdi+32], xmm2
    "660fe75f30"  #   movntdq [rdi+48], xmm3
    "4883c640"  #     add rsi, 64
    "4883c740"  #     add rdi, 64
    "48ffc9"  #       dec rcx
    "75cd"  #         jnz line
    "0faef8"  #       sfence                 streamed bytes are ordered before whatever follows
    "89d1"  # rest:   mov ecx, edx
    "83e13f"  #       and ecx, 63
    "f3a4"  # tail:   rep movsb
    "c3"  #           ret
)


def through_caches() -> CopyBytes:
    """The C library's ``memmove``."""
    return ctypes.memmove


@functools.cache
def past_caches() -> CopyBytes | None:
    """A copy with streaming stores, one for the process; None where processor or system do not let us have one.

    It is the better one where the destination is not read soon and memory traffic is what limits:
    bytes that leave pinned slots for a program's array.
    """
    if platform.machine() not in ("x86_64", "AMD64") or os.name != "posix":
        return None
    try:
        return _StreamingCopy(_STREAMING_X86_64)
    except OSError:  # the system does not let a process make code
        return None


class _StreamingCopy:
    """Machine code in pages of its own, which live as long as this.

    Args:
        code: A function of destination, source and number of bytes.

    Raises:
        OSError: The pages cannot be had, or not be made executable.
    """

    def __init__(self, code: bytes) -> None:
        pages = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pages.write(code)
        self._pages = (ctypes.c_char * mmap.PAGESIZE).from_buffer(pages)
        address = ctypes.addressof(self._pages)
        _protect(address, mmap.PROT_READ | mmap.PROT_EXEC)
        self._copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(address)

    def __call__(self, destination: int, source: int, nbytes: int) -> None:
        self._copy(destination, source, nbytes)


def _protect(address: int, protection: int) -> None:
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if protect(address, mmap.PAGESIZE, protection):
        raise OSError(ctypes.get_errno(), "mprotect")
