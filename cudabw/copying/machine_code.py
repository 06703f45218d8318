"""Functions given as machine code, for what no library that Python programs surely have can be asked to do."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class MachineCode:
    """A function in memory of its own, which lives as long as this.

    Args:
        x86_64: The function, in the System V calling convention of x86-64.

    Attributes:
        address: Of the function.

    Raises:
        OSError: The processor is another, or the system does not let a process make code.
    """

    def __init__(self, x86_64: bytes) -> None:
        if platform.machine() not in ("x86_64", "AMD64") or os.name != "posix":
            raise OSError(f"machine code for x86-64 does not run on {platform.machine()}")
        pages = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pages.write(x86_64)
        self._pages = (ctypes.c_char * mmap.PAGESIZE).from_buffer(pages)
        self.address = ctypes.addressof(self._pages)
        _protect(self.address, mmap.PROT_READ | mmap.PROT_EXEC)


def c_function(x86_64: bytes, kind: Any, otherwise: Callable[[], Any]) -> Any:  # noqa: ANN401 - as ctypes has them
    """A C function that is given as machine code, or what stands for it where processor or system do not allow that.

    Args:
        x86_64: As for :class:`MachineCode`.
        kind: The type of the function, of ``ctypes``.
        otherwise: Makes what stands for it.
    """
    try:
        code = MachineCode(x86_64)
    except OSError:
        return otherwise()
    entry = kind(code.address)
    entry.__dict__["code"] = code  # an address keeps nothing alive
    return entry


def _protect(address: int, protection: int) -> None:
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if protect(address, mmap.PAGESIZE, protection):
        raise OSError(ctypes.get_errno(), "mprotect")
