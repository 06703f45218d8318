"""What the GPU stands in: WSL, confidential computing, the IOMMU, and how the processor's clock is governed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.system.checks.check import Check, attention, each_gpu, ok, unknown
from cudabw.system.container import in_wsl
from cudabw.system.cpu import cpu_governor
from cudabw.system.gpu import iommu_domain
from cudabw.system.virtualization import confidential_guest, in_virtual_machine, iommu_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudabw.system.checks.check import Sight
    from cudabw.system.checks.machine import Gpu, Machine


def _look_for_wsl(machine: Machine) -> Iterator[Sight]:
    wsl = in_wsl(machine.root)
    if wsl is None:
        yield unknown("the system does not tell")
    elif wsl:
        seen = "this is WSL: pinned memory is limited to about half of the RAM, and managed memory does not migrate"
        yield attention(seen, "Raise memory= in .wslconfig, or measure under Linux itself.")
    else:
        yield ok("no")


def _look_for_confidential(machine: Machine) -> Iterator[Sight]:
    guest = confidential_guest(machine.root)
    gpus = None if machine.nvml is None else machine.nvml.confidential()
    if gpus:
        yield attention("the GPUs run in confidential-computing mode", "nvidia-smi conf-compute -f")
    elif guest is not None:
        yield attention(f"this is a confidential virtual machine ({guest})", "nvidia-smi conf-compute -f")
    else:
        yield ok("no sign of it")


def _look_at_iommu(machine: Machine, gpu: Gpu) -> Sight:
    domain = iommu_domain(gpu.pci, root=machine.root)
    if domain is None:
        if in_virtual_machine(machine.root):
            return unknown("in a virtual machine it cannot be seen")
        none = iommu_units(machine.root) == 0
        return ok("none at work") if none else unknown("the system does not tell")
    if domain == "identity":
        return ok("leaves the GPU's addresses alone (identity)")
    return attention(
        f"translates the GPU's addresses ({domain})",
        "Add iommu=pt to the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub) and reboot.",
    )


def _look_at_governor(machine: Machine) -> Iterator[Sight]:
    governor = cpu_governor(machine.root)
    if governor is None:
        yield unknown("this system does not govern the processor's clock")
    elif governor == "performance":
        yield ok(governor)
    else:
        yield attention(governor, "sudo cpupower frequency-set -g performance")


WSL = Check("wsl", "Windows stands between the driver and the GPU.", _look_for_wsl)
CONFIDENTIAL = Check(
    "confidential",
    "Copies are then encrypted on the way, and pinned memory is refused or slow.",
    _look_for_confidential,
    hardware=True,
)
IOMMU = Check(
    "iommu",
    "Translated addresses cost time and may stand in the way of copies between GPUs.",
    each_gpu(_look_at_iommu),
    hardware=True,
)
GOVERNOR = Check("governor", "Launches and pageable copies run as fast as the processor's clock.", _look_at_governor)
