"""Which cases that have no figure were asked for by name, and so are the run's failure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cudabw.benchmarks.bandwidth_plan import BandwidthPlan
    from cudabw.results.model import CaseResult


def with_lost_named(plan: BandwidthPlan, cases: tuple[CaseResult, ...]) -> tuple[CaseResult, ...]:
    """The cases of a plan, once they are measured, each named if what names it was asked for and is not there.

    A size or NUMA node that the plan names and nothing was measured at names its cases. What was measured on one of
    all nodes is there, and so does not name the same on the others.
    """
    if plan.sizes_named:
        cases = _name_lost(cases, lambda case: case.size_bytes)
    if plan.nodes_named:
        return _name_lost(cases, lambda case: (case.kind == "device", case.numa_node))
    there = _measured(cases, _cell)
    return tuple(
        case if case.state.measured or _cell(case) not in there else replace(case, named=False) for case in cases
    )


def _name_lost(cases: tuple[CaseResult, ...], value_of: Callable[[CaseResult], object]) -> tuple[CaseResult, ...]:
    """The cases, those of a value, such as a size, that nothing was measured at marked as asked for by name."""
    there = _measured(cases, value_of)
    return tuple(case if value_of(case) in there else replace(case, named=True) for case in cases)


def _measured(cases: Iterable[CaseResult], value_of: Callable[[CaseResult], object]) -> set[object]:
    return {value_of(case) for case in cases if case.state.measured}


def _cell(case: CaseResult) -> object:
    return case.kind, case.pages, case.engine, case.direction, case.size_bytes
