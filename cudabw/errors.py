"""One exception family. Each class carries the exit code a command ends with, each instance a hint.

The exit codes are documented in the README; the command line maps an exception to
its code by reading :attr:`CudabwError.exit_code` and nothing else.
"""

from __future__ import annotations


class CudabwError(Exception):
    """Base of every error this package raises on purpose.

    Args:
        message: What happened, to which memory or device, with which numbers.
        hint: What the user should do about it; empty when there is nothing to do.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(CudabwError):
    """An option or argument that cannot be meant (exit 2)."""

    exit_code = 2


class ConfigurationError(UsageError):
    """A configuration file or environment variable that cannot be meant (exit 2)."""


class ResultFileError(UsageError):
    """A file that holds no results which this version can read (exit 2)."""


class NoDriverError(CudabwError):
    """No usable CUDA driver, or no GPU behind it (exit 5)."""

    exit_code = 5


class DriverError(CudabwError):
    """The CUDA driver answered a call with a failure status.

    Attributes:
        code: The numeric ``CUresult``.
        name: Its symbolic name, or ``CUresult 9999`` for a status the bindings do not know.
        function: The driver function that was called.
    """

    def __init__(self, function: str, code: int, name: str, *, hint: str = "") -> None:
        super().__init__(f"{function} failed with {name} ({code})", hint=hint)
        self.function = function
        self.code = code
        self.name = name


class UnsupportedError(CudabwError):
    """This driver, device or system cannot do what was asked; the rest of a run goes on."""

    exit_code = 4


class RefusedError(CudabwError):
    """Something was refused before or by an allocation, with the numbers; the rest of a run goes on."""

    exit_code = 4


class WrongDataError(CudabwError):
    """A copy finished with success, but its destination does not hold the source's bytes."""


class DeviceLostError(CudabwError):
    """The device does not answer any more, so that going on is pointless."""


class ClosedError(CudabwError, RuntimeError):
    """A buffer, stream or device was used after it was closed."""


class MemorySideError(CudabwError, TypeError):
    """A host address was asked of memory the host cannot reach, or a device address of memory the device cannot."""


class Interrupted(CudabwError):  # noqa: N818 - it is no error of the program
    """A signal asked the run to stop; what is finished is kept.

    Attributes:
        signal_number: The signal, 2 (SIGINT) or 15 (SIGTERM); the exit code is 128 more.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__("interrupted")
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number
