"""What went wrong in a run, as GitHub Actions shows it beside a job: one workflow command for each annotation.

Source: "Workflow commands for GitHub Actions" in GitHub's documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudabw.report.limits_table import describe_limit, limit_label
from cudabw.results.headline import label_of
from cudabw.results.limits import LimitState
from cudabw.results.model import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cudabw.results.compare import Change
    from cudabw.results.model import RunResult

MOST: Final = 10
"""Errors of one step that GitHub shows; the last one of ours says how many more there are."""

_TITLES: Final = {LimitState.FAIL: "Limit not met", LimitState.CANNOT_TELL: "Limit cannot be told"}


def run_annotations(result: RunResult, *, strict: bool = False) -> list[str]:
    """An error for whatever makes the exit code of a run other than 0, the gravest first.

    Args:
        result: The run.
        strict: Whether figures that are shown, but are not simply ok, do.
    """
    return _at_most(list(_errors_of(result, strict=strict)))


def slower_annotations(slower: Sequence[Change]) -> list[str]:
    """An error for each case that is slower than it may be."""
    return _at_most(
        [_error(f"Slower: {change.label}", f"{change.speed:.1%} of its earlier speed") for change in slower]
    )


def _errors_of(result: RunResult, *, strict: bool) -> Iterable[str]:
    if result.error is not None:
        yield _error("The run ended early", f"{result.error.message}. {result.error.hint}".rstrip(". ") + ".")
    # What failed comes before what was merely not to be had.
    failed = (case for case in result.cases if case.state.failure)
    absent = (case for case in result.cases if case.named and case.state in (State.REFUSED, State.UNSUPPORTED))
    shaky = (case for case in result.cases if strict and case.state.measured and case.state is not State.OK)
    for case in (*failed, *absent, *shaky):
        yield _error(f"{label_of(case)}: {case.state.replace('_', ' ')}", str(case.reason))
    for state, title in _TITLES.items():
        for found in result.limits:
            if found.state is state:
                yield _error(f"{title}: {limit_label(found, result)}", describe_limit(found))


def _at_most(errors: Sequence[str]) -> list[str]:
    if len(errors) <= MOST:
        return list(errors)
    return [*errors[: MOST - 1], _error("And more", f"{len(errors) - MOST + 1} more; the summary has all of them.")]


def _error(title: str, message: str) -> str:
    return f"::error title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
