"""Cells of tables whose times are all in microseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.units import format_percent

if TYPE_CHECKING:
    from cudabw.report.console import Symbols
    from cudabw.results.launch import Seconds


def micro(seconds: float) -> str:
    """Microseconds with as many decimals as leave four figures, at most two."""
    micro = seconds * 1e6
    decimals = 2 if abs(micro) < 99.995 else 1 if abs(micro) < 999.95 else 0
    return f"{micro:.{decimals}f}"


def median(seconds: Seconds | None, symbols: Symbols) -> str:
    """The median, or what stands for none."""
    return symbols.dash if seconds is None else micro(seconds.median)


def relative(seconds: Seconds | None, symbols: Symbols) -> str:
    """Half the width of the interval, in percent of the median."""
    if seconds is None or seconds.low is None or seconds.high is None or not seconds.median:
        return symbols.dash
    spread = max(seconds.median - seconds.low, seconds.high - seconds.median) / seconds.median
    return format_percent(spread) if spread <= 1 else ">100 %"
