"""Whether other processes share the GPUs through the Multi-Process Service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudabw.system.checks.check import Check, attention, ok, wrong
from cudabw.system.pseudofiles import exists

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudabw.system.checks.check import Sight
    from cudabw.system.checks.machine import Machine

_VARIABLE: Final = "CUDA_MPS_PIPE_DIRECTORY"
_SHARE: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
_DEFAULT: Final = "/tmp/nvidia-mps"  # noqa: S108 - where the daemon puts it, in NVIDIA's documentation of MPS


def _look(machine: Machine) -> Iterator[Sight]:
    folder = machine.environ.get(_VARIABLE) or _DEFAULT
    if exists(machine.root / folder.lstrip("/") / "control"):
        share = machine.environ.get(_SHARE)
        part = f", {_SHARE}={share}" if share else ""
        yield attention(f"a control daemon listens in {folder}{part}", "echo quit | nvidia-cuda-mps-control")
    elif _VARIABLE in machine.environ:
        seen = f"{_VARIABLE}={folder}, but no control daemon listens there"
        fix = f"unset {_VARIABLE}"
        yield attention(seen, fix) if machine.failure is None else wrong(seen, fix)
    else:
        yield ok("not in use")


MPS = Check(
    "mps", "Launches and copies of several processes then share the GPU and wait for each other.", _look, hardware=True
)
