"""What the clock can tell of the main figure of a case."""

import pytest

from cudabw.results.headline import headline_of
from cudabw.results.latency import CopyTrial, LatencyCase, Pace, SmallCopiesCase, Way
from cudabw.results.launch import Counts, LaunchCase, LaunchTrial, Mode, Seconds
from cudabw.results.model import CaseResult, Rate, State, Trial

TIME = Seconds(2e-6, None, None, 1e-6, 3e-6)
TURNS = (CopyTrial(10, (2e-6,)), CopyTrial(5, (2e-6,)))
ONE = ("id", "latency", "pinned", "h2d", 64)


def copies(tick_s, *per_batch, rate=1e9):
    """A case of 2000 bytes: a copy takes 2 us."""
    trials = tuple(Trial(number, (2e-6,)) for number in per_batch)
    return CaseResult("id", "bandwidth", "managed", "driver", "h2d", 2000, State.OK, tick_s=tick_s,
                      rate_bytes_per_s=Rate(rate, None, None, 1.0, 1.0), trials=trials)  # fmt: skip


@pytest.mark.parametrize(
    ("case", "tick"),
    [
        (copies(1e-6, 1), 0.5),
        # Of trials whose batches differ, the shortest tells least.
        (copies(1e-6, 100, 50), 0.01),
        (copies(0.0, 1), 0.0),
        (copies(None, 1), 0.0),
        # The clock sees all queued copies of a batch, and of turns one.
        (LatencyCase(*ONE, Pace.QUEUED, State.OK, seconds=TIME, tick_s=1e-6, trials=TURNS), 0.1),
        (LatencyCase(*ONE, Pace.END_TO_END, State.OK, seconds=TIME, tick_s=1e-6, trials=TURNS), 0.5),
        (
            SmallCopiesCase("id", "small_copies", "pinned", "h2d", 64, 50, Way.LOOP, State.OK, per_copy_s=TIME,
                            tick_s=1e-6, trials=TURNS),
            0.01,
        ),
        # No tick is stated.
        (
            LaunchCase("id", "launch_overhead", "buffer", 4, Mode.BARE, State.OK, submit_s=TIME,
                       trials=(LaunchTrial(10, (2e-6,), (2e-6,), (2e-6,), None, Counts(10)),)),
            0.0,
        ),
        # Of files that were made by hand.
        (copies(1e-6, 0), 0.5),
        (copies(1e-6, 1, rate=0.0), 0.0),
    ],
)  # fmt: skip
def test_the_tick_is_a_share_of_what_the_clock_sees_as_one(case, tick):
    assert headline_of(case).tick == pytest.approx(tick)
