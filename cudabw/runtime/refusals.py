"""What is said when a launch is refused: by us because of an argument, or by the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.errors import ClosedError, CudabwError, DriverError
from cudabw.runtime.buffer import Buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabw.runtime.configuration import Configuration
    from cudabw.runtime.function import Function
    from cudabw.runtime.signature import CType


class LaunchError(DriverError):
    """The driver refused a launch; the message has what was asked for and the limits."""

    def __init__(self, kernel: str, error: DriverError, circumstances: str) -> None:
        super().__init__(error.function, error.code, error.name, hint=error.hint)
        self.message = f"launching {kernel} failed with {error.name} ({error.code}): {circumstances}"
        self.args = (self.message,)


def circumstances(function: Function, asked: Configuration, types: Sequence[CType], nbytes: int) -> str:
    """What a launch asked for, and the limits; ``nbytes`` of parameters."""
    x, y, z = asked.block
    return (
        f"grid {asked.grid}, at most {function.limits.grid}; block {asked.block}, at most {function.limits.block}, "
        f"{x * y * z} threads, at most {function.max_threads} with this kernel's {function.registers} registers a "
        f"thread; {asked.shared_bytes} bytes of dynamic and {function.shared_bytes} of static shared memory, "
        f"at most {function.limits.shared_bytes} together; {nbytes} bytes of parameters in {len(types)} arguments"
    )


def wrong_count(kernel: str, expected: int, given: int) -> TypeError:
    """A kernel takes ``expected`` arguments."""
    return TypeError(f"{kernel} takes {expected} argument{'s' * (expected != 1)}, and {given} were given")


def find_closed(error: Exception, kernel: str, args: Sequence[object]) -> Exception:
    """An error about closed memory, saying which argument it was."""
    for position, argument in enumerate(args):
        if isinstance(argument, Buffer):
            try:
                argument.require_open()
            except ClosedError as closed:
                return located(closed, kernel, position)
    return error


def located(error: Exception, kernel: str, position: int) -> Exception:
    """The same error, saying which argument of which kernel it is about."""
    message = f"argument {position} of {kernel}: {error}"
    if isinstance(error, CudabwError):
        return type(error)(message, hint=error.hint)
    return type(error)(message)
