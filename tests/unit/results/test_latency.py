"""The contract of the results of small copies."""

from dataclasses import replace

import pytest

from cudabw.results.headline import Headline, Quantity, headline_of, label_of
from cudabw.results.latency import CopyTrial, LatencyCase, Pace, SmallCopiesCase, Way
from cudabw.results.launch import Seconds
from cudabw.results.model import State

TIME = Seconds(1.0, None, None, 1.0, 1.0)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("seconds", [None, TIME])
@pytest.mark.parametrize("reason", [None, "because"])
def test_a_time_belongs_to_what_was_measured_and_a_reason_to_all_but_ok(state, seconds, reason):
    def make():
        LatencyCase("id", "latency", "pinned", "h2d", 1, Pace.QUEUED, state, reason, seconds=seconds)
        SmallCopiesCase("id", "small_copies", "pinned", "h2d", 1, 2, Way.LOOP, state, reason, per_copy_s=seconds)

    if (seconds is not None, reason is None) == (state.measured, state is State.OK):
        make()
    else:
        with pytest.raises(ValueError, match=r"case id: a (time|reason) belongs to"):
            make()


@pytest.mark.parametrize(
    ("case", "label"),
    [
        (
            LatencyCase("id", "latency", "pinned", "h2d", 64, Pace.END_TO_END, State.OK, seconds=TIME),
            "pinned h2d 64 B end to end",
        ),
        (
            SmallCopiesCase("id", "small_copies", "pageable", "d2h", 4096, 9, Way.LOOP, State.OK, per_copy_s=TIME),
            "pageable d2h 9 x 4 KiB loop",
        ),
    ],
)
def test_the_headline_of_a_small_copy_is_its_time(case, label):
    trials = (CopyTrial(5, (1.0, 2.0), (0.5, 0.5)), CopyTrial(5, (3.0,), (0.5,)))
    assert headline_of(case) is None
    assert headline_of(replace(case, trials=trials)) == Headline(Quantity.TIME, 1.0, ((1.0, 2.0), (3.0,)))
    assert label_of(case) == label
