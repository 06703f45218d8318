"""Results from JSON documents: strict, with an error that says where, what was found and what is expected.

Within a schema, keys are only ever added, with a default. So keys that are not known are passed over wherever an
object stands, which lets this version read files of later ones, and keys that are missing take their default, which
lets it read files of earlier ones. Everything else that is not as expected is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args, get_origin

from cudabw import __version__
from cudabw.errors import ResultFileError
from cudabw.results.model import SCHEMA_VERSION, RunResult
from cudabw.results.shape import CASE_CLASSES, fields_of, is_optional, members_of

if TYPE_CHECKING:
    from os import PathLike

Upgrade: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

UPGRADES: Final[Mapping[int, Upgrade]] = {}
"""What makes a document of the next schema from one of each earlier schema."""

_LONGEST_QUOTE: Final = 60

_EXPECTED: Final = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


class _MismatchError(Exception):
    """Something in a document is not as expected."""


def read_result(path: str | PathLike[str]) -> RunResult:
    """The run that a JSON file holds, as ``--json`` and ``-o FILE.json`` write it.

    Raises:
        ResultFileError: It cannot be read, or holds no run that this version knows.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ResultFileError(f"{path} cannot be read: {error.strerror or error}") from error
    return read_json(text, str(path))


def read_json(text: str | bytes, source: str, *, upgrades: Mapping[int, Upgrade] = UPGRADES) -> RunResult:
    """The run that a JSON document describes.

    Args:
        text: The document; as bytes in UTF-8, UTF-16 or UTF-32.
        source: What errors call it, such as the name of its file.
        upgrades: What makes a document of the next schema from one of an earlier.

    Raises:
        ResultFileError: It is no document of a run that this version knows.
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ResultFileError(
            f"{source} is not JSON: {error}", hint="Results to read again are written by --json and by -o FILE.json."
        ) from error
    return read_document(document, source, upgrades=upgrades)


def read_document(document: object, source: str, *, upgrades: Mapping[int, Upgrade] = UPGRADES) -> RunResult:
    """The run that parsed JSON describes; arguments and errors as of :func:`read_json`."""
    try:
        return _read_run(_upgraded(document, source, upgrades))
    except _MismatchError as error:
        raise ResultFileError(f"{source}: {error}", hint=_written_by(document)) from error


def _upgraded(document: object, source: str, upgrades: Mapping[int, Upgrade]) -> Mapping[str, Any]:
    current = dict(_object(document, "the document"))
    schema = _plain(int, _member(current, "schema", ""), "schema")
    if schema > SCHEMA_VERSION:
        raise ResultFileError(
            f"{source} is of schema {schema}, and cudabw {__version__} reads none above {SCHEMA_VERSION}",
            hint=f"Read it with cudabw {_tool_version(document) or 'of the version that wrote it'} or newer.",
        )
    for number in range(schema, SCHEMA_VERSION):
        if number not in upgrades:
            raise _mismatch("schema", schema, f"{SCHEMA_VERSION} or one that this version can upgrade")
        current = upgrades[number](current)
    return current


def _read_run(document: Mapping[str, Any]) -> RunResult:
    if "cases" not in document:
        raise _MismatchError("it is not the results of a run: there are no 'cases' in it")
    tool = _object(_member(document, "tool", ""), "tool")
    version = _plain(str, _member(tool, "version", "tool"), "tool.version")
    run = _dataclass(RunResult, {**document, "tool_version": version}, "")
    assert isinstance(run, RunResult)  # noqa: S101 - for the type checker
    return run


def _read(kind: Any, value: object, at: str) -> Any:  # noqa: ANN401 - of whatever type is asked for
    """A value of a type, from what JSON has for it."""
    if value is None and is_optional(kind):
        return None
    members = members_of(kind)
    if len(members) > 1:
        return _case(members, value, at)
    return _read_one(members[0], value, at, " or null" if is_optional(kind) else "")


def _read_one(kind: Any, value: object, at: str, or_null: str) -> Any:  # noqa: ANN401
    if kind is object:
        return value
    origin = get_origin(kind)
    if origin is tuple:
        (member, _) = get_args(kind)
        items = _list(value, at, or_null)
        return tuple(_read(member, item, f"{at}[{index}]") for index, item in enumerate(items))
    if origin is Mapping:
        (_, member) = get_args(kind)
        named = _object(value, at, or_null)
        return {name: _read(member, item, f"{at}.{name}") for name, item in named.items()}
    if is_dataclass(kind):
        return _dataclass(kind, _object(value, at, or_null), at)
    if issubclass(kind, Enum):
        return _enum(kind, value, at, or_null)
    return _plain(kind, value, at, or_null)


def _dataclass(cls: Any, found: Mapping[str, Any], at: str) -> object:  # noqa: ANN401 - a dataclass
    given = {
        field.name: _read(field.type, _member(found, field.name, at), f"{at}.{field.name}" if at else field.name)
        for field in fields_of(cls)
        if field.required or field.name in found
    }
    try:
        made: object = cls(**given)
    except ValueError as error:
        raise _MismatchError(f"{at}: {error}") from error
    return made


def _case(classes: tuple[type, ...], value: object, at: str) -> object:
    """A case; its benchmark says of which class it is."""
    found = _object(value, at)
    benchmark = _plain(str, _member(found, "benchmark", at), f"{at}.benchmark")
    known = {name: cls for name, cls in CASE_CLASSES.items() if cls in classes}
    if benchmark not in known:
        raise _mismatch(f"{at}.benchmark", benchmark, f"one of {', '.join(known)}")
    return _dataclass(known[benchmark], found, at)


def _enum(kind: type[Enum], value: object, at: str, or_null: str) -> Enum:
    # By hand, because an enumeration of text also takes text for granted that is none of its own.
    for member in kind:
        if isinstance(value, str) and member.value == value:
            return member
    raise _mismatch(at, value, f"one of {', '.join(member.value for member in kind)}{or_null}")


def _plain(kind: type, value: object, at: str, or_null: str = "") -> Any:  # noqa: ANN401
    # Other programs write a number without a fraction as a whole one. JSON's true is Python's True, which is an int.
    accepted = (int, float) if kind is float else kind
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise _mismatch(at, value, _EXPECTED[kind] + or_null)
    try:
        return kind(value)
    except OverflowError as error:
        raise _mismatch(at, value, "a number that a double can hold") from error


def _list(value: object, at: str, or_null: str = "") -> list[Any]:
    if not isinstance(value, list):
        raise _mismatch(at, value, f"a list{or_null}")
    return value


def _object(value: object, at: str, or_null: str = "") -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _mismatch(at, value, f"an object{or_null}")
    return value


def _member(found: Mapping[str, Any], name: str, at: str) -> Any:  # noqa: ANN401
    if name not in found:
        raise _MismatchError(f"{at or 'the document'}: {name!r} is missing")
    return found[name]


def _mismatch(at: str, value: object, expected: str) -> _MismatchError:
    shown = json.dumps(value)
    if len(shown) > _LONGEST_QUOTE:
        shown = f"{shown[: _LONGEST_QUOTE - 3]}..."
    return _MismatchError(f"{at}: found {shown}, expected {expected}")


def _written_by(document: object) -> str:
    version = _tool_version(document)
    if version is None or version == __version__:
        return ""
    return f"It was written by cudabw {version}; this is {__version__}."


def _tool_version(document: object) -> str | None:
    tool = document.get("tool") if isinstance(document, dict) else None
    version = tool.get("version") if isinstance(tool, dict) else None
    return version if isinstance(version, str) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is beyond what a double can hold")
    return number
