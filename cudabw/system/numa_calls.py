"""The system calls about NUMA nodes, of which Python's library has none but those about CPUs.

They are of the calling thread; threads that it starts inherit both its CPUs and its policy.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

DEFAULT: Final = 0
BIND: Final = 2
"""Modes of a policy: MPOL_DEFAULT and MPOL_BIND of ``linux/mempolicy.h``."""

_NUMBERS: Final = {
    "x86_64": {"set_mempolicy": 238, "get_mempolicy": 239, "move_pages": 279, "getcpu": 309},
    "aarch64": {"getcpu": 168, "get_mempolicy": 236, "set_mempolicy": 237, "move_pages": 239},
}
"""The calls' numbers: ``arch/x86/entry/syscalls/syscall_64.tbl`` and ``asm-generic/unistd.h`` of Linux."""

_WORD: Final = 8 * ctypes.sizeof(ctypes.c_ulong)
_MOST_NODES: Final = 1024
"""As many as any kernel is built for. It takes a mask for one bit less than it is told of."""

_Mask: TypeAlias = ctypes.Array[ctypes.c_ulong]


@dataclass(frozen=True, slots=True)
class Policy:
    """Where the kernel takes a thread's fresh pages from (set_mempolicy(2)).

    Attributes:
        mode: One of the kernel's modes, its flags included.
        nodes: The nodes that it is about.
    """

    mode: int = DEFAULT
    nodes: frozenset[int] = frozenset()


class NumaCalls(Protocol):
    """What is asked of the system. Each call raises an :class:`OSError` where it is refused or not there."""

    def thread_node(self) -> int:
        """The node of the CPU that this thread runs on."""

    def page_nodes(self, addresses: Sequence[int]) -> Sequence[int]:
        """The node of each page; a negative number where there is none or it is not known."""

    def policy(self) -> Policy:
        """This thread's policy."""

    def set_policy(self, policy: Policy) -> None:
        """Change this thread's policy."""

    def cpus(self) -> frozenset[int]:
        """The CPUs that this thread may run on."""

    def set_cpus(self, cpus: Iterable[int]) -> None:
        """Move this thread to some CPUs; those that its cpuset forbids are left out."""


class LinuxCalls:
    """The calls of the running kernel; ENOSYS on systems whose numbers are not known."""

    def __init__(self) -> None:
        known = sys.platform == "linux" and ctypes.sizeof(ctypes.c_void_p) == 8
        self._numbers = _NUMBERS.get(platform.machine(), {}) if known else {}

    def thread_node(self) -> int:
        """The node of the CPU that this thread runs on."""
        node = ctypes.c_uint()
        self._call("getcpu", None, ctypes.byref(node), None)
        return node.value

    def page_nodes(self, addresses: Sequence[int]) -> Sequence[int]:
        """The node of each page; a negative error where there is none."""
        count = len(addresses)
        pages = (ctypes.c_void_p * count)(*addresses)
        found = (ctypes.c_int * count)(*[-errno.ENOENT] * count)
        # Without nodes to move them to, it only says where they are.
        self._call("move_pages", ctypes.c_int(0), ctypes.c_ulong(count), pages, None, found, ctypes.c_int(0))
        return list(found)

    def policy(self) -> Policy:
        """This thread's policy."""
        mode, mask = ctypes.c_int(), _mask(())
        self._call("get_mempolicy", ctypes.byref(mode), mask, ctypes.c_ulong(_MOST_NODES), None, ctypes.c_ulong(0))
        return Policy(mode.value, _nodes(mask))

    def set_policy(self, policy: Policy) -> None:
        """Change this thread's policy."""
        mask = _mask(policy.nodes)
        self._call("set_mempolicy", ctypes.c_int(policy.mode), mask, ctypes.c_ulong(_MOST_NODES))

    def cpus(self) -> frozenset[int]:
        """The CPUs that this thread may run on."""
        return frozenset(os.sched_getaffinity(0))

    def set_cpus(self, cpus: Iterable[int]) -> None:
        """Move this thread to some CPUs."""
        os.sched_setaffinity(0, cpus)

    def _call(self, name: str, *arguments: object) -> None:
        if name not in self._numbers:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), name)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syscall.restype = ctypes.c_long
        if libc.syscall(ctypes.c_long(self._numbers[name]), *arguments) < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), name)


def _mask(nodes: Iterable[int]) -> _Mask:
    mask = (ctypes.c_ulong * (_MOST_NODES // _WORD))()
    for node in nodes:
        mask[node // _WORD] |= 1 << node % _WORD
    return mask


def _nodes(mask: _Mask) -> frozenset[int]:
    return frozenset(node for node in range(_MOST_NODES) if mask[node // _WORD] >> node % _WORD & 1)
