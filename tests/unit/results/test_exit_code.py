"""The exit codes of design 6, as a table."""

from dataclasses import replace

import pytest

from cudabw.results.exit_code import exit_code
from cudabw.results.limits import Bound, LimitResult, LimitState
from cudabw.results.model import CaseResult, Rate, RunError, RunResult, State

OK, UNSUPPORTED, REFUSED, FAILED = State.OK, State.UNSUPPORTED, State.REFUSED, State.FAILED
WRONG, SUSPECT = State.WRONG_DATA, State.SUSPECT
SHAKY = (State.UNCONVERGED, State.UNSTABLE, State.THROTTLED)
PASS, FAIL, CANNOT_TELL = LimitState
ORDER = (130, 143, 5, 2, 1, 3, 4)


def run_result(*cases, error_code=None):
    """A run of cases, each a state or a state and whether it was asked for by name."""
    results = []
    for state, named in (case if isinstance(case, tuple) else (case, False) for case in cases):
        rate = Rate(1.0, None, None, 1.0, 1.0) if state.measured else None
        reason = None if state is OK else "because"
        results.append(
            CaseResult("id", "bandwidth", "pinned", "driver", "h2d", 1, state, reason, named, rate_bytes_per_s=rate)
        )
    error = None if error_code is None else RunError("Type", "message", "", error_code)
    return RunResult(("bandwidth",), "", "", cases=tuple(results), error=error)


@pytest.mark.parametrize(
    ("cases", "code"),
    [
        ([OK, OK], 0),
        ([(OK, True)], 0),
        ([], 4),
        # What the default or --all merely includes does not count, unless nothing is left.
        ([OK, REFUSED, UNSUPPORTED], 0),
        ([REFUSED], 4),
        ([UNSUPPORTED, REFUSED], 4),
        # What was named does.
        ([OK, (REFUSED, True)], 4),
        ([OK, (UNSUPPORTED, True)], 4),
        ([OK, FAILED], 1),
        ([OK, WRONG], 1),
        ([OK, WRONG, (REFUSED, True)], 1),
        ([OK, SUSPECT], 1),
        ([FAILED, (UNSUPPORTED, True)], 1),
        # A figure that is shown is there, whatever it is worth.
        *(([(state, True)], 0) for state in SHAKY),
        *(([state, (REFUSED, True)], 4) for state in SHAKY),
    ],
)
def test_the_states_of_the_cases_decide(cases, code):
    assert exit_code(run_result(*cases)) == code


@pytest.mark.parametrize("state", SHAKY)
@pytest.mark.parametrize("named", [False, True])
def test_strictly_a_figure_that_is_not_simply_ok_is_missing_whoever_asked_for_it(state, named):
    assert exit_code(run_result(OK, (state, named)), strict=True) == 4
    assert exit_code(run_result(FAILED, (state, named)), strict=True) == 1


@pytest.mark.parametrize("cases", [[OK, OK], [OK, REFUSED], [OK, (OK, True)]])
def test_strictly_everything_else_is_as_before(cases):
    assert exit_code(run_result(*cases), strict=True) == 0


@pytest.mark.parametrize("error_code", ORDER)
def test_an_error_of_the_whole_run_brings_its_own_code(error_code):
    assert exit_code(run_result(error_code=error_code)) == error_code
    assert exit_code(run_result(OK, error_code=error_code)) == error_code


def with_limits(result, *states):
    limits = (
        LimitResult("*", None, Bound.MIN_RATE, 1.0, state, None if state is LimitState.PASS else "because")
        for state in states
    )
    return replace(result, limits=tuple(limits))


@pytest.mark.parametrize(
    ("states", "code"), [([PASS, PASS], 0), ([PASS, FAIL], 3), ([CANNOT_TELL], 3), ([CANNOT_TELL, FAIL], 3)]
)
def test_a_limit_that_does_not_pass_is_the_runs_result(states, code):
    assert exit_code(with_limits(run_result(OK), *states)) == code


@pytest.mark.parametrize("error_code", ORDER)
def test_a_limit_stands_in_the_documented_order(error_code):
    missed = with_limits(run_result(OK, error_code=error_code), FAIL)
    assert exit_code(missed) == min(error_code, 3, key=ORDER.index)
    assert exit_code(with_limits(run_result(OK, (REFUSED, True)), FAIL)) == 3
    assert exit_code(with_limits(run_result(OK, WRONG), FAIL)) == 1


@pytest.mark.parametrize("error_code", ORDER)
@pytest.mark.parametrize("cases", [[OK, FAILED], [OK, WRONG], [OK, (REFUSED, True)]])
def test_of_several_the_first_in_the_documented_order_wins(cases, error_code):
    of_cases = exit_code(run_result(*cases))
    assert exit_code(run_result(*cases, error_code=error_code)) == min(error_code, of_cases, key=ORDER.index)


def test_an_error_with_a_code_of_no_table_is_still_a_failure():
    assert exit_code(run_result(OK, error_code=77)) == 1
