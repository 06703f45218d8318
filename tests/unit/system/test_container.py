from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cudabw.system.container import container_kind, in_wsl

if TYPE_CHECKING:
    from pathlib import Path


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/user.slice/user-1000.slice/session-2.scope\n"}, None),
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({"run/systemd/container": "systemd-nspawn\n"}, "systemd-nspawn"),
        ({"proc/self/cgroup": "0::/system.slice/docker-3fa8.scope\n"}, "docker"),
        ({"proc/self/cgroup": "4:memory:/kubepods/besteffort/pod1/docker-1\n"}, "kubernetes"),
        ({".dockerenv": "", "proc/self/cgroup": "0::/kubepods.slice/pod1\n"}, "kubernetes"),
        ({"proc/self/cgroup": "0::/lxc.payload.web\n"}, "lxc"),
    ],
)
def test_a_container_is_known_by_what_its_maker_leaves_in_it(
    tmp_path: Path, files: dict[str, str], kind: str | None
) -> None:
    assert container_kind(write(tmp_path, files)) == kind


@pytest.mark.parametrize(
    ("release", "wsl"),
    [("5.15.90.1-microsoft-standard-WSL2\n", True), ("4.4.0-19041-Microsoft\n", True), ("6.8.0-45-generic\n", False)],
)
def test_wsl_is_known_by_its_kernel(tmp_path: Path, release: str, wsl: bool) -> None:
    assert in_wsl(write(tmp_path, {"proc/sys/kernel/osrelease": release})) is wsl


def test_of_a_system_that_cannot_be_read_it_is_not_known_whether_it_is_wsl(tmp_path: Path) -> None:
    assert in_wsl(tmp_path) is None
