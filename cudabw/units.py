"""Read and show bytes, counts, seconds, rates and fractions.

The readers are strict: what they take is written in their docstrings, in ASCII, and everything
else is a :class:`ValueError` that quotes the text and shows a good value. The formatters give the text of
one table cell. Sizes are binary, rates decimal, times are in seconds.
"""

from __future__ import annotations

import math
import re
from typing import Final

MAX_SIZE: Final = 2**48
"""Largest size in bytes: the span of the 48-bit virtual addresses that CUDA uses on the usual hosts."""

MAX_SIZES: Final = 1000
"""Most sizes in one list; a sweep of more is a mistyped step."""

MAX_COUNT: Final = 10**9
"""Largest count; beyond it a run would never end."""

MAX_SECONDS: Final = 10.0**9
"""Longest time in seconds (31 years); everything up to it is a valid timeout for a wait in Python."""

_SIZE_UNITS: Final[dict[str, int]] = {
    "": 1,
    "b": 1,
    **{letter: 1024**power for power, letter in enumerate("kmgt", start=1)},
    **{letter + "ib": 1024**power for power, letter in enumerate("kmgt", start=1)},
    **{letter + "b": 1000**power for power, letter in enumerate("kmgt", start=1)},
}
_SHOWN_UNITS: Final = ("TiB", "GiB", "MiB", "KiB", "B")
_READABLE: Final = 99_999

# re.ASCII matters beside re.IGNORECASE: without it, the Kelvin sign matches "k".
_SIZE: Final = re.compile(r"([0-9]+)(b|[kmgt](?:i?b)?)?", re.ASCII | re.IGNORECASE)
_DIGITS: Final = re.compile(r"[0-9]+", re.ASCII)
_SECONDS: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|min|m)?", re.ASCII)
_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)%?", re.ASCII)

_SIZE_HELP: Final = "write digits and at most one unit, for example 4096, 64KiB or 16MiB"
_RANGE_HELP: Final = "write start:end:step, for example 4KiB:256MiB:x4 or 1MiB:8MiB:+1MiB"


def parse_size(text: str) -> int:
    """Read one size.

    ASCII digits, then optionally one unit, in any case: ``B``; ``K M G T`` and ``KiB MiB GiB TiB`` are
    powers of 1024; ``KB MB GB TB`` are powers of 1000. No sign, space, fraction or separator.

    Returns:
        Bytes, from 1 to ``MAX_SIZE``.

    Raises:
        ValueError: The text is not a size, or lies outside the bounds.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{_quote(text)} is not a size: {_SIZE_HELP}")
    digits, unit = match.groups(default="")
    size = _whole(digits, MAX_SIZE) * _SIZE_UNITS[unit.lower()]
    if size < 1:
        raise ValueError(f"size {_quote(text)} is too small: the smallest is 1 byte, for example 1B or 4KiB")
    if size > MAX_SIZE:
        raise ValueError(f"size {_quote(text)} is too large: the largest is {format_size(MAX_SIZE)}, for example 1GiB")
    return size


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read a comma list of sizes and ranges.

    A range is ``start:end:xFACTOR`` with a whole factor of at least 2, or ``start:end:+STEP`` with a size as its
    step; start must not exceed end, and end is included when the steps hit it.

    Returns:
        Bytes, in the order given; a size that was there before is left out.

    Raises:
        ValueError: A member is empty, is no size or range, or there are more than ``MAX_SIZES`` of them.
    """
    sizes: list[int] = []
    for member in text.split(","):
        if not member:
            raise ValueError(f"{_quote(text)} has an empty member: separate sizes by one comma, for example 1MiB,16MiB")
        sizes.extend(_parse_range(member) if ":" in member else (parse_size(member),))
        if len(sizes) > MAX_SIZES:
            raise ValueError(_too_many(text))
    return tuple(dict.fromkeys(sizes))


def parse_count(text: str) -> int:
    """Read how often something is done.

    Returns:
        A whole number from 1 to ``MAX_COUNT``.

    Raises:
        ValueError: The text is not made of ASCII digits alone, or lies outside the bounds.
    """
    return _parse_whole(text, "count", least=1, example=10)


def parse_ordinal(text: str) -> int:
    """Read the number of one of several things, such as a device.

    Returns:
        A whole number from 0 to ``MAX_COUNT``.

    Raises:
        ValueError: The text is not made of ASCII digits alone, or lies outside the bounds.
    """
    return _parse_whole(text, "number", least=0, example=0)


def parse_node(text: str) -> int | str:
    """Read which NUMA nodes are meant.

    Returns:
        The number of one, or the text ``auto`` or ``all``.

    Raises:
        ValueError: The text is neither.
    """
    if text in ("auto", "all"):
        return text
    try:
        return parse_ordinal(text)
    except ValueError:
        raise ValueError(f"{text!r} is no NUMA node: it is a number, auto or all; for example 0") from None


def parse_seconds(text: str) -> float:
    """Read a length of time.

    ASCII digits, optionally a decimal fraction, then optionally one unit: ``s`` (also without a unit),
    ``ms``, ``m`` or ``min``. No sign, space or exponent.

    Returns:
        Seconds, above 0 and up to ``MAX_SECONDS``.

    Raises:
        ValueError: The text is not a time, or lies outside the bounds.
    """
    match = _SECONDS.fullmatch(text)
    if match is None:
        raise ValueError(f"{_quote(text)} is not a time: write digits and at most one unit, for example 2.5s or 500ms")
    number, unit = float(match[1]), match[2]
    # Dividing rounds once, where multiplying by 0.001 would round twice.
    seconds = number / 1000 if unit == "ms" else number * 60 if unit in ("m", "min") else number
    if seconds <= 0:
        raise ValueError(f"time {_quote(text)} is too short: it must be above 0, for example 500ms")
    if seconds > MAX_SECONDS:
        raise ValueError(f"time {_quote(text)} is too long: write at most {MAX_SECONDS:.0f} seconds, for example 60s")
    return seconds


def parse_percent(text: str) -> float:
    """Read a share in percent.

    ASCII digits, optionally a decimal fraction, then optionally ``%``. No sign, space or exponent.

    Returns:
        The share, above 0 and up to 1: 0.005 for ``0.5%``.

    Raises:
        ValueError: The text is not a percentage, or lies outside the bounds.
    """
    match = _PERCENT.fullmatch(text)
    if match is None:
        raise ValueError(f"{_quote(text)} is not a percentage: write digits, and % if you like, for example 0.5%")
    share = float(match[1]) / 100
    if not 0 < share <= 1:
        raise ValueError(
            f"percentage {_quote(text)} is out of range: write more than 0 and up to 100, for example 0.5%"
        )
    return share


def format_size(nbytes: int) -> str:
    """Show a size in the largest binary unit that gives a whole number of at most five digits.

    Where there is none, the size is rounded to two decimals (``1.50 GiB``), so decimals mean "rounded".

    Args:
        nbytes: Bytes, 0 or more.

    Raises:
        ValueError: The size is negative.
    """
    if nbytes < 0:
        raise ValueError(f"a size cannot be negative: {nbytes} bytes")
    if nbytes == 0:
        return "0 B"
    for unit in _SHOWN_UNITS:
        count, rest = divmod(nbytes, _SIZE_UNITS[unit.lower()])
        if rest == 0 and count <= _READABLE:
            return f"{count} {unit}"
    return _format_rounded_size(nbytes)


def format_about_size(nbytes: float) -> str:
    """Show a size with two significant figures, in the largest binary unit of which there is at least one.

    For estimates, of which more figures would promise too much.

    Args:
        nbytes: Bytes, 0 or more.

    Raises:
        ValueError: The size is negative or not finite.
    """
    if not 0 <= nbytes < math.inf:
        raise ValueError(f"an estimated size is finite and not negative, not {nbytes} bytes")
    unit = next(unit for unit in _SHOWN_UNITS if unit == "B" or nbytes >= _SIZE_UNITS[unit.lower()])
    count = float(f"{nbytes / _SIZE_UNITS[unit.lower()]:.2g}")
    return f"{count:.10g} {unit}"


def format_rate(bytes_per_s: float) -> str:
    """Show a rate in decimal GB/s with three significant figures, whole from 1000 on; the number alone.

    Args:
        bytes_per_s: Bytes per second; negative for a difference.

    Raises:
        ValueError: The rate is not finite.
    """
    _require_finite(bytes_per_s, "rate")
    return _significant(bytes_per_s / 1e9)


def format_seconds(s: float, *, ascii: bool = False, figures: int = 3) -> str:  # noqa: A002 - the keyword reads as what it asks for
    """Show a time in ns, µs, ms or s with three significant figures or fewer, whole from 1000 s on.

    Args:
        s: Seconds; negative for a difference.
        ascii: Write ``us`` for ``µs``, for terminals and files that are not UTF-8.
        figures: How many significant figures.

    Raises:
        ValueError: The time is not finite.
    """
    _require_finite(s, "time")
    if s == 0:
        return "0 s"
    for per_second, unit in ((1e9, "ns"), (1e6, "us" if ascii else "\u00b5s"), (1e3, "ms")):
        shown = _significant(s * per_second, figures)
        if abs(float(shown)) < 1000:
            return f"{shown} {unit}"
    return f"{_significant(s, figures)} s"


def format_percent(fraction: float) -> str:
    """Show a fraction in percent: whole from 10 on, else one decimal, two below 0.1, and ``<0.01 %`` below those.

    Args:
        fraction: 1.0 is 100 %; negative for a difference.

    Raises:
        ValueError: The fraction is not finite.
    """
    _require_finite(fraction, "fraction")
    percent = fraction * 100
    if percent == 0:
        return "0 %"
    if abs(percent) < 0.005:
        return "<0.01 %" if percent > 0 else ">-0.01 %"
    decimals = 2 if abs(percent) < 0.095 else 1 if abs(percent) < 9.95 else 0
    return f"{percent:.{decimals}f} %"


def format_count(number: int, one: str, several: str | None = None) -> str:
    """Show how many of a thing there are: ``1 copy``, ``3 copies``.

    Args:
        number: Of them.
        one: What one is called, and what follows in the sentence and differs with the number.
        several: Likewise several; None appends an s.
    """
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _parse_range(text: str) -> tuple[int, ...]:
    parts = text.split(":")
    if len(parts) != 3 or parts[2][:1] not in ("x", "+"):
        raise ValueError(f"{_quote(text)} is not a range: {_RANGE_HELP}")
    start, end = _parse_end(parts[0], text), _parse_end(parts[1], text)
    if start > end:
        raise ValueError(f"range {_quote(text)} starts above its end: {_RANGE_HELP}")
    if parts[2].startswith("x"):
        return _multiply(start, end, _parse_factor(parts[2][1:], text))
    step = _parse_end(parts[2][1:], text)
    if (end - start) // step >= MAX_SIZES:
        raise ValueError(_too_many(text))
    return tuple(range(start, end + 1, step))


def _parse_end(part: str, text: str) -> int:
    try:
        return parse_size(part)
    except ValueError as error:
        raise ValueError(f"range {_quote(text)}: {error}") from None


def _parse_factor(digits: str, text: str) -> int:
    factor = _whole(digits, MAX_SIZE) if _DIGITS.fullmatch(digits) else 0
    if factor < 2:
        raise ValueError(f"range {_quote(text)} needs a whole factor of at least 2, for example 4KiB:256MiB:x4")
    return factor


def _multiply(start: int, end: int, factor: int) -> tuple[int, ...]:
    sizes = [start]
    while sizes[-1] * factor <= end:
        sizes.append(sizes[-1] * factor)
    return tuple(sizes)


def _too_many(text: str) -> str:
    return f"{_quote(text)} is more than {MAX_SIZES} sizes: take a larger step, for example 4KiB:256MiB:x4"


def _parse_whole(text: str, what: str, *, least: int, example: int) -> int:
    if _DIGITS.fullmatch(text) is None:
        raise ValueError(f"{_quote(text)} is not a {what}: write digits alone, for example {example}")
    number = _whole(text, MAX_COUNT)
    if not least <= number <= MAX_COUNT:
        raise ValueError(f"{what} {_quote(text)} is out of range: write {least} to {MAX_COUNT}, for example {example}")
    return number


def _whole(digits: str, bound: int) -> int:
    """Give the number, or one above ``bound`` where there are too many digits for ``int`` to be asked."""
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) <= len(str(bound)) else bound + 1


def _quote(text: str) -> str:
    return repr(text) if len(text) <= 60 else repr(text[:57] + "...")


def _require_finite(value: float, what: str) -> None:
    if not math.isfinite(value):
        raise ValueError(f"a {what} must be finite to be shown, not {value}")


def _format_rounded_size(nbytes: int) -> str:
    for unit in reversed(_SHOWN_UNITS):
        # Unit by unit from the smallest, so that what rounds up to 1024 is shown as 1.00 of the next.
        shown = f"{nbytes / _SIZE_UNITS[unit.lower()]:.2f}"
        if float(shown) < 1024:
            break
    return f"{shown} {unit}"


def _significant(value: float, figures: int = 3) -> str:
    """Give so many significant figures, every figure before the point, and an exponent only below a millionth."""
    if value == 0:
        return "0"
    mantissa = f"{value:.{figures - 1}e}"
    exponent = int(mantissa.partition("e")[2])
    return mantissa if exponent < -6 else f"{value:.{max(0, figures - 1 - exponent)}f}"
