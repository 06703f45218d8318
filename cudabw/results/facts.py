"""In what two runs differ besides their figures: the machine, and what runs on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabw.results.model import RunResult

OF_THE_MACHINE: Final = frozenset({"device", "link", "machine", "cpu"})
"""Facts of which one that differs makes a machine another: its figures say nothing about these."""

_OF_THE_ENVIRONMENT: Final = {
    "machine": ("software", "machine"),
    "cpu": ("cpu", "model"),
    **{name: ("software", name) for name in ("nvidia_driver", "cuda_driver", "cuda_bindings", "python")},
    **{name: ("software", name) for name in ("python_implementation", "python_gil", "numpy", "os", "kernel")},
    **{name: ("gpu", name) for name in ("mig", "ecc", "compute_mode", "persistence", "virtualization")},
    **{name: ("gpu", name) for name in ("confidential_computing", "iommu_domain")},
    "cpus_available": ("cpu", "available"),
    "governor": ("cpu", "governor"),
    **{name: ("memory", name) for name in ("memlock", "transparent_huge_pages")},
    **{name: ("host", name) for name in ("product", "virtual_machine", "container", "wsl")},
    "variables": ("variables",),
}
"""Where each fact of the environment stands. What is another from moment to moment, such as clocks, is none."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that is not the same in two runs.

    Attributes:
        name: What it is.
        old: Its value in the earlier run; of several runs all values.
        new: Its value in the new one.
        unlike: Whether it makes the machines unlike.
    """

    name: str
    old: str
    new: str
    unlike: bool


def differing_facts(old: Sequence[RunResult], new: RunResult) -> tuple[Fact, ...]:
    """The facts that are known on both sides and differ, those of the machine first."""
    before, after = [_facts_of(run) for run in old], _facts_of(new)
    found = []
    for name, value in after.items():
        others = list(dict.fromkeys(facts[name] for facts in before if name in facts))
        if any(other != value for other in others):
            found.append(Fact(name, " and ".join(others), value, name in OF_THE_MACHINE))
    return tuple(sorted(found, key=lambda fact: not fact.unlike))


def environment_facts(environment: Mapping[str, object]) -> dict[str, object]:
    """What of an environment is a fact about the machine or its software, each by one name; what is null is none."""
    found = {name: _at(environment, path) for name, path in _OF_THE_ENVIRONMENT.items()}
    return {name: value for name, value in found.items() if value is not None}


def _at(environment: Mapping[str, object], path: Sequence[str]) -> object:
    value: object = environment
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _facts_of(run: RunResult) -> dict[str, str]:
    facts: dict[str, object] = {"cudabw": run.tool_version}
    if run.device is not None:
        link = run.device.link
        facts |= {
            "device": f"{run.device.name} (emulated)" if run.device.emulated else run.device.name,
            "link": f"PCIe Gen{link.generation} x{link.width}" if link.generation and link.width else None,
            "uuid": run.device.uuid,
        }
    facts |= environment_facts(run.environment)
    return {name: _shown(value) for name, value in facts.items() if value is not None}


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={member}" for name, member in value.items()) or "none"
    return str(value)
