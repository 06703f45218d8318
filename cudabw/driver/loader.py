"""Find a CUDA driver, real or emulated, and say exactly why when there is none.

Everything in a driver's start that may hang or fail runs in a worker thread. The calling
thread waits in short slices, so that it can say which step is running and a signal can end it.
"""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudabw.driver.calls import SUCCESS, Driver, format_version
from cudabw.driver.hints import SystemProbe, hint_for, startup_hint
from cudabw.driver.library import LIBRARY, LibraryError, LoadedLibrary, import_bindings, require_bindings
from cudabw.driver.watchdog import watch
from cudabw.errors import CudabwError, DriverError, NoDriverError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cudabw.driver.library import Library

_STUB_LIBRARY = 34  # CUDA_ERROR_STUB_LIBRARY
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
# cuda-bindings finds every function through cuGetProcAddress_v2, which came with CUDA 12.0.
_OLDEST_DRIVER = 12000

_FALLBACK = (
    "No NVIDIA driver is installed: using the emulated device, whose figures are those of host memory and not of a GPU."
)


class Backend(StrEnum):
    """Which device to use; ``auto`` means the GPU, or the emulated device where no NVIDIA driver is installed."""

    AUTO = "auto"
    CUDA = "cuda"
    EMULATED = "emulated"


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


def load_driver(
    backend: Backend = Backend.AUTO,
    *,
    notify: Callable[[str], None] = _warn,
    check_interrupt: Callable[[], None] = lambda: None,
    environ: Mapping[str, str] = os.environ,
    probe: SystemProbe = SystemProbe(),  # noqa: B008 - immutable
) -> Driver:
    """Start the driver that a backend means.

    Args:
        backend: Which device to use.
        notify: Told on the calling thread, in one sentence, what the user should know: a fallback, a step
            that takes long, devices that are missing. A Python warning unless given.
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
        step(f"loading {LIBRARY}")
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
        match = re.match(rf"(.*/{re.escape(LIBRARY)}): (.*)", message)
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
        driver = Driver(
            self.import_bindings(),
            emulated=False,
            path=path,
            bind_launch=library.launch_binder(),
            address_of=library.address_of,
        )
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
            self.notices.extend(missing_devices(self.environ, int(count)))
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
                f"An NVIDIA kernel driver is present, but the loader finds no {LIBRARY}",
                hint="Install the driver's libraries; start a container with the GPU (docker run --gpus all).",
            )
        return NoDriverError(
            f"No NVIDIA driver is installed: the loader finds no {LIBRARY}",
            hint="Install the NVIDIA driver, or use the emulated device (--backend emulated).",
        )


def _stub(path: str | None) -> NoDriverError:
    return NoDriverError(
        f"No CUDA driver: a stub library was loaded from {path or LIBRARY}", hint=hint_for(_STUB_LIBRARY, "cuInit")
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


def missing_devices(environ: Mapping[str, str], seen: int) -> list[str]:
    """A warning when fewer devices are seen than ``CUDA_VISIBLE_DEVICES`` names.

    Which one is which is the driver's business alone.
    """
    value = environ.get("CUDA_VISIBLE_DEVICES", "")
    # The driver ends the list at "-1", which is how one hides the rest on purpose.
    named = len([entry for entry in takewhile(lambda entry: entry.strip() != "-1", value.split(",")) if entry.strip()])
    if seen >= named:
        return []
    warning = f'CUDA_VISIBLE_DEVICES="{value}" names {named} devices, but the driver shows {seen}'
    return [f"{warning}: it ends the list at the first entry it does not know."]
