"""Which GPUs there are, which of them CUDA shows, and what hides the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.driver.loader import missing_devices
from cudabw.system.checks.check import Check, attention, ok, wrong
from cudabw.system.container import in_wsl
from cudabw.system.pci import nvidia_gpus, sysfs_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudabw.system.checks.check import Sight
    from cudabw.system.checks.machine import Machine

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_LOOK_FOR_ONE = "Seat a GPU, or pass one through to this virtual machine; lspci -d 10de: lists them."


def _look(machine: Machine) -> Iterator[Sight]:
    if machine.driver is None:
        yield _without_driver(machine)
        return
    shown = ", ".join(f"{gpu.ordinal} {gpu.name}{f' at {gpu.pci}' if gpu.pci else ''}" for gpu in machine.gpus)
    for warning in missing_devices(machine.environ, len(machine.gpus)):
        yield attention(f"{warning} Shown: {shown}", f"unset {_VISIBLE}")
    hidden = _hidden(machine)
    if hidden:
        yield attention(f"{_hider(machine)} {', '.join(hidden)}. Shown: {shown}", _unhide(machine))
    else:
        yield ok(shown)


def _without_driver(machine: Machine) -> Sight:
    if machine.gpus:
        known = ", ".join(f"{gpu.name} at {gpu.pci}" for gpu in machine.gpus)
        return wrong(f"CUDA shows none; NVML knows {known}", _unhide(machine))
    found = nvidia_gpus(machine.root)
    if not found and in_wsl(machine.root):
        return wrong("CUDA shows none", "Install the NVIDIA driver in Windows, then run: wsl --shutdown.")
    if not found:
        return wrong("no NVIDIA GPU is on the PCI bus that this system shows", _LOOK_FOR_ONE)
    used_by = ", ".join(f"{address} (used by {driver or 'no driver'})" for address, driver in found)
    return wrong(f"CUDA shows none; on the PCI bus there is {used_by}", "Install the NVIDIA driver.")


def _hidden(machine: Machine) -> list[str]:
    """The GPUs that NVML knows and CUDA does not show."""
    known = () if machine.nvml is None else machine.nvml.devices() or ()
    shown = {gpu.pci for gpu in machine.gpus}
    addresses = [(sysfs_address(device.pci()), device.name()) for device in known]
    return [f"{name or 'a GPU'} at {address}" for address, name in addresses if address and address not in shown]


def _hider(machine: Machine) -> str:
    value = machine.environ.get(_VISIBLE)
    return "CUDA does not show" if value is None else f'{_VISIBLE}="{value}" hides'


def _unhide(machine: Machine) -> str:
    return f"unset {_VISIBLE}" if _VISIBLE in machine.environ else "nvidia-smi -q"


DEVICES = Check("devices", "Only what CUDA shows can be measured.", _look, hardware=True)
