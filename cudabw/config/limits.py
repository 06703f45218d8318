"""The keys of a suite's ``[[limits]]`` sections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cudabw.config.values import Reader, read_pattern, read_percent, read_positive

if TYPE_CHECKING:
    from collections.abc import Mapping

SECTION: Final = "limits"

CASES: Final = "cases"

BOUNDS: Final[Mapping[str, Reader]] = {
    "min_gb_per_s": read_positive,
    "min_link_percent": read_percent,
    "max_us": read_positive,
    "max_ns_per_argument": read_positive,
}
"""The keys that each set a limit."""

KEYS: Final[Mapping[str, Reader]] = {CASES: read_pattern, **BOUNDS}


def missing_key(settings: Mapping[str, Any]) -> str | None:
    """What a section needs and does not have, in words."""
    if CASES not in settings:
        return f'the key {CASES} is missing: it says which cases are meant, such as "bandwidth/pinned/*"'
    if not BOUNDS.keys() & settings.keys():
        return f"there is no limit in it: write one of {', '.join(BOUNDS)}"
    return None
