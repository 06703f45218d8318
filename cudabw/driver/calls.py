"""Checked calls into a CUDA driver: a status becomes a value or an error that says what to do."""

from __future__ import annotations

import ctypes
import functools
import inspect
import re
import time
from typing import TYPE_CHECKING, Any

from cudabw.driver.hints import hint_for
from cudabw.errors import CudabwError, DriverError, NoDriverError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudabw.driver.library import BindLaunch

SUCCESS = 0
_UNKNOWN = 999  # CUDA_ERROR_UNKNOWN
NOT_SUPPORTED = 801  # CUDA_ERROR_NOT_SUPPORTED

# What cuda-bindings really raises instead of returning a status. The classes are private to it and
# differ between releases (12.9.0 has none of its own), so they are told apart by name and text.
_UNKNOWN_STATUS = re.compile(r"(\d+) is not a valid CUresult")
_NO_ENTRY_POINT = re.compile(r'[Ff]unction "?\w+"? (is )?not found')
_NO_LIBRARY = re.compile(r"Failed to (open|dlopen|get cuGetProcAddress)")

_C_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_uint64] * 4))


class Driver:
    """Checked calls into a driver with the surface of ``cuda.bindings.driver``.

    Args:
        api: The module ``cuda.bindings.driver``, or an ``EmulatedDriver``.
        emulated: Whether host memory plays the device.
        now: The host clock that measurements read, in seconds.
        path: The file ``libcuda`` was loaded from, where it is known.
        bind_launch: Binds ``cuLaunchKernelEx`` of ``libcuda`` itself; None where only ``api`` has it.
        address_of: Where functions of ``libcuda`` itself begin; None where only ``api`` has them.

    Attributes:
        api: Called directly by hot paths, which then hand a failure to :meth:`check`; enums,
            structs and handle types are read from it as well.
        emulated: As given.
        now: As given.
        path: As given.
    """

    def __init__(
        self,
        api: Any,  # noqa: ANN401 - the bindings ship without types
        *,
        emulated: bool,
        now: Callable[[], float] = time.perf_counter,
        path: str | None = None,
        bind_launch: BindLaunch | None = None,
        address_of: Callable[[str], int | None] | None = None,
    ) -> None:
        self.api = api
        self.emulated = emulated
        self.now = now
        self.path = path
        self._bind_launch = bind_launch
        self._address_of = address_of
        self._callbacks: dict[str, Any] = {}
        self._version: int | None = None

    def call(self, function: str, *args: object) -> Any:  # noqa: ANN401 - what the function returns
        """Call a driver function by name.

        Returns:
            None, the value, or a tuple of values: what follows the status.

        Raises:
            DriverError: The driver answered with a failure status.
            UnsupportedError: The function is missing, or the status is CUDA_ERROR_NOT_SUPPORTED.
            NoDriverError: There is no driver library that can be loaded.
        """
        status, value = self.attempt(function, *args)
        self.check(function, status)
        return value

    def attempt(self, function: str, *args: object) -> tuple[int, Any]:
        """Call a driver function by name where a failure status is one of the expected answers.

        Returns:
            The status, and what :meth:`call` would return.

        Raises:
            UnsupportedError: The function is missing from the bindings or from the driver.
            NoDriverError: There is no driver library that can be loaded.
        """
        entry = getattr(self.api, function, None)
        if entry is None:
            raise UnsupportedError(f"{function} does not exist in cuda-bindings {self.bindings_version()}")
        try:
            status, *values = entry(*args)
        except ValueError as error:
            return _unknown_status(error), None
        except RuntimeError as error:
            absence = self._absence(function, error)
            if absence is None:
                raise
            raise absence from error
        return int(status), _unwrap(values)

    def check(self, function: str, status: Any) -> None:  # noqa: ANN401 - a CUresult or an int
        """Raise for a failure status; for hot paths that called the function directly.

        Raises:
            DriverError: The status is a failure.
            UnsupportedError: The status is CUDA_ERROR_NOT_SUPPORTED.
        """
        code = int(status)
        if code == SUCCESS:
            return
        hint = hint_for(code, function)
        if code == NOT_SUPPORTED:
            raise UnsupportedError(
                f"{function} is not supported here ({self.status_name(code)}, {code}){self._versions()}", hint=hint
            )
        raise DriverError(function, code, self.status_name(code), hint=hint)

    def translate(self, function: str, error: ValueError | RuntimeError) -> Exception:
        """What the bindings mean by an exception, for hot paths that called the function directly.

        Returns:
            The error that :meth:`call` would have raised; the exception itself where it means something else.
        """
        if isinstance(error, ValueError):
            code = _unknown_status(error)
            return DriverError(function, code, self.status_name(code), hint=hint_for(code, function))
        return self._absence(function, error) or error

    def bind_launch(
        self,
        config: Any,  # noqa: ANN401 - the bindings' structure
        function: Any,  # noqa: ANN401 - the bindings' handle type
        parameters: int,
    ) -> functools.partial[int]:
        """``cuLaunchKernelEx`` with all that it takes, for launches that are repeated.

        The bindings convert these same arguments again on every call, make an enum of the status and a tuple around
        it, which takes as long as all else that a launch does in Python: where ``libcuda`` can be called by ctypes it
        is. Against an H200 a bare launch of four pointers took 1.20 times as long as from C before, 1.15 now.

        Args:
            config: A ``CUlaunchConfig``, kept alive by what is returned.
            function: A ``CUfunction``.
            parameters: Address of the array of pointers to the parameters, which the caller keeps alive; 0 without.

        Returns:
            Launches, and returns the status as a number; takes nothing.
        """
        if self._bind_launch is None:
            return functools.partial(_launch, self.api.cuLaunchKernelEx, config, function, parameters)
        call = self._bind_launch(int(config.getPtr()), int(function), parameters)
        call.__dict__["config"] = config  # an address keeps nothing alive
        return call

    @property
    def tick_s(self) -> float:
        """Seconds of one tick of the host clock; 0 for a model, which is exact."""
        return float(self.api.tick_s) if self.emulated else time.get_clock_info("perf_counter").resolution

    def address_of(self, function: str) -> int:
        """Where a function begins that C code calls with whole numbers and addresses, at most four of them.

        Raises:
            UnsupportedError: The driver has no such function.
        """
        if self._address_of is None:
            return self._callback(function)
        address = self._address_of(function)
        if address is None:
            raise UnsupportedError(f"{function} does not exist in the installed driver{self._versions()}")
        return address

    def _callback(self, function: str) -> int:
        """The address of a C function that calls ``api``, which then need not be C; alive as long as this is."""
        if function not in self._callbacks:
            takes = len(inspect.signature(getattr(self.api, function)).parameters)

            def answer(*arguments: int) -> int:
                try:
                    return self.attempt(function, *arguments[:takes])[0]
                except Exception:  # noqa: BLE001 - C code would not see it
                    return _UNKNOWN

            self._callbacks[function] = _C_FUNCTION(answer)
        return ctypes.cast(self._callbacks[function], ctypes.c_void_p).value or 0

    def has(self, function: str) -> bool:
        """Whether the bindings have this function; the loaded driver may still lack it."""
        return getattr(self.api, function, None) is not None

    def version(self) -> int:
        """The CUDA version the driver supports, 1000 x major + 10 x minor (``cuDriverGetVersion``).

        Raises:
            DriverError: The driver could not say.
            NoDriverError: There is no driver library that can be loaded.
        """
        if self._version is None:
            self._version = int(self.call("cuDriverGetVersion"))
        return self._version

    def bindings_version(self) -> str:
        """The version of cuda-bindings, whose enums and structs also the emulated device uses."""
        import cuda.bindings

        return str(cuda.bindings.__version__)

    def bindings_major(self) -> int:
        """The major version of cuda-bindings, which decides how some functions are called."""
        return int(self.bindings_version().split(".")[0])

    def status_name(self, code: int) -> str:
        """The symbolic name of a status, or ``CUresult 9999`` for one the bindings do not know."""
        # From the enum, not cuGetErrorName: after a lost device even that may fail or hang.
        try:
            return str(self.api.CUresult(code).name)
        except ValueError:
            return f"CUresult {code}"

    def _versions(self) -> str:
        # Only what is already known: describing an error never calls the driver.
        return "" if self._version is None else f"; the driver supports CUDA {format_version(self._version)}"

    def _absence(self, function: str, error: RuntimeError) -> CudabwError | None:
        """What an exception of the bindings says is absent; None when it says something else."""
        kind = type(error).__name__
        if kind == "FunctionNotFoundError" or _NO_ENTRY_POINT.fullmatch(str(error)):
            return UnsupportedError(
                f"{function} does not exist in the installed driver{self._versions()}",
                hint="A newer NVIDIA driver has this function.",
            )
        if kind == "DynamicLibNotFoundError" or _NO_LIBRARY.match(str(error)):
            return NoDriverError(f"The CUDA driver library cannot be used: {error}", hint="Install the NVIDIA driver.")
        return None


def format_version(version: int) -> str:
    """Write a driver's version the way NVIDIA does: 12090 is ``12.9``."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _unwrap(values: list[Any]) -> Any:  # noqa: ANN401 - what the function returns
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


def _launch(entry: Callable[..., tuple[Any, ...]], config: object, function: object, parameters: int) -> int:
    try:
        (status,) = entry(config, function, parameters, 0)
    except ValueError as error:
        return _unknown_status(error)
    return int(status)


def _unknown_status(error: ValueError) -> int:
    """The number of a status the bindings have no name for; any other ``ValueError`` is raised again."""
    match = _UNKNOWN_STATUS.fullmatch(str(error))
    if match is None:
        raise error
    return int(match[1])
