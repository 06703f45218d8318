"""Which trial comes next: every case in every round, in shuffled order, until the trials or the time are used up."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from cudabw import stats
from cudabw.results.model import Rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cudabw.results.model import Trial

Case = TypeVar("Case")

_MOST_SCATTER = 100.0  # of a logarithm: what two trials leave open may be beyond every finite number


class Budget:
    """Real time that a run may use; what is under way when it ends is finished.

    Args:
        seconds: The budget; None for no end.
        clock: Real time, also where the measured clock is a model.
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = math.inf if seconds is None else clock() + seconds

    def over(self) -> bool:
        """Whether the time is used up."""
        return self._clock() >= self._end


def interleave(cases: Sequence[Case], trials: int, random: np.random.Generator) -> Iterator[tuple[int, Case]]:
    """Every case once in each round, each round in an order of its own.

    Drift of the machine then falls on all cases alike instead of on those measured last.

    Yields:
        The round, from 0, and the case.
    """
    for number in range(trials):
        for index in random.permutation(len(cases)):
            yield number, cases[index]


def rate_over(trials: Sequence[Trial], nbytes: int) -> Rate:
    """The rate over trials, in bytes per second: the median of the trials' medians with its 99 % interval.

    Every trial has fresh allocations, so the trials are the independent draws, not the samples in them.
    """
    medians = [nbytes / stats.median(trial.samples_s) for trial in trials]
    samples = [nbytes / seconds for trial in trials for seconds in trial.samples_s]
    middle = stats.median(medians)
    # On logarithms: rates scatter by factors, and an interval of plain rates could reach below zero.
    interval = stats.median_interval([math.log(median / middle) for median in medians], confidence=0.99)
    return Rate(
        median=middle,
        low=None if interval is None else middle * math.exp(interval.low),
        high=None if interval is None else middle * math.exp(min(interval.high, _MOST_SCATTER)),
        min=min(samples),
        max=max(samples),
    )
