"""How much a command does for each figure: the options, and what they mean together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cudabw.cli.parameters import COUNT, PRECISION, SECONDS
from cudabw.errors import UsageError
from cudabw.measuring.effort import Level

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class EffortFlags:
    """What the options say; None where they say nothing.

    Attributes:
        level: How much, in one word.
        trials: Exactly as many.
        precision: How far intervals may reach from their medians, as a share of them.
        time_budget_s: Seconds after which no further trial begins.
        strict: Whether a figure that is not simply ok makes the command exit 4.
    """

    level: Level | None
    trials: int | None
    precision: float | None
    time_budget_s: float | None
    strict: bool


def effort_options(*, trials: str, precision: str, time_budget: str) -> Callable[[Function], Function]:
    """The options of a command, which is given what they say as ``effort``.

    Args:
        trials: What holds without the option, for its help.
        precision: Likewise.
        time_budget: Likewise.
    """
    options = (
        click.option("--quick", is_flag=True, help="Three trials of each case, for a first look."),
        click.option("--rigorous", is_flag=True, help="More trials, more precision, and up to two minutes for it."),
        click.option(
            "--trials",
            type=COUNT,
            default=None,
            metavar="N",
            help=f"Take exactly so many independent draws of each case.  [default: {trials}]",
        ),
        click.option(
            "--precision",
            type=PRECISION,
            default=None,
            metavar="PCT",
            help="Take trials until the 99 % interval of each figure is within this share of its median, such as "
            f"0.2%; with --trials or --quick, only say where it is not.  [default: {precision}]",
        ),
        click.option(
            "--time-budget",
            type=SECONDS,
            default=None,
            metavar="TIME",
            help="Begin no further trial after this time, such as 30s or 2min; every case gets at least one.  "
            f"[default: {time_budget}]",
        ),
        click.option(
            "--strict",
            is_flag=True,
            help="Exit 4 where a figure is less precise than asked for, its trials disagree, or the GPU was slowed "
            "down.",
        ),
    )

    def decorate(function: Function) -> Function:
        command = _with_effort(function)
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _with_effort(function: Function) -> Function:
    @wraps(function)
    def command(
        *,
        quick: bool,
        rigorous: bool,
        trials: int | None,
        precision: float | None,
        time_budget: float | None,
        strict: bool,
        **others: Any,  # noqa: ANN401 - the command's own options
    ) -> Any:  # noqa: ANN401 - what the command returns
        given = [
            name for name, is_given in (("--quick", quick), ("--rigorous", rigorous), ("--trials", trials)) if is_given
        ]
        if len(given) > 1:
            raise UsageError(f"{given[0]} and {given[1]} contradict each other", hint="Choose one of them.")
        if strict and trials and not precision:
            raise UsageError("--strict with --trials needs to know what is precise enough", hint="Add --precision.")
        level = Level.QUICK if quick else Level.RIGOROUS if rigorous else None
        return function(effort=EffortFlags(level, trials, precision, time_budget, strict), **others)

    return command  # type: ignore[return-value]  # the same command, with its options
