"""Whether this process runs in a container, and of which kind; and whether under WSL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudabw.system.pseudofiles import read_line, read_text

if TYPE_CHECKING:
    from pathlib import Path

_IN_PATHS: Final = {
    "kubepods": "kubernetes",
    "libpod": "podman",
    "docker": "docker",
    "containerd": "containerd",
    "lxc": "lxc",
}
"""What the path of a control group has in it, and who names its groups so; the first that fits."""

_WSL: Final = "microsoft"  # in the release of WSL's kernels, in either case


def container_kind(root: Path) -> str | None:
    """The kind of container that this process runs in, such as ``docker``; None where nothing tells of one.

    Never raises.
    """
    if kind := read_line(root / "run" / "systemd" / "container"):
        return kind
    paths = (read_text(root / "proc" / "self" / "cgroup") or "").lower()
    named = next((kind for part, kind in _IN_PATHS.items() if part in paths), None)
    if read_text(root / "run" / ".containerenv") is not None:
        return "podman"
    if read_text(root / ".dockerenv") is not None:
        return named if named == "kubernetes" else "docker"
    return named


def in_wsl(root: Path) -> bool | None:
    """Whether this is the Windows Subsystem for Linux; None where that cannot be read. Never raises."""
    release = read_line(root / "proc" / "sys" / "kernel" / "osrelease")
    return None if release is None else _WSL in release.lower()
