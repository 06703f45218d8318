"""Read single values of a TOML file: each reader takes what tomllib gives, and says what is wrong with the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from math import inf
from typing import Any, Final

from cudabw import units

Reader = Callable[[object], Any]
"""Gives the value that a key means, or raises a :class:`ValueError` that reads well behind the key's name."""

ALL: Final = "all"
"""What a key with choices may be set to in place of a list; unlike a list, it names none of them."""

_MOST_SHOWN: Final = 40
_NODES: Final = 'the number of a NUMA node, "auto" or "all"'


def read_flag(value: object) -> bool:
    """Read ``true`` or ``false``."""
    if not isinstance(value, bool):
        raise ValueError(f"needs true or false, not {describe(value)}")  # noqa: TRY004 - every reader raises ValueError
    return value


def read_count(value: object) -> int:
    """Read how often something is done, as :func:`cudabw.units.parse_count` bounds it."""
    return units.parse_count(_number_text(value, "a whole number", int))


def read_ordinal(value: object) -> int:
    """Read the number of a device, as :func:`cudabw.units.parse_ordinal` bounds it."""
    return units.parse_ordinal(_number_text(value, "a whole number", int))


def read_ordinals(most: int, value: object) -> tuple[int, ...]:
    """Read a list of whole numbers from 0 to ``most``; one that was there before is left out."""
    numbers = tuple(dict.fromkeys(read_ordinal(member) for member in _members(value, "whole numbers", "[0, 4]")))
    if max(numbers) > most:
        raise ValueError(f"{max(numbers)} is too large: write 0 to {most}")
    return numbers


def read_node(value: object) -> int | str:
    """Read NUMA nodes, as :func:`cudabw.units.parse_node` reads them."""
    return units.parse_node(value if isinstance(value, str) else _number_text(value, _NODES, int))


def read_seconds(value: object) -> float:
    """Read seconds: a number, or a text such as ``"500ms"``; :func:`cudabw.units.parse_seconds` reads both."""
    text = value if isinstance(value, str) else _number_text(value, 'seconds or a time such as "30s"', int, float)
    return units.parse_seconds(text)


def read_precision(value: object) -> float:
    """Read a share in percent: a number, or a text such as ``"0.5%"``, by :func:`cudabw.units.parse_percent`."""
    text = value if isinstance(value, str) else _number_text(value, 'percent such as "0.5%"', int, float)
    return units.parse_percent(text)


def read_size(value: object) -> int:
    """Read one byte count or size, as :func:`cudabw.units.parse_size` reads it."""
    return units.parse_size(_size_text(value))


def read_sizes(value: object) -> tuple[int, ...]:
    """Read a list of byte counts, sizes and ranges; a size that was there before is left out."""
    members = _members(value, "sizes", '["1MiB", "4KiB:256MiB:x4"]')
    # One list for the one reader of lists, so that its bound on the number of sizes holds for all members together.
    return units.parse_sizes(",".join(_size_text(member) for member in members))


def read_positive(value: object) -> float:
    """Read a number above 0."""
    return _read_number(value, inf, "a number above 0")


def read_percent(value: object) -> float:
    """Read a number above 0 and up to 100."""
    return _read_number(value, 100.0, "a number above 0 and up to 100")


def read_pattern(value: object) -> str:
    """Read a pattern of the ids of cases, with ``*``, ``?`` and ``[...]``."""
    if not isinstance(value, str) or not value:
        shown = "an empty text" if value == "" else describe(value)
        raise ValueError(f'needs a pattern such as "bandwidth/pinned/*/h2d/*", not {shown}')
    return value


def read_choice(allowed: Sequence[str], value: object) -> str:
    """Read one of the allowed texts."""
    if not isinstance(value, str):
        raise ValueError(f"needs a text, not {describe(value)}")  # noqa: TRY004 - every reader raises ValueError
    if value not in allowed:
        raise ValueError(f"{quote(value)} is not known{suggestion(value, allowed)}: it is one of {', '.join(allowed)}")
    return value


def read_choices(allowed: Sequence[str], value: object) -> tuple[str, ...]:
    """Read a list of the allowed texts; one that was there before is left out."""
    members = _members(value, "texts", f'["{allowed[0]}"]')
    return tuple(dict.fromkeys(read_choice(allowed, member) for member in members))


def read_choices_or_all(allowed: Sequence[str], value: object) -> tuple[str, ...] | str:
    """Read a list of the allowed texts, or the text ``"all"``, which stays as it is."""
    return ALL if value == ALL else read_choices(allowed, value)


def describe(value: object) -> str:
    """Say what a value is in TOML's own words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {quote(value)}"
    if isinstance(value, int | float):
        return f"the number {_shorten(_decimal(value))}"
    return "a list" if isinstance(value, list) else "a table" if isinstance(value, dict) else "a date or time"


def quote(text: str) -> str:
    """Quote a text on one line, cut where it is long."""
    return repr(_shorten(text))


def suggestion(text: str, known: Iterable[str]) -> str:
    """`` (did you mean 'kinds'?)`` where a known text is close, else nothing."""
    close = get_close_matches(text, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _read_number(value: object, most: float, wanted: str) -> float:
    text = _number_text(value, "a number", int, float)
    try:
        number = float(value)  # type: ignore[arg-type] # by the line above it is a number
    except OverflowError:
        number = inf
    if not 0 < number <= most or number == inf:
        raise ValueError(f"{_shorten(text)} is out of range: write {wanted}")
    return number


def _members(value: object, of_what: str, example: str) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"needs a list of {of_what} such as {example}, not {describe(value)}")  # noqa: TRY004
    if not value:
        raise ValueError(f"the list is empty: write {of_what} such as {example}, or leave the key out")
    return value


def _size_text(value: object) -> str:
    return value if isinstance(value, str) else _number_text(value, 'bytes or a size such as "16MiB"', int)


def _number_text(value: object, wanted: str, *kinds: type[int | float]) -> str:
    # By exact type: true is an int to Python.
    if type(value) not in kinds:
        raise ValueError(f"needs {wanted}, not {describe(value)}")
    assert isinstance(value, int | float)  # noqa: S101 - by the line above; for the type checker
    return _decimal(value)


def _decimal(number: float) -> str:
    # Python refuses to write very long numbers in decimal, and TOML has no bound on hexadecimal ones.
    if isinstance(number, int) and number.bit_length() > 64:
        return hex(number)
    return str(number)


def _shorten(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."
