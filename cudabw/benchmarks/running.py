"""Runs of plans of any benchmarks: all in one session, one benchmark after the other."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from cudabw.benchmarks.bandwidth import run_bandwidth
from cudabw.benchmarks.bandwidth_draws import with_link
from cudabw.benchmarks.bandwidth_plan import BandwidthPlan
from cudabw.benchmarks.latency import run_latency, skipped_latency
from cudabw.benchmarks.latency_plan import LatencyPlan
from cudabw.benchmarks.launch_overhead import LaunchPlan, run_launch_overhead, skipped_cases
from cudabw.benchmarks.outcome import keep_after
from cudabw.benchmarks.places import Places
from cudabw.benchmarks.session import Session, run_session
from cudabw.benchmarks.setup_cost import run_setup_cost, setup_plans, skipped_setups
from cudabw.measuring.break_even import break_evens
from cudabw.measuring.fitting import fits_of
from cudabw.system.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cudabw.benchmarks.observer import Observer
    from cudabw.benchmarks.outcome import Outcome
    from cudabw.benchmarks.suite import Plan
    from cudabw.errors import CudabwError
    from cudabw.results.model import Case, RunResult

AnyPlan = TypeVar("AnyPlan")


def run_plans(
    command: Sequence[str],
    plans: Sequence[Plan],
    *,
    backend: str,
    device: int,
    observer: Observer,
    on_error: Callable[[CudabwError], None] = lambda _: None,
) -> RunResult:
    """Measure the cases of plans in one session (:func:`cudabw.benchmarks.session.run_session`), and conclude."""
    result = run_session(
        command,
        partial(_measure, plans),
        backend=backend,
        ordinal=device,
        observer=observer,
        finish_case=with_link,
        on_error=on_error,
    )
    return replace(result, fits=fits_of(result.bandwidth_cases), break_even=break_evens(result))


def _measure(plans: Sequence[Plan], session: Session) -> Outcome:
    places = Places(Placement(), session.device_node)
    copies = [plan for plan in plans if isinstance(plan, BandwidthPlan)]
    outcome = run_bandwidth(
        session.device,
        [plan for plan in copies if plan.cases()],
        session.observer,
        sample_link=session.sample_link,
        slowdowns=session.slowdowns,
        keep=session.keep,
        places=places,
    )
    setups = [plan for plan in setup_plans(copies) if plan.setups]
    measure = partial(run_setup_cost, session.device, setups, session.observer)
    outcome = _followed_by(outcome, setups, measure, skipped_setups, session)
    small = [plan for plan in plans if isinstance(plan, LatencyPlan)]
    measure = partial(run_latency, session.device, small, session.observer, slowdowns=session.slowdowns, places=places)
    outcome = _followed_by(outcome, small, measure, skipped_latency, session)
    launches = [plan for plan in plans if isinstance(plan, LaunchPlan)]
    measure = partial(run_launch_overhead, session.device, launches, session.observer, slowdowns=session.slowdowns)
    return _followed_by(outcome, launches, measure, skipped_cases, session)


def _followed_by(
    outcome: Outcome,
    plans: Sequence[AnyPlan],
    measure: Callable[..., Outcome],
    skipped: Callable[[Sequence[AnyPlan], str], Iterable[Case]],
    session: Session,
) -> Outcome:
    """What was measured, then plans of one more benchmark; they are skipped if the run has ended already."""
    if outcome.ended_because is not None:
        return outcome.extended(skipped(plans, outcome.ended_because))
    if not plans:
        return outcome
    return outcome.merged(measure(keep=keep_after(outcome, session.keep)))
