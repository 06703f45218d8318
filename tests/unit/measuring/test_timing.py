"""A batch takes exactly what the modelled clock says, by the clock that the row names."""

import math
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.copying.driver_copy import PreparedCopy
from cudabw.copying.prefetch import PreparedPrefetch
from cudabw.driver.emulated import Fault
from cudabw.driver.emulated.clock import ModelledClock
from cudabw.errors import CudabwError, DriverError
from cudabw.measuring.timing import MOST_QUEUED, BatchTimer, Once, Timing, choose_times, gate_for
from cudabw.results.model import Clock
from cudabw.runtime.gate import Gate
from cudabw.runtime.memory import DeviceBuffer, ManagedBuffer, PageableBuffer, PinnedBuffer

NBYTES = 1 << 20
RATES = {"h2d": 50e9, "d2h": 25e9, "h2d/pageable": 8e9, "h2d/managed": 20e9}
SUBMIT_S = 1e-3  # far longer than a copy, so that queueing would show


class Rig:
    """A device on a modelled clock with one stream, one gate and work to time."""

    def __init__(self, device):
        self.device = device
        self.stream = device.stream()
        self.gate = Gate(device)

    def copy(self, host=PinnedBuffer, *, to_device=True):
        buffers = DeviceBuffer(self.device, NBYTES), host(self.device, NBYTES)
        return PreparedCopy(*(buffers if to_device else buffers[::-1]), self.stream)

    def timer(self, *arguments, gated=True):
        return BatchTimer(self.device, self.gate if gated else None, *arguments)

    def close(self):
        self.gate.close()
        self.stream.close()


@pytest.fixture
def make_rig(make_device):
    rigs = []

    def make(faults=(), **model):
        rigs.append(Rig(make_device(clock=ModelledClock(RATES, **model), faults=faults)))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()


def test_work_that_is_the_same_only_once_is_neither_warmed_up_nor_changed(make_rig):
    rig = make_rig()
    copy = rig.copy(PageableBuffer)
    done = []
    once = Once(copy)
    once.submit = lambda times=1: (done.append(times), copy.submit(times))
    assert (once.stream, once.holds_host, once.repeatable, once.work) == (copy.stream, True, False, copy)
    with rig.timer() as timer:
        assert timer.time(once, 1).seconds == pytest.approx(NBYTES / RATES["h2d/pageable"])
    assert done == [1]


@pytest.mark.parametrize("times", [1, 7, MOST_QUEUED])
@pytest.mark.parametrize(("to_device", "rate"), [(True, 50e9), (False, 25e9)])
def test_a_gated_batch_takes_what_its_copies_take_and_not_what_queueing_takes(make_rig, times, to_device, rate):
    rig = make_rig(submit_s=SUBMIT_S)
    with rig.timer() as timer:
        timing = timer.time(rig.copy(to_device=to_device), times)
    assert timing == Timing(pytest.approx(NBYTES / rate, rel=1e-6), Clock.EVENT, gated=True, host_held=False)


def test_the_latency_of_each_copy_is_in_the_batch(make_rig):
    rig = make_rig(latency_s=2e-6)
    with rig.timer() as timer:
        assert timer.time(rig.copy(), 10).seconds == pytest.approx(2e-6 + NBYTES / 50e9, rel=1e-6)


def test_without_a_gate_queueing_is_in_the_interval_and_the_timing_says_so(make_rig):
    rig = make_rig(submit_s=SUBMIT_S)
    with rig.timer(gated=False) as timer:
        timing = timer.time(rig.copy(), 10)
    # From the submission of the start event to that of the end event, with ten copies between.
    assert timing == Timing(pytest.approx(11 * SUBMIT_S / 10, rel=1e-6), Clock.EVENT, gated=False, host_held=True)


def test_without_a_gate_long_copies_hide_their_queueing(make_rig):
    rig = make_rig(submit_s=1e-9)
    with rig.timer(gated=False) as timer:
        assert timer.time(rig.copy(), 10).seconds == pytest.approx(NBYTES / 50e9, rel=1e-6)


@pytest.mark.parametrize("times", [1, 8])
def test_work_that_holds_the_host_is_timed_by_the_hosts_clock_with_its_submission(make_rig, times):
    rig = make_rig(submit_s=SUBMIT_S)
    with rig.timer() as timer:
        timing = timer.time(rig.copy(PageableBuffer), times)
    assert timing == Timing(pytest.approx(SUBMIT_S + NBYTES / 8e9, rel=1e-9), Clock.HOST, gated=False, host_held=True)


def test_the_hosts_interval_ends_when_the_work_is_done_though_the_driver_returned_early(make_rig):
    rig = make_rig()
    work = rig.copy()
    work.holds_host = True
    with rig.timer() as timer:
        assert timer.time(work, 4) == Timing(
            pytest.approx(NBYTES / 50e9, rel=1e-9), Clock.HOST, gated=False, host_held=False
        )


def test_earlier_work_of_the_stream_is_not_in_the_hosts_interval(make_rig):
    rig = make_rig()
    earlier, pageable = rig.copy(), rig.copy(PageableBuffer)
    pageable.repeatable = False  # nothing else then waits before the interval
    earlier.submit(times=100)
    with rig.timer() as timer:
        assert timer.time(pageable, 2).seconds == pytest.approx(NBYTES / 8e9, rel=1e-9)


def test_earlier_work_of_the_stream_is_not_in_the_events_interval(make_rig):
    rig = make_rig()
    rig.copy(to_device=False).submit(times=100)
    with rig.timer() as timer:
        assert timer.time(rig.copy(), 2).seconds == pytest.approx(NBYTES / 50e9, rel=1e-6)


@pytest.mark.parametrize("holding", [True, False], ids=["host clock", "events"])
def test_work_that_can_be_repeated_runs_once_before_the_interval_and_other_work_does_not(make_rig, holding):
    rig = make_rig()
    submitted = []

    class Spy:
        stream, holds_host = rig.stream, holding

        def __init__(self, *, repeatable):
            self.repeatable = repeatable

        def submit(self, times=1):
            submitted.append(times)

    with rig.timer() as timer:
        timer.time(Spy(repeatable=True), 5)
        timer.time(Spy(repeatable=False), 5)
    assert submitted == [1, 5, 5]


def test_a_prefetch_is_timed_by_the_move_itself(make_rig):
    rig = make_rig(submit_s=SUBMIT_S)
    work = PreparedPrefetch(ManagedBuffer(rig.device, NBYTES), rig.stream, to_device=True)
    with rig.timer() as timer:
        first, second = (timer.time(work, 1) for _ in range(2))
    assert first == Timing(pytest.approx(NBYTES / 20e9, rel=1e-6), Clock.EVENT, gated=True, host_held=False)
    assert second.seconds == 0.0


@pytest.mark.parametrize("gated", [True, False])
def test_readings_that_need_traffic_are_taken_once_while_the_batch_runs(make_rig, gated):
    rig = make_rig()
    seen = []
    work = rig.copy()

    def read():
        seen.append((rig.stream.gates, rig.device.closed_gates, work.dst.ownership.dirty))

    with rig.timer(read, gated=gated) as timer:
        timer.time(work, 3)
        timer.time(rig.copy(PageableBuffer), 3)
    assert seen == [(set(), 0, True)]


@pytest.mark.parametrize("times", [MOST_QUEUED + 1, 10**9])
@pytest.mark.parametrize("host", [PinnedBuffer, PageableBuffer])
def test_a_batch_that_might_not_fit_the_launch_queue_is_refused(make_rig, times, host):
    rig = make_rig()
    work = rig.copy(host)
    with rig.timer() as timer, pytest.raises(ValueError, match="launch queue") as refusal:
        timer.time(work, times)
    assert str(refusal.value) == f"a batch of {times} does not surely fit the launch queue; at most 256"
    assert rig.stream.submitted == 0


def test_a_batch_whose_gate_expired_is_no_measurement(make_rig, monkeypatch):
    rig = make_rig()
    work, submit, fired = rig.copy(), PreparedCopy.submit, []

    def slow_submit(prepared, times=1):
        # As a host would that was held for longer than the watchdog waits.
        if not fired:
            fired.append(rig.gate._expire())
        submit(prepared, times)

    monkeypatch.setattr(PreparedCopy, "submit", slow_submit)
    with rig.timer() as timer:
        with pytest.raises(CudabwError) as refusal:
            timer.time(work, 4)
        assert refusal.value.message == (
            "the gate's watchdog opened it before the batch was queued, so its time means nothing"
        )
        assert rig.device.closed_gates == 0
        assert timer.time(work, 4).seconds == pytest.approx(NBYTES / 50e9, rel=1e-6)


def test_a_submission_that_fails_leaves_the_gate_open(make_rig):
    rig = make_rig(faults=[Fault(function="cuMemcpyHtoDAsync", status=999, nth=3)])
    work = rig.copy()
    with rig.timer() as timer:
        with pytest.raises(DriverError):
            timer.time(work, 4)
        assert rig.device.closed_gates == 0
        assert not rig.stream.gates
        assert timer.time(work, 4).seconds == pytest.approx(NBYTES / 50e9, rel=1e-6)


def test_a_timer_destroys_its_events(make_rig):
    rig = make_rig()
    with rig.timer() as timer:
        events = timer._start, timer._end
    assert [event.handle for event in events] == [None, None]


# -- gates ------------------------------------------------------------------------------------------------


def test_the_gate_for_a_stream_is_open_and_is_closed_for_good_with_the_rest(make_rig):
    rig = make_rig()
    with ExitStack() as owned:
        gate = gate_for(rig.stream, owned)
        assert not rig.stream.gates
        assert rig.device.closed_gates == 0
        with BatchTimer(rig.device, gate) as timer:
            assert timer.time(rig.copy(), 2).gated
    assert gate._host is None


@pytest.mark.parametrize(
    ("function", "status"),
    [("cuStreamWaitValue32", 801), ("cuStreamWaitValue32", 1), ("cuMemHostGetDevicePointer", 801)],
)
def test_there_is_no_gate_where_the_device_cannot_wait_for_a_value(make_device, function, status):
    device = make_device(faults=[Fault(function=function, status=status)])
    with device.stream() as stream, ExitStack() as owned:
        assert gate_for(stream, owned) is None
        stream.synchronize()


# -- how many ---------------------------------------------------------------------------------------------

seconds_each = st.floats(0, 1e6, exclude_min=True)
targets = st.floats(1e-9, 1e3)


@given(seconds=seconds_each, target=targets)
def test_a_batch_is_as_short_as_it_can_be_and_not_shorter_than_asked(seconds, target):
    times = choose_times(seconds, target)
    assert 1 <= times <= MOST_QUEUED
    rounding = 1 + 1e-12
    assert times * seconds * rounding >= target or times == MOST_QUEUED
    assert (times - 1) * seconds <= target * rounding


@given(seconds=st.floats(max_value=0, allow_nan=False), target=targets)
def test_work_without_a_length_is_queued_as_often_as_the_queue_allows(seconds, target):
    assert choose_times(seconds, target) == MOST_QUEUED


@pytest.mark.parametrize(
    ("seconds", "target", "times"),
    [(1.0, 1.0, 1), (0.5, 1.0, 2), (0.4, 1.0, 3), (2.0, 1.0, 1), (1 / 256, 1.0, 256), (1e-9, 1.0, 256)],
)
def test_a_batch_has_the_least_number_that_reaches_the_target(seconds, target, times):
    assert choose_times(seconds, target) == times


def test_work_of_any_length_makes_a_batch():
    assert choose_times(math.inf, 1.0) == 1
    assert choose_times(5e-324, 1.0) == MOST_QUEUED
