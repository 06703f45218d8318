"""Whether this is a virtual machine or a confidential one, what it presents itself as, and its IOMMU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudabw.system.cpu import cpu_flags
from cudabw.system.pseudofiles import count_entries, exists, is_directory, read_line, read_text

if TYPE_CHECKING:
    from pathlib import Path

_HYPERVISORS: Final = (
    "kvm",
    "qemu",
    "vmware",
    "virtualbox",
    "virtual machine",
    "xen",
    "bochs",
    "openstack",
    "parallels",
)
"""What the vendor or product of a virtual machine's firmware has in its name."""


_CONFIDENTIAL: Final = {
    "tdx": ("dev/tdx_guest", "dev/tdx-guest"),
    "sev": ("dev/sev-guest",),
    # Arm's confidential compute architecture.
    "cca": ("sys/devices/virtual/misc/arm-cca-guest", "sys/bus/platform/devices/arm-cca-dev"),
}
"""Files that a kernel has where it runs as a confidential guest of each kind."""

_IOMMU_ARGUMENTS: Final = ("iommu", "intel_iommu", "amd_iommu", "iommu.passthrough", "iommu.strict", "swiotlb")


def machine_product(root: Path) -> str | None:
    """Vendor and product as the firmware (DMI) tells them; a virtual machine's name its hypervisor. Never raises."""
    folder = root / "sys" / "class" / "dmi" / "id"
    parts = (read_line(folder / name) for name in ("sys_vendor", "product_name"))
    return " ".join(part for part in parts if part) or None


def in_virtual_machine(root: Path) -> bool | None:
    """Whether a hypervisor runs this system; None where nothing tells. Never raises.

    On x86 the processor says so. Elsewhere a hypervisor can be recognised, but its absence cannot be told.
    """
    flags = cpu_flags(root)
    if "hypervisor" in flags:
        return True
    if read_line(root / "sys" / "hypervisor" / "type") or is_directory(root / "proc" / "device-tree" / "hypervisor"):
        return True
    if any(name in (machine_product(root) or "").lower() for name in _HYPERVISORS):
        return True
    # Only x86 has a flag of this name on every processor.
    return False if "fpu" in flags else None


def confidential_guest(root: Path) -> str | None:
    """The kind of confidential guest that this system is, ``tdx``, ``sev`` or ``cca``; None without a sign of one.

    Never raises.
    """
    if "tdx_guest" in cpu_flags(root):
        return "tdx"
    return next((kind for kind, paths in _CONFIDENTIAL.items() if any(exists(root / path) for path in paths)), None)


def iommu_units(root: Path) -> int | None:
    """How many IOMMUs work in this machine; None where that cannot be read. Never raises."""
    return count_entries(root / "sys" / "class" / "iommu")


def iommu_arguments(root: Path) -> tuple[str, ...] | None:
    """What the kernel's command line says of the IOMMU, such as ``iommu=pt``; None where it cannot be read.

    Never raises.
    """
    line = read_text(root / "proc" / "cmdline")
    if line is None:
        return None
    return tuple(argument for argument in line.split() if argument.partition("=")[0] in _IOMMU_ARGUMENTS)
