from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cudabw.system.pci import bridges_above, nvidia_gpus, pci_folder, sysfs_address

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("pci", "address"),
    [
        ("0000:C1:00.0", "0000:c1:00.0"),
        ("00000000:C1:00.0", "0000:c1:00.0"),
        ("c1:00", "0000:c1:00.0"),
        ("../../etc", None),
        (None, None),
    ],
)
def test_an_address_is_written_as_linux_does(tmp_path: Path, pci: str | None, address: str | None) -> None:
    assert sysfs_address(pci) == address
    folder = pci_folder(pci, tmp_path)
    assert folder == (None if address is None else tmp_path / "sys/bus/pci/devices" / address)


def test_the_bridges_above_a_device_come_nearest_first(tmp_path: Path) -> None:
    folder = tmp_path / "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0"
    folder.mkdir(parents=True)
    assert [bridge.name for bridge in bridges_above(folder)] == ["0000:01:00.0", "0000:00:01.0"]


def test_only_display_controllers_of_nvidia_are_its_gpus(tmp_path: Path) -> None:
    assert nvidia_gpus(tmp_path) == []
    for address, vendor, kind in (("0000:01:00.0", "0x10de", "0x030200"), ("0000:01:00.1", "0x10de", "0x040300")):
        folder = tmp_path / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
    assert nvidia_gpus(tmp_path) == [("0000:01:00.0", None)]
    (tmp_path / "sys/bus/pci/devices/0000:01:00.0/driver").symlink_to("../drivers/nvidia")
    assert nvidia_gpus(tmp_path) == [("0000:01:00.0", "nvidia")]
