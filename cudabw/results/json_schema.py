"""The JSON Schema of result files, made from the dataclasses and their docstrings.

``schema/1.json`` holds it for whoever validates files; it is written by ``python -m cudabw.results.json_schema``.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Final, get_args, get_origin

from cudabw.results.model import SCHEMA_VERSION, RunResult
from cudabw.results.shape import CASE_CLASSES, fields_of, is_optional, members_of

_PLAIN: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}
_ATTRIBUTE: Final = re.compile(r"(\w+): (.*)")


def json_schema() -> dict[str, Any]:
    """What a document must hold to be read as a run; a valid one may hold more, which is passed over."""
    definitions: dict[str, Any] = {}
    run = _object(RunResult, definitions)
    version = run["properties"].pop("tool_version")
    tool = {"type": "object", "properties": {"name": {"type": "string"}, "version": version}, "required": ["version"]}
    required = [name for name in run["required"] if name != "tool_version"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Results of a run of cudabw, schema {SCHEMA_VERSION}",
        "type": "object",
        "properties": {"schema": {"const": SCHEMA_VERSION}, "tool": tool, **run["properties"]},
        "required": ["schema", "tool", *required, "cases"],
        "$defs": dict(sorted(definitions.items())),
    }


def _object(cls: Any, definitions: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    summary, attributes = _documented(cls)
    properties = {}
    for field in fields_of(cls):
        described = {"description": attributes[field.name]} if field.name in attributes else {}
        properties[field.name] = {**described, **_schema_of(field.type, definitions)}
    found: dict[str, Any] = {
        "description": summary,
        "type": "object",
        "properties": properties,
        "required": [field.name for field in fields_of(cls) if field.required],
    }
    benchmarks = [name for name, case in CASE_CLASSES.items() if case is cls]
    return found | _rules_of_cases(properties, benchmarks) if benchmarks else found


def _rules_of_cases(properties: dict[str, Any], benchmarks: list[str]) -> dict[str, Any]:
    properties["benchmark"] = {"enum": benchmarks}
    return {
        "if": {"properties": {"state": {"const": "ok"}}},
        "then": {"properties": {"reason": {"type": "null"}}},
        "else": {"properties": {"reason": {"type": "string"}}, "required": ["reason"]},
    }


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - any annotation
    found = [_schema_of_one(member, definitions) for member in members_of(kind)]
    if is_optional(kind):
        found.append({"type": "null"})
    types = [each["type"] for each in found if list(each) == ["type"]]
    if len(found) == 1:
        return found[0]
    return {"type": types} if len(types) == len(found) else {"anyOf": found}


def _schema_of_one(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    if kind is object:
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _schema_of(get_args(kind)[0], definitions)}
    if get_origin(kind) is Mapping:
        return {"type": "object", "additionalProperties": _schema_of(get_args(kind)[1], definitions)}
    if is_dataclass(kind):
        name = getattr(kind, "__name__", "")
        if name not in definitions:
            definitions[name] = {}  # while it is being made, for one that holds its own kind
            definitions[name] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{name}"}
    if issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    raise TypeError(f"results hold no {kind}")


def _documented(cls: type) -> tuple[str, dict[str, str]]:
    """The first line of a class's docstring, and what it says of each attribute."""
    summary, _, rest = (inspect.getdoc(cls) or "").partition("\n")
    attributes: dict[str, str] = {}
    name = ""
    for line in rest.partition("Attributes:\n")[2].splitlines():
        if match := _ATTRIBUTE.fullmatch(line.strip()) if line.startswith(" " * 4) and line[4:5] != " " else None:
            name, attributes[match[1]] = match[1], match[2]
        elif name and line.strip():
            attributes[name] += f" {line.strip()}"
    return summary.replace("``", "`"), {name: text.replace("``", "`") for name, text in attributes.items()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")
