"""A list of pieces that several threads take from, each piece going to one of them.

A thread that runs on a slow CPU then takes fewer. On a virtual machine that is no rare case: a CPU whose sibling, a
thread of the same core, is busy ran at 0.55 of the speed of one that has the core alone, and about a third of all
CPUs were so at any moment (measured on a machine with an H200).
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from cudabw.copying.call_rows import FOUR_ARGUMENTS, address_of
from cudabw.copying.machine_code import c_function

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.uint64]

_NUMBERS_PER_PIECE = 3

_CLAIM_X86_64 = bytes.fromhex(
    "b801000000"  #   mov eax, 1
    "f0480fc107"  #   lock xadd [rdi], rax   rdi: how many are taken, rsi: the pieces
    "4839d0"  #       cmp rax, rdx           rdx: how many there are
    "7331"  #         jae none
    "488d0440"  #     lea rax, [rax+rax*2]
    "488d34c6"  #     lea rsi, [rsi+rax*8]   the piece
    "488b06"  #       mov rax, [rsi]         where it is on the host
    "488b11"  #       mov rdx, [rcx]         rcx: where to write what
    "488902"  #       mov [rdx], rax
    "488b4608"  #     mov rax, [rsi+8]       where it is on the device
    "488b5108"  #     mov rdx, [rcx+8]
    "488902"  #       mov [rdx], rax
    "488b4610"  #     mov rax, [rsi+16]      its length
    "488b5110"  #     mov rdx, [rcx+16]
    "488902"  #       mov [rdx], rax
    "488b5118"  #     mov rdx, [rcx+24]
    "488902"  #       mov [rdx], rax
    "31c0"  #         xor eax, eax
    "c3"  #           ret
    "488b5110"  # none: mov rdx, [rcx+16]
    "48c70200000000"  # mov qword [rdx], 0
    "b801000000"  #   mov eax, 1
    "c3"  #           ret
)


class Targets(NamedTuple):
    """Addresses of the 64-bit arguments that a piece is written to.

    Attributes:
        host: Takes where the piece is on the host.
        device: Takes where it is on the device.
        copied: Takes its length, and 0 when no piece is left.
        queued: Takes its length.
    """

    host: int
    device: int
    copied: int
    queued: int


@functools.cache
def claim() -> Any:  # noqa: ANN401 - what ctypes makes of the type of a C function
    """A C function that takes the next piece: machine code, or Python where processor or system do not allow it.

    It takes the addresses of a 64-bit number that counts the pieces taken and of the pieces, how many they are, and
    the address of the four addresses of :class:`Targets`. It answers 0, or 1 when no piece is left.
    """
    return c_function(_CLAIM_X86_64, FOUR_ARGUMENTS, claim_in_python)


@functools.cache
def claim_in_python() -> Any:  # noqa: ANN401 - see above
    """As :func:`claim`, with a lock."""
    lock = threading.Lock()

    def take(counter: int, pieces: int, count: int, targets: int) -> int:
        taken = ctypes.c_uint64.from_address(counter)
        with lock:
            number, taken.value = taken.value, taken.value + 1
        host, device, copied, queued = (
            ctypes.c_uint64.from_address(address) for address in (ctypes.c_uint64 * 4).from_address(targets)
        )
        if number >= count:
            copied.value = 0
            return 1
        piece = (ctypes.c_uint64 * _NUMBERS_PER_PIECE).from_address(pieces + number * 8 * _NUMBERS_PER_PIECE)
        host.value, device.value, copied.value = piece
        queued.value = copied.value
        return 0

    return FOUR_ARGUMENTS(take)


class Pieces:
    """The pieces of one copy, to be taken one after the other.

    Args:
        pieces: Addresses on host and device and the length of each, shape (pieces, 3).
    """

    def __init__(self, pieces: Numbers) -> None:
        self._pieces = pieces
        self._taken = ctypes.c_uint64(0)
        self._claim = address_of(claim())

    def claim(self, targets: int) -> tuple[int, int, int, int, int]:
        """The call that takes the next piece; its answer is 1 when none is left.

        Args:
            targets: The address of four addresses, see :class:`Targets`.
        """
        return self._claim, ctypes.addressof(self._taken), self._pieces.ctypes.data, len(self._pieces), targets

    def put_back(self) -> None:
        """Let all pieces be taken once more; nobody takes any meanwhile."""
        self._taken.value = 0
