"""Whether this is a virtual machine, and what it presents itself as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudabw.system.cpu import cpu_flags
from cudabw.system.pseudofiles import is_directory, read_line

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
