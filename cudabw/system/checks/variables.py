"""What in the environment distorts figures: profilers, debuggers, and switches of the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudabw.system.checks.check import Check, attention, ok
from cudabw.system.pseudofiles import parse_number, read_text
from cudabw.system.variables import distortion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cudabw.system.checks.check import Sight
    from cudabw.system.checks.machine import Machine

_INJECTING: Final = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "LD_PRELOAD")
_SWITCHES: Final = (
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_API_PER_THREAD_DEFAULT_STREAM",
    "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM",
)


def _look_at_profilers(machine: Machine) -> Iterator[Sight]:
    found = list(_set(machine, _INJECTING))
    tracer = _tracer(machine.root)
    if tracer:
        found.append(attention(f"process {tracer} traces this one, as a debugger or strace does", f"ps -p {tracer}"))
    yield from found or [ok("none is injected or attached")]


def _look_at_switches(machine: Machine) -> Iterator[Sight]:
    yield from list(_set(machine, _SWITCHES)) or [ok("launches do not wait, and default streams are as usual")]


def _set(machine: Machine, names: Iterable[str]) -> Iterator[Sight]:
    for name in names:
        sentence = distortion(machine.environ, name)
        if sentence is not None:
            yield attention(sentence.removesuffix("."), f"unset {name}")


def _tracer(root: Path) -> int | None:
    for line in (read_text(root / "proc" / "self" / "status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "TracerPid":
            return parse_number(value)
    return None


PROFILERS = Check("profilers", "What watches every call makes every call slower.", _look_at_profilers)
LAUNCHING = Check("launching", "These switches change what launches and copies wait for.", _look_at_switches)
