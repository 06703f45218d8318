from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cudabw.system.cpu import cpus_available
from cudabw.system.environment import read_environment
from cudabw.system.software import read_software


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


NOTHING: dict[str, Any] = {
    "gpu": None,
    "cpu": {"model": None, "governor": None},
    "memory": {
        "total_bytes": None,
        "available_bytes": None,
        "limit_source": None,
        "memlock": None,
        "transparent_huge_pages": None,
        "huge_pages": None,
    },
    "host": {
        "product": None,
        "virtual_machine": None,
        "confidential_guest": None,
        "container": None,
        "wsl": None,
        "iommu_units": None,
        "iommu_arguments": None,
    },
    "variables": {},
    "other_variables": [],
}


def test_where_nothing_can_be_read_the_names_are_there_and_null(tmp_path: Path) -> None:
    environment = read_environment({}, {}, root=tmp_path)
    assert environment.pop("software") == read_software(tmp_path)
    cpu = environment["cpu"]
    assert isinstance(cpu, dict)
    assert cpu.pop("available") == cpus_available()
    # Of this thread: no file tells it, and where the system does not, it is null as well.
    assert isinstance(cpu.pop("thread_node"), int | None)
    assert environment == NOTHING


def test_every_probe_reads_below_the_root_that_it_is_given(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/cpuinfo": "model name\t: AMD EPYC 9654\nflags\t: fpu hypervisor tdx_guest\n",
            "proc/meminfo": "MemTotal: 8 kB\nMemAvailable: 4 kB\nHugepagesize: 2048 kB\n"
            "HugePages_Total: 2\nHugePages_Free: 1\n",
            "proc/self/limits": "Max locked memory  65536  unlimited  bytes\n",
            "proc/cmdline": "quiet iommu=pt intel_iommu=on root=/dev/sda1\n",
            "proc/sys/kernel/osrelease": "5.15-microsoft\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "[always] never\n",
            "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "powersave\n",
            "sys/class/iommu/dmar0/x": "",
            "sys/class/iommu/dmar1/x": "",
            "sys/class/dmi/id/sys_vendor": "QEMU\n",
            ".dockerenv": "",
        },
    )
    environ = {"LD_PRELOAD": "x.so", "CUDA_HOME": "/opt", "HOME": "/root"}
    environment = read_environment({"cuda_driver": "13.0"}, environ, gpu={"mig": False}, root=root)
    software, cpu = environment["software"], environment["cpu"]
    assert isinstance(software, dict)
    assert isinstance(cpu, dict)
    assert software["cuda_driver"] == "13.0"
    assert (cpu["model"], cpu["governor"]) == ("AMD EPYC 9654", "powersave")
    assert environment["memory"] == {
        "total_bytes": 8192,
        "available_bytes": 4096,
        "limit_source": "system memory 8 KiB",
        "memlock": {"soft_bytes": 65536, "hard_bytes": None},
        "transparent_huge_pages": "always",
        "huge_pages": {"size_bytes": 2 << 20, "total": 2, "free": 1},
    }
    assert environment["host"] == {
        "product": "QEMU",
        "virtual_machine": True,
        "confidential_guest": "tdx",
        "container": "docker",
        "wsl": True,
        "iommu_units": 2,
        "iommu_arguments": ["iommu=pt", "intel_iommu=on"],
    }
    assert (environment["gpu"], environment["variables"]) == ({"mig": False}, {"LD_PRELOAD": "x.so"})
    assert environment["other_variables"] == ["CUDA_HOME"]


def keys_of(value: object) -> set[str]:
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(keys_of(member) for member in value.values()))


def test_every_key_is_documented(tmp_path: Path) -> None:
    documented = (Path(__file__).parents[3] / "docs" / "environment.md").read_text()
    keys = keys_of(read_environment({}, {}, root=tmp_path)) | {"soft_bytes", "hard_bytes", "size_bytes", "free"}
    assert [key for key in sorted(keys) if f"{key}`" not in documented] == []


@given(
    st.dictionaries(st.text(), st.text() | st.floats() | st.binary() | st.lists(st.integers() | st.complex_numbers())),
    st.dictionaries(st.sampled_from(["LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "CUDA_X"]), st.text()),
)
def test_whatever_is_given_the_facts_are_strict_json(facts: dict[str, object], environ: dict[str, str]) -> None:
    document = read_environment(facts, environ, root=Path("/nonexistent"))
    json.dumps(document, allow_nan=False, ensure_ascii=False).encode("utf-8")
