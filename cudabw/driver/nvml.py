"""What NVML knows about a device, from cuda-python's own bindings; every field optional.

A measurement never depends on NVML: where the library is missing, refuses, or does not support a
question, the answer is None. Devices are found by PCI address or UUID and never by index, because NVML
counts devices in another order than CUDA and does not obey ``CUDA_VISIBLE_DEVICES``.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cudabw.driver.library import require_bindings
from cudabw.driver.nvml_state import (
    COMPUTE_MODES,
    THROTTLING_REASONS,
    VIRTUALIZATION_MODES,
    NvmlClocks,
    NvmlErrors,
    NvmlModes,
    event_reasons,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cudabw.driver.identity import Identity

_MODULE: Final = "cuda.bindings.nvml"

_MAX_FIELD: Final = 63
"""Largest value of the width field of PCIe's Link Status register (6 bits; the speed field has 4)."""

# nvmlClockType_t, nvmlTemperatureSensors_t, nvmlMemoryErrorType_t and nvmlEccCounterType_t.
_CLOCK_SM: Final = 1
_CLOCK_MEMORY: Final = 2
_SENSOR_GPU: Final = 0
_UNCORRECTED: Final = 1
_SINCE_LOADED: Final = 0
# nvmlAffinityScope_t. A mask of nodes has 64 of them in each word, and Linux at most 1024 in all.
_SCOPE_NODE: Final = 0
_NODE_WORDS: Final = 16


@dataclass(frozen=True, slots=True)
class NvmlLink:
    """The PCIe link of a device at the moment it was asked; an idle link reports less.

    Attributes:
        generation: Current PCIe generation.
        width: Current number of lanes.
        max_generation: Highest generation that this device in this system can use.
        max_width: Most lanes that this device in this system can use.
        card_generation: Highest generation that this device can use in any system.
    """

    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None
    card_generation: int | None = None


class NvmlDevice:
    """One device as NVML sees it; made by :meth:`Nvml.device`.

    Args:
        bindings: An object with the functions of ``cuda.bindings.nvml``.
        handle: The device handle that those functions take.
    """

    __slots__ = ("_bindings", "_handle")

    def __init__(self, bindings: object, handle: int) -> None:
        self._bindings = bindings
        self._handle = handle

    def link(self) -> NvmlLink:
        """Read the link as it is now: read it while traffic runs. Never raises."""
        return NvmlLink(
            generation=self._field("device_get_curr_pcie_link_generation"),
            width=self._field("device_get_curr_pcie_link_width"),
            max_generation=self._field("device_get_max_pcie_link_generation"),
            max_width=self._field("device_get_max_pcie_link_width"),
            card_generation=self._field("device_get_gpu_max_pcie_link_generation"),
        )

    def c2c_enabled(self) -> bool | None:
        """Whether NVLink-C2C connects the device with the processor. Never raises."""
        mode = _ask(self._bindings, "device_get_c2c_mode_info_v", self._handle)
        enabled = getattr(mode, "is_c2c_enabled", None)
        return bool(enabled) if isinstance(enabled, int) else None

    def name(self) -> str | None:
        """Give the product's name. Never raises."""
        return _text(_ask(self._bindings, "device_get_name", self._handle))

    def uuid(self) -> str | None:
        """Give the UUID in NVML's form, ``GPU-...`` or ``MIG-...``. Never raises."""
        return _text(_ask(self._bindings, "device_get_uuid", self._handle))

    def throttled_by(self) -> tuple[str, ...]:
        """What slows the device down now, to protect itself, in NVML's words; none where it does not say. Never raises.

        Alone, because it is asked with every batch.
        """
        mask = _whole(self._ask("device_get_current_clocks_event_reasons"))
        return tuple(reason for reason in event_reasons(mask or 0) if reason in THROTTLING_REASONS)

    def pci(self) -> str | None:
        """Give the PCI address as NVML writes it, with eight digits of domain. Never raises."""
        return _text(getattr(self._ask("device_get_pci_info_v3"), "bus_id", None))

    def modes(self) -> NvmlModes:
        """Read how the device is set up. Never raises."""
        mig, _ = _pair(self._ask("device_get_mig_mode"))
        ecc, ecc_pending = _pair(self._ask("device_get_ecc_mode"))
        return NvmlModes(
            mig=_flag(mig),
            ecc=_flag(ecc),
            ecc_pending=_flag(ecc_pending),
            persistence=_flag(self._ask("device_get_persistence_mode")),
            compute_mode=_named(COMPUTE_MODES, self._ask("device_get_compute_mode")),
            virtualization=_named(VIRTUALIZATION_MODES, self._ask("device_get_virtualization_mode")),
        )

    def clocks(self) -> NvmlClocks:
        """Read how the device runs now. Never raises."""
        milliwatts = _whole(self._ask("device_get_power_usage"))
        mask = _whole(self._ask("device_get_current_clocks_event_reasons"))
        return NvmlClocks(
            sm_mhz=_whole(self._ask("device_get_clock_info", _CLOCK_SM)),
            memory_mhz=_whole(self._ask("device_get_clock_info", _CLOCK_MEMORY)),
            temperature_c=_whole(self._ask("device_get_temperature_v", _SENSOR_GPU)),
            power_w=None if milliwatts is None else milliwatts / 1000,
            reasons=None if mask is None else event_reasons(mask),
        )

    def errors(self) -> NvmlErrors:
        """Read what went wrong in the device's memory. Never raises."""
        rows = self._ask("device_get_remapped_rows")
        # Rows remapped for corrected errors, for uncorrected ones, pending, failed.
        pending, failed = rows[2:] if isinstance(rows, tuple) and len(rows) == 4 else (None, None)
        return NvmlErrors(
            uncorrected=_whole(self._ask("device_get_total_ecc_errors", _UNCORRECTED, _SINCE_LOADED)),
            repair_pending=_flag(pending),
            repair_failed=_flag(failed),
        )

    def processes(self) -> frozenset[int] | None:
        """Give the processes that have a context on the device, by their number on the host. Never raises."""
        kinds = ("compute", "graphics", "mps_compute")
        lists = [_process_ids(self._ask(f"device_get_{kind}_running_processes_v3")) for kind in kinds]
        if lists[0] is None:  # the processes that matter most; without them, none is not "no other"
            return None
        return frozenset().union(*(each for each in lists if each is not None))

    def _ask(self, function: str, *args: object) -> object:
        return _ask(self._bindings, function, self._handle, *args)

    def nearest_nodes(self) -> frozenset[int]:
        """Give the NUMA nodes whose memory is nearest; none where NVML does not say. Never raises."""
        words = _ask(self._bindings, "device_get_memory_affinity", self._handle, _NODE_WORDS, _SCOPE_NODE)
        try:
            masks = [int(word) for word in words]  # type: ignore[attr-defined]  # an array of the bindings' own
        except (TypeError, ValueError):
            return frozenset()
        return frozenset(64 * index + bit for index, mask in enumerate(masks) for bit in range(64) if mask >> bit & 1)

    def _field(self, function: str) -> int | None:
        value = _ask(self._bindings, function, self._handle)
        # Devices without PCIe answer 0, and some drivers all ones: both mean "unknown".
        return value if isinstance(value, int) and 0 < value <= _MAX_FIELD else None


class Nvml:
    """An initialised NVML library; open it with :meth:`open`.

    Args:
        bindings: An object with the functions of ``cuda.bindings.nvml``, already initialised.
    """

    __slots__ = ("_bindings",)

    def __init__(self, bindings: object) -> None:
        self._bindings = bindings

    @classmethod
    def open(cls, bindings: object | None = None) -> Nvml | None:
        """Initialise NVML. Never raises.

        Args:
            bindings: Stands in for ``cuda.bindings.nvml``; None imports that module.

        Returns:
            None where there is no such module, no library, or the library does not initialise.
        """
        try:
            if bindings is None:
                require_bindings()  # nothing else named cuda is ever executed
            module = importlib.import_module(_MODULE) if bindings is None else bindings
            module.init_v2()  # type: ignore[attr-defined]  # the module carries no type information
        except Exception:  # noqa: BLE001 - the loader, the linker and NVML each raise a family of their own
            return None
        return cls(module)

    def device(self, pci: str | None, uuid: str | None) -> NvmlDevice | None:
        """Find a device, by its PCI address first and then by its UUID. Never raises.

        The address comes first because it names the physical device, which has a link also where the UUID
        is that of a MIG instance, which has none.

        Args:
            pci: As ``cuDeviceGetPCIBusId`` gives it, for example ``0000:17:00.0``.
            uuid: With its prefix, for example ``GPU-`` and the five groups of hexadecimal digits.

        Returns:
            None where NVML knows neither.
        """
        searches = (("device_get_handle_by_pci_bus_id_v2", pci), ("device_get_handle_by_uuid", uuid))
        for function, key in searches:
            handle = _ask(self._bindings, function, key) if key else None
            if isinstance(handle, int) and handle != 0:
                return NvmlDevice(self._bindings, handle)
        return None

    def driver_version(self) -> str | None:
        """Give the version of the NVIDIA driver, for example ``580.159.03``. Never raises."""
        return _text(_ask(self._bindings, "system_get_driver_version"))

    def library_version(self) -> str | None:
        """Give the version of the NVML library itself, for example ``13.580.159.03``. Never raises."""
        return _text(_ask(self._bindings, "system_get_nvml_version"))

    def confidential(self) -> bool | None:
        """Whether the GPUs of this system run in confidential-computing mode. Never raises."""
        return _flag(getattr(_ask(self._bindings, "system_get_conf_compute_state"), "cc_feature", None))

    def devices(self) -> tuple[NvmlDevice, ...] | None:
        """List every device that NVML sees, also those that CUDA is not shown. Never raises."""
        count = _whole(_ask(self._bindings, "device_get_count_v2"))
        if count is None:
            return None
        handles = (_ask(self._bindings, "device_get_handle_by_index_v2", index) for index in range(count))
        return tuple(NvmlDevice(self._bindings, handle) for handle in handles if isinstance(handle, int) and handle)

    def close(self) -> None:
        """Give the library back; everything asked afterwards is None. Never raises."""
        _ask(self._bindings, "shutdown")


def in_nvml(nvml: Nvml | None, identity: Identity) -> NvmlDevice | None:
    """A device of CUDA's as NVML knows it; None where it does not, or there is no NVML. Never raises."""
    return None if nvml is None else nvml.device(identity.pci, identity.uuid)


def _ask(bindings: object, function: str, *args: object) -> object:
    """Call a function of the bindings; None where it is missing or raises whatever."""
    try:
        return getattr(bindings, function)(*args)
    except Exception:  # noqa: BLE001 - "not supported" is one of thirty classes, and an old library adds more
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int) and value >= 0 else None


def _flag(value: object) -> bool | None:
    return bool(value) if isinstance(value, int) else None


def _pair(value: object) -> tuple[object, object]:
    return (value[0], value[1]) if isinstance(value, tuple) and len(value) == 2 else (None, None)


def _named(names: Mapping[int, str], value: object) -> str | None:
    return names.get(int(value)) if isinstance(value, int) else None


def _process_ids(processes: Any) -> frozenset[int] | None:  # noqa: ANN401 - the bindings' array of structures
    # It is no Iterable by its class, only by its behaviour.
    try:
        return frozenset(int(process.pid) for process in processes)
    except (TypeError, AttributeError):
        return None
