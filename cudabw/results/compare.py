"""Whether a run is faster or slower than an earlier one, case by case, and how sure that is.

What is compared is speed: a rate, or one over a time. Trials are the independent draws of a run, so a case is judged by
its trials' medians and never by samples thrown together. Where several earlier runs are given, the runs are the draws:
what changes from run to run then counts, which trials within one run cannot show.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from cudabw import __version__, stats
from cudabw.results.facts import Fact, differing_facts
from cudabw.results.headline import Quantity, headline_of, label_of
from cudabw.results.model import SCHEMA_VERSION, Clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cudabw.results.headline import Headline
    from cudabw.results.model import Case, RunResult, State

CONFIDENCE: Final = 0.99

MARGIN: Final = 0.02
"""What is too small to matter: speeds that differ by a factor of less than 1.02, either way, are the same."""


class Verdict(StrEnum):
    """What became of the speed of a case."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


class Reason(StrEnum):
    """Why a verdict is what it is."""

    BEYOND_MARGIN = "beyond_margin"
    """The whole interval lies beyond the margin: faster, or slower."""
    WITHIN_MARGIN = "within_margin"
    """The whole interval lies within the margin: the same."""
    NEAR_MARGIN = "near_margin"
    """There is a change, but the interval leaves open whether it is beyond the margin."""
    TOO_WIDE = "too_wide"
    """The interval leaves open whether there is a change, and holds changes beyond the margin."""
    ONE_TRIAL = "one_trial"
    """One side has a single trial, which says nothing about how far trials scatter."""
    ONE_RUN = "one_run"
    """There is a change, but the host's clock timed it, and one earlier run does not show how far runs differ by it."""
    FEW_RUNS = "few_runs"
    """Fewer than two of the earlier runs measured it."""
    OTHER_CLOCK = "other_clock"
    """It was timed by another clock, so the figures are not of the same thing."""
    NO_TIME = "no_time"
    """It took no time by its clock, so there is no speed."""
    NOT_MEASURED = "not_measured"
    """One side has no figure: it failed, or was refused or unsupported."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a case that is on both sides.

    Attributes:
        id: Its id.
        label: What a person calls it.
        quantity: Of the figures: ``bytes/s`` or ``s``.
        old: The earlier figure; of several runs their median. Null where there is none.
        new: The new figure.
        old_states: What became of it in the earlier runs, each state once.
        new_state: What became of it in the new one.
        speed: The new speed over the old; null where it cannot be told.
        low: Lower end of its 99 % interval.
        high: Upper end of it.
        verdict: Of the case.
        reason: Of the verdict.
    """

    id: str
    label: str
    quantity: str | None
    old: float | None
    new: float | None
    old_states: tuple[State, ...]
    new_state: State
    verdict: Verdict
    reason: Reason
    speed: float | None = None
    low: float | None = None
    high: float | None = None

    def is_slower_by(self, fraction: float) -> bool:
        """Whether it is slower, and has lost at least this fraction of its speed."""
        return self.verdict is Verdict.SLOWER and self.speed is not None and self.speed <= 1 - fraction


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run compared with one earlier run or several.

    Attributes:
        old: What the earlier results are called.
        new: What the new ones are called.
        old_runs: How many earlier runs there are. With one, trials are the draws; with more, runs.
        device: The name of the new run's device.
        emulated: Whether any figure is the emulated device's.
        cases: Those that are on both sides, in the order of the new run.
        only_old: Labels of cases that only the earlier results have.
        only_new: Labels of cases that only the new ones have.
        facts: In what the machines and their software differ.
        cpu_speed: How fast the CPU worked that the host's times are of, over how fast it did in the earlier runs (their
            median); null where one side does not tell.
    """

    old: str
    new: str
    old_runs: int
    device: str | None
    emulated: bool
    cases: tuple[Change, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    facts: tuple[Fact, ...]
    cpu_speed: float | None = None
    confidence: float = CONFIDENCE
    margin: float = MARGIN


def compare(old: Sequence[RunResult], new: RunResult, *, old_name: str, new_name: str) -> Comparison:
    """Compare a run with one earlier run, or with several.

    Args:
        old: One or more runs.
        new: The run to judge.
        old_name: What the earlier ones are called.
        new_name: What the new one is called.
    """
    before = [{case.id: case for case in run.cases} for run in old]
    after = {case.id: case for case in new.cases}
    known = dict.fromkeys(name for run in before for name in run)
    changes = [
        change_of([run[name] for run in before if name in run], case, between_runs=len(old) > 1)
        for name, case in after.items()
        if name in known
    ]
    labels = {name: label_of(case) for run in before for name, case in run.items()}
    devices = [run.device for run in (*old, new) if run.device is not None]
    return Comparison(
        old=old_name,
        new=new_name,
        old_runs=len(old),
        device=None if new.device is None else new.device.name,
        emulated=any(device.emulated for device in devices),
        cases=tuple(changes),
        only_old=tuple(labels[name] for name in known if name not in after),
        only_new=tuple(label_of(case) for name, case in after.items() if name not in known),
        facts=differing_facts(old, new),
        cpu_speed=_cpu_speed(old, new),
    )


def _cpu_speed(old: Sequence[RunResult], new: RunResult) -> float | None:
    probes = [run.cpu_speed.probe_s for run in old if run.cpu_speed is not None]
    return stats.median(probes) / new.cpu_speed.probe_s if probes and new.cpu_speed is not None else None


def change_of(old: Sequence[Case], new: Case, *, between_runs: bool) -> Change:
    """What became of a case.

    Args:
        old: Its results in the earlier runs that have it.
        new: Its result in the new run.
        between_runs: Whether runs are the draws instead of the trials of one run.
    """
    found, before = headline_of(new), [each for case in old if (each := headline_of(case)) is not None]
    figures: Mapping[str, Any] = {
        "id": new.id,
        "label": label_of(new),
        "quantity": found.quantity.value if found else before[0].quantity.value if before else None,
        "old": stats.median([each.median for each in before]) if before else None,
        "new": found.median if found else None,
        "old_states": tuple(dict.fromkeys(case.state for case in old)),
        "new_state": new.state,
    }
    if found is None or not before:
        return Change(**figures, verdict=Verdict.INCONCLUSIVE, reason=Reason.NOT_MEASURED)
    if {case.clock for case in old if headline_of(case)} != {new.clock}:
        return Change(**figures, verdict=Verdict.INCONCLUSIVE, reason=Reason.OTHER_CLOCK)
    if not all(stats.median(samples) > 0 for each in (*before, found) for samples in each.trials):
        return Change(**figures, verdict=Verdict.INCONCLUSIVE, reason=Reason.NO_TIME)
    earlier, latest = [_speeds_of(each) for each in before], _speeds_of(found)
    # Each side may be off by what its clock cannot tell; so may all earlier runs alike.
    floor = math.log1p(max(each.tick for each in before)) + math.log1p(found.tick)
    if between_runs:
        return Change(**figures, **_judge_between_runs(earlier, latest, floor))
    judged = _judge_trials(earlier[0], latest, floor)
    if new.clock is Clock.HOST and judged["reason"] is Reason.BEYOND_MARGIN:
        # On an H200 whose host had other guests, medians of copies that events timed differed by 0.1 % from run to run,
        # as little as within one; those of pageable copies by 10 %, and those of launches by 1 to 5 %.
        judged |= {"verdict": Verdict.INCONCLUSIVE, "reason": Reason.ONE_RUN}
    return Change(**figures, **judged)


def _speeds_of(found: Headline) -> list[float]:
    """The logarithm of the speed in each trial: a rate is a speed, and a time is one over it."""
    sign = 1 if found.quantity is Quantity.RATE else -1
    return [sign * math.log(stats.median(samples)) for samples in found.trials]


def _judge_trials(old: Sequence[float], new: Sequence[float], floor: float) -> dict[str, Any]:
    if min(len(old), len(new)) < 2:
        return {"verdict": Verdict.INCONCLUSIVE, "reason": Reason.ONE_TRIAL}
    return _judge(stats.welch_interval(old, new, CONFIDENCE, floor=floor), stats.mean(new) - stats.mean(old))


def _judge_between_runs(old: Sequence[Sequence[float]], new: Sequence[float], floor: float) -> dict[str, Any]:
    """Judge one more run by how far earlier runs scatter: their means are draws, and its mean is one more of them."""
    if len(old) < 2:
        return {"verdict": Verdict.INCONCLUSIVE, "reason": Reason.FEW_RUNS}
    interval = stats.prediction_interval(old, new, CONFIDENCE, floor=floor)
    return _judge(interval, stats.mean(new) - stats.mean([stats.mean(trials) for trials in old]))


def _judge(interval: stats.Interval, change: float) -> dict[str, Any]:
    """The verdict on a change of the logarithm of a speed."""
    margin = math.log1p(MARGIN)
    if interval.low > margin:
        verdict, reason = Verdict.FASTER, Reason.BEYOND_MARGIN
    elif interval.high < -margin:
        verdict, reason = Verdict.SLOWER, Reason.BEYOND_MARGIN
    elif -margin <= interval.low and interval.high <= margin:
        verdict, reason = Verdict.SAME, Reason.WITHIN_MARGIN
    elif interval.low > 0 or interval.high < 0:
        verdict, reason = Verdict.INCONCLUSIVE, Reason.NEAR_MARGIN
    else:
        verdict, reason = Verdict.INCONCLUSIVE, Reason.TOO_WIDE
    speed, low, high = (_exp(value) for value in (change, interval.low, interval.high))
    return {"verdict": verdict, "reason": reason, "speed": speed, "low": low, "high": high}


def _exp(value: float) -> float:
    # Two trials that lie far apart leave open what no double can hold.
    return math.exp(max(-700.0, min(value, 700.0)))


def comparisons_to_json(comparisons: Sequence[Comparison]) -> str:
    """Comparisons as one JSON document."""
    document = {
        "schema": SCHEMA_VERSION,
        "tool": {"name": "cudabw", "version": __version__},
        "comparisons": [asdict(comparison) for comparison in comparisons],
    }
    return json.dumps(document, indent=2, allow_nan=False)
