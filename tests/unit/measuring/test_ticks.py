"""How fine clocks are."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cudabw.driver.emulated import ModelledClock
from cudabw.measuring.ticks import Ticks, smallest_step
from cudabw.results.model import Clock


@example(1, [0, 33, 34])  # whose difference as floats is below a nanosecond
@given(st.integers(1, 10**6), st.sets(st.integers(0, 50), min_size=2).map(sorted))
def test_of_times_on_ticks_the_smallest_step_is_a_whole_number_of_ticks(nanoseconds, ticks):
    tick = nanoseconds * 1e-9
    steps = [later - earlier for earlier, later in zip([0, *ticks], ticks, strict=False) if later > earlier]
    assert smallest_step(number * tick for number in ticks) == pytest.approx(min(steps) * tick)


def test_equal_times_bound_the_tick():
    assert smallest_step([1.5e-6] * 10) == 1.5e-6


def test_no_time_at_all_is_a_clock_without_ticks():
    assert smallest_step([0.0] * 10) == 0.0


def test_what_differs_by_rounding_alone_is_one_time():
    assert smallest_step([1.504e-6, 1.504e-6 + 1e-13, 1.536e-6]) == pytest.approx(32e-9)


def test_a_modelled_clock_is_exact(make_device):
    device = make_device(clock=ModelledClock({}))
    with device.stream() as stream:
        ticks = Ticks(device, stream)
        assert (ticks.of(Clock.EVENT), ticks.of(Clock.HOST)) == (0.0, 0.0)


def test_the_host_s_clock_has_the_tick_that_the_system_states(device, stream):
    assert Ticks(device, stream).of(Clock.HOST) == time.get_clock_info("perf_counter").resolution


def test_the_tick_of_events_is_found_out_once(device, stream):
    ticks = Ticks(device, stream)
    found = ticks.of(Clock.EVENT)
    assert 1e-9 <= found < 0.1
    stream.close()
    assert ticks.of(Clock.EVENT) == found
