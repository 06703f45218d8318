"""``cudabw doctor``: whole commands on machines made of files and answers."""

import itertools
import json
import signal
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from cudabw.benchmarks.link_under_load import link_under_load
from cudabw.driver.calls import Driver
from cudabw.driver.emulated import EmulatedDriver, Shape
from cudabw.driver.nvml import Nvml
from cudabw.errors import ConfigurationError, Interrupted, NoDriverError
from cudabw.results.diagnosis import Verdict
from cudabw.system import doctor
from cudabw.system.checks.check import Check
from cudabw.system.doctor import CHECKS, examine

ROOT = Path(__file__).parents[2]
PCI = "0000:01:00.0"  # the first emulated device's
LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.03"

HEALTHY_FILES = {
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Mon Jan  1 2026\n",
    "proc/cpuinfo": "model name\t: AMD EPYC 9654\nflags\t: fpu\n",
    "proc/meminfo": "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n",
    "proc/sys/kernel/osrelease": "6.8.0-48-generic\n",
    "proc/self/limits": "Max locked memory         unlimited            unlimited            bytes\n",
    "proc/self/status": "TracerPid:\t0\nCpus_allowed_list:\t0-7\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "performance\n",
    "sys/devices/system/node/online": "0-1\n",
    "sys/devices/system/node/node0/cpulist": "0-3\n",
    "sys/devices/system/node/node1/cpulist": "4-7\n",
    f"sys/bus/pci/devices/{PCI}/numa_node": "1\n",
    f"sys/bus/pci/devices/{PCI}/iommu_group/type": "identity\n",
    "dev/nvidiactl": "",
    "dev/nvidia-uvm": "",
    "dev/nvidia0": "",
}
HEALTHY_NVML = {
    "system_get_driver_version": "580.159.03",
    "system_get_nvml_version": "13.580.159.03",
    "system_get_conf_compute_state": SimpleNamespace(cc_feature=0),
    "device_get_count_v2": 1,
    "device_get_handle_by_pci_bus_id_v2": 7,
    "device_get_handle_by_index_v2": 7,
    "device_get_pci_info_v3": SimpleNamespace(bus_id=f"0000{PCI}"),
    "device_get_name": "NVIDIA H200",
    "device_get_curr_pcie_link_generation": 5,
    "device_get_curr_pcie_link_width": 16,
    "device_get_max_pcie_link_generation": 5,
    "device_get_max_pcie_link_width": 16,
    "device_get_mig_mode": (0, 0),
    "device_get_ecc_mode": (1, 1),
    "device_get_total_ecc_errors": 0,
    "device_get_persistence_mode": 1,
    "device_get_compute_mode": 0,
    "device_get_clock_info": 1980,
    "device_get_temperature_v": 41,
    "device_get_current_clocks_event_reasons": 1,
    "device_get_compute_running_processes_v3": [],
    "shutdown": None,
}

HEALTHY = """\
What cudabw depends on \u00b7 nothing is changed

ok         driver         CUDA {cuda}, /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.03
ok         versions       kernel module 580.159.03, libcuda 580.159.03, NVML 580.159.03; cuda-bindings {bindings}
ok         nvml           NVIDIA driver 580.159.03
ok         nodes          /dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia0 can be opened
ok         devices        0 Emulated CUDA device at 0000:01:00.0
ok         processes      GPU 0: no other process is seen on it
ok         link           GPU 0: PCIe Gen5 x16 under load (nvml)
ok         numa           GPU 0: the GPU is at NUMA node 1; this process may run on nodes 0, 1
ok         iommu          GPU 0: leaves the GPU's addresses alone (identity)
ok         throttling     GPU 0: not throttled; 1980 MHz, 41 C at rest
ok         persistence    GPU 0: on
ok         compute-mode   GPU 0: default: any process may use it
ok         mig            GPU 0: off
ok         ecc            GPU 0: on, no uncorrected errors
ok         mps            not in use
ok         memory         32 GiB can be allocated (system memory 64 GiB)
ok         memlock        unlimited
ok         huge-pages     transparent huge pages: madvise
ok         governor       performance
ok         profilers      none is injected or attached
ok         launching      launches do not wait, and default streams are as usual
ok         wsl            no
ok         confidential   no sign of it

23 ok, 0 attention, 0 wrong, 0 unknown.
Nothing is wrong.
"""

NO_DRIVER = """\
What cudabw depends on \u00b7 nothing is changed

wrong      driver         No NVIDIA driver is installed: the loader finds no libcuda.so.1
                          Why: Without it nothing runs on a GPU.
                          Fix: Install the NVIDIA driver, or use the emulated device (--backend emulated).
unknown    versions       no version of a driver is told; cuda-bindings {bindings}
attention  nvml           NVML does not start
                          Why: Links, clocks and modes are read through NVML; without it they stay unknown.
                          Fix: nvidia-smi must work; a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility.
wrong      nodes          /dev/nvidiactl is missing; /dev/nvidia-uvm is missing; /dev/nvidia0 is missing
                          Why: The driver's library reaches the GPU through these files.
                          Fix: sudo modprobe nvidia && sudo nvidia-modprobe -c 0 -u
wrong      devices        no NVIDIA GPU is on the PCI bus that this system shows
                          Why: Only what CUDA shows can be measured.
                          Fix: Seat a GPU, or pass one through to this virtual machine; lspci -d 10de: lists them.
unknown    processes      no GPU to look at
unknown    link           no GPU to look at
unknown    numa           no GPU to look at
unknown    iommu          no GPU to look at
unknown    throttling     no GPU to look at
unknown    persistence    no GPU to look at
unknown    compute-mode   no GPU to look at
unknown    mig            no GPU to look at
unknown    ecc            no GPU to look at
ok         mps            not in use
unknown    memory         neither /proc/meminfo nor a control group tells
unknown    memlock        /proc/self/limits does not tell
unknown    huge-pages     the mode of transparent huge pages cannot be read
unknown    governor       this system does not govern the processor's clock
ok         profilers      none is injected or attached
ok         launching      launches do not wait, and default streams are as usual
unknown    wsl            the system does not tell
ok         confidential   no sign of it

4 ok, 1 attention, 3 wrong, 15 unknown.
No CUDA driver or GPU can be used.
"""


def bindings():
    return Driver(None, emulated=True).bindings_version()


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Makes the commands that follow look at a machine of files, answers of NVML and variables."""
    opened = []

    def make(files=HEALTHY_FILES, nvml=HEALTHY_NVML, *, environ=None, failure=None, devices=1):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

        def start(_backend, **_settings):
            if failure is not None:
                raise failure
            api = EmulatedDriver(shape=Shape(devices=devices))
            opened.append(api)
            driver = Driver(api, emulated=False, now=api.now, path=LIBRARY)
            driver.call("cuInit", 0)
            return driver

        functions = None if nvml is None else {name: answer(value) for name, value in nvml.items()}
        monkeypatch.setattr(doctor, "load_driver", start)
        monkeypatch.setattr(Nvml, "open", lambda: None if functions is None else Nvml(SimpleNamespace(**functions)))
        monkeypatch.setattr(doctor, "examine", partial(examine, environ=environ or {}, root=tmp_path))

    yield make
    for api in opened:
        api.close()


def answer(value):
    return value if callable(value) else lambda *_: value


@pytest.fixture
def findings(document):
    """Runs ``cudabw doctor --json``; gives its findings by name of the check."""

    def run_doctor():
        done = document("doctor")
        done.by_check = {}
        for finding in done.json["findings"]:
            done.by_check.setdefault(finding["check"], []).append(finding)
        return done

    return run_doctor


def test_a_healthy_machine_is_said_to_be_one(command, machine):
    machine()
    done = command("doctor")
    version = Driver(EmulatedDriver(), emulated=True).version()
    text = HEALTHY.format(cuda=f"{version // 1000}.{version % 1000 // 10}", bindings=bindings())
    assert (done.code, done.out, done.err) == (0, text, "")


NO_LIBRARY = NoDriverError(
    "No NVIDIA driver is installed: the loader finds no libcuda.so.1",
    hint="Install the NVIDIA driver, or use the emulated device (--backend emulated).",
)


def test_without_a_driver_every_check_is_made_and_what_is_missing_is_said(command, machine):
    machine({}, None, failure=NO_LIBRARY)
    done = command("doctor")
    assert (done.code, done.out, done.err) == (5, NO_DRIVER.format(bindings=bindings()), "")


def test_without_a_driver_the_document_has_the_error_and_every_check(machine, findings):
    machine({}, None, failure=NO_LIBRARY)
    done = findings()
    assert done.code == done.json["error"]["exit_code"] == 5
    assert done.json["error"]["message"] == NO_LIBRARY.message
    assert list(done.by_check) == [check.name for check in CHECKS]
    assert done.err == f"cudabw: error: {NO_LIBRARY.message}\ncudabw: hint: {NO_LIBRARY.hint}\n"


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize("backend", [(), ("--backend", "auto"), ("--backend", "cuda")])
def test_the_doctor_never_falls_back_to_the_emulated_device(document, backend):
    done = document("doctor", *backend)
    assert (done.code, done.json["emulated"], done.json["error"]["type"]) == (5, False, "NoDriverError")


def test_of_the_emulated_device_no_health_of_hardware_is_claimed(document, command, emulate):
    emulate(devices=2)
    done = document("doctor", "--backend", "emulated")
    assert (done.json["emulated"], done.json["error"]) == (True, None)
    hardware = {check.name for check in CHECKS if check.hardware}
    assert {"driver", "link", "nodes", "ecc", "mps", "confidential"} < hardware
    for finding in done.json["findings"]:
        if finding["check"] in hardware:
            assert (finding["verdict"], finding["seen"]) == ("unknown", "not looked at: the device is emulated")
    shown = command("doctor", "--backend", "emulated")
    assert shown.out.startswith("What cudabw depends on \u00b7 nothing is changed \u00b7 EMULATED, not a GPU\n")
    assert shown.out.endswith("this says nothing of the health of a GPU.\n")


def test_attention_is_no_failure(machine, findings):
    machine(nvml=HEALTHY_NVML | {"device_get_persistence_mode": 0}, environ={"CUDA_LAUNCH_BLOCKING": "1"})
    done = findings()
    assert (done.code, done.json["summary"]) == (0, {"ok": 21, "attention": 2, "wrong": 0, "unknown": 0})
    (persistence,) = done.by_check["persistence"]
    assert (persistence["verdict"], persistence["device"]) == ("attention", 0)
    assert persistence["fix"] == f"sudo nvidia-smi -i {PCI} -pm 1"


def test_a_link_below_its_best_under_load_is_wrong(machine, findings):
    machine(nvml=HEALTHY_NVML | {"device_get_curr_pcie_link_width": 4})
    done = findings()
    (link,) = done.by_check["link"]
    assert (done.code, link["verdict"], link["fix"]) == (1, "wrong", f"lspci -vv -s {PCI}")


def test_a_link_that_wakes_under_load_is_well(machine, findings, monkeypatch):
    # How many copies fit into the time must not depend on how busy this machine is.
    clock = itertools.count(0, 0.02).__next__
    monkeypatch.setattr("cudabw.benchmarks.link_under_load.link_under_load", partial(link_under_load, clock=clock))
    readings = iter([1, 1, 3, 5])
    machine(nvml=HEALTHY_NVML | {"device_get_curr_pcie_link_generation": lambda _: next(readings, 5)})
    (link,) = findings().by_check["link"]
    assert (link["verdict"], link["seen"]) == ("ok", "PCIe Gen5 x16 under load (nvml)")


def test_every_gpu_has_findings_of_its_own(machine, findings):
    machine(devices=2)
    assert [finding["device"] for finding in findings().by_check["link"]] == [0, 1]


def test_where_cuda_does_not_start_the_gpus_of_nvml_are_looked_at(machine, findings):
    failure = NoDriverError("The CUDA driver did not start: cuInit failed with CUDA_ERROR_X (46)", hint="Look.")
    machine(nvml=HEALTHY_NVML | {"device_get_compute_mode": 2}, failure=failure)
    done = findings()
    (mode,) = done.by_check["compute-mode"]
    assert (done.code, mode["device"], mode["verdict"]) == (5, None, "wrong")
    assert mode["seen"] == f"{PCI}: prohibited: no process may use it"
    assert done.by_check["devices"][0]["seen"] == f"CUDA shows none; NVML knows NVIDIA H200 at {PCI}"


def test_a_gpu_that_cuda_cannot_describe_is_still_listed(machine, findings, monkeypatch):
    machine(nvml=None)

    def refuse(_driver, _ordinal):
        raise NoDriverError("cuDeviceGetName failed")

    monkeypatch.setattr(doctor, "identify", refuse)
    assert findings().by_check["devices"][0]["seen"] == "0 unknown (cuDeviceGetName failed)"


def test_a_check_that_raises_is_unknown_and_the_others_are_made(machine, findings, monkeypatch):
    def fail(_machine):
        raise RuntimeError("a bug")

    machine()
    broken = Check("broken", "It matters.", fail)
    monkeypatch.setattr(doctor, "CHECKS", (broken, *CHECKS))
    done = findings()
    (finding,) = done.by_check["broken"]
    assert (done.code, finding["verdict"], finding["seen"]) == (
        0,
        "unknown",
        "the look failed with RuntimeError: a bug",
    )
    assert done.json["summary"]["ok"] == len(CHECKS)


def test_an_interruption_keeps_what_was_found(machine, monkeypatch, document, command):
    def interrupt(_machine):
        raise Interrupted(signal.SIGINT)

    machine()
    monkeypatch.setattr(doctor, "CHECKS", (CHECKS[0], Check("stop", "It matters.", interrupt), *CHECKS[1:]))
    done = document("doctor")
    assert (done.code, done.json["interrupted"]) == (130, True)
    assert [finding["check"] for finding in done.json["findings"]] == [CHECKS[0].name]
    assert command("doctor").out.endswith("Interrupted: not everything was looked at.\n")


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_an_emulated_device_that_cannot_be_meant_is_a_usage_error(command, machine, flags):
    machine(failure=ConfigurationError("CUDABW_EMULATED: no", hint="Mend it."))
    done = command("doctor", "--backend", "emulated", *flags)
    assert (done.code, done.out, done.err) == (2, "", "cudabw: error: CUDABW_EMULATED: no\ncudabw: hint: Mend it.\n")


def test_nothing_on_the_machine_is_changed(command, machine, tmp_path):
    machine()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    command("doctor")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_report_is_ascii_where_the_reader_has_nothing_else(spawn):
    done = spawn("doctor", "--backend", "emulated", environment={"PYTHONIOENCODING": "ascii"})
    assert done.stdout.isascii()
    assert done.stdout.startswith(b"What cudabw depends on | nothing is changed | EMULATED, not a GPU\n")


def test_every_check_is_documented_with_why_it_matters():
    text = (ROOT / "docs" / "doctor.md").read_text()
    assert [check.name for check in CHECKS if f"| `{check.name}` |" not in text] == []
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.why.endswith(".") and check.why.isascii() for check in CHECKS)
    assert all(f"**{verdict}**" in text for verdict in Verdict)


def test_names_fit_their_column():
    assert max(len(check.name) for check in CHECKS) < 15


def test_the_document_is_strict_and_of_this_schema(machine, document):
    machine()
    run = document("doctor").json
    assert list(run) == ["schema", "tool", "interrupted", "error", "emulated", "summary", "findings"]
    assert json.dumps(run["findings"][0]["why"]).isascii()


def test_a_module_that_stands_in_the_way_is_named_and_not_executed(spawn, tmp_path):
    marker = tmp_path / "executed"
    # What cuda-bindings 12 itself imports when the interpreter starts (by a .pth file) is before our time.
    program = f"import sys\nif 'cudabw' in sys.modules: open({str(marker)!r}, 'w')\n"
    (tmp_path / "cuda.py").write_text(program)
    done = spawn("doctor", "--json", environment={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    (driver,) = [finding for finding in json.loads(done.stdout)["findings"] if finding["check"] == "driver"]
    assert (done.returncode, driver["verdict"]) == (5, "wrong")
    assert driver["seen"] == f"{tmp_path / 'cuda.py'} stands in the way of NVIDIA's package of the same name"
    assert not marker.exists()


def test_a_library_that_is_none_is_named(spawn, tmp_path):
    (tmp_path / "libcuda.so.1").write_text("")
    done = spawn("doctor", environment={"LD_LIBRARY_PATH": str(tmp_path)}, text=True)
    seen = f"The CUDA driver library was found at {tmp_path}/libcuda.so.1 but not loadable: file too short"
    assert (done.returncode, done.stderr) == (5, "")
    assert f"\nwrong      driver         {seen}\n" in done.stdout
