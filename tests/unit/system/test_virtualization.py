from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cudabw.system.virtualization import (
    confidential_guest,
    in_virtual_machine,
    iommu_arguments,
    iommu_units,
    machine_product,
)

if TYPE_CHECKING:
    from pathlib import Path

X86 = "flags\t\t: fpu vme sse2\n"
ARM = "Features\t: fp asimd evtstrm\n"
GUEST = "flags\t\t: fpu vme hypervisor sse2\n"


def write(root: Path, **files: str) -> Path:
    paths = {
        "cpuinfo": "proc/cpuinfo",
        "vendor": "sys/class/dmi/id/sys_vendor",
        "product": "sys/class/dmi/id/product_name",
        "xen": "sys/hypervisor/type",
        "tree": "proc/device-tree/hypervisor/compatible",
    }
    for name, text in files.items():
        path = root / paths[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "virtual"),
    [
        ({"cpuinfo": GUEST}, True),
        ({"cpuinfo": X86}, False),
        ({"cpuinfo": X86, "vendor": "Supermicro\n", "product": "SYS-821GE\n"}, False),
        ({"cpuinfo": X86, "vendor": "QEMU\n", "product": "Standard PC (Q35 + ICH9, 2009)\n"}, True),
        ({"cpuinfo": X86, "vendor": "Microsoft Corporation\n", "product": "Virtual Machine\n"}, True),
        ({"cpuinfo": X86, "xen": "xen\n"}, True),
        ({"cpuinfo": ARM, "tree": "linux,kvm\0"}, True),
        ({"cpuinfo": ARM}, None),
        ({}, None),
    ],
)
def test_a_virtual_machine_is_recognised_and_nothing_is_claimed_without_a_sign(
    tmp_path: Path, files: dict[str, str], virtual: bool | None
) -> None:
    assert in_virtual_machine(write(tmp_path, **files)) is virtual


@pytest.mark.parametrize(
    ("files", "product"),
    [
        ({"vendor": "Supermicro\n", "product": "SYS-821GE\n"}, "Supermicro SYS-821GE"),
        ({"vendor": "\n", "product": "SYS-821GE\n"}, "SYS-821GE"),
        ({}, None),
    ],
)
def test_the_machine_is_named_as_its_firmware_names_it(
    tmp_path: Path, files: dict[str, str], product: str | None
) -> None:
    assert machine_product(write(tmp_path, **files)) == product


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("dev/tdx_guest", "tdx"),
        ("dev/tdx-guest", "tdx"),
        ("dev/sev-guest", "sev"),
        ("sys/bus/platform/devices/arm-cca-dev", "cca"),
        ("dev/kvm", None),
    ],
)
def test_a_confidential_guest_is_known_by_what_its_kernel_has(tmp_path: Path, name: str, kind: str | None) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("")
    assert confidential_guest(tmp_path) == kind


def test_a_processor_that_could_host_confidential_guests_is_not_one(tmp_path: Path) -> None:
    assert confidential_guest(write(tmp_path, cpuinfo="flags\t: fpu sev sev_es sev_snp\n")) is None
    assert confidential_guest(write(tmp_path, cpuinfo="flags\t: fpu tdx_guest\n")) == "tdx"


def test_a_machine_without_an_iommu_differs_from_one_that_does_not_say(tmp_path: Path) -> None:
    assert (iommu_units(tmp_path), iommu_arguments(tmp_path)) == (None, None)
    (tmp_path / "sys/class/iommu").mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cmdline").write_text("quiet\n")
    assert (iommu_units(tmp_path), iommu_arguments(tmp_path)) == (0, ())
