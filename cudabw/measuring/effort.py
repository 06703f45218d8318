"""How much is done for a figure: how many trials, how precise, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from cudabw.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Level(StrEnum):
    """How much, in one word."""

    QUICK = "quick"
    DEFAULT = "default"
    RIGOROUS = "rigorous"


@dataclass(frozen=True, slots=True)
class Effort:
    """When a case has enough trials.

    Attributes:
        least: Trials that each case gets whatever they show.
        most: Trials after which a case gets no more.
        precision: How far the 99 % interval may reach from the median, as a share of it; None to take what comes.
        budget_s: Seconds after which no further trial begins; None for no end.
        sure: Trials of each case that the budget never prevents.

    Raises:
        ValueError: The numbers contradict each other.
    """

    least: int
    most: int
    precision: float | None
    budget_s: float | None
    sure: int

    def __post_init__(self) -> None:
        if not 1 <= self.sure <= self.least <= self.most:
            raise ValueError(f"sure <= least <= most trials, not {self.sure}, {self.least} and {self.most}")

    @property
    def fixed(self) -> bool:
        """Whether the number of trials is given beforehand."""
        return self.least == self.most

    def ended_because(self, trials: int, otherwise: str | None) -> str:
        """Why no trial followed so many: there may be no more, or what is named otherwise, or the time budget."""
        if trials >= self.most:
            return format_count(trials, "trial")
        return otherwise or "time budget"

    def shortfall(self, trials: int, otherwise: str | None) -> Iterator[str]:
        """Says why there are fewer trials than each case gets, where there are."""
        if trials < self.least:
            yield f"{trials} of {self.least} trials: {self.ended_because(trials, otherwise)}"


def effort_of(
    levels: Mapping[Level, Effort],
    level: Level = Level.DEFAULT,
    *,
    trials: int | None = None,
    precision: float | None = None,
    budget_s: float | None = None,
) -> Effort:
    """What a level means, with what was asked for in its place.

    Args:
        levels: What each level of the benchmark means.
        level: Of them.
        trials: Take exactly as many, whatever they show; a precision is then only judged by, and only if given.
        precision: In place of the level's.
        budget_s: In place of the level's, and from the second trial of each case on.
    """
    effort = levels[level]
    if trials is not None:
        effort = Effort(least=trials, most=trials, precision=None, budget_s=None, sure=trials)
    if precision is not None:
        effort = replace(effort, precision=precision)
    return effort if budget_s is None else replace(effort, budget_s=budget_s, sure=1)
