"""The environment variables that change a figure: those that are kept in results, and those that distort it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudabw.system.plain import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

_VARIABLES: Final = (
    "CUDA_API_PER_THREAD_DEFAULT_STREAM",
    "CUDA_CACHE_DISABLE",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_DISABLE_PERF_BOOST",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_INJECTION64_PATH",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
    "CUDA_MODULE_LOADING",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_CLIENT_PRIORITY",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM",
    "CUDA_SCALE_LAUNCH_QUEUES",
    "CUDA_VISIBLE_DEVICES",
    "GLIBC_TUNABLES",
    "LD_AUDIT",
    "LD_PRELOAD",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_VISIBLE_DEVICES",
    "NVTX_INJECTION64_PATH",
    "PYTHONDEVMODE",
    "PYTHONMALLOC",
    "PYTHONTRACEMALLOC",
    "PYTHON_GIL",
    "PYTHON_JIT",
)
"""Variables that the driver, its bindings, the C library or Python obey and that change a figure, or which device gave
it. Their values are kept in results; of no other variable is a value ever kept."""

_PREFIXES: Final = ("CUDA_", "NVIDIA_")
"""Other variables that begin so are kept by name alone."""

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


def mattering_variables(environ: Mapping[str, str]) -> dict[str, object]:
    """The variables of the list that are set, with their values, also where they are set to nothing."""
    return {name: plain(environ[name]) for name in _VARIABLES if name in environ}


def other_variables(environ: Mapping[str, str]) -> list[object]:
    """The names of other variables that CUDA's and NVIDIA's software may obey, in alphabetical order."""
    return [plain(name) for name in sorted(environ) if name.startswith(_PREFIXES) and name not in _VARIABLES]


def distortions(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Say what in the environment distorts a measurement, one sentence for each; empty or ``0`` is off.

    Args:
        environ: The environment variables, such as ``os.environ``.
    """
    sentences = (distortion(environ, name) for name in _DISTORTING)
    return tuple(sentence for sentence in sentences if sentence is not None)


def distortion(environ: Mapping[str, str], name: str) -> str | None:
    """Say how one of the variables that distort does so; None where it is off.

    Args:
        environ: The environment variables.
        name: The variable.
    """
    if environ.get(name, "").strip() in ("", "0"):
        return None
    return f"{name}={plain(environ[name])} {_DISTORTING[name]}."
