"""``cudabw devices``: whole commands, and its report on machines that tests do not have."""

import ctypes
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import cudabw
from cudabw.cli.main import run
from cudabw.driver.calls import Driver
from cudabw.driver.emulated import EmulatedDriver
from cudabw.driver.hints import SystemProbe
from cudabw.driver.nvml import Nvml
from cudabw.report.console import make_console
from cudabw.report.devices_table import print_devices
from cudabw.results.inventory import Inventory
from cudabw.results.model import DeviceInfo, Hop, Link
from cudabw.system.inventory import inventory_of
from cudabw.system.link import ceiling_bytes_per_s

ROOT = Path(cudabw.__file__).parents[1]
PCI = "0000:01:00.0"  # the first emulated device's

EMULATED = """\
Device 0: Emulated CUDA device (not a GPU)
  UUID    GPU-63756461-6277-2d65-6d75-6c6174656400
  PCI     0000:01:00.0
  Memory  3 GiB
  Link    none: host memory plays the device
  NUMA    none: host memory plays the device

Device 1: Emulated CUDA device (not a GPU)
  UUID    GPU-63756461-6277-2d65-6d75-6c6174656401
  PCI     0000:02:00.0
  Memory  3 GiB
  Link    none: host memory plays the device
  NUMA    none: host memory plays the device

CUDA driver {driver} · cuda-bindings {bindings}
"""

REAL = """\
Device 0: NVIDIA H200
  UUID    GPU-8a3d1c52-6f1e-4a57-9c53-0c1a6a1f7f10
  PCI     0000:17:00.0
  Memory  139.80 GiB
  Link    PCIe Gen5 x16, 63.0 GB/s (nvml)
  NUMA    node 0

Device 1: NVIDIA H200
  UUID    GPU-8a3d1c52-6f1e-4a57-9c53-0c1a6a1f7f11
  PCI     0000:2a:00.0
  Memory  139.80 GiB
  Link    PCIe Gen5 x16, 63.0 GB/s (nvml) at most; now Gen1 x16 (idle)
  NUMA    node 1

NVIDIA driver 580.159.03 · CUDA driver 13.0 · cuda-bindings 13.4.4
An idle link runs slower to save power; `cudabw bandwidth` reads it under load.
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("CUDABW_EMULATED", raising=False)


def link(generation, width, source="nvml"):
    return Link(generation, width, ceiling_bytes_per_s(generation, width), source)


def h200(ordinal, now, best, pci="0000:17:00.0"):
    uuid = f"GPU-8a3d1c52-6f1e-4a57-9c53-0c1a6a1f7f1{ordinal}"
    return DeviceInfo(ordinal, "NVIDIA H200", uuid, pci, False, 150_110_011_392, now, best, numa_node=ordinal)


def printed(inventory):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    print_devices(inventory, make_console(stream))
    stream.seek(0)
    return stream.read()


def test_every_device_is_listed_with_who_it_is(capsys, monkeypatch):
    monkeypatch.setenv("CUDABW_EMULATED", '{"devices": 2, "memory": "3GiB"}')
    assert run(["devices", "--backend", "emulated"]) == 0
    captured = capsys.readouterr()
    driver = Driver(EmulatedDriver(), emulated=True)
    version = driver.version()
    assert captured.out == EMULATED.format(
        driver=f"{version // 1000}.{version % 1000 // 10}", bindings=driver.bindings_version()
    )
    assert captured.err == ""


def test_the_list_as_json_is_one_document(capsys):
    assert run(["devices", "--backend", "emulated", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["tool"]["name"], document["error"]) == (1, "cudabw", None)
    (device,) = document["devices"]
    nothing = {"generation": None, "width": None, "ceiling_bytes_per_s": None, "source": None, "narrowest_hop": None}
    assert device == {
        "ordinal": 0,
        "name": "Emulated CUDA device",
        "uuid": "GPU-63756461-6277-2d65-6d75-6c6174656400",
        "pci": PCI,
        "emulated": True,
        "memory_bytes": 2 << 30,
        "link": nothing,
        "numa_node": None,
        "max_link": nothing,
    }


def test_the_list_reads_well_at_80_columns():
    idle, busy = link(1, 16), link(5, 16)
    devices = (h200(0, busy, busy), h200(1, idle, busy, "0000:2a:00.0"))
    assert printed(Inventory("0", devices, "13.0", "580.159.03", "13.4.4")) == REAL
    assert max(len(line) for line in REAL.splitlines()) <= 80


@pytest.mark.parametrize(
    ("now", "best", "text"),
    [
        (link(4, 8), link(5, 16), "PCIe Gen5 x16, 63.0 GB/s (nvml) at most; now Gen4 x8 (fewer lanes)"),
        (link(5, 16), Link(), "PCIe Gen5 x16, 63.0 GB/s (nvml)"),
        (Link(), link(3, 4, "sysfs"), "PCIe Gen3 x4, 3.94 GB/s (sysfs) at most; now unknown"),
        (Link(), Link(), "unknown"),
        (Link(8, 16, None, "nvml"), Link(8, 16, None, "nvml"), "PCIe Gen8 x16 (nvml)"),
        (
            Link(5, 16, 15.75e9, "nvml", Hop("0000:00:01.0", 4, 8)),
            Link(),
            "PCIe Gen5 x16 (nvml) behind Gen4 x8 at bridge 0000:00:01.0 (sysfs), 15.8 GB/s",
        ),
    ],
)
def test_a_link_says_what_it_is_and_what_it_could_be(now, best, text):
    assert f"\n  Link    {text}\n" in printed(Inventory("0", (h200(0, now, best),), "13.0", None, "13.4.4"))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("integrated", "none: device and host share one memory"),
        ("nvlink-c2c", "none: NVLink-C2C connects device and host"),
        ("coherent", "none: a coherent link connects device and host"),
    ],
)
def test_a_device_without_pcie_says_what_is_there_instead(source, text):
    device = DeviceInfo(0, "Orin", None, None, False, link=Link(source=source))
    out = printed(Inventory("0", (device,), "13.0", None, "13.4.4"))
    assert out.splitlines()[1:6] == [
        "  UUID    unknown",
        "  PCI     unknown",
        "  Memory  unknown",
        f"  Link    {text}",
        "  NUMA    unknown",
    ]


@pytest.fixture
def gpu():
    """A driver that claims to be real."""
    api = EmulatedDriver()
    driver = Driver(api, emulated=False)
    driver.call("cuInit", 0)
    yield driver
    api.close()


def nvml(**answers):
    functions = {
        "device_get_handle_by_pci_bus_id_v2": 7,
        "device_get_curr_pcie_link_generation": 1,
        "device_get_curr_pcie_link_width": 16,
        "device_get_max_pcie_link_generation": 5,
        "device_get_max_pcie_link_width": 16,
        "system_get_driver_version": "580.159.03",
    }
    functions |= answers
    return Nvml(SimpleNamespace(**{name: lambda *_, value=value: value for name, value in functions.items()}))


def sysfs(root, **texts):
    folder = root / "sys" / "bus" / "pci" / "devices" / PCI
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return root


def test_links_and_driver_version_come_from_nvml(gpu, tmp_path):
    inventory = inventory_of(gpu, nvml(), root=tmp_path)
    assert inventory.nvidia_driver == "580.159.03"
    assert (inventory.devices[0].link, inventory.devices[0].max_link) == (link(1, 16), link(5, 16))


@pytest.mark.parametrize("answers", [None, {"device_get_handle_by_pci_bus_id_v2": 0}])
def test_links_come_from_sysfs_where_nvml_does_not_say(gpu, tmp_path, answers):
    root = sysfs(
        tmp_path,
        current_link_speed="2.5 GT/s PCIe\n",
        current_link_width="8\n",
        max_link_speed="16.0 GT/s PCIe\n",
        max_link_width="16\n",
    )
    (listed,) = inventory_of(gpu, None if answers is None else nvml(**answers), root=root).devices
    assert (listed.link, listed.max_link) == (link(1, 8, "sysfs"), link(4, 16, "sysfs"))


@pytest.mark.parametrize(
    ("text", "affinity", "node"), [("1\n", [1], 1), ("-1\n", [0b1000], 3), ("-1\n", [0b11], None), ("-1\n", None, None)]
)
def test_the_numa_node_comes_from_sysfs_or_nvml(gpu, tmp_path, text, affinity, node):
    root = sysfs(tmp_path, numa_node=text)
    (listed,) = inventory_of(gpu, nvml(device_get_memory_affinity=affinity), root=root).devices
    assert listed.numa_node == node


def test_the_emulated_device_is_at_no_node_whatever_sits_at_its_address(gpu, tmp_path):
    gpu.emulated = True
    (listed,) = inventory_of(gpu, None, root=sysfs(tmp_path, numa_node="1\n")).devices
    assert listed.numa_node is None


def test_without_nvml_and_sysfs_the_rest_is_listed(gpu, tmp_path):
    inventory = inventory_of(gpu, None, root=tmp_path)
    (listed,) = inventory.devices
    assert (listed.link, listed.max_link, inventory.nvidia_driver) == (Link(), Link(), None)
    assert (listed.pci, listed.emulated) == (PCI, False)


def test_the_emulated_device_has_no_link_whatever_sits_at_its_address(gpu, tmp_path):
    gpu.emulated = True
    root = sysfs(
        tmp_path,
        current_link_speed="8.0 GT/s PCIe\n",
        current_link_width="8\n",
        max_link_speed="8.0 GT/s PCIe\n",
        max_link_width="8\n",
    )
    (listed,) = inventory_of(gpu, None, root=root).devices
    assert (listed.link, listed.max_link) == (Link(), Link())


def test_listing_makes_no_context(gpu, tmp_path, monkeypatch):
    def made(*_):
        raise AssertionError("a context was made")

    monkeypatch.setattr(gpu.api, "cuDevicePrimaryCtxRetain", made)
    assert len(inventory_of(gpu, None, root=tmp_path).devices) == 1


def process(*arguments, **environ):
    return subprocess.run(
        [sys.executable, "-m", "cudabw", "devices", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"} | environ,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return SystemProbe().driver_installed()
    return True


@pytest.mark.skipif(has_driver(), reason="an NVIDIA driver is installed here")
def test_without_a_driver_the_emulated_device_is_listed_with_a_note():
    done = process()
    assert done.returncode == 0
    assert done.stdout.startswith("Device 0: Emulated CUDA device (not a GPU)\n")
    assert done.stderr == (
        "cudabw: No NVIDIA driver is installed: using the emulated device, "
        "whose figures are those of host memory and not of a GPU.\n"
    )


def test_a_broken_driver_is_an_error_and_nothing_stands_in_for_it(tmp_path):
    library = tmp_path / "libcuda.so.1"
    library.write_text("")
    message = f"The CUDA driver library was found at {library} but not loadable: file too short"
    done = process(LD_LIBRARY_PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith(f"cudabw: error: {message}\ncudabw: hint: ")
    done = process("--json", LD_LIBRARY_PATH=str(tmp_path))
    document = json.loads(done.stdout)
    assert (done.returncode, document["devices"]) == (5, [])
    assert (document["error"]["message"], document["error"]["exit_code"]) == (message, 5)


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_wrong_environment_variable_is_a_usage_error(capsys, monkeypatch, flags):
    monkeypatch.setenv("CUDABW_EMULATED", '{"devices": "2"}')
    assert run(["devices", "--backend", "emulated", *flags]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith('cudabw: error: CUDABW_EMULATED: devices must be a whole number, not "2"\n')
