"""What plans will need: memory exactly, bytes and time as estimates that say what they assume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudabw import __version__
from cudabw.benchmarks.bandwidth import BATCH_SECONDS, BATCHES_PER_TRIAL
from cudabw.benchmarks.bandwidth_plan import BandwidthPlan
from cudabw.benchmarks.latency import BATCH_SECONDS as LATENCY_BATCH_SECONDS
from cudabw.benchmarks.latency import BATCHES_PER_TRIAL as LATENCY_BATCHES
from cudabw.benchmarks.latency_plan import LatencyPlan, OneCopy
from cudabw.benchmarks.launch_arguments import BUFFER_BYTES
from cudabw.benchmarks.launch_overhead import LaunchPlan
from cudabw.benchmarks.scattered import area_of, host_bytes_of
from cudabw.benchmarks.setup_cost import setup_plans
from cudabw.benchmarks.space import device_bytes, host_bytes, setup_device_bytes, staging_bytes
from cudabw.measuring.timing import choose_times
from cudabw.measuring.turns import FEWEST, choose_turns
from cudabw.results.latency import LATENCY, SMALL_COPIES, Pace
from cudabw.results.launch import BENCHMARK as LAUNCH_OVERHEAD
from cudabw.results.model import Pages
from cudabw.results.plan import PlannedCase, PlannedCopies, PlannedLaunch, PlannedSection, PlannedSetup, RunPlan
from cudabw.results.setup_cost import BENCHMARK as SETUP_COST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudabw.benchmarks.bandwidth_plan import BandwidthCase
    from cudabw.benchmarks.latency_plan import Cell, PlannedLatency
    from cudabw.benchmarks.launch_overhead import PlannedMode
    from cudabw.benchmarks.setup_cost import Setup, SetupPlan
    from cudabw.benchmarks.suite import Plan
    from cudabw.measuring.effort import Effort

# The middle of what is met: host memory of the emulated device and PCIe Gen4 x16 reach 20 to 25 GB/s,
# pageable memory half of that and Gen5 twice.
COPY_BYTES_PER_S: Final = 25e9
# One thread that writes or compares memory, and the driver that pins it.
TOUCH_BYTES_PER_S: Final = 4e9

# To begin a copy takes a driver and a copy engine about as long.
START_SECONDS: Final = 2e-6

# A trial of one set of arguments: some sixty bursts of half a millisecond, and loading a module.
LAUNCH_TRIAL_SECONDS: Final = 0.1

_STEPS: Final = 3
"""A trial of what memory costs: each page is touched, and given and taken in about the same time each."""

_BATCHES: Final = BATCHES_PER_TRIAL + 1  # the first one warms up
_TOUCHES: Final = 1 + 2 * _BATCHES
"""How often a trial touches every byte: to fill it, and after each batch to bring it to the CPU and compare it."""


def estimate_run(suite: str, plans: Sequence[Plan], *, backend: str, device: int) -> RunPlan:
    """Say what plans will do; no driver is asked.

    Args:
        suite: What the user asked for.
        plans: At least one, each with a case or memory to have ready.
        backend: Which device will be used.
        device: Number of the device.
    """
    setups = iter(setup_plans(plan for plan in plans if isinstance(plan, BandwidthPlan)))
    return RunPlan(
        suite,
        __version__,
        backend,
        device,
        tuple(_section(plan, setups) for plan in plans),
        COPY_BYTES_PER_S,
        TOUCH_BYTES_PER_S,
    )


def _section(plan: Plan, setups: Iterator[SetupPlan]) -> PlannedSection:
    if isinstance(plan, LatencyPlan):
        return _latency_section(plan)
    return _launch_section(plan) if isinstance(plan, LaunchPlan) else _copy_section(plan, next(setups))


def _latency_section(plan: LatencyPlan) -> PlannedSection:
    effort = plan.effort
    cases = tuple(_copies_of(case, effort.least) for case in plan.cases())
    seconds = _bounded(sum(_cell_seconds(cell) for cell in plan.cells()), effort)
    return PlannedSection(cases, plan.time_budget_s, seconds, _sought(effort))


def _launch_section(plan: LaunchPlan) -> PlannedSection:
    effort = plan.effort
    cases = tuple(_launch(case, effort.least) for case in plan.cases())
    seconds = _bounded(LAUNCH_TRIAL_SECONDS * len(plan.sets), effort)
    return PlannedSection(cases, plan.time_budget_s, seconds, _sought(effort))


def _copy_section(plan: BandwidthPlan, setup: SetupPlan) -> PlannedSection:
    effort = plan.effort
    copies = tuple(_case(case, effort.least) for case in plan.cases())
    setups = tuple(_setup(one, setup.effort.least) for one in setup.setups)
    seconds = _bounded(sum(_trial_seconds(case) for case in plan.cases()), effort)
    setup_s = _bounded(sum(_STEPS * one.size_bytes / TOUCH_BYTES_PER_S for one in setup.setups), setup.effort)
    sought = _sought(effort) if copies else None
    return PlannedSection(copies + setups, plan.time_budget_s, seconds + setup_s, sought)


def _bounded(round_s: float, effort: Effort) -> float:
    """Seconds of all rounds."""
    seconds = round_s * effort.most
    if effort.budget_s is None:
        return seconds
    # Some trials are taken however long that takes; beyond them, a case that does not converge uses all the time.
    return min(seconds, max(effort.budget_s, round_s * effort.sure))


def _sought(effort: Effort) -> float | None:
    """The precision until which there are further trials."""
    return None if effort.fixed else effort.precision


def _setup(setup: Setup, trials: int) -> PlannedSetup:
    return PlannedSetup(
        id=setup.id,
        benchmark=SETUP_COST,
        kind=setup.kind,
        size_bytes=setup.size_bytes,
        trials=trials,
        named=setup.named,
        host_bytes=setup.size_bytes,
        device_bytes=setup_device_bytes(setup.kind, setup.size_bytes),
    )


def _launch(case: PlannedMode, trials: int) -> PlannedLaunch:
    arguments = case.arguments
    buffers = sum(member in ("buffer", "pointer") for member in arguments.members) * BUFFER_BYTES
    return PlannedLaunch(
        id=case.id,
        benchmark=LAUNCH_OVERHEAD,
        arg_type=arguments.arg_type,
        args=arguments.count,
        mode=case.mode,
        trials=trials,
        named=case.named,
        host_bytes=0,
        device_bytes=buffers,
    )


def _copies_of(case: PlannedLatency, trials: int) -> PlannedCopies:
    cell = case.cell
    if isinstance(cell, OneCopy):
        on_host, on_device = host_bytes(cell.kind, cell.size_bytes, emulated=False), cell.size_bytes
    else:
        on_host, on_device = host_bytes_of(cell), area_of(cell)
    return PlannedCopies(
        id=case.id,
        benchmark=LATENCY if isinstance(cell, OneCopy) else SMALL_COPIES,
        kind=cell.kind,
        direction=cell.direction,
        size_bytes=cell.size_bytes,
        copies=cell.copies,
        how=case.how,
        trials=trials,
        named=case.named,
        host_bytes=on_host,
        device_bytes=on_device,
        copied_bytes=trials * LATENCY_BATCHES * _times(case) * cell.copies * cell.size_bytes,
    )


def _times(case: PlannedLatency) -> int:
    """How often a batch does the work."""
    seconds = START_SECONDS + case.cell.size_bytes / COPY_BYTES_PER_S
    if case.how is Pace.QUEUED:
        return choose_times(seconds, LATENCY_BATCH_SECONDS)
    return choose_turns(seconds * case.cell.copies)


def _cell_seconds(cell: Cell) -> float:
    nbytes = cell.size_bytes * cell.copies
    batch_s = max(LATENCY_BATCH_SECONDS, FEWEST * nbytes / COPY_BYTES_PER_S) + 2 * nbytes / TOUCH_BYTES_PER_S
    return len(cell.cases()) * LATENCY_BATCHES * batch_s + 4 * nbytes / TOUCH_BYTES_PER_S


def _case(case: BandwidthCase, trials: int) -> PlannedCase:
    nbytes = case.size_bytes * case.copies_at_once
    return PlannedCase(
        id=case.id,
        benchmark="bandwidth",
        kind=case.kind,
        engine=case.engine,
        direction=case.direction,
        size_bytes=case.size_bytes,
        trials=trials,
        named=case.named,
        host_bytes=host_bytes(case.kind, nbytes, emulated=False) + staging_bytes(case.size_bytes, case.staging),
        device_bytes=device_bytes(case.kind, nbytes),
        copied_bytes=trials * _BATCHES * _copies(case) * nbytes,
        node=case.node,
        pages=case.pages,
    )


def _copies(case: BandwidthCase) -> int:
    """Copies in a batch: managed pages have to be sent back before they can move again, and fresh ones are no more."""
    once = case.kind == "managed" or case.pages is Pages.FIRST_TOUCH
    return 1 if once else choose_times(case.size_bytes / COPY_BYTES_PER_S, BATCH_SECONDS)


def _trial_seconds(case: BandwidthCase) -> float:
    copying = _BATCHES * max(BATCH_SECONDS, case.size_bytes / COPY_BYTES_PER_S)
    return copying + _TOUCHES * case.size_bytes * case.copies_at_once / TOUCH_BYTES_PER_S
