"""The one exit code that a run's results mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.results.model import State

if TYPE_CHECKING:
    from cudabw.results.model import RunResult

MEASURED = 0
FAILED = 1
MISSING = 4


def exit_code(result: RunResult) -> int:
    """What a command that produced these results exits with.

    An error of the whole run brings its own code. Otherwise 1 if a case failed or carried wrong data; 4 if one
    that was asked for by name, or everything, is refused or unsupported; else 0.
    """
    if result.error is not None:
        return result.error.exit_code
    states = [case.state for case in result.cases]
    if State.FAILED in states or State.WRONG_DATA in states:
        return FAILED
    if State.OK not in states or any(case.named and case.state is not State.OK for case in result.cases):
        return MISSING
    return MEASURED
