from __future__ import annotations

import importlib
import inspect
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.driver.nvml import Nvml, NvmlDevice, NvmlLink
from cudabw.driver.nvml_state import NvmlClocks, NvmlErrors, NvmlModes, event_reasons

PCI = "0000:17:00.0"
UUID = "GPU-8a3d1c52-6f1e-4a57-9c53-0c1a6a1f7f10"


class NotSupportedError(Exception):
    """As the bindings raise it: a class of their own below Exception."""


class FakeBindings:
    """The functions of cuda.bindings.nvml that are used; devices by PCI address and UUID, answers by function."""

    def __init__(self, **answers: object) -> None:
        self.answers = {
            "device_get_curr_pcie_link_generation": 5,
            "device_get_curr_pcie_link_width": 16,
            "device_get_max_pcie_link_generation": 6,
            "device_get_max_pcie_link_width": 32,
            "device_get_gpu_max_pcie_link_generation": 7,
            "device_get_name": "NVIDIA H200",
            "device_get_uuid": UUID,
            "system_get_driver_version": "580.159.03",
            "init_v2": None,
            "shutdown": None,
        } | answers
        self.by_pci = {PCI: 0x70}
        self.by_uuid = {UUID: 0x71}
        self.calls: list[tuple[object, ...]] = []

    def device_get_handle_by_pci_bus_id_v2(self, pci_bus_id: str) -> int:
        self.calls.append(("by pci", pci_bus_id))
        if pci_bus_id not in self.by_pci:
            raise NotSupportedError("Not Found")
        return self.by_pci[pci_bus_id]

    def device_get_handle_by_uuid(self, uuid: str) -> int:
        self.calls.append(("by uuid", uuid))
        if uuid not in self.by_uuid:
            raise NotSupportedError("Not Found")
        return self.by_uuid[uuid]

    def __getattr__(self, name: str) -> object:
        if name not in self.answers:
            raise AttributeError(name)

        def answer(*args: object) -> object:
            self.calls.append((name, *args))
            value = self.answers[name]
            if isinstance(value, Exception):
                raise value
            return value

        return answer


def open_nvml(bindings: FakeBindings) -> Nvml:
    nvml = Nvml.open(bindings)
    assert nvml is not None
    return nvml


def test_opening_initialises_and_closing_shuts_down_once() -> None:
    bindings = FakeBindings()
    open_nvml(bindings).close()
    assert bindings.calls == [("init_v2",), ("shutdown",)]


@pytest.mark.parametrize(
    "error", [NotSupportedError("x"), RuntimeError("no libnvidia-ml.so.1"), OSError(), TypeError()]
)
def test_a_library_that_does_not_initialise_is_none(error: Exception) -> None:
    assert Nvml.open(FakeBindings(init_v2=error)) is None


def test_bindings_without_an_initialiser_are_none() -> None:
    assert Nvml.open(object()) is None


def test_a_missing_module_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", None)
    assert Nvml.open() is None


def test_a_module_that_fails_while_imported_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> object:
        raise RuntimeError(f"{name} was built for another cuda-bindings")

    monkeypatch.setattr(importlib, "import_module", fail)
    assert Nvml.open() is None


def test_the_installed_bindings_are_used_when_none_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    bindings = FakeBindings()
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", bindings)
    nvml = Nvml.open()
    assert nvml is not None
    assert nvml.driver_version() == "580.159.03"


def test_a_device_is_found_by_its_pci_address_first() -> None:
    bindings = FakeBindings()
    device = open_nvml(bindings).device(PCI, UUID)
    assert device is not None
    device.link()
    assert bindings.calls[1:3] == [("by pci", PCI), ("device_get_curr_pcie_link_generation", 0x70)]


def test_a_device_is_found_by_its_uuid_where_the_address_is_unknown() -> None:
    bindings = FakeBindings()
    device = open_nvml(bindings).device("0000:99:00.0", UUID)
    assert device is not None
    device.link()
    assert bindings.calls[1:4] == [
        ("by pci", "0000:99:00.0"),
        ("by uuid", UUID),
        ("device_get_curr_pcie_link_generation", 0x71),
    ]


@pytest.mark.parametrize(
    ("pci", "uuid", "searches"),
    [
        (None, None, []),
        ("", "", []),
        (None, "GPU-0", [("by uuid", "GPU-0")]),
        ("0000:99:00.0", None, [("by pci", "0000:99:00.0")]),
    ],
)
def test_a_device_that_nvml_does_not_know_is_none(pci: str | None, uuid: str | None, searches: list[object]) -> None:
    bindings = FakeBindings()
    assert open_nvml(bindings).device(pci, uuid) is None
    assert bindings.calls[1:] == searches


def test_a_null_handle_is_no_device() -> None:
    bindings = FakeBindings()
    bindings.by_pci[PCI] = 0
    assert open_nvml(bindings).device(PCI, None) is None


def test_a_link_has_each_field_from_its_own_question() -> None:
    assert NvmlDevice(FakeBindings(), 1).link() == NvmlLink(
        generation=5, width=16, max_generation=6, max_width=32, card_generation=7
    )


@pytest.mark.parametrize("useless", [NotSupportedError("Not Supported"), 0, 0xFFFFFFFF, None, "5"])
@pytest.mark.parametrize(
    ("function", "link"),
    [
        ("device_get_curr_pcie_link_generation", NvmlLink(None, 16, 6, 32, 7)),
        ("device_get_curr_pcie_link_width", NvmlLink(5, None, 6, 32, 7)),
        ("device_get_max_pcie_link_generation", NvmlLink(5, 16, None, 32, 7)),
        ("device_get_max_pcie_link_width", NvmlLink(5, 16, 6, None, 7)),
        ("device_get_gpu_max_pcie_link_generation", NvmlLink(5, 16, 6, 32, None)),
    ],
)
def test_a_field_without_an_answer_is_none_and_the_others_stay(function: str, useless: object, link: NvmlLink) -> None:
    assert NvmlDevice(FakeBindings(**{function: useless}), 1).link() == link


@given(st.integers(1, 63), st.integers(1, 63))
def test_every_value_that_the_link_status_register_can_hold_is_given(generation: int, width: int) -> None:
    answers = {"device_get_curr_pcie_link_generation": generation, "device_get_curr_pcie_link_width": width}
    assert NvmlDevice(FakeBindings(**answers), 1).link() == NvmlLink(generation, width, 6, 32, 7)


def test_bindings_that_lack_every_function_give_nothing() -> None:
    nvml, device = Nvml(object()), NvmlDevice(object(), 1)
    nvml.close()
    assert nvml.device(PCI, UUID) is None
    assert nvml.driver_version() is None
    assert device.link() == NvmlLink(None, None, None, None)
    assert (device.name(), device.uuid()) == (None, None)


def test_identity_is_text_or_none() -> None:
    device = NvmlDevice(FakeBindings(), 1)
    assert (device.name(), device.uuid()) == ("NVIDIA H200", UUID)
    broken = FakeBindings(device_get_name="", device_get_uuid=7, system_get_driver_version=NotSupportedError())
    device = NvmlDevice(broken, 1)
    assert (device.name(), device.uuid(), Nvml(broken).driver_version()) == (None, None, None)


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        ("init_v2", []),
        ("shutdown", []),
        ("system_get_driver_version", []),
        ("device_get_handle_by_pci_bus_id_v2", ["pci_bus_id"]),
        ("device_get_handle_by_uuid", ["uuid"]),
        ("device_get_name", ["device"]),
        ("device_get_uuid", ["device"]),
        ("device_get_curr_pcie_link_generation", ["device"]),
        ("device_get_curr_pcie_link_width", ["device"]),
        ("device_get_max_pcie_link_generation", ["device"]),
        ("device_get_max_pcie_link_width", ["device"]),
    ],
)
def test_the_installed_bindings_have_each_function_that_is_asked(function: str, parameters: list[str]) -> None:
    module = pytest.importorskip("cuda.bindings.nvml")
    assert list(inspect.signature(getattr(module, function)).parameters) == parameters
    assert function in {*FakeBindings().answers, *vars(FakeBindings)}


@pytest.mark.parametrize(
    ("answer", "enabled"),
    [
        (SimpleNamespace(is_c2c_enabled=1), True),
        (SimpleNamespace(is_c2c_enabled=0), False),
        (SimpleNamespace(), None),
        (NotSupportedError("no"), None),
    ],
)
def test_nvlink_c2c_is_on_or_off_or_not_known(answer: object, enabled: bool | None) -> None:
    assert NvmlDevice(FakeBindings(device_get_c2c_mode_info_v=answer), 1).c2c_enabled() is enabled


def asked(**answers: object) -> NvmlDevice:
    return NvmlDevice(FakeBindings(**answers), 1)


def test_how_a_device_is_set_up_is_in_words() -> None:
    device = asked(
        device_get_mig_mode=(1, 0),
        device_get_ecc_mode=(0, 1),
        device_get_persistence_mode=0,
        device_get_compute_mode=3,
        device_get_virtualization_mode=2,
    )
    assert device.modes() == NvmlModes(True, False, True, False, "exclusive_process", "vgpu")


def test_how_a_device_runs_has_its_units() -> None:
    device = asked(
        device_get_clock_info=1755,
        device_get_temperature_v=60,
        device_get_power_usage=70250,
        device_get_current_clocks_event_reasons=0x24,
    )
    assert device.clocks() == NvmlClocks(1755, 1755, 60, 70.25, ("sw_power_cap", "sw_thermal_slowdown"))


def test_what_went_wrong_in_the_memory_is_counted() -> None:
    device = asked(device_get_total_ecc_errors=2, device_get_remapped_rows=(5, 1, 1, 0))
    assert device.errors() == NvmlErrors(uncorrected=2, repair_pending=True, repair_failed=False)


@pytest.mark.parametrize("answer", [NotSupportedError("no"), "text", None, (1,), -1])
def test_an_answer_that_is_none_leaves_its_field_empty(answer: object) -> None:
    names = ("mig_mode", "ecc_mode", "compute_mode", "clock_info", "power_usage", "remapped_rows", "total_ecc_errors")
    device = asked(**{f"device_get_{name}": answer for name in names})
    assert device.modes() == NvmlModes()
    assert device.clocks() == NvmlClocks()
    assert device.errors() == NvmlErrors()


def test_reasons_are_named_by_their_bits_and_a_later_one_shows_its_number() -> None:
    assert event_reasons(0) == ()
    assert event_reasons(0x001 | 0x008 | 0x080) == ("gpu_idle", "hw_slowdown", "hw_power_brake_slowdown")
    assert event_reasons(0x4 | 0x8000) == ("sw_power_cap", "0x8000")


def test_processes_are_those_of_all_kinds() -> None:
    compute, graphics = [SimpleNamespace(pid=1), SimpleNamespace(pid=2)], [SimpleNamespace(pid=2)]
    device = asked(device_get_compute_running_processes_v3=compute, device_get_graphics_running_processes_v3=graphics)
    assert device.processes() == {1, 2}


def test_the_structures_of_the_installed_bindings_are_understood() -> None:
    bindings = pytest.importorskip("cuda.bindings.nvml")
    assert asked(device_get_compute_running_processes_v3=bindings.ProcessInfo(0)).processes() == frozenset()
    two = bindings.ProcessInfo(2)
    two.pid = [3, 4]
    assert asked(device_get_compute_running_processes_v3=two).processes() == {3, 4}
    assert asked(device_get_pci_info_v3=bindings.PciInfo()).pci() is None
    assert asked(device_get_c2c_mode_info_v=bindings.C2cModeInfo_v1()).c2c_enabled() in (True, False)


@pytest.mark.parametrize("answer", [None, 5, NotSupportedError("no"), [object()]])
def test_processes_that_cannot_be_listed_are_not_held_for_none(answer: object) -> None:
    assert asked(device_get_compute_running_processes_v3=answer).processes() is None
    graphics = [SimpleNamespace(pid=2)]
    some = asked(
        device_get_compute_running_processes_v3=answer, device_get_graphics_running_processes_v3=lambda _: graphics
    )
    assert some.processes() is None


def test_the_enums_of_the_installed_bindings_have_the_numbers_that_are_used_here() -> None:
    nvml = pytest.importorskip("cuda.bindings.nvml")
    assert event_reasons(nvml.ClocksEventReasons.THROTTLE_REASON_HW_THERMAL_SLOWDOWN) == ("hw_thermal_slowdown",)
    assert event_reasons(nvml.ClocksEventReasons.EVENT_REASON_SW_POWER_CAP) == ("sw_power_cap",)
    assert (nvml.ClockType.CLOCK_SM, nvml.ClockType.CLOCK_MEM) == (1, 2)
    assert nvml.ComputeMode.COMPUTEMODE_EXCLUSIVE_PROCESS == 3
    assert nvml.GpuVirtualizationMode.PASSTHROUGH == 1


def test_every_device_is_listed_although_one_cannot_be_opened() -> None:
    bindings = FakeBindings(device_get_count_v2=3)
    bindings.answers["device_get_handle_by_index_v2"] = 0x70
    devices = open_nvml(bindings).devices()
    assert devices is not None
    assert len(devices) == 3
    bindings.answers["device_get_handle_by_index_v2"] = NotSupportedError("lost")
    assert open_nvml(bindings).devices() == ()
    bindings.answers["device_get_count_v2"] = NotSupportedError("no")
    assert open_nvml(bindings).devices() is None


@pytest.mark.parametrize(
    ("answer", "confidential"),
    [(SimpleNamespace(cc_feature=1), True), (SimpleNamespace(cc_feature=0), False), (NotSupportedError("no"), None)],
)
def test_confidential_computing_is_on_or_off_or_not_known(answer: object, confidential: bool | None) -> None:
    assert open_nvml(FakeBindings(system_get_conf_compute_state=answer)).confidential() is confidential


def test_the_library_names_its_own_version() -> None:
    assert open_nvml(FakeBindings(system_get_nvml_version="13.580.159.03")).library_version() == "13.580.159.03"


@pytest.mark.parametrize(
    ("mask", "reasons"),
    [
        (0x0, ()),
        (0x1 | 0x2 | 0x10 | 0x100, ()),
        (0x4, ("sw_power_cap",)),
        (0x8 | 0x40, ("hw_slowdown", "hw_thermal_slowdown")),
        (0x1 | 0x20 | 0x80, ("sw_thermal_slowdown", "hw_power_brake_slowdown")),
        (NotSupportedError("Not Supported"), ()),
        (None, ()),
    ],
)
def test_what_slows_the_device_down_to_protect_itself_is_told(mask: object, reasons: tuple[str, ...]) -> None:
    assert asked(device_get_current_clocks_event_reasons=mask).throttled_by() == reasons
