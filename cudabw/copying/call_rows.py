"""Rows of calls of C functions, made one after the other without the interpreter between them.

Every call from Python gives the interpreter's lock away and waits for it again, and a thread that has to wait for it
sleeps: 40 to 60 us until it runs on again (measured on a machine with an H200). With a dozen threads that do little
else than call, that is what limits them. A row of calls gives the lock away once, however long it is.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cudabw.copying.machine_code import c_function

if TYPE_CHECKING:
    import numpy.typing as npt

    Calls: TypeAlias = npt.NDArray[np.void]

MOST_ARGUMENTS = 4

CALL = np.dtype(
    [
        ("function", np.uint64),
        ("arguments", np.uint64, MOST_ARGUMENTS),
        ("failure", np.uint32),
        ("over", np.uint32),
        ("answer", np.uint64),
    ]
)
"""One call: the address of a C function; its arguments, which are whole numbers and addresses, and of which a function
that takes fewer does not see the rest; which of the lower 32 bits of its answer mean that it failed; which of them mean
that the row is over; and its answer."""

STATUS = 0xFFFFFFFF
"""Failure bits of a function that answers with a status, 0 for success."""
NEVER = 0
"""Failure bits of a function that cannot fail."""

_MAKE_CALLS_X86_64 = bytes.fromhex(
    "53"  #           push rbx
    "55"  #           push rbp
    "4154"  #         push r12
    "4155"  #         push r13
    "4156"  #         push r14               the stack is aligned now
    "4889fb"  #       mov rbx, rdi           the call
    "89f5"  #         mov ebp, esi           how many are left
    "4989d4"  #       mov r12, rdx           the word
    "4989fd"  #       mov r13, rdi           the first call
    "4189f6"  #       mov r14d, esi
    "440faff1"  #     imul r14d, ecx         how many to begin again with
    "85ed"  # next:   test ebp, ebp
    "750a"  #         jnz make
    "4c89eb"  #       mov rbx, r13
    "4489f5"  #       mov ebp, r14d
    "85ed"  #         test ebp, ebp
    "7442"  #         jz done
    "41833c2400"  # make: cmp dword [r12], 0
    "753b"  #         jne done
    "488b7b08"  #     mov rdi, [rbx+8]
    "488b7310"  #     mov rsi, [rbx+16]
    "488b5318"  #     mov rdx, [rbx+24]
    "488b4b20"  #     mov rcx, [rbx+32]
    "ff13"  #         call [rbx]
    "48894330"  #     mov [rbx+48], rax
    "85432c"  #       test [rbx+44], eax
    "751e"  #         jnz over
    "234328"  #       and eax, [rbx+40]
    "7508"  #         jnz failed
    "4883c338"  #     add rbx, 56            the size of a call
    "ffcd"  #         dec ebp
    "ebc3"  #         jmp next
    "41c7042401000000"  # failed: mov dword [r12], 1
    "48c1e020"  #     shl rax, 32
    "4809c5"  #       or rbp, rax
    "eb02"  #         jmp done
    "31ed"  # over:   xor ebp, ebp
    "4889e8"  # done: mov rax, rbp
    "415e"  #         pop r14
    "415d"  #         pop r13
    "415c"  #         pop r12
    "5d"  #           pop rbp
    "5b"  #           pop rbx
    "c3"  #           ret
)

FOUR_ARGUMENTS = ctypes.CFUNCTYPE(ctypes.c_uint64, *([ctypes.c_uint64] * MOST_ARGUMENTS))
"""The type of the functions that a row calls."""


class _Call(ctypes.Structure):
    """A ``CALL`` as ctypes sees it."""

    _fields_ = (
        ("function", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * MOST_ARGUMENTS),
        ("failure", ctypes.c_uint32),
        ("over", ctypes.c_uint32),
        ("answer", ctypes.c_uint64),
    )


@functools.cache
def make_calls() -> Any:  # noqa: ANN401 - what ctypes makes of the type of a C function
    """A C function that makes calls: machine code, or Python where processor or system do not allow it.

    It takes the address of the first call, how many they are, the address of a 32-bit word that ends them when it is
    not 0, and 1 to begin again after the last, or 0. A failure sets the word; a call that says that the row is over
    ends it as the last one does. It answers with how many calls, up to the last, were not made or failed, and in the
    upper 32 bits with the answer that was a failure.
    """
    return c_function(_MAKE_CALLS_X86_64, FOUR_ARGUMENTS, make_calls_in_python)


@functools.cache
def make_calls_in_python() -> Any:  # noqa: ANN401 - see above
    """As :func:`make_calls`, with the interpreter between the calls."""
    return FOUR_ARGUMENTS(_make_calls)


def _make_calls(first: int, count: int, stop: int, again: int) -> int:
    word = ctypes.c_uint32.from_address(stop)
    numbers = range(count)
    for made in itertools.chain.from_iterable(itertools.repeat(numbers)) if count and again else numbers:
        if word.value:
            return count - made
        call = _Call.from_address(first + made * CALL.itemsize)
        call.answer = FOUR_ARGUMENTS(call.function)(*call.arguments)
        if call.answer & call.over:
            return 0
        failure = call.answer & call.failure
        if failure:
            word.value = 1
            return int(failure << 32 | (count - made))
    return 0


def address_of(function: Any) -> int:  # noqa: ANN401 - a function as ctypes has it
    """Where a C function begins."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def row(*calls: tuple[int, ...], failure: int = STATUS) -> Calls:
    """Calls from function and arguments each."""
    made = np.zeros(len(calls), CALL)
    made["failure"] = failure
    for number, (function, *arguments) in enumerate(calls):
        made["function"][number] = function
        made["arguments"][number, : len(arguments)] = arguments
    return made


class Semaphore:
    """A semaphore of the C library, for threads that wait for each other without the interpreter.

    Attributes:
        wait: The call that takes one, or holds the thread until there is one; a signal may end it as a failure.
        post: The call that adds one.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._memory = ctypes.create_string_buffer(64)  # sem_t has 32 bytes with glibc and musl
        library.sem_init(self._memory, 0, 0)
        address = ctypes.addressof(self._memory)
        self.wait = (address_of(library.sem_wait), address)
        self.post = (address_of(library.sem_post), address)
