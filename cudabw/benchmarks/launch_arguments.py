"""What the launches that are measured pass: sets of arguments, by kind and number."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING

import numpy as np

from cudabw.results.launch import NO_ARGUMENTS, Mode
from cudabw.runtime.memory import DeviceBuffer
from cudabw.runtime.signature import ctype_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from cudabw.runtime.device import Device
    from cudabw.runtime.signature import CType, TypeSpecification

BUFFER_BYTES = 256

_SIGNATURES: dict[str, TypeSpecification] = {
    "pointer": "pointer",
    "int32": "int32",
    "uint32": "uint32",
    "float32": "float32",
    "float64": "float64",
    "numpy": "float32",
    "buffer": "pointer",
    "struct": ("int32", "float32", "float64"),
}
_MIXED = ("buffer", "buffer", "buffer", "int32")


@dataclass(frozen=True, slots=True)
class ArgumentSet:
    """Arguments of one kind.

    Attributes:
        arg_type: One of ``ARG_TYPES``, or ``none`` where there are no arguments.
        count: How many.
        named: Whether a flag or a suite named the kind.
    """

    arg_type: str
    count: int
    named: bool = False

    @property
    def id(self) -> str:
        """Stable name of the set, the same in every run."""
        return f"launch_overhead/{self.arg_type}/{self.count}"

    @property
    def label(self) -> str:
        """What a person reads while it is measured."""
        return f"{self.count} {self.arg_type} argument{'s' * (self.count != 1)}" if self.count else "no arguments"

    @property
    def members(self) -> tuple[str, ...]:
        """The kind of each argument."""
        return tuple(islice(cycle(_MIXED if self.arg_type == "mixed" else (self.arg_type,)), self.count))

    @property
    def modes(self) -> dict[Mode, int]:
        """The modes that there are, and how many arguments a launch converts in each."""
        conversions = {
            Mode.BARE: 0,
            Mode.PREPARED: 0,
            Mode.PACKED: 0,
            Mode.CONVERTED: self.count,
            Mode.SPECIALISED: 2 * self.count,
        }
        # Without arguments there is none to bind anew.
        return {**conversions, Mode.REBOUND: 1} if self.count else conversions

    @property
    def signature(self) -> tuple[CType, ...]:
        """The C type of each argument."""
        return tuple(ctype_of(_SIGNATURES[member]) for member in self.members)

    def values(self, device: Device, owned: ExitStack) -> tuple[object, ...]:
        """Fresh arguments; what they need lives as long as ``owned``."""
        return tuple(_value(member, number, device, owned) for number, member in enumerate(self.members))

    def spare(self, device: Device, owned: ExitStack) -> object:
        """Another value for the first argument, to bind in its place."""
        return _value(self.members[0], self.count, device, owned)


def argument_sets(arg_types: Sequence[str], counts: Sequence[int], *, named: bool = False) -> tuple[ArgumentSet, ...]:
    """Every kind in every number; without arguments there is no kind, so that set comes once."""
    sets = [
        ArgumentSet(kind, count, named) if count else ArgumentSet(NO_ARGUMENTS, 0)
        for kind in arg_types
        for count in counts
    ]
    return tuple(dict.fromkeys(sets))


def _value(member: str, number: int, device: Device, owned: ExitStack) -> object:
    match member:
        case "buffer":
            return owned.enter_context(DeviceBuffer(device, BUFFER_BYTES))
        case "pointer":
            return owned.enter_context(DeviceBuffer(device, BUFFER_BYTES)).device_pointer
        case "int32":
            return number
        case "uint32":
            # Above what an int32 holds, so that an example alone makes it unsigned.
            return (1 << 31) + number
        case "numpy":
            return np.float32(number)
        case "struct":
            return np.int32(number), np.float32(number), np.float64(number)
        case _:
            return float(number)
