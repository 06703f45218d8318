"""Releasing what was acquired, without hiding why it is released."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from cudabw.errors import CudabwError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self


class Closing:
    """What a ``with`` block closes at its end."""

    # Not an abstract class: asking whether an argument is a buffer, as each launch does, would take four times as long.

    def close(self) -> None:
        """Let go of what is held; closing again does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
