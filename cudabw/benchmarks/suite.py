"""What the sections of a suite may say, and the plans that they mean.

A further kind of section is one more entry of ``SECTION_KINDS``: the reader of each of its keys, and what makes
its plan from the keys that are given. Flags of ``cudabw run`` reach it through keys of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cudabw.benchmarks.bandwidth_plan import (
    ALL_DIRECTIONS,
    DEFAULT_KINDS,
    DEFAULT_SIZE,
    DIRECTIONS,
    ENGINES,
    KINDS,
    LOCAL,
    BandwidthCase,
    BandwidthPlan,
    Staging,
    page_states,
    require_sense,
)
from cudabw.benchmarks.latency_plan import DEFAULT_COPIES, LatencyPlan
from cudabw.benchmarks.latency_plan import KINDS as LATENCY_KINDS
from cudabw.benchmarks.launch_overhead import LaunchPlan, sets_for
from cudabw.benchmarks.places import on_nodes
from cudabw.config.limits import CASES
from cudabw.config.values import (
    ALL,
    Reader,
    read_choice,
    read_choices,
    read_choices_or_all,
    read_count,
    read_flag,
    read_node,
    read_ordinals,
    read_precision,
    read_seconds,
    read_size,
    read_sizes,
)
from cudabw.errors import ConfigurationError
from cudabw.measuring.effort import Level
from cudabw.results.launch import ARG_TYPES, MOST_ARGS
from cudabw.results.limits import Bound, Limit

if TYPE_CHECKING:
    from cudabw.config.suite import Section, Suite


Plan: TypeAlias = BandwidthPlan | LatencyPlan | LaunchPlan


@dataclass(frozen=True, slots=True)
class SectionKind:
    """A kind of section.

    Attributes:
        keys: The reader of each key.
        plan: Makes the plan from the values of the keys that are given.
    """

    keys: Mapping[str, Reader]
    plan: Callable[[Mapping[str, Any]], Plan]


def _bandwidth_plan(settings: Mapping[str, Any]) -> BandwidthPlan:
    kinds = settings.get("kinds", DEFAULT_KINDS)
    engines = settings.get("engines", ())
    named = {*(kinds if "kinds" in settings and kinds != ALL else ()), *(engines if engines != ALL else ())}
    kinds = KINDS if kinds == ALL else kinds
    plan = BandwidthPlan(
        kinds=kinds,
        directions=settings.get("directions", DIRECTIONS),
        sizes=settings.get("sizes", (DEFAULT_SIZE,)),
        **_effort(settings),
        named=frozenset(named),
        engines=ENGINES if engines == ALL else engines,
        staging=Staging(settings.get("threads"), settings.get("slot")),
        pages=page_states(first_touch=settings.get("first_touch", False), huge_pages=settings.get("huge_pages", False)),
        setup_kinds=kinds if settings.get("setup_cost", False) else (),
    )
    return on_nodes(plan, settings.get("numa"))


def _latency_plan(settings: Mapping[str, Any]) -> LatencyPlan:
    return LatencyPlan(
        kinds=settings.get("kinds", LATENCY_KINDS),
        directions=settings.get("directions", DIRECTIONS),
        sizes=settings.get("sizes", ()),
        copies=settings.get("copies", DEFAULT_COPIES),
        **_effort(settings),
        named=frozenset(settings.get("kinds", ())),
    )


def _launch_plan(settings: Mapping[str, Any]) -> LaunchPlan:
    return LaunchPlan(
        sets=sets_for(settings.get("arg_types"), settings.get("args")),
        **_effort(settings),
    )


def _effort(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "level": Level(settings.get("effort", Level.DEFAULT)),
        "trials": settings.get("trials"),
        "precision": settings.get("precision"),
        "time_budget_s": settings.get("time_budget"),
    }


_EFFORT_KEYS: Final[Mapping[str, Reader]] = {
    "trials": read_count,
    "effort": partial(read_choice, tuple(Level)),
    "precision": read_precision,
    "time_budget": read_seconds,
}

SECTION_KINDS: Final[Mapping[str, SectionKind]] = {
    "bandwidth": SectionKind(
        keys={
            "kinds": partial(read_choices_or_all, KINDS),
            "directions": partial(read_choices, ALL_DIRECTIONS),
            "engines": partial(read_choices_or_all, ENGINES),
            "sizes": read_sizes,
            **_EFFORT_KEYS,
            "threads": read_count,
            "slot": read_size,
            "numa": read_node,
            "first_touch": read_flag,
            "huge_pages": read_flag,
            "setup_cost": read_flag,
        },
        plan=_bandwidth_plan,
    ),
    "latency": SectionKind(
        keys={
            "kinds": partial(read_choices, LATENCY_KINDS),
            "directions": partial(read_choices, DIRECTIONS),
            "sizes": read_sizes,
            "copies": read_count,
            **_EFFORT_KEYS,
        },
        plan=_latency_plan,
    ),
    "launch_overhead": SectionKind(
        keys={
            "args": partial(read_ordinals, MOST_ARGS),
            "arg_types": partial(read_choices, ARG_TYPES),
            **_EFFORT_KEYS,
        },
        plan=_launch_plan,
    ),
}

_BOUNDS: Final[Mapping[str, tuple[Bound, Callable[[float], float]]]] = {
    "min_gb_per_s": (Bound.MIN_RATE, lambda gigabytes: gigabytes * 1e9),
    "min_link_percent": (Bound.MIN_LINK, lambda percent: percent / 100),
    "max_us": (Bound.MAX_TIME, lambda microseconds: microseconds / 1e6),
    "max_ns_per_argument": (Bound.MAX_PER_ARGUMENT, lambda nanoseconds: nanoseconds / 1e9),
}
"""For each key of ``[[limits]]`` what it bounds, and its value in the results' unit."""

VOCABULARY: Final = {name: kind.keys for name, kind in SECTION_KINDS.items()}
"""What :func:`cudabw.config.suite.parse_suite` needs to know of the sections."""


def plans_of(suite: Suite) -> tuple[Plan, ...]:
    """The plans that a suite's sections mean, in their order.

    A kind of memory, or a set of arguments, whose cases are all in earlier sections is left out, as sections easily
    come to be when a flag gives them the same sizes. What it costs to have it ready is measured all the same, where the
    section says so.

    Raises:
        ConfigurationError: Only some cases of a kind are in an earlier section too; a result can hold a case only once.
            Or something that a section names goes with nothing else in it.
    """
    plans: list[Plan] = []
    titles: dict[str, str] = {}
    for section in suite.sections:
        plan = _without_repeats(_sensible_plan(section, suite.source), titles)
        for case in plan.cases():
            if case.id in titles:
                raise ConfigurationError(
                    f"{suite.source}: {section.title} measures {case.label} again, as {titles[case.id]} does",
                    hint="Give each section kinds, directions or sizes of its own.",
                )
        titles |= {case.id: section.title for case in plan.cases()}
        plans += [plan] if plan.cases() or (isinstance(plan, BandwidthPlan) and plan.setup_kinds) else []
    return tuple(plans)


def limits_of(suite: Suite) -> tuple[Limit, ...]:
    """The limits that a suite sets, in its order."""
    return tuple(
        Limit(section.settings[CASES], bound, in_results_unit(section.settings[key]))
        for section in suite.limits
        for key, (bound, in_results_unit) in _BOUNDS.items()
        if key in section.settings
    )


def result_ids(plans: Iterable[Plan]) -> Iterable[str]:
    """The ids of the cases that the results of plans will have."""
    for plan in plans:
        for case in plan.cases():
            if isinstance(case, BandwidthCase):
                yield from map(case.id_of, case.results)
            else:
                yield case.id


def slope_ids(plans: Iterable[Plan]) -> Iterable[str]:
    """The ids of the kinds of arguments of which the results of plans tell what each further one costs."""
    for plan in plans:
        if isinstance(plan, LaunchPlan):
            for kind in dict.fromkeys(one.arg_type for one in plan.sets if one.count):
                # A set without arguments is one of every kind.
                if len({one.count for one in plan.sets if one.arg_type == kind or not one.count}) > 1:
                    yield f"launch_overhead/{kind}"


def _sensible_plan(section: Section, source: str) -> Plan:
    plan = SECTION_KINDS[section.kind].plan(section.settings)
    if isinstance(plan, BandwidthPlan):
        try:
            require_sense(plan)
        except ValueError as error:
            raise ConfigurationError(f"{source}: {section.title}: {error}") from None
    return plan


def _without_repeats(plan: Plan, measured: Container[str]) -> Plan:
    if isinstance(plan, LaunchPlan):
        new = (case.arguments for case in plan.cases() if case.id not in measured)
        return replace(plan, sets=tuple(dict.fromkeys(new)))

    new_kinds = {case.kind for case in plan.cases() if case.id not in measured}
    kinds = tuple(kind for kind in plan.kinds if kind in new_kinds)
    if isinstance(plan, LatencyPlan):
        return replace(plan, kinds=kinds)
    return replace(
        plan,
        kinds=kinds,
        directions=tuple(way for way in plan.directions if way != LOCAL or "device" in new_kinds),
    )
