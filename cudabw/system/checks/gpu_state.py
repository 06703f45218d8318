"""How each GPU runs now: what holds its clocks down, and who else uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudabw.driver.nvml_state import THROTTLING_REASONS
from cudabw.system.checks.check import Check, attention, each_gpu, ok, unknown, wrong
from cudabw.system.gpu import other_processes

if TYPE_CHECKING:
    from cudabw.system.checks.check import Sight
    from cudabw.system.checks.machine import Gpu, Machine

_BY_HARDWARE: Final = frozenset({"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"})
"""The hardware's own emergency brakes: heat, or a power supply that falls short."""

_WISHES: Final = frozenset({"applications_clocks_setting", "sync_boost", "display_clock_setting"})

_SHOW_REASONS: Final = "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"


def _look_at_throttling(_machine: Machine, gpu: Gpu) -> Sight:
    clocks = None if gpu.nvml is None else gpu.nvml.clocks()
    if clocks is None or clocks.reasons is None:
        return unknown("NVML does not say")
    now = f"{clocks.sm_mhz or 'unknown'} MHz"
    now += "" if clocks.temperature_c is None else f", {clocks.temperature_c} C"
    reasons = ", ".join(clocks.reasons)
    if not _BY_HARDWARE.isdisjoint(clocks.reasons):
        return wrong(f"{now}; slowed down by the hardware: {reasons}", f"{_SHOW_REASONS} -i {gpu.pci}")
    if not THROTTLING_REASONS.isdisjoint(clocks.reasons):
        return attention(f"{now}; throttled: {reasons}", f"{_SHOW_REASONS} -i {gpu.pci}")
    if not _WISHES.isdisjoint(clocks.reasons):
        return attention(f"{now}; clocks are set lower: {reasons}", f"sudo nvidia-smi -i {gpu.pci} -rgc -rmc -rac")
    return ok(f"not throttled; {now} at rest" if "gpu_idle" in clocks.reasons else f"not throttled; {now}")


def _look_at_processes(_machine: Machine, gpu: Gpu) -> Sight:
    others = other_processes(gpu.nvml)
    if others is None:
        return unknown("NVML does not say")
    if not others:
        return ok("no other process is seen on it")
    return attention(
        f"{others} other process{'es' * (others != 1)} on it",
        f"nvidia-smi -i {gpu.pci} --query-compute-apps=pid,process_name --format=csv",
    )


THROTTLING = Check(
    "throttling", "A GPU that holds its clocks down gives lower figures.", each_gpu(_look_at_throttling), hardware=True
)
PROCESSES = Check(
    "processes",
    "Whoever else uses the GPU takes part of its link and memory.",
    each_gpu(_look_at_processes),
    hardware=True,
)
