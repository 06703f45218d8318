from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from cudabw.system.software import read_software

if TYPE_CHECKING:
    from pathlib import Path


def write(root: Path, name: str, text: str) -> Path:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return root


def os_of(root: Path, text: str, name: str = "etc/os-release") -> object:
    return read_software(write(root, name, text))["os"]


def test_the_software_has_these_names_and_no_others(tmp_path: Path) -> None:
    write(tmp_path, "etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n')
    assert read_software(tmp_path) == {
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "python_gil": True,
        "numpy": metadata.version("numpy"),
        "os": "Ubuntu 24.04.1 LTS",
        "kernel": platform.release(),
        "machine": platform.machine(),
    }


def test_what_cannot_be_read_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    for name in ("system", "release", "machine"):
        monkeypatch.setattr(platform, name, lambda: "")
    facts = read_software(tmp_path)
    assert [facts[name] for name in ("numpy", "os", "kernel", "machine")] == [None] * 4


def test_an_interpreter_without_its_lock_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert read_software(tmp_path)["python_gil"] is False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n', "Debian GNU/Linux 12 (bookworm)"),
        ("PRETTY_NAME=Alpine\n", "Alpine"),
        ("PRETTY_NAME='it has \"quotes\"'\n", 'it has "quotes"'),
        ('PRETTY_NAME="never closed\n', platform.system()),
        ("PRETTY_NAME=\n", platform.system()),
        ("NAME=Debian\n", platform.system()),
    ],
)
def test_the_system_is_named_as_people_name_it(tmp_path: Path, text: str, expected: str) -> None:
    assert os_of(tmp_path, text) == expected


def test_the_system_is_named_from_usr_where_etc_has_nothing(tmp_path: Path) -> None:
    assert os_of(tmp_path, "PRETTY_NAME=Fedora\n", "usr/lib/os-release") == "Fedora"
    assert os_of(tmp_path, "PRETTY_NAME=Local\n") == "Local"
