from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cudabw.system.cpu import Affinity, cpu_flags, cpu_governor, cpu_model, cpus_available

if TYPE_CHECKING:
    from pathlib import Path


def write(root: Path, name: str, text: str) -> Path:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return root


def test_without_an_affinity_the_processors_of_the_host_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 96)
    assert cpus_available() == 96


def test_the_processors_this_process_may_use_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7})
    assert cpus_available() == 3


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        ("model name\t: first\n\nmodel name\t: second\n", "first"),
        ("model\t\t: 2\nmodel name\t:\n", None),
        ("cpu family\t: 26\ncpu MHz\t: 2596.120\n", None),
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n", "implementer 0x41 part 0xd4f"),
        ("CPU implementer\t: 0x41\n", None),
        ("model name\t: a: b\n", "a: b"),
        ("", None),
    ],
)
def test_the_processor_is_named(tmp_path: Path, cpuinfo: str, expected: str | None) -> None:
    assert cpu_model(write(tmp_path, "proc/cpuinfo", cpuinfo)) == expected


def test_a_processor_that_cannot_be_read_has_no_name_and_no_flags(tmp_path: Path) -> None:
    assert (cpu_model(tmp_path), cpu_flags(tmp_path)) == (None, frozenset())


@pytest.mark.parametrize("name", ["flags\t\t", "Features\t"])
def test_what_a_processor_can_do_is_listed_by_x86_and_arm_alike(tmp_path: Path, name: str) -> None:
    assert cpu_flags(write(tmp_path, "proc/cpuinfo", f"{name}: fpu sve\n\n{name}: other\n")) == {"fpu", "sve"}


@pytest.mark.parametrize(
    ("governors", "expected"),
    [
        ([], None),
        (["performance\n"], "performance"),
        (["performance\n", "performance\n"], "performance"),
        (["schedutil\n", "performance\n"], "performance,schedutil"),
        (["\n"], None),
    ],
)
def test_all_governors_of_the_clocks_are_named_once(tmp_path: Path, governors: list[str], expected: str | None) -> None:
    for number, governor in enumerate(governors):
        write(tmp_path, f"sys/devices/system/cpu/cpufreq/policy{number}/scaling_governor", governor)
    assert cpu_governor(tmp_path) == expected


def test_a_thread_is_held_on_a_cpu_and_let_go():
    affinity = Affinity()
    allowed = affinity.allowed()
    try:
        assert affinity.hold({min(allowed)})
        assert affinity.allowed() == {min(allowed)}
    finally:
        assert affinity.hold(allowed)


def test_a_thread_that_cannot_be_held_is_not(monkeypatch):
    assert not Affinity().hold({10**5})
    monkeypatch.delattr(os, "sched_setaffinity")
    monkeypatch.delattr(os, "sched_getaffinity")
    assert not Affinity().hold({0})
    assert Affinity().allowed() == frozenset()
