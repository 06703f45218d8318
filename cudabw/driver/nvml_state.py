"""What NVML reports of a device beside its link: how it is set up, how it runs, and what went wrong on it.

The numbers are those of NVIDIA's NVML API reference (``nvmlComputeMode_t``, ``nvmlClocksEventReasons``,
``nvmlGpuVirtualizationMode_t``), which never change their meaning; so no enum of the bindings is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COMPUTE_MODES: Final = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
VIRTUALIZATION_MODES: Final = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}

_REASONS: Final = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
THROTTLING_REASONS: Final = frozenset(
    {"sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
)
"""The reasons by which the GPU protects itself. The others are its rest, somebody's wish, or the most it can do."""


@dataclass(frozen=True, slots=True)
class NvmlModes:
    """How a device is set up; each field None where NVML does not say.

    Attributes:
        mig: Whether it is divided into MIG instances.
        ecc: Whether its memory corrects errors.
        ecc_pending: Whether it will after the next reboot.
        persistence: Whether the driver keeps it initialised while nobody uses it.
        compute_mode: One of :data:`COMPUTE_MODES`.
        virtualization: One of :data:`VIRTUALIZATION_MODES`.
    """

    mig: bool | None = None
    ecc: bool | None = None
    ecc_pending: bool | None = None
    persistence: bool | None = None
    compute_mode: str | None = None
    virtualization: str | None = None


@dataclass(frozen=True, slots=True)
class NvmlClocks:
    """How a device runs at the moment it was asked; each field None where NVML does not say.

    Attributes:
        sm_mhz: Clock of the multiprocessors.
        memory_mhz: Clock of the memory.
        temperature_c: Temperature of the GPU in degrees Celsius.
        power_w: Power drawn, in watts.
        reasons: What holds the clocks below their maximum, in NVML's words.
    """

    sm_mhz: int | None = None
    memory_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    reasons: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class NvmlErrors:
    """What went wrong in a device's memory; each field None where NVML does not say.

    Attributes:
        uncorrected: ECC errors since the driver was loaded that could not be corrected.
        repair_pending: Whether rows wait for a reset of the GPU to be replaced by spare ones.
        repair_failed: Whether there was no spare row left for one.
    """

    uncorrected: int | None = None
    repair_pending: bool | None = None
    repair_failed: bool | None = None


def event_reasons(mask: int) -> tuple[str, ...]:
    """The names of the reasons in a mask; a bit that has no name yet is shown as its number."""
    known = tuple(name for bit, name in _REASONS.items() if mask & bit)
    unknown = mask & ~sum(_REASONS)
    return (*known, *([hex(unknown)] if unknown else []))
