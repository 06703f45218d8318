from __future__ import annotations

import json
import os
import platform
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.system.environment import distortions, read_environment

INJECTED = "loads a profiler into this process, which adds to the time of every driver call and launch."
PER_THREAD = "changes what the default stream waits for, so copies and launches may overlap differently."


def write(root: Path, name: str, text: str) -> Path:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return root


def cpu_of(root: Path, cpuinfo: str) -> object:
    return read_environment({}, {}, root=write(root, "proc/cpuinfo", cpuinfo))["cpu"]


def os_of(root: Path, text: str, name: str = "etc/os-release") -> object:
    return read_environment({}, {}, root=write(root, name, text))["os"]


def test_the_facts_have_these_names_and_no_others(tmp_path: Path) -> None:
    write(tmp_path, "proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 9654 96-Core Processor\n")
    write(tmp_path, "etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n')
    facts = read_environment({"driver_version": "580.159"}, {"LD_PRELOAD": "x.so", "HOME": "/root"}, root=tmp_path)
    assert facts == {
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "numpy": metadata.version("numpy"),
        "os": "Ubuntu 24.04.1 LTS",
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": "AMD EPYC 9654 96-Core Processor",
        "cpus_available": len(os.sched_getaffinity(0)),
        "variables": {"LD_PRELOAD": "x.so"},
        "driver_version": "580.159",
    }


def test_what_cannot_be_read_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    for name in ("system", "release", "machine"):
        monkeypatch.setattr(platform, name, lambda: "")
    facts = read_environment({}, {}, root=tmp_path)
    assert [facts[name] for name in ("numpy", "os", "kernel", "machine", "cpu")] == [None] * 5


def test_without_an_affinity_the_processors_of_the_host_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 96)
    assert read_environment({}, {}, root=tmp_path)["cpus_available"] == 96


def test_the_processors_this_process_may_use_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7})
    assert read_environment({}, {}, root=tmp_path)["cpus_available"] == 3


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
    assert cpu_of(tmp_path, cpuinfo) == expected


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


MATTERING = [
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
]


@pytest.mark.parametrize("name", MATTERING)
@pytest.mark.parametrize("value", ["1", "0", ""])
def test_a_variable_that_matters_is_kept_as_it_was_set(tmp_path: Path, name: str, value: str) -> None:
    assert read_environment({}, {name: value, "PATH": "/bin"}, root=tmp_path)["variables"] == {name: value}


def test_facts_of_the_driver_become_what_json_can_hold(tmp_path: Path) -> None:
    driver_facts = {
        "version": 13000,
        "rate": 1.5,
        "nan": float("nan"),
        "infinite": float("-inf"),
        "none": None,
        "flag": True,
        "pair": (13, Path("/lib")),
        "nested": {1: {"inner": [float("nan"), "x"]}},
        "bytes": b"ab",
        "surrogate": "a\udcffb",
    }
    facts = read_environment(driver_facts, {}, root=tmp_path)
    assert {name: facts[name] for name in driver_facts} == {
        "version": 13000,
        "rate": 1.5,
        "nan": None,
        "infinite": None,
        "none": None,
        "flag": True,
        "pair": [13, "/lib"],
        "nested": {"1": {"inner": [None, "x"]}},
        "bytes": "b'ab'",
        "surrogate": "a\\udcffb",
    }


@given(
    st.dictionaries(st.text(), st.text() | st.floats() | st.binary() | st.lists(st.integers() | st.complex_numbers())),
    st.dictionaries(st.sampled_from(MATTERING), st.text()),
)
def test_whatever_is_given_the_facts_are_strict_json(facts: dict[str, object], environ: dict[str, str]) -> None:
    json.dumps(read_environment(facts, environ), allow_nan=False, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "CUDA_LAUNCH_BLOCKING",
            "1",
            "CUDA_LAUNCH_BLOCKING=1 makes every launch wait for its kernel, so launch times include the kernel's own.",
        ),
        ("CUDA_INJECTION64_PATH", "/opt/nsys.so", f"CUDA_INJECTION64_PATH=/opt/nsys.so {INJECTED}"),
        ("NVTX_INJECTION64_PATH", "/opt/nvtx.so", f"NVTX_INJECTION64_PATH=/opt/nvtx.so {INJECTED}"),
        (
            "LD_PRELOAD",
            "libjemalloc.so",
            (
                "LD_PRELOAD=libjemalloc.so puts a library in front of this process's own, "
                "which may replace its allocations, copies and calls."
            ),
        ),
        ("CUDA_API_PER_THREAD_DEFAULT_STREAM", "1", f"CUDA_API_PER_THREAD_DEFAULT_STREAM=1 {PER_THREAD}"),
        (
            "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM",
            "1",
            f"CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM=1 {PER_THREAD}",
        ),
    ],
)
def test_each_distortion_is_one_sentence_and_zero_or_nothing_is_off(name: str, value: str, sentence: str) -> None:
    assert distortions({name: value}) == (sentence,)
    assert distortions({name: "0"}) == distortions({name: ""}) == distortions({name: " 0 "}) == ()


def test_several_distortions_are_named_in_a_fixed_order() -> None:
    found = distortions({"LD_PRELOAD": "a.so", "CUDA_LAUNCH_BLOCKING": "1", "CUDA_VISIBLE_DEVICES": "1"})
    assert [sentence.partition("=")[0] for sentence in found] == ["CUDA_LAUNCH_BLOCKING", "LD_PRELOAD"]


def test_a_clean_environment_distorts_nothing() -> None:
    assert distortions({"PATH": "/bin", "CUDA_MODULE_LOADING": "LAZY"}) == ()
