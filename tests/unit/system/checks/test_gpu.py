"""How each GPU is set up and how it runs."""

from types import SimpleNamespace

import pytest

from cudabw.system.checks.gpu_modes import COMPUTE_MODE, ECC, MIG, PERSISTENCE
from cudabw.system.checks.gpu_state import PROCESSES, THROTTLING

PCI = "0000:17:00.0"
SILENT = ("unknown", "NVML does not say", "")


@pytest.mark.parametrize("check", [PERSISTENCE, COMPUTE_MODE, MIG, ECC, THROTTLING, PROCESSES])
def test_without_nvml_nothing_is_claimed(look, check):
    assert look(check) == [SILENT]


@pytest.mark.parametrize("check", [PERSISTENCE, COMPUTE_MODE, THROTTLING, PROCESSES])
def test_what_nvml_does_not_answer_is_unknown(look, check):
    assert look(check, nvml={}) == [SILENT]


@pytest.mark.parametrize(
    ("check", "answers", "found"),
    [
        (PERSISTENCE, {"persistence_mode": 1}, ("ok", "on", "")),
        (PERSISTENCE, {"persistence_mode": 0}, ("attention", "off", f"sudo nvidia-smi -i {PCI} -pm 1")),
        (COMPUTE_MODE, {"compute_mode": 0}, ("ok", "default: any process may use it", "")),
        (
            COMPUTE_MODE,
            {"compute_mode": 3},
            (
                "attention",
                "exclusive process: one process at a time may use it",
                f"sudo nvidia-smi -i {PCI} -c DEFAULT",
            ),
        ),
        (
            COMPUTE_MODE,
            {"compute_mode": 2},
            ("wrong", "prohibited: no process may use it", f"sudo nvidia-smi -i {PCI} -c DEFAULT"),
        ),
        (MIG, {"mig_mode": (0, 0)}, ("ok", "off", "")),
        (MIG, {}, ("ok", "NVML tells of none on this GPU", "")),
        (
            MIG,
            {"mig_mode": (1, 1)},
            ("attention", "on: figures are those of one instance", f"sudo nvidia-smi -i {PCI} -mig 0"),
        ),
        (ECC, {"ecc_mode": (1, 1), "total_ecc_errors": 0}, ("ok", "on, no uncorrected errors", "")),
        (ECC, {"ecc_mode": (1, 1)}, ("ok", "on; errors are not counted", "")),
        (ECC, {}, ("ok", "NVML tells of none on this GPU", "")),
        (
            ECC,
            {"ecc_mode": (0, 0)},
            ("attention", "off: errors in memory go unnoticed", f"sudo nvidia-smi -i {PCI} -e 1"),
        ),
        (ECC, {"ecc_mode": (1, 0)}, ("attention", "on until the next reboot, then off", "sudo reboot")),
        (
            ECC,
            {"ecc_mode": (1, 1), "total_ecc_errors": 2},
            (
                "wrong",
                "2 uncorrected memory errors since the driver was loaded",
                f"sudo nvidia-smi --gpu-reset -i {PCI}",
            ),
        ),
        (
            ECC,
            {"ecc_mode": (1, 1), "total_ecc_errors": 0, "remapped_rows": (0, 1, 1, 0)},
            (
                "attention",
                "broken memory rows wait for a reset to be replaced",
                f"sudo nvidia-smi --gpu-reset -i {PCI}",
            ),
        ),
        (
            ECC,
            {"remapped_rows": (0, 1, 0, 1)},
            ("wrong", "memory rows broke for which no spare row is left", "Replace the card."),
        ),
    ],
)
def test_each_mode_comes_to_a_verdict_and_a_command(look, check, answers, found):
    assert look(check, nvml=answers) == [found]


BY_HARDWARE = "1980 MHz, 41 C; slowed down by the hardware:"
SHOW = f"nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i {PCI}"


@pytest.mark.parametrize(
    ("mask", "found"),
    [
        (0x0, ("ok", "not throttled; 1980 MHz, 41 C", "")),
        (0x1, ("ok", "not throttled; 1980 MHz, 41 C at rest", "")),
        (0x600, ("ok", "not throttled; 1980 MHz, 41 C", "")),
        (0x4, ("attention", "1980 MHz, 41 C; throttled: sw_power_cap", SHOW)),
        (0x20, ("attention", "1980 MHz, 41 C; throttled: sw_thermal_slowdown", SHOW)),
        (0x40, ("wrong", f"{BY_HARDWARE} hw_thermal_slowdown", SHOW)),
        (
            0x89,
            (
                "wrong",
                f"{BY_HARDWARE} gpu_idle, hw_slowdown, hw_power_brake_slowdown",
                SHOW,
            ),
        ),
        (
            0x3,
            (
                "attention",
                "1980 MHz, 41 C; clocks are set lower: gpu_idle, applications_clocks_setting",
                f"sudo nvidia-smi -i {PCI} -rgc -rmc -rac",
            ),
        ),
    ],
)
def test_what_holds_the_clocks_down_is_told_from_rest(look, mask, found):
    answers = {"current_clocks_event_reasons": mask, "clock_info": 1980, "temperature_v": 41}
    assert look(THROTTLING, nvml=answers) == [found]


def test_clocks_and_temperature_may_be_missing(look):
    found = look(THROTTLING, nvml={"current_clocks_event_reasons": 0})
    assert found == [("ok", "not throttled; unknown MHz", "")]


@pytest.mark.parametrize(
    ("numbers", "verdict", "seen"),
    [
        ((), "ok", "no other process is seen on it"),
        ((1,), "attention", "1 other process on it"),
        ((1, 2), "attention", "2 other processes on it"),
    ],
)
def test_other_processes_are_counted(look, numbers, verdict, seen):
    processes = [SimpleNamespace(pid=number) for number in numbers]
    ((found, said, fix),) = look(PROCESSES, nvml={"compute_running_processes_v3": processes})
    assert (found, said) == (verdict, seen)
    assert bool(fix) == (verdict == "attention")
