"""Which GPUs CUDA shows, and what hides the others."""

from types import SimpleNamespace

from cudabw.errors import NoDriverError
from cudabw.system.checks.devices import DEVICES

DRIVER = object()
SHOWN = "0 NVIDIA H200 at 0000:17:00.0"
TWO = {
    "count_v2": 2,
    "handle_by_index_v2": lambda index: index + 1,
    "pci_info_v3": lambda handle: SimpleNamespace(bus_id=f"00000000:{'17' if handle == 1 else '2A'}:00.0"),
    "name": "NVIDIA H200",
}
FAILURE = NoDriverError("The CUDA driver shows no device")


def test_gpus_that_are_all_shown_are_listed(look):
    assert look(DEVICES, driver=DRIVER) == [("ok", SHOWN, "")]
    assert look(DEVICES, driver=DRIVER, nvml=TWO | {"count_v2": 1}) == [("ok", SHOWN, "")]


def test_a_gpu_that_a_variable_hides_is_named(look):
    found = look(DEVICES, driver=DRIVER, nvml=TWO, environ={"CUDA_VISIBLE_DEVICES": "0"})
    seen = f'CUDA_VISIBLE_DEVICES="0" hides NVIDIA H200 at 0000:2a:00.0. Shown: {SHOWN}'
    assert found == [("attention", seen, "unset CUDA_VISIBLE_DEVICES")]


def test_a_gpu_that_something_else_hides_is_named_too(look):
    seen = f"CUDA does not show NVIDIA H200 at 0000:2a:00.0. Shown: {SHOWN}"
    assert look(DEVICES, driver=DRIVER, nvml=TWO) == [("attention", seen, "nvidia-smi -q")]


def test_a_list_that_ends_at_an_unknown_entry_is_said(look):
    first, second = look(DEVICES, driver=DRIVER, environ={"CUDA_VISIBLE_DEVICES": "0,9,1"})
    seen = (
        'CUDA_VISIBLE_DEVICES="0,9,1" names 3 devices, but the driver shows 1: it ends the list at the first entry it '
        f"does not know. Shown: {SHOWN}"
    )
    assert first == ("attention", seen, "unset CUDA_VISIBLE_DEVICES")
    assert second[0] == "ok"


def test_gpus_that_nvml_knows_and_cuda_does_not_are_named(look):
    found = look(DEVICES, failure=FAILURE, nvml={}, environ={"CUDA_VISIBLE_DEVICES": ""})
    seen = "CUDA shows none; NVML knows NVIDIA H200 at 0000:17:00.0"
    assert found == [("wrong", seen, "unset CUDA_VISIBLE_DEVICES")]


def test_without_a_driver_the_pci_bus_is_looked_at(look, tmp_path):
    files = {}
    for address, vendor, kind in [
        ("0000:01:00.0", "0x10de", "0x030200"),
        ("0000:02:00.0", "0x10de", "0x030000"),
        ("0000:02:00.1", "0x10de", "0x040300"),
        ("0000:03:00.0", "0x1002", "0x030000"),
    ]:
        files[f"sys/bus/pci/devices/{address}/vendor"] = f"{vendor}\n"
        files[f"sys/bus/pci/devices/{address}/class"] = f"{kind}\n"
    (tmp_path / "sys/bus/pci/devices/0000:02:00.0").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000:02:00.0/driver").symlink_to("../../../bus/pci/drivers/nouveau")
    seen = "CUDA shows none; on the PCI bus there is 0000:01:00.0 (used by no driver), 0000:02:00.0 (used by nouveau)"
    assert look(DEVICES, files, failure=FAILURE, gpus=0) == [("wrong", seen, "Install the NVIDIA driver.")]


def test_a_machine_without_a_gpu_is_said_to_have_none(look):
    seen = "no NVIDIA GPU is on the PCI bus that this system shows"
    fix = "Seat a GPU, or pass one through to this virtual machine; lspci -d 10de: lists them."
    assert look(DEVICES, failure=FAILURE, gpus=0) == [("wrong", seen, fix)]


def test_under_wsl_the_driver_belongs_into_windows(look):
    files = {"proc/sys/kernel/osrelease": "5.15-microsoft-standard-WSL2\n"}
    fix = "Install the NVIDIA driver in Windows, then run: wsl --shutdown."
    assert look(DEVICES, files, failure=FAILURE, gpus=0) == [("wrong", "CUDA shows none", fix)]
