"""Fitted curves, the cost of memory and the states of its pages on a real GPU."""

import pytest

import cudabw
from cudabw.results.advice import MOST, advise
from cudabw.results.model import Pages, State
from cudabw.results.setup_cost import Change

pytestmark = pytest.mark.gpu

KINDS = ("pageable", "pinned", "mapped", "write-combined", "registered", "managed")
SIZE = 64 << 20
ON_THE_GPU = {"backend": "cuda", "trials": 3}


def test_memory_of_every_kind_is_set_up_in_steps_that_take_time_and_pinning_has_a_verdict():
    result = cudabw.measure_bandwidth(kinds=KINDS, sizes=[SIZE], setup_cost=True, **ON_THE_GPU)
    assert result.error is None
    assert [case.kind for case in result.setup_cases] == list(KINDS)
    for case in result.setup_cases:
        assert (case.state, len(case.trials)) == (State.OK, 3), case
        for trial in case.trials:
            steps = (trial.allocate_s, trial.touch_s, trial.free_s)
            assert all(step > 0 for step in steps)
            assert (trial.register_s is None) == (case.kind != "registered")
    assert {(one.kind, one.direction, one.change) for one in result.break_even} == {
        (kind, way, Change.REGISTER if kind == "registered" else Change.ALLOCATE)
        for kind in ("pinned", "mapped", "write-combined", "registered")
        for way in ("h2d", "d2h")
    }


@pytest.mark.parametrize("engine", ["driver", "staged"])
def test_other_states_of_pageable_memory_are_verified_or_refused_with_a_reason(engine):
    result = cudabw.measure_bandwidth(
        kinds=["pageable"], engines=[engine], sizes=[SIZE], first_touch=True, huge_pages=True, **ON_THE_GPU
    )
    assert result.error is None
    assert [(case.pages, case.direction) for case in result.bandwidth_cases] == [
        (Pages.WARM, "h2d"),
        (Pages.WARM, "d2h"),
        (Pages.FIRST_TOUCH, "d2h"),
        (Pages.HUGE, "h2d"),
        (Pages.HUGE, "d2h"),
    ]
    for case in result.bandwidth_cases:
        if case.state.measured:
            assert case.verified is True
        else:
            assert (case.pages, case.state) == (Pages.HUGE, State.UNSUPPORTED), case
            assert "huge pages" in case.reason
    (fresh,) = (case for case in result.bandwidth_cases if case.pages is Pages.FIRST_TOUCH)
    assert {trial.copies_per_batch for trial in fresh.trials} == {1}


def test_a_sweep_has_the_start_up_and_the_rate_of_pinned_copies_and_advice_of_a_few_lines():
    sizes = [4096 << (2 * step) for step in range(9)]
    result = cudabw.measure_bandwidth(kinds=["pageable", "pinned"], sizes=sizes, **ON_THE_GPU)
    # A curve of which some figures are unstable may be left out.
    curves = [(fit.kind, fit.direction) for fit in result.fits]
    assert curves
    assert set(curves) <= {(kind, way) for kind in ("pageable", "pinned") for way in ("h2d", "d2h")}
    for fit in result.fits:
        largest = next(
            case
            for case in result.bandwidth_cases
            if (case.kind, case.direction, case.size_bytes) == (fit.kind, fit.direction, sizes[-1])
        )
        if fit.rate_bytes_per_s is not None:
            off = fit.largest_residual
            assert largest.rate_bytes_per_s.median < fit.rate_bytes_per_s * (1 + 2 * off)
    assert len(advise(result)) <= MOST
