"""Machines made of files, environment variables and answers of NVML, as checks look at them."""

from types import SimpleNamespace

import pytest

from cudabw.driver.nvml import Nvml
from cudabw.system.checks.machine import Gpu, Machine
from cudabw.system.link import LinkReader

PCI = "0000:17:00.0"


def answers_of(functions):
    """Bindings of NVML that answer as told and know no other function."""
    made = {}
    for name, value in functions.items():
        made[name] = value if callable(value) else lambda *_, value=value: value
    return SimpleNamespace(**made)


@pytest.fixture
def make_nvml():
    """NVML with one device, which answers as told; the parts of names that all have are left out."""

    def make(**answers):
        named = {name if name.startswith("system") else f"device_get_{name}": value for name, value in answers.items()}
        return Nvml(answers_of({"device_get_handle_by_pci_bus_id_v2": 7, **named}))

    return make


@pytest.fixture
def make_machine(tmp_path, make_nvml):
    """A machine with files, variables, and one GPU that answers as told."""

    def make(files=None, *, nvml=None, gpus=1, environ=None, link=None, **fields):
        for name, text in (files or {}).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        opened = None if nvml is None else make_nvml(**nvml)
        device = None if opened is None else opened.device(PCI, None)
        reader = link or LinkReader(PCI, device, root=tmp_path)
        made = tuple(Gpu(number, "NVIDIA H200", PCI, device, reader) for number in range(gpus))
        return Machine(environ or {}, **{"nvml": opened, "gpus": made, "root": tmp_path, **fields})

    return make


@pytest.fixture
def look(make_machine):
    """Makes one check on such a machine; gives verdict, what was seen and the fix of its findings."""

    def make_check(check, *arguments, **settings):
        findings = check.run(make_machine(*arguments, **settings))
        assert all(finding.check == check.name and finding.why == check.why for finding in findings)
        return [(str(finding.verdict), finding.seen, finding.fix) for finding in findings]

    return make_check
