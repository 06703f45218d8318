"""Lines through curves of times over sizes: exact where the points are, and silent where they are on no line."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.measuring.fitting import LEAST_STARTUP, MOST_OFF, fit_line, fits_of
from cudabw.results.fits import Fit
from cudabw.results.model import CaseResult, Clock, Pages, Rate, State, Trial

KIB = 1 << 10
SWEEP = tuple(4 * KIB * 4**step for step in range(9))

STARTUPS = st.floats(1e-7, 1e-3)
RATES = st.floats(1e8, 1e13)
SIZES = (
    st.sets(st.integers(1, 1 << 32), min_size=4, max_size=12)
    .map(sorted)
    .filter(lambda sizes: sizes[-1] >= 16 * sizes[0])
)


def times(sizes, startup, rate):
    return [startup + size / rate for size in sizes]


def case(size, seconds, *, kind="pinned", engine="driver", direction="h2d", state=State.OK, trials=None):
    ok = state is State.OK
    rate = Rate(size / seconds, None, None, size / seconds, size / seconds) if ok else None
    samples = trials or ((seconds,),)
    return CaseResult(
        id=f"bandwidth/{kind}/{engine}/{direction}/{size}",
        benchmark="bandwidth",
        kind=kind,
        engine=engine,
        direction=direction,
        size_bytes=size,
        state=state,
        reason=None if ok else "no room",
        clock=Clock.EVENT,
        rate_bytes_per_s=rate,
        trials=tuple(Trial(1, tuple(one)) for one in samples) if ok else (),
    )


def curve(startup, rate, sizes=SWEEP, **fields):
    return [case(size, startup + size / rate, **fields) for size in sizes]


@given(SIZES, STARTUPS, RATES)
def test_points_on_a_line_give_that_line(sizes, startup, rate):
    line = fit_line(sizes, times(sizes, startup, rate))
    assert line.largest_residual < 1e-9
    # A part that is lost in the rounding of every point cannot be given back.
    assert line.startup_s == pytest.approx(startup, rel=1e-6, abs=1e-11 * (startup + sizes[0] / rate))
    assert 1 / line.seconds_per_byte == pytest.approx(rate, rel=1e-6) or startup * rate > 1e8 * sizes[-1]


@given(STARTUPS, RATES, st.lists(st.floats(-1, 1), min_size=9, max_size=9), st.floats(0, 0.05))
def test_noise_moves_the_parameters_no_further_than_in_proportion(startup, rate, signs, noise):
    exact = times(SWEEP, startup, rate)
    # Where the start-up is between the times of the smallest and of the largest size, both show.
    if not SWEEP[1] < startup * rate < SWEEP[-2]:
        return
    line = fit_line(SWEEP, [t * (1 + noise * sign) for t, sign in zip(exact, signs, strict=True)])
    assert line.startup_s == pytest.approx(startup, rel=6 * noise + 1e-9)
    assert 1 / line.seconds_per_byte == pytest.approx(rate, rel=6 * noise + 1e-9)


@given(
    STARTUPS, RATES, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.lists(st.floats(0.9, 1.1), min_size=9, max_size=9)
)
def test_other_units_of_size_and_time_give_the_same_line(startup, rate, size_unit, time_unit, noise):
    seconds = [t * factor for t, factor in zip(times(SWEEP, startup, rate), noise, strict=True)]
    line = fit_line(SWEEP, seconds)
    scaled = fit_line([size * size_unit for size in SWEEP], [t * time_unit for t in seconds])
    assert scaled.largest_residual == pytest.approx(line.largest_residual, rel=1e-6, abs=1e-12)
    smallest = 1e-9 * seconds[0]
    assert scaled.startup_s / time_unit == pytest.approx(line.startup_s, rel=1e-6, abs=smallest)
    assert scaled.seconds_per_byte * size_unit / time_unit == pytest.approx(
        line.seconds_per_byte, rel=1e-6, abs=smallest / SWEEP[-1]
    )


@pytest.mark.parametrize(
    ("seconds", "startup", "per_byte"),
    [
        # Faster than in proportion, as out of a cache: through the origin, at the mean cost for a byte.
        ([0.9, 2.0, 4.0], 0.0, (0.9**-1 + 2 / 2.0 + 4 / 4.0) / (0.9**-2 + 1 + 1)),
        # Slower for small ones: level.
        ([3.0, 2.0, 1.0], (1 / 3 + 1 / 2 + 1) / (1 / 9 + 1 / 4 + 1), 0.0),
    ],
)
def test_neither_start_up_nor_cost_is_negative(seconds, startup, per_byte):
    line = fit_line([1, 2, 4], seconds)
    assert (line.startup_s, line.seconds_per_byte) == pytest.approx((startup, per_byte), rel=1e-12)


def test_each_curve_has_a_fit_of_the_medians_over_trials():
    cases = [
        *curve(2e-6, 50e9),
        *curve(8e-6, 25e9, direction="d2h"),
        # One trial in three, and one sample in three, are far off.
        *(
            case(size, 1.0, kind="mapped", engine="kernel", trials=((t, t, 9.0), (t,), (7.0,)))
            for size, t in zip(SWEEP, times(SWEEP, 1e-6, 10e9), strict=True)
        ),
    ]
    found = fits_of(cases)
    assert [(fit.kind, fit.engine, fit.direction, fit.sizes_bytes) for fit in found] == [
        ("pinned", "driver", "h2d", SWEEP),
        ("pinned", "driver", "d2h", SWEEP),
        ("mapped", "kernel", "h2d", SWEEP),
    ]
    assert [(fit.startup_s, fit.rate_bytes_per_s, fit.half_rate_bytes) for fit in found] == [
        pytest.approx(figures, rel=1e-9) for figures in ((2e-6, 50e9, 1e5), (8e-6, 25e9, 2e5), (1e-6, 10e9, 1e4))
    ]
    assert all(fit.largest_residual < 1e-9 and fit.reason is None for fit in found)


def test_each_state_of_pages_is_a_curve_of_its_own():
    fresh = [replace(point, pages=Pages.FIRST_TOUCH) for point in curve(8e-6, 3e9, kind="pageable", direction="d2h")]
    found = fits_of([*curve(2e-6, 9e9, kind="pageable", direction="d2h"), *fresh])
    assert [(fit.pages, fit.rate_bytes_per_s) for fit in found] == [
        (Pages.WARM, pytest.approx(9e9)),
        (Pages.FIRST_TOUCH, pytest.approx(3e9)),
    ]


def test_each_numa_node_is_a_curve_of_its_own_and_less_precision_than_asked_for_is_no_obstacle():
    near = [replace(point, numa_node=1, state=State.UNCONVERGED, reason="wide") for point in curve(2e-6, 50e9)]
    far = [replace(point, numa_node=0) for point in curve(2e-6, 30e9)]
    assert [(fit.numa_node, fit.rate_bytes_per_s) for fit in fits_of([*near, *far])] == [
        (1, pytest.approx(50e9)),
        (0, pytest.approx(30e9)),
    ]
    throttled = [replace(point, state=State.THROTTLED, reason="hot") for point in near]
    assert fits_of(throttled) == ()


def test_at_the_half_rate_size_a_copy_reaches_half_of_the_rate():
    (fit,) = fits_of(curve(3e-6, 40e9))
    size = fit.half_rate_bytes
    assert size / (3e-6 + size / 40e9) == pytest.approx(fit.rate_bytes_per_s / 2, rel=1e-9)


@pytest.mark.parametrize(
    "cases",
    [
        curve(2e-6, 50e9, SWEEP[:3]),
        curve(2e-6, 50e9, (4096, 8192, 16384, 32768)),
        curve(2e-6, 50e9, direction="bidirectional-h2d"),
        [*curve(2e-6, 50e9, SWEEP[:3]), case(SWEEP[3], 1.0, state=State.REFUSED)],
        [*curve(2e-6, 50e9, SWEEP[:2]), *curve(2e-6, 50e9, SWEEP[2:4], direction="d2h")],
    ],
    ids=["three sizes", "factor 8", "both ways", "one refused", "two directions"],
)
def test_a_curve_that_is_too_short_or_has_no_start_up_of_its_own_has_no_fit(cases):
    assert fits_of(cases) == ()


def test_four_sizes_over_a_factor_of_sixteen_are_enough():
    (fit,) = fits_of(curve(2e-6, 50e9, (4096, 8192, 16384, 65536)))
    assert fit.rate_bytes_per_s == pytest.approx(50e9, rel=1e-9)


def test_a_curve_that_no_line_describes_has_no_figures():
    # A cache: a tenth of the cost up to 1 MiB.
    cases = [case(size, size / (500e9 if size <= 1 << 20 else 50e9)) for size in SWEEP]
    (fit,) = fits_of(cases)
    assert (fit.startup_s, fit.rate_bytes_per_s, fit.half_rate_bytes) == (None, None, None)
    assert fit.largest_residual > MOST_OFF
    assert fit.reason == f"no line fits: the best is off by {fit.largest_residual:.0%}"


def test_times_that_do_not_grow_have_no_rate():
    (fit,) = fits_of([case(size, 1e-6 * (1 - 0.01 * step)) for step, size in enumerate(SWEEP)])
    assert (fit.rate_bytes_per_s, fit.reason) == (None, "no line fits: the time does not grow with the size")


def test_a_start_up_within_the_scatter_is_not_seen():
    noisy = [case(size, size / 50e9 * (1.1 if step % 2 else 0.9)) for step, size in enumerate(SWEEP)]
    hidden = curve(LEAST_STARTUP / 2 * SWEEP[0] / 50e9, 50e9)
    for cases in (noisy, hidden):
        (fit,) = fits_of(cases)
        assert (fit.startup_s, fit.half_rate_bytes, fit.reason) == (None, None, None)
        assert fit.rate_bytes_per_s == pytest.approx(50e9, rel=0.1)


def test_a_fit_has_either_a_rate_or_a_reason():
    for figures in ({}, {"rate_bytes_per_s": 1.0, "reason": "no line fits"}):
        with pytest.raises(ValueError, match="either a rate or a reason"):
            Fit("pinned", "driver", "h2d", SWEEP, **figures)
