"""The files of a driver: ``libcuda`` as the dynamic loader finds it, and the bindings that call it."""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from cudabw.errors import NoDriverError

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec

LIBRARY = "libcuda.so.1"

BindLaunch: TypeAlias = "Callable[[int, int, int], functools.partial[int]]"
"""From the address of a ``CUlaunchConfig``, a ``CUfunction`` and the address of the parameters to the launch."""


class LibraryError(Exception):
    """``libcuda`` cannot be loaded or is not a CUDA driver; the message is the dynamic loader's."""


class Library(Protocol):
    """A loaded ``libcuda``, asked directly for what the bindings cannot be asked."""

    def init(self) -> int:
        """The status of ``cuInit``."""

    def version(self) -> tuple[int, int]:
        """The status of ``cuDriverGetVersion``, and the version where that is success."""

    def launch_binder(self) -> BindLaunch | None:
        """Binds ``cuLaunchKernelEx`` once for many calls; None where the driver has no such symbol."""

    def address_of(self, function: str) -> int | None:
        """Where a function begins; None where the driver has no such symbol."""


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
        handle = dlopen(LIBRARY.encode(), os.RTLD_NOW | os.RTLD_GLOBAL)
        if handle is None:
            raise LibraryError(os.fsdecode(dlerror()))
        self._library = library = ctypes.CDLL(LIBRARY, handle=handle)
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

    def launch_binder(self) -> BindLaunch | None:
        """Binds ``cuLaunchKernelEx`` once for many calls; None where the driver has no such symbol."""
        entry = getattr(self._library, "cuLaunchKernelEx", None)
        return None if entry is None else functools.partial(_bind_launch, entry)

    def address_of(self, function: str) -> int | None:
        """Where a function begins; None where the driver has no such symbol."""
        # CUDA 3.2 widened sizes and addresses: the functions that take any have had this suffix since.
        for symbol in (f"{function}_v2", function):
            entry = getattr(self._library, symbol, None)
            if entry is not None:
                return ctypes.cast(entry, ctypes.c_void_p).value
        return None


def _bind_launch(entry: Callable[..., int], config: int, function: int, parameters: int) -> functools.partial[int]:
    # What from_param makes is passed as it is; a c_void_p would be converted again on every call. The
    # interpreter's lock is released: a launch that the queue has no room for holds the thread, while the thread that
    # opens the gate in front of the queue needs the lock.
    pointer = ctypes.c_void_p.from_param
    return functools.partial(entry, pointer(config), pointer(function), pointer(parameters), None)


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
