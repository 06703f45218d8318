"""What goes with what, and what a plan means."""

import re

import pytest

from cudabw.benchmarks.bandwidth_plan import (
    CELLS,
    ENGINES,
    KINDS,
    BandwidthCase,
    BandwidthPlan,
    Staging,
    require_sense,
)
from cudabw.results.model import Pages

MIB = 1 << 20


def plan(*kinds, **settings):
    return BandwidthPlan(kinds or ("pinned",), **{"sizes": (4096,), "trials": 1} | settings)


def cells(wanted):
    return [(case.kind, case.engine, case.direction) for case in wanted.cases()]


def test_the_cases_of_a_plan_are_in_the_order_of_the_table():
    cases = plan("pinned", "mapped", sizes=(2, 1), named=frozenset({"mapped"})).cases()
    assert [(case.kind, case.size_bytes, case.direction, case.named) for case in cases] == [
        (kind, size, way, kind == "mapped")
        for kind in ("pinned", "mapped")
        for size in (2, 1)
        for way in ("h2d", "d2h")
    ]


def test_a_case_has_a_stable_name_and_one_for_people():
    case = BandwidthCase("write-combined", "d2h", 3 * MIB)
    assert case.id == "bandwidth/write-combined/driver/d2h/3145728"
    assert case.label == "write-combined d2h 3 MiB"
    staged = BandwidthCase("pageable", "d2h", 3 * MIB, engine="staged")
    assert staged.id == "bandwidth/pageable/staged/d2h/3145728"
    assert staged.label == "pageable staged d2h 3 MiB"
    assert BandwidthCase("pinned", "h2d", MIB, node=1).id == "bandwidth/pinned/driver/h2d/1048576/node1"
    assert BandwidthCase("pinned", "h2d", MIB, node=1).label == "pinned h2d 1 MiB node 1"
    assert BandwidthCase("pinned", "h2d", MIB, node="auto").id == "bandwidth/pinned/driver/h2d/1048576/node-auto"


def test_each_size_of_host_memory_is_a_case_on_each_node_and_device_memory_is_on_none():
    cases = plan("pinned", sizes=(1, 2), directions=("h2d", "d2h", "d2d"), nodes=(0, 1)).cases()
    assert [(case.kind, case.size_bytes, case.node, case.direction) for case in cases] == [
        *(("pinned", size, node, way) for size in (1, 2) for node in (0, 1) for way in ("h2d", "d2h")),
        *(("device", size, None, "d2d") for size in (1, 2)),
    ]


def test_a_node_without_host_memory_makes_no_sense():
    require_sense(plan(nodes=(0,), directions=("h2d", "d2d")))
    with pytest.raises(ValueError, match="a NUMA node is for host memory, of which nothing is chosen"):
        require_sense(plan(nodes=(0,), directions=("d2d",)))


def test_states_of_pages_are_cases_of_pageable_memory_beside_the_usual_ones():
    wanted = plan("pageable", "pinned", engines=("driver", "staged"), pages=(Pages.FIRST_TOUCH, Pages.HUGE))
    assert [(case.kind, case.pages, case.engine, case.direction, case.named) for case in wanted.cases()] == [
        *(("pageable", "warm", engine, way, False) for engine in ("driver", "staged") for way in ("h2d", "d2h")),
        *(("pageable", "first-touch", engine, "d2h", True) for engine in ("driver", "staged")),
        *(("pageable", "huge-pages", engine, way, True) for engine in ("driver", "staged") for way in ("h2d", "d2h")),
        *(("pinned", "warm", "driver", way, False) for way in ("h2d", "d2h")),
    ]
    assert len({case.id for case in wanted.cases()}) == 12
    fresh = BandwidthCase("pageable", "d2h", 3 * MIB, engine="staged", pages=Pages.FIRST_TOUCH)
    assert fresh.id == "bandwidth/pageable/staged/d2h/3145728/first-touch"
    assert fresh.label == "pageable first-touch staged d2h 3 MiB"


def test_mapped_memory_goes_by_the_kernel_and_all_other_by_the_driver_unless_an_engine_is_chosen():
    assert cells(plan(*KINDS, directions=("h2d",))) == [
        (kind, "kernel" if kind == "mapped" else "driver", "h2d") for kind in KINDS
    ]


@pytest.mark.parametrize(
    ("engines", "expected"),
    [
        (("driver",), [("pageable", "driver"), ("pinned", "driver"), ("mapped", "driver")]),
        (("staged", "kernel"), [("pageable", "staged"), ("mapped", "kernel")]),
        (
            ENGINES,
            [
                ("pageable", "driver"),
                ("pageable", "staged"),
                ("pinned", "driver"),
                ("mapped", "driver"),
                ("mapped", "kernel"),
            ],
        ),
    ],
)
def test_of_the_chosen_engines_each_kind_takes_those_that_it_has(engines, expected):
    wanted = plan("pageable", "pinned", "mapped", directions=("d2h",), engines=engines)
    assert cells(wanted) == [(*cell, "d2h") for cell in expected]


def test_the_cases_of_an_engine_that_is_asked_for_by_name_are_named_but_for_the_driver():
    asked = plan("pageable", "mapped", engines=ENGINES, named=frozenset({"driver", "kernel"}))
    assert {case.engine for case in asked.cases() if case.named} == {"kernel"}


def test_how_to_stage_is_of_the_staged_cases_alone():
    asked = plan("pageable", engines=ENGINES, staging=Staging(threads=3))
    assert {case.engine: case.staging for case in asked.cases()} == {"driver": None, "staged": Staging(threads=3)}


def test_every_kind_goes_by_the_driver():
    assert all("driver" in engines for engines in CELLS.values())


def test_device_memory_comes_beside_the_kinds_where_local_copies_are_asked_for():
    assert cells(plan("pinned", directions=("h2d", "d2d"))) == [
        ("pinned", "driver", "h2d"),
        ("device", "driver", "d2d"),
    ]
    assert cells(plan("pinned", directions=("d2d",))) == [("device", "driver", "d2d")]


def test_both_directions_at_once_are_of_the_driver_and_of_memory_that_it_copies_without_the_host():
    assert cells(plan(*KINDS, directions=("bidirectional",))) == [
        (kind, "driver", "bidirectional") for kind in ("pinned", "mapped", "write-combined", "registered")
    ]


# What makes no sense


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (
            plan("pinned", engines=("kernel",), named=frozenset({"kernel", "pinned"})),
            "kernel goes with none of the other choices: it copies mapped memory (h2d, d2h)",
        ),
        (
            plan("pageable", "pinned", engines=("staged",), named=frozenset({"pinned", "pageable", "staged"})),
            "pinned goes with none of the other choices: it is copied by driver (h2d, d2h, bidirectional)",
        ),
        (
            plan("pageable", "mapped", engines=("staged",), named=frozenset({"mapped"})),
            (
                "mapped goes with none of the other choices: it is copied by driver (h2d, d2h, bidirectional) "
                "or by kernel (h2d, d2h)"
            ),
        ),
        (
            plan("pinned", directions=("d2d",), named=frozenset({"pinned"})),
            "pinned goes with none of the other choices: it is copied by driver (h2d, d2h, bidirectional)",
        ),
        (
            plan("pageable", directions=("h2d", "d2d"), engines=("staged",), named=frozenset({"staged"})),
            "d2d goes with none of the other choices: it is for device memory by driver",
        ),
        (
            plan("pageable", directions=("h2d",), pages=(Pages.HUGE, Pages.FIRST_TOUCH)),
            "first-touch goes with none of the other choices: it is of pageable memory (d2h)",
        ),
        (
            plan("pinned", pages=(Pages.HUGE,)),
            "huge-pages goes with none of the other choices: it is of pageable memory (h2d, d2h)",
        ),
        (plan(staging=Staging(threads=2)), "threads and slot are of the staged engine, which is not chosen"),
        (
            plan("pageable", engines=("staged",), staging=Staging(slot=65535)),
            "a slot has 64 KiB or more, not 65535 B",
        ),
    ],
)
def test_what_goes_with_nothing_else_is_refused_with_what_it_goes_with(wanted, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        require_sense(wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        BandwidthPlan(),
        plan(*KINDS, engines=ENGINES, named=frozenset(ENGINES)),
        plan("pageable", "pinned", engines=("staged",), named=frozenset({"staged"})),
        plan("pageable", engines=("staged",), staging=Staging(slot=65536)),
    ],
)
def test_a_kind_that_nobody_named_may_be_left_out(wanted):
    require_sense(wanted)
