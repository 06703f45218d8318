"""What the host gives: memory, limits, NUMA, the processor, the system and the environment."""

import pytest

from cudabw.errors import NoDriverError
from cudabw.system.checks.host_memory import HUGE_PAGES, MEMLOCK, MEMORY
from cudabw.system.checks.mps import MPS
from cudabw.system.checks.numa import NUMA
from cudabw.system.checks.platform import CONFIDENTIAL, GOVERNOR, IOMMU, WSL
from cudabw.system.checks.variables import LAUNCHING, PROFILERS

PCI = "0000:17:00.0"
MEMINFO = "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n"
V2 = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{4 << 30}\n", "sys/fs/cgroup/memory.current": "0\n"}
V1 = {
    "proc/self/cgroup": "4:memory:/\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{4 << 30}\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "0\n",
}


def test_memory_that_suffices_is_well(look):
    assert look(MEMORY, {"proc/meminfo": MEMINFO}) == [("ok", "32 GiB can be allocated (system memory 64 GiB)", "")]


@pytest.mark.parametrize("group", [V2, V1])
def test_a_control_group_that_limits_memory_is_said(look, group):
    seen = "4 GiB can be allocated (cgroup limit 4 GiB)"
    fix = "systemctl set-property UNIT MemoryMax=SIZE"
    assert look(MEMORY, {"proc/meminfo": MEMINFO, **group}) == [("attention", seen, fix)]
    assert look(MEMORY, {".dockerenv": ""}) == [("attention", seen, "docker run --memory SIZE IMAGE")]


def test_memory_that_is_nearly_used_up_is_said(look):
    seen = "512 MiB can be allocated (system memory 64 GiB)"
    fix = "End what uses it: ps aux --sort=-rss | head"
    found = look(MEMORY, {"proc/meminfo": "MemTotal: 67108864 kB\nMemAvailable: 524288 kB\n"})
    assert found == [("attention", seen, fix)]


def test_memory_that_nothing_tells_is_unknown(look):
    assert look(MEMORY) == [("unknown", "neither /proc/meminfo nor a control group tells", "")]


def limits(soft, hard):
    return {"proc/self/limits": f"Max locked memory         {soft}              {hard}             bytes\n"}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, ("unknown", "/proc/self/limits does not tell", "")),
        (limits("unlimited", "unlimited"), ("ok", "unlimited", "")),
        (limits(65536, "unlimited"), ("attention", "64 KiB may be locked (no hard limit)", "ulimit -l unlimited")),
        (
            limits(8388608, 8388608) | {".dockerenv": ""},
            ("attention", "8 MiB may be locked (hard limit 8 MiB)", "docker run --ulimit memlock=-1 IMAGE"),
        ),
        (
            limits(8388608, 8388608),
            (
                "attention",
                "8 MiB may be locked (hard limit 8 MiB)",
                "sudo prlimit --memlock=unlimited --pid $$",
            ),
        ),
    ],
)
def test_the_limit_on_locked_memory_says_how_it_is_raised(look, files, found):
    assert look(MEMLOCK, files) == [found]


THP = "sys/kernel/mm/transparent_hugepage/enabled"
SET_ASIDE = "HugePages_Total: 8\nHugePages_Free: 3\nHugepagesize: 2048 kB\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, ("unknown", "the mode of transparent huge pages cannot be read", "")),
        ({THP: "always [madvise] never\n"}, ("ok", "transparent huge pages: madvise", "")),
        (
            {THP: "[always] madvise never\n", "proc/meminfo": SET_ASIDE},
            ("ok", "transparent huge pages: always; 8 pages of 2 MiB are set aside, 3 of them free", ""),
        ),
        (
            {THP: "always madvise [never]\n"},
            (
                "attention",
                "transparent huge pages: never",
                "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
            ),
        ),
    ],
)
def test_huge_pages_are_on_or_can_be_switched_on(look, files, found):
    assert look(HUGE_PAGES, files) == [found]


def nodes(*lists, near=None, allowed=None):
    files = {f"sys/devices/system/node/node{number}/cpulist": f"{text}\n" for number, text in enumerate(lists)}
    files["sys/devices/system/node/online"] = f"0-{len(lists) - 1}\n"
    if near is not None:
        files[f"sys/bus/pci/devices/{PCI}/numa_node"] = f"{near}\n"
    if allowed is not None:
        files["proc/self/status"] = f"Name:\tpython\nCpus_allowed_list:\t{allowed}\n"
    return files


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, ("unknown", "the system shows no NUMA nodes", "")),
        (nodes("0-7"), ("ok", "the host has one NUMA node", "")),
        # The memory of a coherent GPU is a node without processors.
        (nodes("0-7", ""), ("ok", "the host has one NUMA node", "")),
        (
            nodes("0-3", "4-7", near=-1, allowed="0-7"),
            ("unknown", "the system does not tell which of its 2 NUMA nodes the GPU is at", ""),
        ),
        (
            nodes("0-3", "4-7", allowed="0-7"),
            ("unknown", "the system does not tell which of its 2 NUMA nodes the GPU is at", ""),
        ),
        (
            nodes("0-3", "4-7", near=1),
            ("unknown", "the GPU is at NUMA node 1; where this process may run is not told", ""),
        ),
        (
            nodes("0-3", "4-7", near=1, allowed="0-7"),
            ("ok", "the GPU is at NUMA node 1; this process may run on nodes 0, 1", ""),
        ),
        (
            nodes("0-3", "4-7", near=1, allowed="1,3"),
            (
                "attention",
                "the GPU is at NUMA node 1, but this process may run on node 0 alone",
                "numactl --cpunodebind=1 --membind=1 cudabw ...",
            ),
        ),
    ],
)
def test_a_process_that_cannot_run_near_its_gpu_is_told(look, files, found):
    assert look(NUMA, files) == [found]


@pytest.mark.parametrize(
    ("governor", "found"),
    [
        ("performance", ("ok", "performance", "")),
        ("powersave", ("attention", "powersave", "sudo cpupower frequency-set -g performance")),
        (None, ("unknown", "this system does not govern the processor's clock", "")),
    ],
)
def test_the_governor_of_the_processor_is_named(look, governor, found):
    path = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
    assert look(GOVERNOR, {path: f"{governor}\n"} if governor else {}) == [found]


def test_wsl_is_told_with_what_it_limits(look):
    assert look(WSL) == [("unknown", "the system does not tell", "")]
    assert look(WSL, {"proc/sys/kernel/osrelease": "6.8.0-48-generic\n"}) == [("ok", "no", "")]
    ((verdict, seen, _),) = look(WSL, {"proc/sys/kernel/osrelease": "5.15-microsoft-standard-WSL2\n"})
    assert verdict == "attention"
    assert "pinned memory is limited to about half of the RAM" in seen


def test_confidential_computing_is_told_of_gpus_and_of_the_machine(look):
    off = {"system_get_conf_compute_state": type("State", (), {"cc_feature": 0})}
    on = {"system_get_conf_compute_state": lambda: type("State", (), {"cc_feature": 1})}
    assert look(CONFIDENTIAL) == look(CONFIDENTIAL, nvml=off) == [("ok", "no sign of it", "")]
    ((verdict, seen, _),) = look(CONFIDENTIAL, nvml=on)
    assert (verdict, seen) == ("attention", "the GPUs run in confidential-computing mode")
    ((verdict, seen, _),) = look(CONFIDENTIAL, {"dev/sev-guest": ""})
    assert (verdict, seen) == ("attention", "this is a confidential virtual machine (sev)")


def test_an_iommu_that_translates_is_told_from_one_that_does_not(look, tmp_path):
    domain = f"sys/bus/pci/devices/{PCI}/iommu_group/type"
    assert look(IOMMU) == [("unknown", "the system does not tell", "")]
    (tmp_path / "sys/class/iommu").mkdir(parents=True)
    assert look(IOMMU) == [("ok", "none at work", "")]
    assert look(IOMMU, {domain: "identity\n"})[0][0] == "ok"
    ((verdict, seen, _),) = look(IOMMU, {domain: "DMA-FQ\n"})
    assert (verdict, seen) == ("attention", "translates the GPU's addresses (DMA-FQ)")


def test_in_a_virtual_machine_the_iommu_cannot_be_seen(look):
    found = look(IOMMU, {"proc/cpuinfo": "flags\t: fpu hypervisor\n"})
    assert found == [("unknown", "in a virtual machine it cannot be seen", "")]


def test_mps_is_in_use_where_its_daemon_listens(look):
    assert look(MPS) == [("ok", "not in use", "")]
    quit_it = "echo quit | nvidia-cuda-mps-control"
    found = look(MPS, {"tmp/nvidia-mps/control": ""})
    assert found == [("attention", "a control daemon listens in /tmp/nvidia-mps", quit_it)]
    environ = {"CUDA_MPS_PIPE_DIRECTORY": "/run/mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"}
    seen = "a control daemon listens in /run/mps, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25"
    assert look(MPS, {"run/mps/control": ""}, environ=environ) == [("attention", seen, quit_it)]


@pytest.mark.parametrize(("failure", "verdict"), [(None, "attention"), (NoDriverError("805"), "wrong")])
def test_a_daemon_that_is_named_but_not_there_is_wrong_where_the_driver_fails(look, failure, verdict):
    found = look(MPS, environ={"CUDA_MPS_PIPE_DIRECTORY": "/run/mps"}, failure=failure)
    seen = "CUDA_MPS_PIPE_DIRECTORY=/run/mps, but no control daemon listens there"
    assert found == [(verdict, seen, "unset CUDA_MPS_PIPE_DIRECTORY")]


def test_profilers_and_tracers_are_named(look):
    assert look(PROFILERS, {"proc/self/status": "TracerPid:\t0\n"}) == [("ok", "none is injected or attached", "")]
    environ = {"CUDA_INJECTION64_PATH": "/opt/nsys.so", "LD_PRELOAD": "x.so", "NVTX_INJECTION64_PATH": "0"}
    found = look(PROFILERS, {"proc/self/status": "TracerPid:\t77\n"}, environ=environ)
    assert [(verdict, seen.split(" ")[0], fix) for verdict, seen, fix in found] == [
        ("attention", "CUDA_INJECTION64_PATH=/opt/nsys.so", "unset CUDA_INJECTION64_PATH"),
        ("attention", "LD_PRELOAD=x.so", "unset LD_PRELOAD"),
        ("attention", "process", "ps -p 77"),
    ]


def test_switches_of_the_driver_are_named_and_zero_is_off(look):
    well = [("ok", "launches do not wait, and default streams are as usual", "")]
    assert look(LAUNCHING) == look(LAUNCHING, environ={"CUDA_LAUNCH_BLOCKING": "0"}) == well
    ((verdict, seen, fix),) = look(LAUNCHING, environ={"CUDA_LAUNCH_BLOCKING": "1"})
    assert (verdict, fix) == ("attention", "unset CUDA_LAUNCH_BLOCKING")
    assert (
        seen
        == "CUDA_LAUNCH_BLOCKING=1 makes every launch wait for its kernel, so launch times include the kernel's own"
    )
