"""Rates over sizes, as pictures and charts draw them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cudabw.report.memory_words import memory_label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cudabw.results.model import CaseResult, Pages, Rate, RunResult

PANELS: Final[tuple[tuple[str, Mapping[str, str]], ...]] = (
    ("Host ↔ device bandwidth", {"h2d": "host to device", "d2h": "device to host"}),
    (
        "Both directions at once",
        {
            "bidirectional-h2d": "host to device",
            "bidirectional-d2h": "device to host",
            "bidirectional-total": "both together",
        },
    ),
    ("Copies within the device", {"d2d": "within device memory"}),
)
"""What is drawn side by side: a title, and the directions under it with a name for each."""

_USUAL_ENGINE: Final = "driver"


@dataclass(frozen=True, slots=True)
class Point:
    """One size of a curve."""

    size_bytes: int
    rate: Rate


@dataclass(frozen=True, slots=True)
class Curve:
    """The rates of one kind of memory, engine, direction and NUMA node that were measured, by size.

    Attributes:
        pages: The state of the memory's pages.
        node: The NUMA node that was asked for; None where none was.
        points: At least one, from the smallest size to the largest.
    """

    kind: str
    engine: str
    direction: str
    pages: Pages
    node: int | None
    points: tuple[Point, ...]

    @property
    def label(self) -> str:
        """What a reader calls it beside others of its direction."""
        return name_of_memory(self.kind, self.pages, self.engine, self.node)


def name_of_memory(kind: str, pages: Pages, engine: str, node: int | None) -> str:
    """Memory with what tells it apart: unusual pages, an unusual engine, a node that was asked for."""
    parts = [
        memory_label(kind, pages),
        *([] if engine == _USUAL_ENGINE else [engine]),
        *([] if node is None else [f"node {node}"]),
    ]
    return ", ".join(parts)


def curves_of(cases: Sequence[CaseResult]) -> tuple[Curve, ...]:
    """The curves of some cases, in the order in which they first appear; cases without a rate are left out."""
    curves: dict[tuple[str, str, str, Pages, int | None], list[Point]] = {}
    for case in cases:
        if case.rate_bytes_per_s is not None:
            key = (case.kind, case.engine, case.direction, case.pages, case.numa_node)
            curves.setdefault(key, []).append(Point(case.size_bytes, case.rate_bytes_per_s))
    return tuple(
        Curve(*key, tuple(sorted(points, key=lambda point: point.size_bytes))) for key, points in curves.items()
    )


def is_sweep(result: RunResult) -> bool:
    """Whether any curve of a run has more than one size."""
    return any(len(curve.points) > 1 for curve in curves_of(result.bandwidth_cases))
