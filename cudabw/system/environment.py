"""The facts that a figure was measured under, and what in the environment distorts it."""

from __future__ import annotations

import math
import platform
import shlex
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from cudabw.system.cpu import cpu_model, cpus_available
from cudabw.system.pseudofiles import read_text

_VARIABLES: Final = (
    "CUDA_API_PER_THREAD_DEFAULT_STREAM",
    "CUDA_CACHE_DISABLE",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_INJECTION64_PATH",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
    "CUDA_MODULE_LOADING",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM",
    "CUDA_VISIBLE_DEVICES",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "NVIDIA_VISIBLE_DEVICES",
    "NVTX_INJECTION64_PATH",
)
"""Variables that the driver, its bindings or the C library obey and that change a figure or which device gave it."""

_INJECTED: Final = "loads a profiler into this process, which adds to the time of every driver call and launch"
_PER_THREAD: Final = "changes what the default stream waits for, so copies and launches may overlap differently"
_DISTORTING: Final = {
    "CUDA_LAUNCH_BLOCKING": "makes every launch wait for its kernel, so launch times include the kernel's own",
    "CUDA_INJECTION64_PATH": _INJECTED,
    "NVTX_INJECTION64_PATH": _INJECTED,
    "LD_PRELOAD": "puts a library in front of this process's own, which may replace its allocations, copies and calls",
    "CUDA_API_PER_THREAD_DEFAULT_STREAM": _PER_THREAD,
    # The name that cuda-bindings reads; the one above is the compiler's macro, which other tools read.
    "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM": _PER_THREAD,
}


def read_environment(
    driver_facts: Mapping[str, object], environ: Mapping[str, str], *, root: Path = Path("/")
) -> dict[str, object]:
    """Gather what a reader must know to compare two results. Never raises.

    Args:
        driver_facts: What the driver said about itself, added under its own names; what JSON has no
            value for becomes text, and a number that is not finite becomes None.
        environ: The environment variables, such as ``os.environ``.
        root: Where ``/proc`` and ``/etc`` are found.

    Returns:
        A new dictionary that JSON can hold; what could not be read is None. ``variables`` holds those
        environment variables that matter and are set, also where they are set to nothing.
    """
    facts: dict[str, object] = {
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "numpy": _package_version("numpy"),
        "os": _os_name(root),
        "kernel": platform.release() or None,
        "machine": platform.machine() or None,
        "cpu": cpu_model(root),
        "cpus_available": cpus_available(),
        "variables": {name: _plain(environ[name]) for name in _VARIABLES if name in environ},
    }
    return facts | {str(name): _plain(value) for name, value in driver_facts.items()}


def distortions(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Say what in the environment distorts a measurement, one sentence for each; empty or ``0`` is off.

    Args:
        environ: The environment variables, such as ``os.environ``.
    """
    return tuple(
        f"{name}={_plain(environ[name])} {effect}."
        for name, effect in _DISTORTING.items()
        if environ.get(name, "").strip() not in ("", "0")
    )


def _package_version(name: str) -> str | None:
    # From its metadata: importing a package to learn its version costs more than all the rest here.
    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, OSError, ValueError, KeyError):
        return None


def _os_name(root: Path) -> str | None:
    """Give the distribution's name for people, else the kernel's; ``/etc/os-release`` first as os-release(5) asks."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        for line in (read_text(root / path) or "").splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "PRETTY_NAME" and (shown := _unquote(value)):
                return shown
    return platform.system() or None


def _unquote(text: str) -> str | None:
    try:
        return " ".join(shlex.split(text)) or None
    except ValueError:  # a quote that is never closed
        return None


def _plain(value: object) -> object:
    """Give a value that strict JSON in UTF-8 can hold."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [_plain(member) for member in value]
    # The bytes of an environment variable that are not UTF-8 arrive as lone surrogates, which UTF-8 cannot write.
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")
