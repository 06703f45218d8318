from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from cudabw.driver.nvml import Nvml, NvmlDevice
from cudabw.system.gpu import iommu_domain, other_processes, read_gpu, with_gpu_after

PCI = "0000:17:00.0"


def answering(**answers: object) -> SimpleNamespace:
    functions = {name: lambda *_, value=value: value for name, value in answers.items()}
    return SimpleNamespace(**functions)


def processes(*numbers: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=number) for number in numbers]


H200 = answering(
    device_get_mig_mode=(0, 0),
    device_get_ecc_mode=(1, 1),
    device_get_persistence_mode=1,
    device_get_compute_mode=0,
    device_get_virtualization_mode=1,
    device_get_power_usage=120500,
    device_get_temperature_v=41,
    device_get_current_clocks_event_reasons=0x1,
    device_get_compute_running_processes_v3=processes(7, 8),
    system_get_conf_compute_state=SimpleNamespace(cc_feature=0),
)
H200.device_get_clock_info = lambda _handle, clock: {1: 1980, 2: 3201}[clock]


def test_every_name_is_documented() -> None:
    documented = (Path(__file__).parents[3] / "docs" / "environment.md").read_text()
    gpu = read_gpu(Nvml(H200), NvmlDevice(H200, 1), PCI)
    before = gpu["before"]
    assert isinstance(before, dict)
    assert [name for name in {**gpu, **before} if f"`{name}`" not in documented] == []


def test_a_gpu_is_described_with_these_names_and_no_others(tmp_path: Path) -> None:
    group = tmp_path / "sys/bus/pci/devices" / PCI / "iommu_group"
    group.mkdir(parents=True)
    (group / "type").write_text("DMA-FQ\n")
    assert read_gpu(Nvml(H200), NvmlDevice(H200, 1), PCI, root=tmp_path) == {
        "mig": False,
        "ecc": True,
        "compute_mode": "default",
        "persistence": True,
        "virtualization": "passthrough",
        "confidential_computing": False,
        "iommu_domain": "DMA-FQ",
        "other_processes": 2,
        "before": {
            "sm_mhz": 1980,
            "memory_mhz": 3201,
            "temperature_c": 41,
            "power_w": 120.5,
            "reasons": ["gpu_idle"],
            "throttled": False,
        },
        "after": None,
    }


@pytest.mark.parametrize("device", [None, NvmlDevice(object(), 1)])
def test_what_nvml_does_not_say_is_none(tmp_path: Path, device: NvmlDevice | None) -> None:
    gpu = read_gpu(None, device, PCI, root=tmp_path)
    before = gpu.pop("before")
    assert set(gpu.values()) == {None}
    assert before is None if device is None else set(before.values()) == {None}


def test_after_a_run_the_clocks_are_read_again() -> None:
    hot = answering(device_get_current_clocks_event_reasons=0x40)
    environment = with_gpu_after({"cpu": 1, "gpu": {"before": "cold", "after": None}}, NvmlDevice(hot, 1))
    assert environment["cpu"] == 1
    gpu = environment["gpu"]
    assert isinstance(gpu, dict)
    assert gpu["before"] == "cold"
    assert (gpu["after"]["reasons"], gpu["after"]["throttled"]) == (["hw_thermal_slowdown"], True)


@pytest.mark.parametrize("environment", [{}, {"gpu": None}])
def test_an_environment_without_a_gpu_gets_none_afterwards(environment: dict[str, object]) -> None:
    assert with_gpu_after(environment, None) == {"gpu": None}


def test_this_process_is_not_among_the_others() -> None:
    device = NvmlDevice(answering(device_get_compute_running_processes_v3=processes(os.getpid(), 1)), 1)
    assert other_processes(device) == 1


def test_a_process_that_computes_and_draws_is_counted_once() -> None:
    lists = {f"device_get_{kind}_running_processes_v3": processes(1, 2) for kind in ("compute", "graphics")}
    assert other_processes(NvmlDevice(answering(**lists), 1)) == 2


@pytest.mark.parametrize("pci", [None, "nonsense", PCI])
def test_a_device_without_an_iommu_has_no_domain(tmp_path: Path, pci: str | None) -> None:
    assert iommu_domain(pci, root=tmp_path) is None
