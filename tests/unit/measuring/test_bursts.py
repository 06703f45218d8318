"""Bursts of launches on the modelled clock, where every time is known."""

from functools import partial

import pytest

from cudabw.driver.emulated.clock import ModelledClock
from cudabw.measuring.bursts import SYNCHRONISED, BurstTimer, choose_burst
from cudabw.results.launch import Counts
from cudabw.runtime.kernels import Module
from cudabw.runtime.memory import DeviceBuffer
from cudabw.runtime.ptx import null_kernel

CALL, KERNEL = 4e-6, 2e-6


@pytest.fixture
def clock():
    return ModelledClock({}, launch_s=3e-6, submit_s=1e-6, kernel_s=KERNEL)


@pytest.fixture
def launches(make_device, clock):
    """A stream, a buffer, and kernels that take one."""
    device = make_device(clock=clock)
    name, text = null_kernel(["pointer"])
    with device.stream() as stream, DeviceBuffer(device, 4) as buffer, Module(device, text) as module:
        kernel = module.kernel(name, ["pointer"])
        kernel(buffer, grid=1, block=1, stream=stream)
        stream.synchronize()
        yield partial(kernel, grid=1, block=1), stream, buffer


def repeat(call):
    def run(times):
        for _ in range(times):
            call()

    return run


def test_the_three_times_of_a_burst_are_those_of_the_clock(launches):
    kernel, stream, buffer = launches
    burst = BurstTimer(stream, 10).time(repeat(lambda: kernel(buffer, stream=stream)))
    assert burst.submit_s == pytest.approx(CALL)
    # The last kernel starts when it is submitted, as the device is faster than the host.
    assert burst.sustained_s == pytest.approx((10 * CALL + KERNEL) / 10)
    assert burst.synchronised_s == pytest.approx(CALL + KERNEL)
    assert burst.second_half == pytest.approx(1)


def test_conversions_and_waits_are_counted_over_all_launches_of_the_burst(launches):
    kernel, stream, buffer = launches
    timer = BurstTimer(stream, 10)
    count = 10 + SYNCHRONISED
    assert timer.time(repeat(lambda: kernel(buffer, stream=stream))).counts == Counts(count, count, 0, 0)
    with stream.device.stream() as other:
        # Handed to and fro: each launch waits for the one before on the other stream.
        def alternate():
            kernel(buffer, stream=other)
            kernel(buffer, stream=stream)

        counts = timer.time(repeat(alternate)).counts
    assert (counts.launches, counts.conversions) == (count, 2 * count)
    assert counts.waits == counts.stream_waits > count


def test_calls_that_queue_nothing_are_timed_alone(launches, clock):
    _, stream, _ = launches
    assert BurstTimer(stream, 10).time_calls(repeat(lambda: clock.advance(7e-6))) == pytest.approx(7e-6)


def test_a_queue_that_fills_shows_in_the_second_half(launches, clock):
    _, stream, _ = launches
    times = iter([1e-6] * 5 + [3e-6] * 6 + [1e-6] * SYNCHRONISED)
    burst = BurstTimer(stream, 11).time(repeat(lambda: clock.advance(next(times))))
    assert burst.second_half == pytest.approx(3)


def test_no_time_at_all_has_no_second_half(launches):
    _, stream, _ = launches
    assert BurstTimer(stream, 2).time(repeat(lambda: None)).second_half is None


@pytest.mark.parametrize(
    ("seconds", "most", "times"),
    [(4e-6, 509, 125), (1e-9, 509, 128), (0.0, 509, 128), (60e-6, 509, 16), (4e-6, 40, 40), (4e-6, 1, 2)],
)
def test_a_burst_is_long_but_fits_the_queue(seconds, most, times):
    assert choose_burst(seconds, most) == times
