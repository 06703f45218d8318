"""Which cases without a figure are the failure of a run that named them."""

from cudabw.benchmarks.bandwidth_plan import BandwidthPlan
from cudabw.benchmarks.naming import with_lost_named
from cudabw.results.model import CaseResult, Pages, Rate, State


def case(*, node=None, pages=Pages.WARM, state=State.OK, kind="pageable", direction="h2d", named=True):
    return CaseResult(
        f"bandwidth/{kind}/driver/{direction}/4096/{pages}/{node}",
        "bandwidth",
        kind,
        "driver",
        direction,
        4096,
        named=named,
        state=state,
        reason=None if state is State.OK else "no room",
        rate_bytes_per_s=Rate(1.0, None, None, 1.0, 1.0) if state is State.OK else None,
        pages=pages,
        numa_node=node,
    )


def named(*cases, plan=BandwidthPlan()):  # noqa: B008 - frozen
    return [found.named for found in with_lost_named(plan, cases)]


def test_what_was_measured_on_one_of_all_nodes_is_there():
    assert named(case(node=0), case(node=1, state=State.REFUSED)) == [True, False]


def test_other_pages_of_the_same_memory_are_not_there_because_the_usual_ones_are():
    huge = case(pages=Pages.HUGE, state=State.UNSUPPORTED)
    assert named(case(), huge) == [True, True]
    assert named(case(), huge, case(node=1, pages=Pages.HUGE)) == [True, False, True]


def test_another_direction_is_not_there_because_one_is():
    assert named(case(), case(direction="d2h", state=State.FAILED)) == [True, True]


def test_a_size_that_was_asked_for_and_nothing_was_measured_at_names_its_cases():
    lost = case(state=State.REFUSED, named=False)
    assert named(lost, plan=BandwidthPlan(sizes_named=True)) == [True]
    assert named(lost, case(pages=Pages.HUGE, named=False), plan=BandwidthPlan(sizes_named=True)) == [False, False]
