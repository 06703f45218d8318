"""The versions of what a figure depends on: driver, bindings, Python, NumPy, the system."""

from __future__ import annotations

import platform
import shlex
import sys
from importlib import metadata
from typing import TYPE_CHECKING

from cudabw.system.pseudofiles import read_text

if TYPE_CHECKING:
    from pathlib import Path


def read_software(root: Path) -> dict[str, object]:
    """Name Python, NumPy and the operating system. Never raises.

    Args:
        root: Where ``/etc`` is found.
    """
    return {
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "python_gil": _gil(),
        "numpy": package_version("numpy"),
        "os": _os_name(root),
        "kernel": platform.release() or None,
        "machine": platform.machine() or None,
    }


def _gil() -> bool:
    """Whether the interpreter has its lock, which before Python 3.13 every one has."""
    enabled = getattr(sys, "_is_gil_enabled", None)
    return True if enabled is None else bool(enabled())


def package_version(name: str) -> str | None:
    """The version of an installed package; None where it is not installed. Never raises."""
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
