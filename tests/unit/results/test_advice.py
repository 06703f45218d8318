"""What follows from a run's figures, and what does not."""

from dataclasses import replace

import pytest

from cudabw.results.advice import MOST, NEARLY, USEFUL, advise
from cudabw.results.fits import Fit
from cudabw.results.model import CaseResult, DeviceInfo, Pages, Rate, RunResult, State
from cudabw.results.setup_cost import BreakEven, Change, Repaid

MIB = 1 << 20
SIZE = 512 * MIB
GPU = DeviceInfo(ordinal=0, name="NVIDIA H200", uuid="GPU-1", pci="0000:17:00.0", emulated=False)


def case(kind, direction, gb_per_s, *, engine="driver", size=SIZE, spread=0.01, state=State.OK, **fields):
    median = gb_per_s * 1e9
    ends = (None, None) if spread is None else (median * (1 - spread), median * (1 + spread))
    return CaseResult(
        id=f"bandwidth/{kind}/{engine}/{direction}/{size}",
        benchmark="bandwidth",
        kind=kind,
        engine=engine,
        direction=direction,
        size_bytes=size,
        state=state,
        reason=None if state is State.OK else "no",
        rate_bytes_per_s=Rate(median, *ends, median, median) if state.measured else None,
        **fields,
    )


def run(*cases, device=GPU, **fields):
    return RunResult(("bandwidth",), "2026-01-02T03:04:05Z", "1.0", device=device, cases=cases, **fields)


def even(kind, direction, copies, *, change=Change.ALLOCATE, size=SIZE, repaid=Repaid.AFTER):
    return BreakEven(kind, "driver", direction, size, change, repaid, copies, copies, copies)


def fit(kind, direction, half, smallest=4096):
    startup = None if half is None else 2e-6
    return Fit(kind, "driver", direction, (smallest, 1 << 28), startup, 50e9, half, 0.01)


PAGEABLE = (case("pageable", "h2d", 8.9), case("pageable", "d2h", 15.0))
PINNED = (case("pinned", "h2d", 55.4), case("pinned", "d2h", 55.3))
STAGED = (
    case("pageable", "h2d", 49.3, engine="staged", threads=12),
    case("pageable", "d2h", 46.2, engine="staged", threads=8),
)
KERNEL = (case("mapped", "h2d", 51.4, engine="kernel"), case("mapped", "d2h", 52.5, engine="kernel"))


def test_pinned_memory_is_worth_a_line_where_it_is_clearly_faster():
    assert advise(run(*PAGEABLE, *PINNED)) == (
        (
            "Pageable copies of 512 MiB would reach 55.4 GB/s h2d instead of 8.90 and 55.3 GB/s d2h instead of 15.0, "
            "in pinned memory."
        ),
    )
    assert advise(run(PAGEABLE[1], *PINNED)) == (
        "Pageable copies of 512 MiB would reach 55.3 GB/s d2h instead of 15.0, in pinned memory.",
    )


def test_staging_is_worth_a_line_with_the_threads_that_it_took():
    assert advise(run(*PAGEABLE, *STAGED)) == (
        (
            "Pageable copies of 512 MiB reach 49.3 GB/s h2d instead of 8.90 and 46.2 GB/s d2h instead of 15.0, "
            "staged through 8 to 12 threads (StagedCopier)."
        ),
    )
    one = replace(STAGED[0], threads=1)
    assert advise(run(*PAGEABLE, one))[0].endswith("staged through 1 thread (StagedCopier).")
    # Left to the driver, it is no staging.
    assert advise(run(*PAGEABLE, replace(one, threads=None))) == ()


def test_the_largest_size_at_which_it_holds_is_named():
    small = (case("pageable", "h2d", 4.0, size=MIB), case("pinned", "h2d", 40.0, size=MIB))
    same = (case("pageable", "h2d", 50.0), case("pinned", "h2d", 50.0))
    assert advise(run(*small, *same)) == (
        "Pageable copies of 1 MiB would reach 40.0 GB/s h2d instead of 4.00, in pinned memory.",
    )


@pytest.mark.parametrize(
    ("before", "after", "spread", "lines"),
    [
        (10.0, 10.0 * USEFUL * 1.03, 0.01, 1),
        (10.0, 10.0 * USEFUL * 1.01, 0.01, 0),
        (10.0, 20.0, 0.3, 0),
        (10.0, 20.0, None, 0),
        (20.0, 10.0, 0.01, 0),
    ],
)
def test_intervals_have_to_be_apart_by_a_useful_factor(before, after, spread, lines):
    pair = case("pageable", "h2d", before, spread=spread), case("pinned", "h2d", after, spread=spread)
    assert len(advise(run(*pair))) == lines


def test_huge_pages_and_kept_destinations_are_worth_a_line_where_they_help():
    huge = [case("pageable", way, rate, pages=Pages.HUGE) for way, rate in (("h2d", 10.5), ("d2h", 15.1))]
    fresh = case("pageable", "d2h", 3.0, pages=Pages.FIRST_TOUCH)
    assert advise(run(*PAGEABLE, *huge, fresh)) == (
        "Huge pages make pageable copies of 512 MiB faster by 18 % h2d.",
        (
            "Reuse the memory that is copied into: pageable copies of 512 MiB reach 15.0 GB/s d2h instead of 3.00 "
            "where no page was touched before."
        ),
    )
    # What is said of pageable memory as such is not of these.
    assert advise(run(*huge, fresh, *PINNED)) == ()


def test_when_pinning_pays_is_said_of_the_largest_size():
    evens = (
        even("pinned", "h2d", 99, size=MIB),
        even("pinned", "h2d", 12),
        even("pinned", "d2h", 1),
        even("registered", "h2d", 0, change=Change.REGISTER),
        even("registered", "d2h", None, change=Change.REGISTER, repaid=Repaid.NEVER),
        even("mapped", "h2d", 3),
    )
    assert advise(run(break_even=evens)) == (
        "Registering memory that is there pays after 1 copy h2d of 512 MiB.",
        "Allocating pinned instead of pageable memory pays after 12 copies h2d and 1 copy d2h of 512 MiB.",
    )
    assert advise(run(break_even=evens[-2:])) == ()


@pytest.mark.parametrize(("copies", "most", "lines"), [(12, 24, 1), (12, 25, 0), (0, 2, 1), (0, 3, 0)])
def test_when_pinning_pays_has_to_be_known_within_a_factor_of_two(copies, most, lines):
    one = replace(even("pinned", "h2d", copies), fewest=0, most=most)
    assert len(advise(run(break_even=(one,)))) == lines


def test_a_kernel_that_nearly_reaches_the_rate_of_copies_spares_them():
    assert advise(run(*PINNED, *KERNEL)) == (
        (
            "A kernel reaches 93 % h2d and 95 % d2h of the rate of copies in mapped memory (512 MiB): bytes that it "
            "uses once need no copy."
        ),
    )
    slow = case("mapped", "h2d", 55.4 * NEARLY, engine="kernel")
    assert advise(run(*PINNED, slow)) == ()


def test_a_kernel_that_is_far_below_copies_is_better_preceded_by_one():
    assert advise(run(*PINNED, case("mapped", "h2d", 12.0, engine="kernel"))) == (
        "Copy before a kernel works: copies of 512 MiB reach 55.4 GB/s h2d instead of 12.0 in mapped memory.",
    )


def test_sizes_below_half_of_the_rate_are_better_joined():
    fits = (fit("pageable", "h2d", 9e4), fit("pinned", "h2d", 87014.7), fit("pinned", "d2h", 1e5))
    assert advise(run(fits=fits)) == (
        "Copies of pinned memory below 85 KiB h2d and 98 KiB d2h are mostly start-up: join small ones into one.",
    )
    assert advise(run(fits=fits[:1]))[0].startswith("Copies of pageable memory below 88 KiB h2d are")


def test_a_curve_of_single_trials_earns_no_advice():
    curve = fit("pinned", "h2d", 87014.7)
    points = [case("pinned", "h2d", 10.0, size=size) for size in curve.sizes_bytes]
    assert advise(run(*points, fits=(curve,)))
    points[-1] = case("pinned", "h2d", 10.0, size=curve.sizes_bytes[-1], spread=None)
    assert advise(run(*points, fits=(curve,))) == ()


@pytest.mark.parametrize(
    "fits",
    [
        (fit("pinned", "h2d", None),),
        (fit("pinned", "h2d", 1e5, smallest=1 << 20),),
        (fit("device", "d2d", 1e5),),
        (Fit("pinned", "driver", "h2d", (1, 16), reason="no line fits"),),
    ],
)
def test_without_small_sizes_that_were_measured_there_is_nothing_to_join(fits):
    assert advise(run(fits=fits)) == ()


EVERYTHING = {
    "break_even": (even("pinned", "h2d", 12),),
    "fits": (fit("pinned", "h2d", 1e5),),
}


def test_at_most_three_lines_are_said_the_most_useful_first():
    lines = advise(run(*PAGEABLE, *PINNED, *STAGED, *KERNEL, **EVERYTHING))
    assert [line.split()[0] for line in lines] == ["Allocating", "Pageable", "Pageable"]
    assert len(lines) == MOST


@pytest.mark.parametrize("device", [None, replace(GPU, emulated=True)])
def test_nothing_follows_from_an_emulated_device(device):
    assert advise(run(*PAGEABLE, *PINNED, *STAGED, *KERNEL, device=device, **EVERYTHING)) == ()


def test_a_figure_that_is_less_precise_than_asked_for_still_tells_what_its_interval_tells():
    pageable = [case("pageable", way, 9.0, spread=0.2, state=State.UNCONVERGED) for way in ("h2d", "d2h")]
    assert len(advise(run(*pageable, *PINNED))) == 1


def test_of_several_nodes_what_is_said_is_of_the_devices_own():
    near = [replace(one, numa_node=1) for one in (*PAGEABLE, *PINNED)]
    far = [replace(one, numa_node=0) for one in (case("pageable", "h2d", 5.0), case("pinned", "h2d", 30.0))]
    evens = [replace(even("pinned", "h2d", count), numa_node=node) for node, count in ((0, 3), (1, 12))]
    said = advise(run(*far, *near, device=replace(GPU, numa_node=1), break_even=tuple(evens)))
    assert "12 copies" in said[0]
    assert "55.4 GB/s h2d instead of 8.90" in said[1]
    assert "30.0 GB/s h2d instead of 5.00" in advise(run(*far, *near))[0]


@pytest.mark.parametrize("state", [state for state in State if not state.reliable])
def test_nothing_follows_from_a_case_that_is_not_reliable(state):
    pinned = [case("pinned", way, 55.0, state=state) for way in ("h2d", "d2h")]
    assert advise(run(*PAGEABLE, *pinned)) == ()
    pageable = [case("pageable", way, 5.0, state=state) for way in ("h2d", "d2h")]
    assert advise(run(*pageable, *PINNED, *STAGED)) == ()


def test_nothing_follows_from_both_directions_at_once_or_from_local_copies():
    cases = (case("device", "d2d", 2000.0), case("pinned", "bidirectional-h2d", 52.0), PAGEABLE[0])
    assert advise(run(*cases)) == ()
