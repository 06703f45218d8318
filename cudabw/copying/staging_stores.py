"""Two ways for the CPU to copy bytes: through its caches, and past them."""

from __future__ import annotations

import ctypes
import functools

from cudabw.copying.machine_code import MachineCode

# An ordinary store reads the line that it is about to overwrite. For bytes that nobody looks at soon that is a
# third of all memory traffic, which a streaming store (MOVNTDQ, SSE2: every x86-64 has it) does without. The C
# library streams only what is larger than most of a cache. Hence these instructions:
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


@functools.cache
def through_caches() -> int:
    """The address of the C library's ``memmove``: destination, source, number of bytes."""
    return ctypes.cast(ctypes.CDLL(None).memmove, ctypes.c_void_p).value or 0


def past_caches() -> int | None:
    """The address of a copy like ``memmove`` with streaming stores; None where processor or system allow none.

    It is the better one where the destination is not read soon and memory traffic is what limits:
    bytes that leave pinned slots for a program's array.
    """
    code = _streaming()
    return None if code is None else code.address


@functools.cache
def _streaming() -> MachineCode | None:
    try:
        return MachineCode(_STREAMING_X86_64)
    except OSError:
        return None
