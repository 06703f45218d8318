"""How trials are taken, of whatever benchmark: plan after plan, with progress told and what is finished kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from cudabw.benchmarks.outcome import UNFINISHED, Outcome, keep_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cudabw.benchmarks.observer import Observer
    from cudabw.benchmarks.outcome import Ending, Keep
    from cudabw.measuring.effort import Effort
    from cudabw.measuring.sampling import Rounds
    from cudabw.results.model import Case

Plan = TypeVar("Plan")
Draws = TypeVar("Draws")


@dataclass(slots=True)
class Taking:
    """The trials of one plan.

    Attributes:
        observer: Hears of progress.
        keep: Called after each trial.
        done: Trials of the whole run that are done.
        total: Trials of the whole run, as far as is known before they begin.
        added: Trials that this plan took beyond those.
    """

    observer: Observer
    keep: Keep
    done: int
    total: int
    added: int = 0
    _start: int = field(init=False)

    def __post_init__(self) -> None:
        self._start = self.done

    @property
    def taken(self) -> int:
        """Trials of this plan that are done."""
        return self.done - self._start

    def take(
        self,
        rounds: Rounds[Draws],
        effort: Effort,
        label_of: Callable[[Draws], str],
        take_trial: Callable[[Draws], None],
        outcome: Callable[[Ending], Outcome],
    ) -> str | None:
        """Take all trials.

        Args:
            rounds: Says which comes next.
            effort: Of the plan.
            label_of: What a person reads meanwhile.
            take_trial: Takes one, unless the case has failed.
            outcome: The results so far.

        Returns:
            Why they ended early, if they did.
        """
        for draws in rounds:
            self.observer.progress(self.done, self.total + rounds.added, label_of(draws))
            take_trial(draws)
            self.done += 1
            self.keep(lambda: outcome(UNFINISHED))
        self.added = rounds.added
        self.observer.progress(self.done, self.total + rounds.added, "")
        return f"time budget of {effort.budget_s:g} s" if rounds.cut else None


def take_in_turn(
    plans: Sequence[Plan],
    observer: Observer,
    keep: Keep,
    *,
    least: Callable[[Plan], int],
    measure: Callable[[Plan, Taking], Outcome],
    skipped: Callable[[Sequence[Plan], str], Iterable[Case]],
    warnings: tuple[str, ...] = (),
) -> Outcome:
    """Measure plan after plan; once one has ended the run, the others are skipped.

    Args:
        plans: What to measure.
        observer: Hears of progress.
        keep: Called after each trial.
        least: How many trials a plan takes at least.
        measure: Measures a plan.
        skipped: The results of plans that were never begun, and why they were not.
        warnings: What disturbs the figures of all.
    """
    total = sum(least(plan) for plan in plans)
    outcome = Outcome(warnings=warnings)
    for plan in plans:
        if outcome.ended_because is not None:
            outcome = outcome.extended(skipped((plan,), outcome.ended_because))
            continue
        taking = Taking(observer, keep_after(outcome, keep), outcome.trials_done, total)
        outcome = outcome.merged(measure(plan, taking))
        total += taking.added
    return outcome
