"""Annotations for GitHub Actions: exact lines."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.report.annotations import MOST, run_annotations, slower_annotations
from cudabw.results.compare import Change, Reason, Verdict
from cudabw.results.limits import Bound, LimitResult, LimitState
from cudabw.results.model import CaseResult, Rate, RunError, RunResult, State

MISSES = "the whole interval misses the limit"


def case(state, reason=None, *, named=False, kind="pinned"):
    rate = Rate(1.0, None, None, 1.0, 1.0) if state.measured else None
    name = f"bandwidth/{kind}/driver/h2d/4096"
    return CaseResult(name, "bandwidth", kind, "driver", "h2d", 4096, state, reason, named=named, rate_bytes_per_s=rate)


def run_result(*cases, limits=(), error=None):
    return RunResult(("run", "x"), "", "1", cases=cases, limits=limits, error=error)


def limit(state, reason=None, of="bandwidth/pinned/driver/h2d/4096", median=50e9):
    ends = (None, None) if median is None else (49e9, 51e9)
    return LimitResult("a/*", of, Bound.MIN_RATE, 52e9, state, reason, median, *ends)


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        (run_result(case(State.OK), limits=(limit(LimitState.PASS),)), []),
        # What neither failed nor was asked for is nobody's error.
        (run_result(case(State.OK), case(State.REFUSED, "no room", kind="mapped")), []),
        (
            run_result(case(State.REFUSED, "no room", named=True), case(State.WRONG_DATA, "byte 7", kind="mapped")),
            [
                "::error title=mapped h2d 4 KiB%3A wrong data::byte 7",
                "::error title=pinned h2d 4 KiB%3A refused::no room",
            ],
        ),
        (
            run_result(
                case(State.OK),
                limits=(
                    limit(LimitState.CANNOT_TELL, "matches no case with a rate", of=None, median=None),
                    limit(LimitState.FAIL, MISSES),
                ),
            ),
            [
                (
                    "::error title=Limit not met%3A pinned h2d 4 KiB::Rate in GB/s, at least 52.00; measured: 50.00 "
                    "(49.00 to 51.00); the whole interval misses the limit."
                ),
                (
                    "::error title=Limit cannot be told%3A a/*::Rate in GB/s, at least 52.00; measured: no figure; "
                    "matches no case with a rate."
                ),
            ],
        ),
        (
            run_result(error=RunError("NoDriverError", "no driver: 100 %", "Install, please.\nThen retry.", 5)),
            ["::error title=The run ended early::no driver: 100 %25. Install, please.%0AThen retry."],
        ),
        (
            run_result(error=RunError("Interrupted", "interrupted", "", 130)),
            ["::error title=The run ended early::interrupted."],
        ),
    ],
)
def test_each_cause_of_a_failing_step_is_one_line(result, lines):
    assert run_annotations(result) == lines


def test_a_figure_that_is_not_simply_ok_is_an_error_only_strictly():
    result = run_result(case(State.OK), case(State.UNCONVERGED, "too wide", kind="mapped"))
    assert run_annotations(result) == []
    assert run_annotations(result, strict=True) == ["::error title=mapped h2d 4 KiB%3A unconverged::too wide"]


def test_a_rate_above_the_ceiling_is_an_error():
    assert run_annotations(run_result(case(State.SUSPECT, "too fast"))) == [
        "::error title=pinned h2d 4 KiB%3A suspect::too fast"
    ]


def test_of_more_than_github_shows_the_last_says_how_many():
    failed = [case(State.FAILED, f"reason {number}") for number in range(MOST + 3)]
    assert len(run_annotations(run_result(*failed[:MOST]))) == MOST
    lines = run_annotations(run_result(*failed))
    assert lines[-2:] == [
        "::error title=pinned h2d 4 KiB%3A failed::reason 8",
        "::error title=And more::4 more; the summary has all of them.",
    ]
    assert len(lines) == MOST


@given(st.text())
def test_whatever_a_reason_says_the_line_stays_one_command(reason):
    (line,) = run_annotations(run_result(case(State.FAILED, reason)))
    assert not set(line) & {"\r", "\n"}
    _, title, data = line.split("::", 2)
    assert title == "error title=pinned h2d 4 KiB%3A failed"
    # Each % stands before what it escapes, so GitHub gives the reason back as it was.
    assert re.sub("%(25|0D|0A)", lambda found: chr(int(found[1], 16)), data) == reason


def test_a_slower_case_is_named_with_what_is_left_of_its_speed():
    states = (State.OK,), State.OK
    judged = Verdict.SLOWER, Reason.BEYOND_MARGIN, 0.95, 0.94, 0.96
    slower = Change("i", "pinned, h2d", "bytes/s", 2.0, 1.9, *states, *judged)
    assert slower_annotations([slower]) == ["::error title=Slower%3A pinned%2C h2d::95.0%25 of its earlier speed"]
