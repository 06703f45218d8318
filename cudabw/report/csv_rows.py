"""Results as CSV: one row for each case, with the device and the run behind it; samples are in the JSON alone."""

from __future__ import annotations

import csv
import io
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin

from cudabw.results.model import DeviceInfo
from cudabw.results.shape import fields_of, members_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudabw.results.model import Case, RunResult

_OF_THE_RUN = ("started", "finished", "tool_version")


def run_to_csv(result: RunResult) -> str:
    """The cases of a run, the same in every locale.

    A column is named as in the JSON, with dots where that has objects in objects. There are the columns of those
    benchmarks that the run has cases of; what a case has no such thing for, or what is null, is empty.
    """
    rows = [dict(_of_case(case)) | dict(_of_run(result)) for case in result.cases]
    # Those of the run come last, and also where there is no case.
    columns = dict.fromkeys(name for case in result.cases for name, _ in _of_case(case))
    columns |= dict.fromkeys(name for name, _ in _of_run(result))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _of_case(case: Case) -> Iterable[tuple[str, str]]:
    return _flatten(type(case), case, "")


def _of_run(result: RunResult) -> Iterable[tuple[str, str]]:
    yield from _flatten(DeviceInfo, result.device, "device.")
    for name in _OF_THE_RUN:
        yield f"run.{name}", _cell(getattr(result, name))


def _flatten(cls: Any, value: object, prefix: str) -> Iterable[tuple[str, str]]:  # noqa: ANN401 - a dataclass
    for field in fields_of(cls):
        found = None if value is None else getattr(value, field.name)
        (kind,) = members_of(field.type)
        name = prefix + field.name
        if is_dataclass(kind):
            yield from _flatten(kind, found, f"{name}.")
        elif get_origin(kind) is not tuple:
            yield name, _cell(found)
        elif get_args(kind)[0] is str:
            yield name, "; ".join(found or ())
        elif is_dataclass(get_args(kind)[0]):
            yield name, "" if found is None else str(len(found))  # of trials, how many there are


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
