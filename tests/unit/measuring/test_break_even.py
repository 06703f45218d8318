"""After how many copies pinning has paid, from results made by hand."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.measuring.break_even import LEAST_SAVING, break_evens
from cudabw.results.launch import Seconds
from cudabw.results.model import CaseResult, Pages, Rate, RunResult, State
from cudabw.results.setup_cost import BreakEven, Change, Repaid, SetupCase

SIZE = 1 << 20


def copy(kind, seconds, *, spread=0.0, engine="driver", direction="h2d", size=SIZE, state=State.OK):
    rate = size / seconds
    known = spread is not None
    ends = (size / (seconds * (1 + spread)), size / (seconds * (1 - spread))) if known else (None, None)
    return CaseResult(
        id=f"bandwidth/{kind}/{engine}/{direction}/{size}",
        benchmark="bandwidth",
        kind=kind,
        engine=engine,
        direction=direction,
        size_bytes=size,
        state=state,
        reason=None if state is State.OK else "no",
        rate_bytes_per_s=Rate(rate, *ends, rate, rate) if state is State.OK else None,
    )


def over(seconds, spread):
    ends = (None, None) if spread is None else (seconds * (1 - spread), seconds * (1 + spread))
    return Seconds(seconds, *ends, seconds, seconds)


def setup(kind, total, *, registration=None, spread=0.0, size=SIZE, state=State.OK):
    ok = state is State.OK
    return SetupCase(
        id=f"setup-cost/{kind}/{size}",
        benchmark="setup_cost",
        kind=kind,
        size_bytes=size,
        state=state,
        reason=None if ok else "no",
        registration_s=over(registration, spread) if registration is not None else None,
        total_s=over(total, spread) if ok else None,
    )


def found(*cases):
    return break_evens(RunResult(("bandwidth",), "2026-01-02T03:04:05Z", "1.0", cases=cases))


PAGEABLE = (setup("pageable", 2e-3), copy("pageable", 1e-3))


def test_what_it_costs_more_is_repaid_by_what_each_copy_takes_less():
    cases = (*PAGEABLE, setup("pinned", 6.5e-3), copy("pinned", 0.6e-3))
    assert found(*cases) == (
        BreakEven("pinned", "driver", "h2d", SIZE, Change.ALLOCATE, Repaid.AFTER, copies=12, fewest=12, most=12),
    )


def test_registering_memory_that_is_there_costs_pinning_and_unpinning_alone():
    cases = (*PAGEABLE, setup("registered", 9e-3, registration=1e-3), copy("registered", 0.6e-3))
    assert found(*cases) == (
        BreakEven("registered", "driver", "h2d", SIZE, Change.REGISTER, Repaid.AFTER, copies=3, fewest=3, most=3),
    )
    # Nothing has to be known of what the memory itself cost.
    assert found(*cases[1:])[0].copies == 3


def test_the_number_lies_between_the_ends_of_all_intervals():
    (one,) = found(
        setup("pageable", 2e-3, spread=0.1),
        copy("pageable", 1e-3, spread=0.1),
        setup("pinned", 6.5e-3, spread=0.1),
        copy("pinned", 0.6e-3, spread=0.1),
    )
    # (6.5 - 2.0) / (1.0 - 0.6); (5.85 - 2.2) / (1.1 - 0.54); (7.15 - 1.8) / (0.9 - 0.66)
    assert (one.copies, one.fewest, one.most) == (12, 7, 23)


def test_memory_that_costs_no_more_pays_at_once():
    (one,) = found(*PAGEABLE, setup("pinned", 1e-3), copy("pinned", 0.6e-3))
    assert (one.repaid, one.copies, one.fewest, one.most) == (Repaid.AFTER, 0, 0, 0)


@pytest.mark.parametrize(
    ("seconds", "spread", "repaid"),
    [
        (1.5e-3, 0.0, Repaid.NEVER),
        (1e-3 * (1 - LEAST_SAVING / 2), 0.0, Repaid.NEVER),
        (0.9e-3, 0.2, Repaid.UNKNOWN),
        (1.1e-3, 0.2, Repaid.UNKNOWN),
        (0.5e-3, None, Repaid.UNKNOWN),
        (1.5e-3, None, Repaid.UNKNOWN),
        (0.5e-3, 0.2, Repaid.AFTER),
    ],
)
def test_copies_that_are_no_faster_never_pay_and_what_intervals_leave_open_is_not_known(seconds, spread, repaid):
    pageable = copy("pageable", 1e-3, spread=spread)
    (one,) = found(PAGEABLE[0], pageable, setup("pinned", 6.5e-3), copy("pinned", seconds, spread=spread))
    assert one.repaid is repaid
    assert (one.copies is None) == (repaid is not Repaid.AFTER)


def test_a_cost_from_a_single_trial_is_no_ground_for_a_number():
    (one,) = found(*PAGEABLE, setup("pinned", 6.5e-3, spread=None), copy("pinned", 0.6e-3))
    assert (one.repaid, one.copies) == (Repaid.UNKNOWN, None)


def test_each_direction_and_size_has_its_own_and_the_fastest_engine_counts():
    cases = (
        *(copy("pageable", 1e-3, direction=way) for way in ("h2d", "d2h")),
        copy("pageable", 0.1e-3, engine="staged"),
        copy("pageable", 1e-3, size=2 * SIZE),
        setup("pageable", 2e-3),
        setup("mapped", 6.5e-3),
        setup("mapped", 9e-3, size=2 * SIZE),
        copy("mapped", 0.6e-3),
        copy("mapped", 0.5e-3, engine="kernel"),
        copy("mapped", 0.8e-3, direction="d2h"),
        copy("mapped", 0.5e-3, size=2 * SIZE),
    )
    assert [(one.engine, one.direction, one.size_bytes, one.copies) for one in found(*cases)] == [
        ("kernel", "h2d", SIZE, 9),
        ("driver", "d2h", SIZE, 23),
    ]


def test_only_the_usual_pages_are_what_pinned_memory_is_compared_with():
    slow = replace(copy("pageable", 9.0), pages=Pages.FIRST_TOUCH)
    (one,) = found(slow, *PAGEABLE, setup("pinned", 6.5e-3), copy("pinned", 0.6e-3))
    assert one.copies == 12


def test_each_numa_node_has_its_own():
    far = [replace(one, numa_node=0) for one in (copy("pageable", 2e-3), copy("pinned", 0.5e-3))]
    near = [replace(one, numa_node=1) for one in (copy("pageable", 1e-3), copy("pinned", 0.6e-3))]
    assert [(one.numa_node, one.copies) for one in found(PAGEABLE[0], *far, *near, setup("pinned", 6.5e-3))] == [
        (0, 3),
        (1, 12),
    ]


@pytest.mark.parametrize(
    "cases",
    [
        (*PAGEABLE, copy("pinned", 0.6e-3)),
        (*PAGEABLE, setup("pinned", 6e-3)),
        (*PAGEABLE, setup("pinned", 0, state=State.REFUSED), copy("pinned", 0.6e-3)),
        (*PAGEABLE, setup("pinned", 6e-3), copy("pinned", 0.6e-3, state=State.WRONG_DATA)),
        (PAGEABLE[0], setup("pinned", 6e-3), copy("pinned", 0.6e-3)),
        (PAGEABLE[1], setup("pinned", 6e-3), copy("pinned", 0.6e-3)),
        (*PAGEABLE, setup("managed", 6e-3), copy("managed", 0.6e-3)),
        PAGEABLE,
    ],
)
def test_without_all_four_figures_there_is_nothing_to_say(cases):
    assert found(*cases) == ()


@given(st.floats(1e-6, 1), st.floats(0, 10), st.floats(1e-6, 1e-2), st.floats(0.01, 0.99), st.floats(0, 0.001))
def test_after_that_many_copies_pinned_memory_has_taken_no_longer_in_all(base, extra, pageable, share, spread):
    (one,) = found(
        setup("pageable", base, spread=spread),
        copy("pageable", pageable, spread=spread),
        setup("pinned", base + extra, spread=spread),
        copy("pinned", pageable * share, spread=spread),
    )
    assert one.repaid is Repaid.AFTER
    assert one.fewest <= one.copies <= one.most
    saved = one.copies * (pageable - pageable * share)
    assert saved >= extra * (1 - 1e-9) - 1e-12
    assert math.isclose(saved, extra, abs_tol=pageable)
