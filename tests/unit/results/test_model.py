"""The contract of a case's result."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.results.model import CaseResult, Rate, State

RATE = Rate(median=1.0, low=None, high=None, min=1.0, max=1.0)


@given(state=st.sampled_from(State), rate=st.sampled_from([None, RATE]), reason=st.none() | st.text())
def test_a_rate_belongs_to_ok_alone_and_a_reason_to_all_others(state, rate, reason):
    def make():
        return CaseResult("id", "bandwidth", "pinned", "driver", "h2d", 1, state, reason, rate_bytes_per_s=rate)

    holds = (rate is not None and reason is None) if state is State.OK else (rate is None and reason is not None)
    if holds:
        assert make().state is state
    else:
        with pytest.raises(ValueError, match=r"case id: a (rate|reason) belongs to"):
            make()
