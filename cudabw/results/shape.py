"""How the dataclasses of results look to whoever reads or describes them: fields, with types that are resolved.

Reader, JSON Schema and CSV follow these, so that a field that is added to a dataclass is in all of them.
"""

from __future__ import annotations

import types
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from cudabw.results import cpu_speed, fits, latency, launch, launch_sets, limits, model, setup_cost
from cudabw.results.latency import LatencyCase, SmallCopiesCase
from cudabw.results.launch import LaunchCase
from cudabw.results.model import CaseResult
from cudabw.results.setup_cost import SetupCase

CASE_CLASSES: Final[dict[str, type]] = {
    "bandwidth": CaseResult,
    launch.BENCHMARK: LaunchCase,
    latency.LATENCY: LatencyCase,
    latency.SMALL_COPIES: SmallCopiesCase,
    setup_cost.BENCHMARK: SetupCase,
}
"""What the cases of each benchmark are."""

# Where the names stand that annotations use, also those that a module imports for its types alone.
_MODULES: Final = (cpu_speed, fits, latency, launch, launch_sets, limits, model, setup_cost)
_NAMES: Final = {name: value for module in _MODULES for name, value in vars(module).items()}


@dataclass(frozen=True, slots=True)
class FieldShape:
    """One field of a dataclass.

    Attributes:
        name: Its name.
        type: Its type, without strings in it.
        required: Whether it has no default, so that a file must hold it.
    """

    name: str
    type: Any
    required: bool


@cache
def fields_of(cls: type) -> tuple[FieldShape, ...]:
    """The fields of a dataclass, in their order."""
    hints = get_type_hints(cls, localns=_NAMES)
    return tuple(
        FieldShape(
            field.name, hints[field.name], required=field.default is MISSING and field.default_factory is MISSING
        )
        for field in fields(cls)
    )


def members_of(kind: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any annotation
    """The types that a union joins, without None; a type that is no union is its own only member."""
    if get_origin(kind) not in (Union, types.UnionType):
        return (kind,)
    return tuple(member for member in get_args(kind) if member is not types.NoneType)


def is_optional(kind: Any) -> bool:  # noqa: ANN401 - any annotation
    """Whether None is one of the types that a union joins."""
    return types.NoneType in get_args(kind)
