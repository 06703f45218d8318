"""Draw what launches cost over numbers of arguments: where the time of a converted launch goes, stage on stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cudabw.report.plot_style import BLUE, GREEN, INK, ORANGE, SKY, VERMILLION, panels_of, set_title
from cudabw.results.launch import NO_ARGUMENTS, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

    from cudabw.report.plot import Source
    from cudabw.results.launch import LaunchCase
    from cudabw.results.launch_sets import ArgumentSetResult
    from cudabw.results.model import RunResult

_STAGES: Final = (
    ("driver", "driver_s", "#cccccc"),
    ("pack", "pack_s", SKY),
    ("ownership", "ownership_s", GREEN),
    ("convert", "convert_s", VERMILLION),
    ("call", "call_s", ORANGE),
)
"""From the ground up: what every launch pays, then what Python adds."""

_POINTS: Final = (
    (Mode.CONVERTED, INK, "o", -0.12, "converted, whole"),
    (Mode.PREPARED, BLUE, "D", 0.12, "prepared, whole"),
)
"""Beside each other, so that their whiskers do not overlap."""

_BAR: Final = 0.62
_MOST_PANELS: Final = 3
_ROW_INCHES: Final = 3.5


@dataclass(frozen=True, slots=True)
class LaunchRow:
    """Launches of one run: a panel for each kind of arguments."""

    source: Source
    panels: Sequence[str]

    @property
    def columns(self) -> int:
        """How many panels."""
        return len(self.panels)

    @property
    def inches(self) -> float:
        """How high it is."""
        return _ROW_INCHES


def launch_rows(sources: Sequence[Source]) -> list[LaunchRow]:
    """A row for each run that launched with several numbers of arguments, or more if it has many kinds of them."""
    return [LaunchRow(source, types) for source in sources for types in _evenly(argument_types(source.result))]


def _evenly(types: Sequence[str]) -> list[Sequence[str]]:
    """In as few rows as may be, whose lengths differ by one at most."""
    rows = -(-len(types) // _MOST_PANELS)
    return [types[len(types) * row // rows : len(types) * (row + 1) // rows] for row in range(rows)]


def argument_types(result: RunResult) -> list[str]:
    """The kinds of arguments of which a run has several numbers; none at all counts as one of each."""
    types = dict.fromkeys(found.arg_type for found in _sets(result))
    return [one for one in types if one != NO_ARGUMENTS and len(_sets_of(result, one)) > 1]


def draw_launches(
    row: LaunchRow,
    highest: float,
    figure: SubFigure,
    title: Callable[[str, Sequence[Source]], str],
    caption: str,
) -> None:
    """Draw one row.

    Args:
        row: What to draw.
        highest: The longest time in any row, in seconds, so that all rows have one scale.
        figure: Where.
        title: Adds the device to what is shown.
        caption: The run, where there are several.
    """
    set_title(figure, title("Kernel launches from Python", [row.source]) + caption)
    panels = panels_of(figure, row.columns)
    for axes, arg_type in zip(panels, row.panels, strict=True):
        axes.set_title(f"{arg_type} arguments")
        axes.set_xlabel("number of arguments")
        axes.tick_params(axis="x", length=0)
        _draw_stages(axes, _sets_of(row.source.result, arg_type))
        _draw_modes(axes, row.source.result, arg_type)
    panels[0].set_ylabel("µs for one launch")
    panels[0].set_ylim(0, highest * 1e6 * 1.08)
    _set_legend(figure, panels[0])


def highest_of(rows: Sequence[LaunchRow]) -> float:
    """The longest time that rows draw, in seconds."""
    return max(
        max(seconds.median, seconds.high or 0.0)
        for row in rows
        for arg_type in row.panels
        for case in _cases_of(row.source.result, arg_type)
        for seconds in [case.submit_s]
        if seconds is not None and any(case.mode is mode for mode, *_ in _POINTS)
    )


def _set_legend(figure: SubFigure, axes: Axes) -> None:
    """Beside the last panel, from the top down as bars are stacked."""
    handles, labels = axes.get_legend_handles_labels()
    entries = dict(zip(labels, handles, strict=True))
    order = [*(label for *_, label in _POINTS), *(stage for stage, *_ in reversed(_STAGES))]
    figure.legend([entries[label] for label in order], order, loc="outside right center", alignment="left")


def _sets(result: RunResult) -> Sequence[ArgumentSetResult]:
    sets = () if result.launch_overhead is None else result.launch_overhead.sets
    return [found for found in sets if found.stages is not None]


def _sets_of(result: RunResult, arg_type: str) -> list[ArgumentSetResult]:
    return sorted(
        (found for found in _sets(result) if found.arg_type in (arg_type, NO_ARGUMENTS)), key=lambda found: found.args
    )


def _cases_of(result: RunResult, arg_type: str) -> list[LaunchCase]:
    return [case for case in result.launch_cases if case.arg_type in (arg_type, NO_ARGUMENTS)]


def _draw_stages(axes: Axes, sets: Sequence[ArgumentSetResult]) -> None:
    places = range(len(sets))
    ground = [0.0] * len(sets)
    for name, field, colour in _STAGES:
        # A stage that is too short to be told from the one before it may come out below zero.
        heights = [max(getattr(found.stages, field).median, 0.0) * 1e6 for found in sets]
        axes.bar(places, heights, _BAR, bottom=ground, color=colour, edgecolor="white", linewidth=0.6, label=name)
        ground = [low + height for low, height in zip(ground, heights, strict=True)]
    axes.set_xticks(places, [str(found.args) for found in sets])


def _draw_modes(axes: Axes, result: RunResult, arg_type: str) -> None:
    places = {found.args: place for place, found in enumerate(_sets_of(result, arg_type))}
    for mode, colour, marker, aside, label in _POINTS:
        found = [
            (places[case.args] + aside, case.submit_s)
            for case in _cases_of(result, arg_type)
            if case.mode is mode and case.submit_s is not None and case.args in places
        ]
        axes.errorbar(
            [place for place, _ in found],
            [seconds.median * 1e6 for _, seconds in found],
            yerr=[
                [(seconds.median - (seconds.low or seconds.median)) * 1e6 for _, seconds in found],
                [((seconds.high or seconds.median) - seconds.median) * 1e6 for _, seconds in found],
            ],
            fmt=marker,
            color=colour,
            markeredgecolor="white",
            markeredgewidth=0.8,
            markersize=6,
            elinewidth=1.2,
            capsize=3,
            label=label,
        )
