"""The headline of a case of whatever benchmark: what a person calls the case, and the samples of its main figure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cudabw.results.latency import LatencyCase, Pace, SmallCopiesCase
from cudabw.results.launch import LaunchCase
from cudabw.results.model import CaseResult, Pages
from cudabw.results.setup_cost import SetupCase
from cudabw.units import format_size

if TYPE_CHECKING:
    from cudabw.results.launch import Seconds
    from cudabw.results.model import Case, Rate

_USUAL_ENGINE = "driver"

_NODES_BY_NAME = {"/node-auto": " on the device's node", "/node-all": " on each node"}
"""What ids end with where nodes were not asked for by number; which they are may not be known."""


class Quantity(Enum):
    """What a figure is, and its unit."""

    RATE = "bytes/s"
    """The more, the faster."""
    TIME = "s"
    """The less, the faster."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The main figure of a measured case.

    Attributes:
        quantity: What it is: of bandwidth a rate, of small copies the time of one, of launches that of the submitting
            call, of memory the time that having it ready and giving it back takes.
        median: As in its results.
        trials: The samples of each trial, in the quantity's unit; one or more of each.
        tick: What the clock can tell of one copy, as a share of its time; 0 where its tick is not in the results.
    """

    quantity: Quantity
    median: float
    trials: tuple[tuple[float, ...], ...]
    tick: float = 0.0


def headline_of(case: Case) -> Headline | None:
    """The main figure of a case; None where it has none, or no samples."""
    quantity, figure, trials = _figure_of(case)
    if figure is None or not any(trials):
        return None
    return Headline(quantity, figure.median, tuple(trial for trial in trials if trial), _tick_of(case, figure.median))


def _figure_of(case: Case) -> tuple[Quantity, Rate | Seconds | None, tuple[tuple[float, ...], ...]]:
    if isinstance(case, CaseResult):
        return Quantity.RATE, case.rate_bytes_per_s, _rates(case)
    if isinstance(case, LaunchCase):
        return Quantity.TIME, case.submit_s, tuple(trial.submit_s for trial in case.trials)
    if isinstance(case, SetupCase):
        return Quantity.TIME, case.total_s, tuple((trial.total_s,) for trial in case.trials)
    seconds = case.seconds if isinstance(case, LatencyCase) else case.per_copy_s
    return Quantity.TIME, seconds, tuple(trial.samples_s for trial in case.trials)


def _rates(case: CaseResult) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(case.size_bytes / seconds for seconds in trial.samples_s if seconds) for trial in case.trials)


def _tick_of(case: Case, median: float) -> float:
    if isinstance(case, LaunchCase | SetupCase) or not case.tick_s or not median:
        return 0.0
    seconds = case.size_bytes / median if isinstance(case, CaseResult) else median
    return case.tick_s / (max(1, _timed_as_one(case)) * seconds)


def _timed_as_one(case: CaseResult | LatencyCase | SmallCopiesCase) -> int:
    """How many copies the clock sees as one interval: a batch, or the turn that the host waits for."""
    if isinstance(case, SmallCopiesCase):
        return case.copies
    if isinstance(case, CaseResult):
        return min(trial.copies_per_batch for trial in case.trials)
    return min(trial.times_per_batch for trial in case.trials) if case.pace is Pace.QUEUED else 1


def label_of(case: Case) -> str:
    """What a person calls a case."""
    if isinstance(case, LaunchCase):
        return f"launch {case.mode}, {case.args} {case.arg_type}" if case.args else f"launch {case.mode}, no arguments"
    size = format_size(case.size_bytes)
    if isinstance(case, CaseResult):
        pages = "" if case.pages is Pages.WARM else f" {case.pages}"
        engine = "" if case.engine == _USUAL_ENGINE else f" {case.engine}"
        direction = case.direction.replace("bidirectional-", "both ways ")
        return f"{case.kind}{pages}{engine} {direction} {size}{_node_of(case)}"
    if isinstance(case, SetupCase):
        return f"set up {case.kind} {size}"
    if isinstance(case, LatencyCase):
        return f"{case.kind} {case.direction} {size} {str(case.pace).replace('_', ' ')}"
    return f"{case.kind} {case.direction} {case.copies} x {size} {case.way}"


def _node_of(case: CaseResult) -> str:
    known = "" if case.numa_node is None else f" on node {case.numa_node}"
    return next((words for end, words in _NODES_BY_NAME.items() if case.id.endswith(end)), known)
