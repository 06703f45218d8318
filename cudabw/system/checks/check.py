"""What a check is: a subject, why it matters, and a look at it that yields one sight or several."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cudabw.errors import Interrupted
from cudabw.results.diagnosis import Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cudabw.system.checks.machine import Gpu, Machine


@dataclass(frozen=True, slots=True)
class Sight:
    """What a look saw and what it comes to.

    Attributes:
        verdict: What it comes to.
        seen: What was seen.
        fix: The command that would mend it.
        device: The GPU's number, where the sight is of one.
    """

    verdict: Verdict
    seen: str
    fix: str = ""
    device: int | None = None


def ok(seen: str) -> Sight:
    """Nothing to do."""
    return Sight(Verdict.OK, seen)


def attention(seen: str, fix: str = "") -> Sight:
    """Worth knowing; figures may suffer."""
    return Sight(Verdict.ATTENTION, seen, fix)


def wrong(seen: str, fix: str = "") -> Sight:
    """To be mended."""
    return Sight(Verdict.WRONG, seen, fix)


def unknown(seen: str, fix: str = "") -> Sight:
    """It could not be found out."""
    return Sight(Verdict.UNKNOWN, seen, fix)


@dataclass(frozen=True, slots=True)
class Check:
    """One subject that the doctor looks at.

    Attributes:
        name: Its name in reports, in documents and in ``docs/doctor.md``.
        why: Why it matters, in a sentence.
        look: Looks, without changing anything.
        hardware: Whether it says something of a driver or GPU, so that it means nothing for the emulated device.
    """

    name: str
    why: str
    look: Callable[[Machine], Iterable[Sight]]
    hardware: bool = False

    def run(self, machine: Machine) -> tuple[Finding, ...]:
        """Look at a machine. A look that raises is a finding as well: unknown, with the reason.

        Raises:
            Interrupted: A signal came meanwhile.
        """
        if self.hardware and machine.emulated:
            sights = [unknown("not looked at: the device is emulated")]
        else:
            sights = _all_of(self.look, machine)
        return tuple(
            Finding(self.name, sight.device, sight.verdict, sight.seen, self.why, sight.fix) for sight in sights
        )


def each_gpu(look: Callable[[Machine, Gpu], Sight]) -> Callable[[Machine], Iterator[Sight]]:
    """A look at every GPU from a look at one; one that raises hides nothing of the others."""

    def look_at_all(machine: Machine) -> Iterator[Sight]:
        if not machine.gpus:
            yield unknown("no GPU to look at")
        for gpu in machine.gpus:
            (sight,) = _all_of(lambda machine: [look(machine, gpu)], machine)  # noqa: B023 - called at once
            named = sight if gpu.ordinal is not None else replace(sight, seen=f"{gpu.pci or gpu.name}: {sight.seen}")
            yield replace(named, device=gpu.ordinal)

    return look_at_all


def _all_of(look: Callable[[Machine], Iterable[Sight]], machine: Machine) -> list[Sight]:
    sights: list[Sight] = []
    try:
        for sight in look(machine):
            sights.append(sight)  # noqa: PERF402 - what was seen before it raised is kept
    except Interrupted:
        raise
    except Exception as error:  # noqa: BLE001 - whatever is the matter with one check, the others are made
        sights.append(unknown(f"the look failed with {type(error).__name__}: {error}"))
    return sights
