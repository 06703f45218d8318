"""Releasing what was acquired, without hiding why it is released."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from cudabw.errors import CudabwError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def resources() -> Iterator[ExitStack]:
    """A stack of things to release at the end of the block.

    After a failure in the block, failures to release are not heard: a device that is lost fails
    every release as well, and the first failure is the one that tells why.
    """
    stack = ExitStack()
    try:
        yield stack
    except BaseException:
        with suppress(CudabwError):
            stack.close()
        raise
    stack.close()
