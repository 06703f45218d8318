"""Find a CUDA driver, real or emulated, and say exactly why when there is none.

Everything in a driver's start that may hang or fail runs in a worker thread. The calling
thread waits in short slices, so that it can say which step is running and a signal can end it.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import threading
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.machinery import PathFinder
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from cudabw.driver.calls import SUCCESS, Driver, format_version
from cudabw.driver.hints import SystemProbe, hint_for, startup_hint
from cudabw.errors import CudabwError, DriverError, NoDriverError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.machinery import ModuleSpec

T = TypeVar("T")

_LIBRARY = "libcuda.so.1"
_STUB_LIBRARY = 34  # CUDA_ERROR_STUB_LIBRARY
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
# cuda-bindings finds every function through cuGetProcAddress_v2, which came with CUDA 12.0.
_OLDEST_DRIVER = 12000

_SLICE_S = 0.05
_FIRST_NOTICE_S = 3.0
_NEXT_NOTICE_S = 10.0

_FALLBACK = (
    "No NVIDIA driver is installed: using the emulated device, whose figures are those of host memory and not of a GPU."
)


class Backend(StrEnum):
    """Which device to use; ``auto`` means the GPU, or the emulated device where no NVIDIA driver is installed."""

    AUTO = "auto"
    CUDA = "cuda"
    EMULATED = "emulated"


def load_driver(
    backend: Backend,
    *,
    notify: Callable[[str], None],
    check_interrupt: Callable[[], None] = lambda: None,
    environ: Mapping[str, str] = os.environ,
    probe: SystemProbe = SystemProbe(),  # noqa: B008 - immutable
) -> Driver:
    """Start the driver that a backend means.

    Args:
        backend: Which device to use.
        notify: Told on the calling thread, in one sentence, what the user should know: a fallback, a step
            that takes long, devices that are missing.
        check_interrupt: Called often while waiting; ends the wait by raising.
        environ: The environment; ``CUDABW_EMULATED`` in it shapes the emulated device but does not select it.
        probe: What the system's files say about an NVIDIA driver.

    Returns:
        A driver that is initialised and shows at least one device.

    Raises:
        NoDriverError: There is no usable driver or no device; the hint says what to do.
        ConfigurationError: ``CUDABW_EMULATED`` cannot be meant.
    """
    start = Start(environ, probe)
    driver = watch(lambda step: start.run(backend, step), notify=notify, check_interrupt=check_interrupt)
    for notice in start.notices:
        notify(notice)
    return driver


def watch(
    work: Callable[[Callable[[str], None]], T],
    *,
    notify: Callable[[str], None],
    check_interrupt: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Run work that may never return in a daemon thread, and report a step that takes long.

    Args:
        work: Called with a function that it tells the name of each step it begins.
        notify: Told which step is running and for how long, after 3 s and then every 10 s.
        check_interrupt: Called about every 50 ms; whatever it raises ends the wait, the only thing
            that does besides the work itself.
        clock: The clock that the notices go by, in seconds.

    Returns:
        What the work returned; what it raised is raised.
    """
    outcome: Future[T] = Future()
    steps = [("start-up", clock())]
    threading.Thread(target=_settle, args=(outcome, work, steps, clock), name="cudabw-start", daemon=True).start()
    reported, due = steps[0], steps[0][1] + _FIRST_NOTICE_S
    while not wait([outcome], timeout=_SLICE_S).done:
        check_interrupt()
        current, now = steps[-1], clock()
        if current is not reported:
            reported, due = current, current[1] + _FIRST_NOTICE_S
        if now >= due:
            notify(f"Starting the driver: {current[0]} has not returned for {now - current[1]:.0f} s; still waiting.")
            due = now + _NEXT_NOTICE_S
    return outcome.result()


def _settle(
    outcome: Future[T],
    work: Callable[[Callable[[str], None]], T],
    steps: list[tuple[str, float]],
    clock: Callable[[], float],
) -> None:
    try:
        outcome.set_result(work(lambda name: steps.append((name, clock()))))
    except BaseException as error:  # noqa: BLE001 - handed to the waiting thread, which raises it
        outcome.set_exception(error)


class LibraryError(Exception):
    """``libcuda`` cannot be loaded or is not a CUDA driver; the message is the dynamic loader's."""


class Library(Protocol):
    """A loaded ``libcuda``, asked directly for what the bindings cannot be asked."""

    def init(self) -> int:
        """The status of ``cuInit``."""

    def version(self) -> tuple[int, int]:
        """The status of ``cuDriverGetVersion``, and the version where that is success."""


class LoadedLibrary:
    """The ``libcuda`` that the dynamic loader finds, as the bindings would load it.

    The bindings say of a bad file only that there is none, and cuda-bindings 12.9.0 keeps the
    interpreter's lock through ``cuInit``, as ``ctypes.CDLL`` of Python 3.11 does through ``dlopen``:
    a hang in either would silence the watchdog. Functions called through ctypes release it.

    Raises:
        LibraryError: The loader did not load it, or a function every driver has is missing.
    """

    def __init__(self) -> None:
        loader = ctypes.CDLL(None)
        # Both are looked up before either is called: a look-up in between would clear the message.
        dlopen, dlerror = loader.dlopen, loader.dlerror
        dlopen.argtypes, dlopen.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
        dlerror.restype = ctypes.c_char_p
        handle = dlopen(_LIBRARY.encode(), os.RTLD_NOW | os.RTLD_GLOBAL)
        if handle is None:
            raise LibraryError(os.fsdecode(dlerror()))
        library = ctypes.CDLL(_LIBRARY, handle=handle)
        try:
            self._init, self._version = library.cuInit, library.cuDriverGetVersion
        except AttributeError as error:
            raise LibraryError(str(error)) from error

    def init(self) -> int:
        """The status of ``cuInit``."""
        return int(self._init(0))

    def version(self) -> tuple[int, int]:
        """The status of ``cuDriverGetVersion``, and the version where that is success."""
        version = ctypes.c_int(0)
        return int(self._version(ctypes.byref(version))), version.value


def import_bindings() -> Any:  # noqa: ANN401 - the bindings ship without types
    """The module ``cuda.bindings.driver``.

    Raises:
        NoDriverError: It cannot be imported.
    """
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise NoDriverError(
            f"cuda.bindings.driver cannot be imported: {error}",
            hint="Reinstall it: pip install --force-reinstall cuda-python",
        ) from error


def require_bindings() -> None:
    """Make sure that ``cuda.bindings`` is NVIDIA's, without executing anything named ``cuda``.

    Raises:
        NoDriverError: Another module of that name comes first, or cuda-bindings is not installed.
    """
    package = find_spec("cuda")
    bindings = _child(package, "cuda.bindings")
    if _child(bindings, "cuda.bindings.driver") is not None:
        return
    origins = [spec.origin for spec in (package, bindings) if spec is not None and spec.origin is not None]
    if origins:
        raise NoDriverError(
            f"{origins[0]} stands in the way of NVIDIA's package of the same name",
            hint="Rename that file, or take its directory off PYTHONPATH.",
        )
    raise NoDriverError("cuda-bindings is not installed", hint="Install it: pip install cuda-python")


def _child(parent: ModuleSpec | None, name: str) -> ModuleSpec | None:
    # Not find_spec, which imports the parents of a dotted name.
    locations = parent and parent.submodule_search_locations
    return PathFinder.find_spec(name, locations) if locations else None


@dataclass(slots=True)
class Start:
    """One start of a driver, run in the worker thread.

    Attributes:
        environ: The environment.
        probe: What the system's files say.
        open_library: Loads ``libcuda``.
        import_bindings: Imports ``cuda.bindings.driver``.
        notices: What the user should be told once the driver has started.
    """

    environ: Mapping[str, str]
    probe: SystemProbe
    open_library: Callable[[], Library] = LoadedLibrary
    import_bindings: Callable[[], Any] = import_bindings
    notices: list[str] = field(default_factory=list)

    def run(self, backend: Backend, step: Callable[[str], None]) -> Driver:
        """Start the driver that a backend means; the step that begins is told to ``step``.

        Raises:
            NoDriverError: There is no usable driver or no device.
            ConfigurationError: ``CUDABW_EMULATED`` cannot be meant.
        """
        try:
            require_bindings()
            return self._emulated(step) if backend is Backend.EMULATED else self._real(backend, step)
        except (DriverError, UnsupportedError) as error:
            raise NoDriverError(f"The CUDA driver did not start: {error.message}", hint=error.hint) from error

    def _real(self, backend: Backend, step: Callable[[str], None]) -> Driver:
        step(f"loading {_LIBRARY}")
        try:
            library = self.open_library()
        except LibraryError as error:
            path, reason = self._found(str(error))
            if path is not None or backend is Backend.CUDA or self.probe.driver_installed():
                raise self._not_loaded(path, reason) from error
        else:
            return self._cuda(library, step)
        self.notices.append(_FALLBACK)
        return self._emulated(step)

    def _found(self, message: str) -> tuple[str | None, str]:
        """The file that a message of the dynamic loader is about, and what the matter is with it."""
        # The message starts with a path for a bad file, and with the bare name where none was found.
        match = re.match(rf"(.*/{re.escape(_LIBRARY)}): (.*)", message)
        if match:
            return str(Path(match[1]).absolute()), match[2]
        return self.probe.find_library(self.environ), message

    def _cuda(self, library: Library, step: Callable[[str], None]) -> Driver:
        path = self.probe.mapped_library()
        step("cuDriverGetVersion")
        status, version = library.version()
        if status == _STUB_LIBRARY or "/stubs/" in (path or ""):
            raise _stub(path)
        # The bindings load the library before cuInit: they may run ldconfig for it, and
        # nothing may be forked from a process that has initialised CUDA.
        step("importing cuda.bindings.driver")
        driver = Driver(self.import_bindings(), emulated=False, path=path)
        lacking = _look_up(driver)
        step("cuInit")
        self._require(driver, "cuInit", library.init())
        if status == SUCCESS and version < _OLDEST_DRIVER:
            raise _too_old(f"it supports CUDA {format_version(version)}", driver)
        if lacking is not None:
            raise _too_old(str(lacking), driver) from lacking
        return self._with_devices(driver, step)

    def _emulated(self, step: Callable[[str], None]) -> Driver:
        step("preparing the emulated device")
        from cudabw.driver.emulated import from_environment  # it needs the bindings' enums and NumPy

        api = from_environment(self.environ)
        driver = Driver(api, emulated=True, now=api.now)
        step("cuInit")
        self._require(driver, "cuInit", driver.attempt("cuInit", 0)[0])
        driver.version()
        return self._with_devices(driver, step)

    def _with_devices(self, driver: Driver, step: Callable[[str], None]) -> Driver:
        step("cuDeviceGetCount")
        status, count = driver.attempt("cuDeviceGetCount")
        self._require(driver, "cuDeviceGetCount", status)
        if count == 0:
            raise NoDriverError(
                "The CUDA driver shows no device", hint=startup_hint(_NO_DEVICE, self.environ, self.probe)
            )
        if not driver.emulated:
            self.notices.extend(_missing_devices(self.environ, int(count)))
        return driver

    def _require(self, driver: Driver, function: str, status: int) -> None:
        if status == SUCCESS:
            return
        if status == _STUB_LIBRARY:
            raise _stub(driver.path)
        raise NoDriverError(
            f"The CUDA driver did not start: {function} failed with {driver.status_name(status)} ({status})",
            hint=startup_hint(status, self.environ, self.probe),
        )

    def _not_loaded(self, path: str | None, reason: str) -> NoDriverError:
        if path is not None:
            return NoDriverError(
                f"The CUDA driver library was found at {path} but not loadable: {reason}",
                hint="Reinstall the NVIDIA driver, or take that file off the loader's path (LD_LIBRARY_PATH). In a "
                "container it is often left over from building the image.",
            )
        if self.probe.driver_installed():
            return NoDriverError(
                f"An NVIDIA kernel driver is present, but the loader finds no {_LIBRARY}",
                hint="Install the driver's libraries; start a container with the GPU (docker run --gpus all).",
            )
        return NoDriverError(
            f"No NVIDIA driver is installed: the loader finds no {_LIBRARY}",
            hint="Install the NVIDIA driver, or use the emulated device (--backend emulated).",
        )


def _stub(path: str | None) -> NoDriverError:
    return NoDriverError(
        f"No CUDA driver: a stub library was loaded from {path or _LIBRARY}", hint=hint_for(_STUB_LIBRARY, "cuInit")
    )


def _too_old(reason: str, driver: Driver) -> NoDriverError:
    needed = f"cuda-bindings {driver.bindings_version()} needs one for CUDA {format_version(_OLDEST_DRIVER)} or later"
    return NoDriverError(f"The NVIDIA driver is too old: {reason}; {needed}", hint="Update the NVIDIA driver.")


def _look_up(driver: Driver) -> Exception | None:
    """Have the bindings look up their functions; what they raise when they cannot."""
    try:
        driver.version()
    except (CudabwError, RuntimeError, ValueError) as error:
        return error
    return None


def _missing_devices(environ: Mapping[str, str], seen: int) -> list[str]:
    """A warning when fewer devices are seen than named. Which one is which is the driver's business alone."""
    value = environ.get("CUDA_VISIBLE_DEVICES", "")
    # The driver ends the list at "-1", which is how one hides the rest on purpose.
    named = len([entry for entry in takewhile(lambda entry: entry.strip() != "-1", value.split(",")) if entry.strip()])
    if seen >= named:
        return []
    warning = f'CUDA_VISIBLE_DEVICES="{value}" names {named} devices, but the driver shows {seen}'
    return [f"{warning}: it ends the list at the first entry it does not know."]
