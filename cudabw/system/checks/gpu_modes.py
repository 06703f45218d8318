"""How each GPU is set up: persistence, compute mode, MIG and ECC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.system.checks.check import Check, attention, each_gpu, ok, unknown, wrong

if TYPE_CHECKING:
    from cudabw.driver.nvml import NvmlDevice
    from cudabw.driver.nvml_state import NvmlErrors
    from cudabw.system.checks.check import Sight
    from cudabw.system.checks.machine import Gpu, Machine

_NOT_IN_NVML = "NVML does not say"
_NONE_TOLD = "NVML tells of none on this GPU"


def _look_at_persistence(_machine: Machine, gpu: Gpu) -> Sight:
    persistence = None if gpu.nvml is None else gpu.nvml.modes().persistence
    if persistence is None:
        return unknown(_NOT_IN_NVML)
    return ok("on") if persistence else attention("off", f"sudo nvidia-smi -i {gpu.pci} -pm 1")


def _look_at_compute_mode(_machine: Machine, gpu: Gpu) -> Sight:
    mode = None if gpu.nvml is None else gpu.nvml.modes().compute_mode
    if mode is None:
        return unknown(_NOT_IN_NVML)
    if mode == "default":
        return ok("default: any process may use it")
    fix = f"sudo nvidia-smi -i {gpu.pci} -c DEFAULT"
    if mode == "prohibited":
        return wrong("prohibited: no process may use it", fix)
    return attention(f"{mode.replace('_', ' ')}: one process at a time may use it", fix)


def _look_at_mig(_machine: Machine, gpu: Gpu) -> Sight:
    if gpu.nvml is None:
        return unknown(_NOT_IN_NVML)
    mig = gpu.nvml.modes().mig
    if mig:
        return attention("on: figures are those of one instance", f"sudo nvidia-smi -i {gpu.pci} -mig 0")
    return ok("off" if mig is False else _NONE_TOLD)


def _look_at_ecc(_machine: Machine, gpu: Gpu) -> Sight:
    if gpu.nvml is None:
        return unknown(_NOT_IN_NVML)
    errors = gpu.nvml.errors()
    if errors.repair_failed:
        return wrong("memory rows broke for which no spare row is left", "Replace the card.")
    if errors.uncorrected:
        counted = f"{errors.uncorrected} uncorrected memory errors since the driver was loaded"
        return wrong(counted, f"sudo nvidia-smi --gpu-reset -i {gpu.pci}")
    if errors.repair_pending:
        return attention(
            "broken memory rows wait for a reset to be replaced", f"sudo nvidia-smi --gpu-reset -i {gpu.pci}"
        )
    return _ecc_mode(gpu.nvml, errors, gpu.pci)


def _ecc_mode(nvml: NvmlDevice, errors: NvmlErrors, pci: str | None) -> Sight:
    modes = nvml.modes()
    if modes.ecc is None:
        return ok(_NONE_TOLD)
    if modes.ecc_pending is not None and modes.ecc_pending != modes.ecc:
        return attention(f"{_on(modes.ecc)} until the next reboot, then {_on(modes.ecc_pending)}", "sudo reboot")
    if modes.ecc:
        return ok("on, no uncorrected errors" if errors.uncorrected == 0 else "on; errors are not counted")
    return attention("off: errors in memory go unnoticed", f"sudo nvidia-smi -i {pci} -e 1")


def _on(flag: bool) -> str:
    return "on" if flag else "off"


PERSISTENCE = Check(
    "persistence",
    "Without it the driver unloads the GPU's state when nobody uses it; starts then take long and clocks fall.",
    each_gpu(_look_at_persistence),
    hardware=True,
)
COMPUTE_MODE = Check(
    "compute-mode", "It says how many processes may use the GPU.", each_gpu(_look_at_compute_mode), hardware=True
)
MIG = Check(
    "mig", "An instance has a part of the GPU's copy engines and memory.", each_gpu(_look_at_mig), hardware=True
)
ECC = Check("ecc", "Broken memory gives wrong data or ends a run.", each_gpu(_look_at_ecc), hardware=True)
