"""Results as JSON: one strict document, without NaN or infinity."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from cudabw.results.model import SCHEMA_VERSION

if TYPE_CHECKING:
    from cudabw.results.model import RunResult

_WHERE_MEASURED: Final = ("launch_overhead", "small_copies", "cpu_speed", "fits", "break_even")
"""What is not in the document of a run that did not measure it."""


def to_document(result: RunResult) -> dict[str, Any]:
    """The run as JSON-able data, in the order a reader wants it: what ran, on what, what came out."""
    data = asdict(result)
    for absent in (name for name in _WHERE_MEASURED if not data[name]):
        del data[absent]
    return {
        "schema": SCHEMA_VERSION,
        "tool": {"name": "cudabw", "version": data.pop("tool_version")},
        "command": list(data.pop("command")),
        "started": data.pop("started"),
        "finished": data.pop("finished"),
        "tags": data.pop("tags"),
        "interrupted": data.pop("interrupted"),
        "error": data.pop("error"),
        "device": data.pop("device"),
        "environment": data.pop("environment"),
        "warnings": list(data.pop("warnings")),
        "limits": data.pop("limits"),
        **data,
    }


def to_json(result: RunResult) -> str:
    """The run as one JSON document.

    Raises:
        ValueError: A number in it is not finite, which no result may hold.
    """
    return json.dumps(to_document(result), indent=2, allow_nan=False)
