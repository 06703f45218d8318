"""Runs of plans of any benchmarks: all in one session, one benchmark after the other."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

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
    from collections.abc import Callable, Sequence

    from cudabw.benchmarks.observer import Observer
    from cudabw.benchmarks.outcome import Outcome
    from cudabw.benchmarks.setup_cost import SetupPlan
    from cudabw.benchmarks.suite import Plan
    from cudabw.errors import CudabwError
    from cudabw.results.model import RunResult


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
    copies = [plan for plan in plans if isinstance(plan, BandwidthPlan)]
    outcome = run_bandwidth(
        session.device,
        copies,
        session.observer,
        sample_link=session.sample_link,
        slowdowns=session.slowdowns,
        keep=session.keep,
        places=Places(Placement(), session.device_node),
    )
    setups = [plan for plan in setup_plans(copies) if plan.setups]
    outcome = _with_setup_cost(outcome, setups, session)
    outcome = _with_latency(outcome, [plan for plan in plans if isinstance(plan, LatencyPlan)], session)
    return _with_launches(outcome, [plan for plan in plans if isinstance(plan, LaunchPlan)], session)


def _with_setup_cost(outcome: Outcome, plans: Sequence[SetupPlan], session: Session) -> Outcome:
    if outcome.ended_because is not None:
        return outcome.extended(skipped_setups(plans, outcome.ended_because))
    if not plans:
        return outcome
    keep = keep_after(outcome, session.keep)
    return outcome.merged(run_setup_cost(session.device, plans, session.observer, keep=keep))


def _with_latency(outcome: Outcome, plans: Sequence[LatencyPlan], session: Session) -> Outcome:
    if outcome.ended_because is not None:
        return outcome.extended(skipped_latency(plans, outcome.ended_because))
    if not plans:
        return outcome
    keep = keep_after(outcome, session.keep)
    return outcome.merged(run_latency(session.device, plans, session.observer, slowdowns=session.slowdowns, keep=keep))


def _with_launches(outcome: Outcome, plans: Sequence[LaunchPlan], session: Session) -> Outcome:
    if outcome.ended_because is not None:
        return outcome.extended(skipped_cases(plans, outcome.ended_because))
    if not plans:
        return outcome
    keep = keep_after(outcome, session.keep)
    return outcome.merged(
        run_launch_overhead(session.device, plans, session.observer, slowdowns=session.slowdowns, keep=keep)
    )
