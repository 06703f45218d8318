"""The one exit code that a run's results mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.results.limits import LimitState
from cudabw.results.model import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cudabw.results.model import RunResult

MEASURED = 0
FAILED = 1
USAGE = 2
BELOW_LIMIT = 3
MISSING = 4

# Of several that apply, the first: interrupted, no driver, usage, failure, a limit not met, something missing.
_PRECEDENCE = (130, 143, 5, USAGE, FAILED, BELOW_LIMIT, MISSING)


def exit_code(result: RunResult, *, strict: bool = False) -> int:
    """What a command that produced these results exits with.

    An error of the whole run brings its own code; 1 if a case failed, carried wrong data or is above what the link can
    carry; 3 if a limit is not met, or whether it is cannot be told; 4 if a case that was asked for by name, or
    everything, is refused or unsupported. The first of these in the documented order; else 0.

    Args:
        result: The results.
        strict: Whether a figure that is shown, but is not simply ok, counts as missing, whoever asked for it.
    """
    return first_of(_codes(result, strict=strict))


def first_of(codes: Iterable[int]) -> int:
    """Of several codes that apply, the first in the documented order; one that is not in it is a failure."""
    applying = set(codes) - {MEASURED}
    return next((code for code in _PRECEDENCE if code in applying), FAILED if applying else MEASURED)


def _codes(result: RunResult, *, strict: bool) -> Iterator[int]:
    if result.error is not None:
        yield result.error.exit_code
    states = {case.state for case in result.cases}
    if any(state.failure for state in states):
        yield FAILED
    if any(found.state is not LimitState.PASS for found in result.limits):
        yield BELOW_LIMIT
    if not any(state.measured for state in states) or any(
        case.named and not case.state.measured for case in result.cases
    ):
        yield MISSING
    if strict and any(state.measured and state is not State.OK for state in states):
        yield MISSING
