"""Limits held against results: pass, fail, or cannot tell, with the reason."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.benchmarks.api import measure_bandwidth, measure_launch_overhead
from cudabw.results.launch import Mode, Verdict
from cudabw.results.launch_sets import LaunchOverhead, QueueDepth, Slope
from cudabw.results.limits import Bound, Limit, LimitResult, LimitState, judge
from cudabw.results.model import CaseResult, DeviceInfo, Rate, RunResult, State

PASS, FAIL, CANNOT_TELL = LimitState
GPU = DeviceInfo(0, "GPU", None, None, emulated=False)
STRADDLES = "the interval lies on both sides of the limit; more trials narrow it"
MISSES = "the whole interval misses the limit"


def copy_case(median=50e9, low=49e9, high=51e9, *, direction="h2d", share=None):
    rate = Rate(median, low, high, median / 2, median * 2)
    return CaseResult(
        f"bandwidth/pinned/driver/{direction}/4096",
        "bandwidth",
        "pinned",
        "driver",
        direction,
        4096,
        State.OK,
        rate_bytes_per_s=rate,
        link_fraction=share,
    )


def run_result(*cases, device=GPU, **fields):
    return RunResult(("run", "x"), "", "1", device=device, cases=cases, **fields)


def on_a_gpu(result):
    """The same figures as if a GPU had given them."""
    return replace(result, device=replace(result.device, emulated=False))


def states(result, *limits):
    return [(found.state, found.reason) for found in judge(result, limits)]


@pytest.mark.parametrize(
    ("gigabytes", "state", "reason"),
    [
        (48.9, PASS, None),
        (49, PASS, None),
        (49.01, CANNOT_TELL, STRADDLES),
        (51, CANNOT_TELL, STRADDLES),
        (51.01, FAIL, MISSES),
    ],
)
def test_a_rate_is_bounded_from_below_by_the_whole_interval(gigabytes, state, reason):
    (found,) = judge(run_result(copy_case()), [Limit("bandwidth/*", Bound.MIN_RATE, gigabytes * 1e9)])
    assert found == LimitResult(
        "bandwidth/*",
        "bandwidth/pinned/driver/h2d/4096",
        Bound.MIN_RATE,
        gigabytes * 1e9,
        state,
        reason,
        50e9,
        49e9,
        51e9,
    )


@pytest.mark.parametrize(("fraction", "state"), [(0.78, PASS), (0.79, CANNOT_TELL), (0.81, CANNOT_TELL), (0.83, FAIL)])
def test_a_share_of_the_link_has_the_interval_of_its_rate(fraction, state):
    (found,) = judge(run_result(copy_case(share=0.8)), [Limit("*", Bound.MIN_LINK, fraction)])
    assert found.state is state
    assert (found.median, found.low, found.high) == pytest.approx((0.8, 0.784, 0.816))


def test_without_a_known_link_its_share_cannot_be_told():
    assert states(run_result(copy_case(direction="d2d")), Limit("*", Bound.MIN_LINK, 0.8)) == [
        (CANNOT_TELL, "no share of a link is known")
    ]


def test_one_trial_cannot_tell_whatever_its_figure():
    case = copy_case(low=None, high=None)
    for limit in (1.0, 1e12):
        assert states(run_result(case), Limit("*", Bound.MIN_RATE, limit)) == [
            (CANNOT_TELL, "one trial has no interval")
        ]


def test_the_emulated_device_meets_no_limit_and_misses_none_but_shows_its_figure():
    result = measure_bandwidth(backend="emulated", kinds=["pinned"], directions=["h2d"], sizes=[4096], trials=2)
    for limit in (1.0, 1e15):
        (found,) = judge(result, [Limit("*", Bound.MIN_RATE, limit)])
        assert (found.state, found.reason) == (CANNOT_TELL, "the emulated device is no GPU")
        assert found.median == result.bandwidth_cases[0].rate_bytes_per_s.median


@pytest.mark.parametrize("bound", [Bound.MIN_RATE, Bound.MIN_LINK])
def test_a_case_without_a_figure_cannot_be_told_and_says_why(bound):
    failed = replace(copy_case(), state=State.WRONG_DATA, reason="byte 7 differs", rate_bytes_per_s=None)
    assert states(run_result(failed), Limit("*", bound, 1.0)) == [(CANNOT_TELL, "wrong data: byte 7 differs")]


@pytest.mark.parametrize(
    ("bound", "wanted"),
    [
        (Bound.MAX_TIME, "a time"),
        (Bound.MAX_PER_ARGUMENT, "launches with arguments"),
        (Bound.MIN_RATE, None),
    ],
)
def test_a_limit_on_figures_that_no_matching_case_has_cannot_be_told(bound, wanted):
    (found,) = judge(run_result(copy_case()), [Limit("bandwidth/*", bound, 1.0)])
    reason = None if wanted is None else f"matches no case with {wanted}"
    assert (found.reason, found.of is None) == (reason, wanted is not None)


def test_a_pattern_that_matches_nothing_cannot_be_told():
    (found,) = judge(run_result(copy_case()), [Limit("bandwith/*", Bound.MIN_RATE, 1.0)])
    assert found == LimitResult(
        "bandwith/*", None, Bound.MIN_RATE, 1.0, CANNOT_TELL, reason="matches no case with a rate"
    )


def test_a_run_that_measured_nothing_meets_no_limit():
    result = RunResult(("run", "x"), "", "1")
    assert states(result, Limit("*", Bound.MIN_RATE, 1.0)) == [(CANNOT_TELL, "nothing was measured")]


def test_patterns_mind_the_case_of_letters_and_every_limit_is_held_against_every_match():
    result = run_result(copy_case(), copy_case(direction="d2h"))
    limits = [Limit(pattern, Bound.MIN_RATE, 1.0) for pattern in ("*/H2D/*", "*", "*/d2h/*")]
    assert [found.of and found.of.split("/")[3] for found in judge(result, limits)] == [None, "h2d", "d2h", "d2h"]


# Launches


@pytest.fixture(scope="module")
def launches():
    found = measure_launch_overhead(backend="emulated", args=[0, 2], arg_types=["buffer"], trials=2)
    return on_a_gpu(found)


def test_the_call_of_a_launch_is_bounded_from_above(launches):
    (prepared,) = (case for case in launches.launch_cases if case.args and case.mode is Mode.PREPARED)
    pattern = "launch_overhead/buffer/2/prepared"
    seconds = prepared.submit_s
    expected = {seconds.high: PASS, seconds.median: CANNOT_TELL, seconds.low - 1e-9: FAIL}
    assert {limit: judge(launches, [Limit(pattern, Bound.MAX_TIME, limit)])[0].state for limit in expected} == expected


def with_slope(launches, low, high):
    slope = Slope("buffer", (0, 2), 120e-9, low, high, Verdict.MORE, (120e-9,))
    return replace(launches, launch_overhead=LaunchOverhead(QueueDepth(1, 1), 1, "off", slopes=(slope,)))


@pytest.mark.parametrize(
    ("low", "high", "state"),
    [(100e-9, 150e-9, PASS), (100e-9, 151e-9, CANNOT_TELL), (151e-9, 160e-9, FAIL), (None, None, CANNOT_TELL)],
)
def test_what_each_further_argument_costs_is_one_figure_for_a_kind_of_arguments(launches, low, high, state):
    (found,) = judge(with_slope(launches, low, high), [Limit("launch_overhead/*", Bound.MAX_PER_ARGUMENT, 150e-9)])
    assert (found.of, found.state, found.median) == ("launch_overhead/buffer", state, 120e-9)


def test_one_number_of_arguments_tells_nothing_of_a_further_one(launches):
    alone = replace(launches, launch_overhead=replace(launches.launch_overhead, slopes=()))
    assert states(alone, Limit("*", Bound.MAX_PER_ARGUMENT, 1.0)) == [
        (CANNOT_TELL, "needs two numbers of arguments, each prepared and converted")
    ]


# On the modelled clock, whose figures are exact


def modelled_result(monkeypatch):
    monkeypatch.setenv("CUDABW_EMULATED", '{"clock": {"h2d": 50e9, "d2h": 40e9}}')
    return on_a_gpu(measure_bandwidth(backend="emulated", kinds=["pinned"], sizes=[64 << 20], trials=3))


def test_modelled_rates_meet_and_miss_limits_exactly_where_they_lie(monkeypatch):
    result = modelled_result(monkeypatch)
    rates = {case.direction: case.rate_bytes_per_s for case in result.bandwidth_cases}
    limit = Limit("bandwidth/*", Bound.MIN_RATE, (rates["h2d"].low + rates["d2h"].high) / 2)
    assert [found.state for found in judge(result, [limit])] == [PASS, FAIL]
    assert rates["d2h"].high < 41e9 < 49e9 < rates["h2d"].low


ENDS = st.lists(st.floats(min_value=1e-9, max_value=1e15), min_size=3, max_size=3).map(sorted)


@given(ENDS, st.floats(min_value=1e-9, max_value=1e15))
def test_a_stricter_limit_never_passes_where_an_easier_one_does_not(ends, limit):
    low, median, high = ends
    result = run_result(copy_case(median, low, high))
    order = [PASS, CANNOT_TELL, FAIL]
    easier, stricter = (
        order.index(judge(result, [Limit("*", Bound.MIN_RATE, limit * factor)])[0].state) for factor in (1, 2)
    )
    assert easier <= stricter


@given(ENDS, st.floats(min_value=1e-9, max_value=1e15))
def test_a_pass_means_both_ends_meet_it_and_a_fail_that_both_miss_it(ends, limit):
    low, median, high = ends
    (found,) = judge(run_result(copy_case(median, low, high)), [Limit("*", Bound.MIN_RATE, limit)])
    meets = {low >= limit, high >= limit}
    assert found.state is (CANNOT_TELL if len(meets) == 2 else PASS if meets == {True} else FAIL)


@pytest.mark.parametrize(("state", "reason"), [(PASS, "because"), (FAIL, None), (CANNOT_TELL, None)])
def test_a_reason_belongs_to_every_state_but_pass(state, reason):
    with pytest.raises(ValueError, match="a reason belongs to every state but pass"):
        LimitResult("*", None, Bound.MIN_RATE, 1.0, state, reason)
