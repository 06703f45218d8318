"""The contract of a case's result."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.results.launch import LaunchCase, Mode, Seconds
from cudabw.results.model import CaseResult, Rate, State

RATE = Rate(median=1.0, low=None, high=None, min=1.0, max=1.0)
TIME = Seconds(median=1.0, low=None, high=None, min=1.0, max=1.0)
MEASURED = {State.OK, State.UNCONVERGED, State.UNSTABLE, State.THROTTLED}


def copied(state, reason, *, measured):
    rate = RATE if measured else None
    return CaseResult("id", "bandwidth", "pinned", "driver", "h2d", 1, state, reason, rate_bytes_per_s=rate)


def launched(state, reason, *, measured):
    time = TIME if measured else None
    return LaunchCase("id", "launch_overhead", "buffer", 1, Mode.BARE, state, reason, submit_s=time)


@given(
    make=st.sampled_from([copied, launched]),
    state=st.sampled_from(State),
    measured=st.booleans(),
    reason=st.none() | st.text(),
)
def test_a_figure_belongs_to_what_was_measured_and_a_reason_to_all_but_ok(make, state, measured, reason):
    if measured == (state in MEASURED) and (reason is None) == (state is State.OK):
        assert make(state, reason, measured=measured).state is state
    else:
        with pytest.raises(ValueError, match=r"case id: a (rate|time|reason) belongs to"):
            make(state, reason, measured=measured)


def test_what_is_above_the_ceiling_failed_or_wrong_is_not_measured():
    assert {state for state in State if state.measured} == MEASURED
