"""Two directions at once begin together, and each is timed on its own stream."""

import pytest

from cudabw.copying.driver_copy import PreparedCopy
from cudabw.driver.emulated import ModelledClock
from cudabw.errors import CudabwError, UnsupportedError
from cudabw.measuring.pairs import Pair, PairTimer
from cudabw.measuring.timing import MOST_QUEUED, Timing
from cudabw.results.model import Clock
from cudabw.runtime.gate import Gate
from cudabw.runtime.memory import DeviceBuffer, PinnedBuffer

NBYTES = 1 << 20


@pytest.fixture
def make_pair(make_device):
    def make(h2d=50e9, d2h=25e9, **model):
        device = make_device(clock=ModelledClock({"h2d": h2d, "d2h": d2h}, **model))
        up = PreparedCopy(DeviceBuffer(device, NBYTES), PinnedBuffer(device, NBYTES), device.stream())
        down = PreparedCopy(PinnedBuffer(device, NBYTES), DeviceBuffer(device, NBYTES), device.stream())
        return device, Pair(up, down)

    return make


@pytest.mark.parametrize("times", [1, 4, MOST_QUEUED])
def test_each_direction_has_its_time_and_the_total_is_that_of_both_rates_without_the_time_to_queue(make_pair, times):
    device, pair = make_pair(submit_s=1e-3)
    with Gate(device) as gate, PairTimer(device, gate) as timer:
        timing = timer.time(pair, times)
        assert not pair.first.stream.gates
        assert not pair.second.stream.gates
    parts = pytest.approx((NBYTES / 50e9, NBYTES / 25e9), rel=1e-4)
    assert timing == Timing(
        pytest.approx(NBYTES / 75e9, rel=1e-4), Clock.EVENT, gated=True, host_held=False, parts=parts
    )


class Counted:
    """Copies that note how many are submitted at a time."""

    repeatable = True

    def __init__(self, work):
        self.work, self.stream, self.submitted = work, work.stream, []

    def submit(self, times=1):
        self.submitted.append(times)
        self.work.submit(times)


@pytest.mark.parametrize("slow", ["h2d", "d2h"])
def test_the_faster_direction_goes_on_until_the_slower_one_has_been_timed(make_pair, slow):
    device, pair = make_pair(**{"h2d": 50e9, "d2h": 50e9, slow: 10e9})
    pair = Pair(Counted(pair.first), Counted(pair.second))
    with Gate(device) as gate, PairTimer(device, gate) as timer:
        timing = timer.time(pair, 4)
    assert sorted(timing.parts) == [pytest.approx(NBYTES / 50e9, rel=1e-4), pytest.approx(NBYTES / 10e9, rel=1e-4)]
    fast, late = (pair.second, pair.first) if slow == "h2d" else (pair.first, pair.second)
    assert late.submitted == [1, 4, 1] * 2
    assert fast.submitted[:3] == [1, 4, 1]
    # Five copies of the slow direction, to the end of those that are timed, last as long as 25 of the fast one.
    assert 25 <= sum(fast.submitted[3:]) <= 35


def test_the_link_is_read_once_while_both_run(make_pair):
    device, pair = make_pair(d2h=50e9)
    readings = []
    with Gate(device) as gate, PairTimer(device, gate, lambda: readings.append(1)) as timer:
        timer.time(pair, 4)
    assert readings == [1]


def test_without_a_gate_there_is_no_figure(make_pair):
    device, pair = make_pair()
    with PairTimer(device, None) as timer, pytest.raises(UnsupportedError, match="begin together behind a gate only"):
        timer.time(pair, 1)


def test_directions_that_do_not_run_at_the_same_time_have_no_figure(make_pair):
    # The first copy of the slow direction ends when all of the fast one's are long over.
    device, pair = make_pair(h2d=50e9, d2h=1e6)
    with (
        Gate(device) as gate,
        PairTimer(device, gate) as timer,
        pytest.raises(UnsupportedError, match="the two directions did not run at the same time"),
    ):
        timer.time(pair, 4)


def test_a_watchdog_that_opens_the_gate_too_early_is_an_error(make_pair):
    device, pair = make_pair()
    with Gate(device) as gate, PairTimer(device, gate, lambda: setattr(gate, "expired", True)) as timer:
        with pytest.raises(CudabwError, match="the gate's watchdog opened it"):
            timer.time(pair, 1)
        assert device.closed_gates == 0


def test_more_than_the_queue_holds_is_refused(make_pair):
    device, pair = make_pair()
    with (
        Gate(device) as gate,
        PairTimer(device, gate) as timer,
        pytest.raises(ValueError, match="does not surely fit"),
    ):
        timer.time(pair, MOST_QUEUED + 1)
