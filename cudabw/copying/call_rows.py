"""Rows of calls of C functions, made one after the other without the interpreter between them.

Every call through the bindings gives the interpreter's lock away and waits for it again. With a dozen threads that do
little else than call, the lock is what limits them: a piece of a staged copy, which is three calls, cost 60 us of it
(measured on an H200 with 12 threads). A row of calls gives the lock away once.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import TypeAlias

from cudabw.copying.machine_code import MachineCode

MOST_ARGUMENTS = 4

STATUS = 0xFFFFFFFF
"""Failure bits of a function that answers with a status, 0 for success."""
NEVER = 0
"""Failure bits of a function that cannot fail."""


class Call(ctypes.Structure):
    """One call.

    Attributes:
        function: Address of a C function.
        arguments: Whole numbers and addresses; a function that takes fewer does not see the rest.
        failure: Which bits of the answer mean that it failed, of the lower 32.
    """

    _fields_ = (
        ("function", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * MOST_ARGUMENTS),
        ("failure", ctypes.c_uint64),
    )

    def set(self, function: int, *arguments: int, failure: int = STATUS) -> None:
        """Give all of it anew."""
        self.function, self.failure = function, failure
        self.arguments[: len(arguments)] = arguments


MakeCalls: TypeAlias = Callable[[int, int, int], int]
"""Makes calls: the address of the first, how many, and the address of a 32-bit word that stops them when it is not 0.

A failure sets the word. Answers with how many calls were not made or failed, and in the upper 32 bits with the answer
that was a failure.
"""

_MAKE_CALLS_X86_64 = bytes.fromhex(
    "53"  #           push rbx
    "55"  #           push rbp
    "4154"  #         push r12               the stack is aligned now
    "4889fb"  #       mov rbx, rdi           the call
    "89f5"  #         mov ebp, esi           how many are left
    "4989d4"  #       mov r12, rdx           the word
    "85ed"  # next:   test ebp, ebp
    "7435"  #         jz done
    "41833c2400"  #   cmp dword [r12], 0
    "752e"  #         jne done
    "488b7b08"  #     mov rdi, [rbx+8]
    "488b7310"  #     mov rsi, [rbx+16]
    "488b5318"  #     mov rdx, [rbx+24]
    "488b4b20"  #     mov rcx, [rbx+32]
    "ff13"  #         call [rbx]
    "234328"  #       and eax, [rbx+40]
    "7508"  #         jnz failed
    "4883c330"  #     add rbx, 48            the size of a call
    "ffcd"  #         dec ebp
    "ebd6"  #         jmp next
    "41c7042401000000"  # failed: mov dword [r12], 1
    "48c1e020"  #     shl rax, 32
    "4809c5"  #       or rbp, rax
    "4889e8"  # done: mov rax, rbp
    "415c"  #         pop r12
    "5d"  #           pop rbp
    "5b"  #           pop rbx
    "c3"  #           ret
)

_FOUR_ARGUMENTS = ctypes.CFUNCTYPE(ctypes.c_uint64, *([ctypes.c_uint64] * MOST_ARGUMENTS))


@functools.cache
def make_calls() -> MakeCalls:
    """The fastest way this process can have: machine code, or Python where processor or system do not allow it."""
    try:
        code = MachineCode(_MAKE_CALLS_X86_64)
    except OSError:
        return make_calls_in_python
    entry = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)(code.address)
    entry.__dict__["code"] = code  # an address keeps nothing alive
    return entry


def make_calls_in_python(first: int, count: int, stop: int) -> int:
    """As ``MakeCalls``, with the interpreter between the calls."""
    word = ctypes.c_uint32.from_address(stop)
    for made in range(count):
        if word.value:
            return count - made
        call = Call.from_address(first + made * ctypes.sizeof(Call))
        answer = _FOUR_ARGUMENTS(call.function)(*call.arguments) & call.failure
        if answer:
            word.value = 1
            return int(answer << 32 | (count - made))
    return 0
