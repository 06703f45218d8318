"""The device nodes that the driver's library opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudabw.system.checks.check import Check, ok, wrong
from cudabw.system.container import container_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudabw.system.checks.check import Sight
    from cudabw.system.checks.machine import Machine

_GIVE_TO_CONTAINER: Final = "docker run --gpus all IMAGE"


def _look(machine: Machine) -> Iterator[Sight]:
    problems = machine.probe.node_problems()
    if not problems:
        yield ok(f"{', '.join(machine.probe.nodes())} can be opened")
    elif container_kind(machine.root) is not None:
        yield wrong("; ".join(problems), _GIVE_TO_CONTAINER)
    elif all(problem.endswith("is missing") for problem in problems):
        yield wrong("; ".join(problems), "sudo modprobe nvidia && sudo nvidia-modprobe -c 0 -u")
    else:
        yield wrong("; ".join(problems), "ls -l /dev/nvidia* /dev/dxg; sudo usermod -aG video,render $USER")


NODES = Check("nodes", "The driver's library reaches the GPU through these files.", _look, hardware=True)
