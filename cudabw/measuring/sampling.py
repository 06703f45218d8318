"""Which trial comes next: every case in every round, in shuffled order, until it is precise or the time is used up."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from cudabw import stats
from cudabw.measuring.agreement import count_outliers
from cudabw.results.model import Rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cudabw.measuring.effort import Effort
    from cudabw.results.model import Trial

Case = TypeVar("Case")

CONFIDENCE = 0.99

_MOST_SCATTER = 100.0  # of a logarithm: what two trials leave open may be beyond every finite number


class Budget:
    """Real time that a run may use; what is under way when it ends is finished.

    Args:
        seconds: The budget; None for no end.
        clock: Real time, also where the measured clock is a model.
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._end = math.inf if seconds is None else clock() + seconds

    def allows(self, seconds: float) -> bool:
        """Whether it is not used up, nor will be by something that takes so many seconds."""
        left = self._end - self.clock()
        return left > 0 and seconds <= left


class Rounds(Generic[Case]):
    """The trials of a run, one after the other; what is done between two of them is the first one's trial.

    Every round has each case that needs a trial once, in an order of its own: drift of the machine falls on all cases
    alike, and whenever the time ends, none had to wait for another. A case that has enough drops out and leaves the
    time to the others, and so does one whose next trial would not end in time, if it took as long as its longest.

    Args:
        cases: What to measure.
        effort: How much.
        random: The order of each round.
        enough: Whether a case needs no more than its least trials.
        budget: The time; begins now unless given.

    Attributes:
        added: Trials beyond the least of each case that rounds so far have begun.
        cut: Whether a case had to do without a trial because the time was used up.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        effort: Effort,
        random: np.random.Generator,
        enough: Callable[[Case], bool],
        budget: Budget | None = None,
    ) -> None:
        self._cases = cases
        self._effort = effort
        self._random = random
        self._enough = enough
        self._budget = Budget(effort.budget_s) if budget is None else budget
        self._longest = [0.0] * len(cases)
        self.added = 0
        self.cut = False

    def __iter__(self) -> Iterator[Case]:
        for number in range(self._effort.most):
            due = [at for at, case in enumerate(self._cases) if number < self._effort.least or not self._enough(case)]
            if number >= self._effort.least:
                self.added += len(due)
            in_time = 0
            for at in (due[index] for index in self._random.permutation(len(due))):
                if number >= self._effort.sure and not self._budget.allows(self._longest[at]):
                    self.cut = True
                    continue
                in_time += 1
                start = self._budget.clock()
                yield self._cases[at]
                self._longest[at] = max(self._longest[at], self._budget.clock() - start)
            if not in_time:
                return


def rate_over(trials: Sequence[Trial], nbytes: int, tick_s: float = 0.0) -> Rate:
    """The rate over trials, in bytes per second: the median of the trials' medians with its 99 % interval.

    Every trial has fresh allocations, so the trials are the independent draws, not the samples in them.

    Args:
        trials: One or more.
        nbytes: Bytes of one copy.
        tick_s: Of the clock; the interval is never narrower than what it can tell.
    """
    middles = [stats.median(trial.samples_s) for trial in trials]
    medians = [nbytes / seconds for seconds in middles]
    samples = [nbytes / seconds for trial in trials for seconds in trial.samples_s]
    middle = stats.median(medians)
    # Of one copy: the clock sees a batch.
    tick_s = max(tick_s / trial.copies_per_batch for trial in trials)
    # On logarithms: rates scatter by factors, and an interval of plain rates could reach below zero.
    logarithms = [math.log(median / middle) for median in medians]
    floor = min(tick_s / stats.median(middles), _MOST_SCATTER)
    interval = stats.median_interval(logarithms, CONFIDENCE, floor=floor)
    return Rate(
        median=middle,
        low=None if interval is None else middle * math.exp(interval.low),
        high=None if interval is None else middle * math.exp(min(interval.high, _MOST_SCATTER)),
        min=min(samples),
        max=max(samples),
        p5=stats.quantile(samples, 0.05),
        p95=stats.quantile(samples, 0.95),
        n=len(samples),
        outliers=count_outliers([trial.samples_s for trial in trials], tick_s),
    )
