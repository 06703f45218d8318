"""Draw rates over sizes: a row of panels for each group of directions, a line for each kind of memory and engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cudabw.report.curves import PANELS, Curve, curves_of
from cudabw.report.plot_labels import LINE_INCHES, name_lines
from cudabw.report.plot_style import (
    BLACK,
    ENGINE_DASHES,
    FAINT,
    FILE_COLOURS,
    FILE_DASHES,
    KIND_COLOURS,
    MARKERS,
    PAGES_MARKERS,
    panels_of,
    set_title,
)
from cudabw.units import format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

    from cudabw.report.plot import Source
    from cudabw.results.model import Link

_MOST_TICKS: Final = 5
_PANEL_INCHES: Final = 2.4
"""How high a panel is, unless it has more lines than can be named beside it."""
_AROUND_INCHES: Final = 1.1
"""What titles above and sizes below take."""
_HEADROOM: Final = 1.06
"""Above the highest line, for its name."""
_MOST_BAND: Final = 1.5
"""As high above the highest line as bands are shown: an interval of few trials can reach a thousand times higher."""


@dataclass(frozen=True, slots=True)
class BandwidthRow:
    """Panels side by side.

    Attributes:
        title: What they show.
        panels: The name of each direction that was measured.
        sources: The runs that measured any of them.
    """

    title: str
    panels: Mapping[str, str]
    sources: Sequence[Source]

    @property
    def columns(self) -> int:
        """How many panels."""
        return len(self.panels)

    @property
    def panel_inches(self) -> float:
        """How high its panels are, so that there is room beside them for the name of every line."""
        names = {(number, curve.label) for number, source in enumerate(self.sources) for curve in self.curves(source)}
        return max(_PANEL_INCHES, LINE_INCHES * len(names))

    @property
    def inches(self) -> float:
        """How high it is."""
        return self.panel_inches + _AROUND_INCHES

    def curves(self, source: Source) -> list[Curve]:
        """What is drawn of a run."""
        return [curve for way in self.panels for curve in _curves(source, way)]


def bandwidth_rows(sources: Sequence[Source]) -> list[BandwidthRow]:
    """The rows that the curves of some runs fill."""
    rows = []
    for title, panels in PANELS:
        drawn = {way: name for way, name in panels.items() if any(_curves(source, way) for source in sources)}
        if drawn:
            measured = [source for source in sources if any(_curves(source, way) for way in drawn)]
            rows.append(BandwidthRow(title, drawn, measured))
    return rows


def draw_bandwidth(row: BandwidthRow, figure: SubFigure, title: Callable[[str, Sequence[Source]], str]) -> None:
    """Draw one row.

    Args:
        row: What to draw.
        figure: Where.
        title: Adds the device to what is shown.
    """
    set_title(figure, title(row.title, row.sources))
    panels = panels_of(figure, row.columns)
    kinds = {curve.label for source in row.sources for curve in row.curves(source)}
    for axes, (direction, name) in zip(panels, row.panels.items(), strict=True):
        axes.set_title(name)
        for number, source in enumerate(row.sources):
            for curve in _curves(source, direction):
                _draw_curve(axes, curve, _look(curve, number, source, row, alone=len(kinds) == 1))
        _draw_ceilings(axes, direction, row.sources)
        _label_sizes(axes, [size for source in row.sources for size in _sizes(source, direction)])
    panels[0].set_ylabel("GB/s")
    highest = max(float(np.max(line.get_ydata())) for axes in panels for line in axes.get_lines())
    panels[0].set_ylim(0, min(panels[0].get_ylim()[1], highest * _MOST_BAND) * _HEADROOM)
    name_lines(panels, row.panel_inches)


def _curves(source: Source, direction: str) -> tuple[Curve, ...]:
    return curves_of([case for case in source.result.bandwidth_cases if case.direction == direction])


def _sizes(source: Source, direction: str) -> list[int]:
    return [point.size_bytes for curve in _curves(source, direction) for point in curve.points]


def _look(curve: Curve, number: int, source: Source, row: BandwidthRow, *, alone: bool) -> dict[str, Any]:
    """How a curve is drawn: colour tells kinds apart, marks engines and pages, dashes files, or the nodes of one file.

    Where all is of one kind, colour tells files apart.
    """
    several = len(row.sources) > 1
    dashes = ENGINE_DASHES.get(curve.engine, "-") if not several else FILE_DASHES[0 if alone else number]
    if curve.node is not None and not several:
        dashes = FILE_DASHES[curve.node % len(FILE_DASHES)]
    return {
        "color": FILE_COLOURS[number] if alone and several else KIND_COLOURS.get(curve.kind, BLACK),
        "linestyle": dashes,
        "marker": PAGES_MARKERS.get(curve.pages) or MARKERS.get(curve.engine, "D"),
        "label": f"{curve.label} ({source.name})" if several else curve.label,
    }


def _draw_curve(axes: Axes, curve: Curve, look: Mapping[str, Any]) -> None:
    sizes = [point.size_bytes for point in curve.points]
    # What comes first lies on top, because pinned memory is asked for most, and others are as fast.
    above = 3 - len(axes.get_lines()) / 100
    axes.plot(sizes, [point.rate.median / 1e9 for point in curve.points], markeredgewidth=0, zorder=above, **look)
    known = [point for point in curve.points if point.rate.low is not None and point.rate.high is not None]
    axes.fill_between(
        [point.size_bytes for point in known],
        [(point.rate.low or 0.0) / 1e9 for point in known],
        [(point.rate.high or 0.0) / 1e9 for point in known],
        color=look["color"],
        alpha=0.18,
        linewidth=0,
    )


def _draw_ceilings(axes: Axes, direction: str, sources: Sequence[Source]) -> None:
    """A line for each link that the direction is a share of."""
    links = {
        source.result.device.link.ceiling_bytes_per_s: source.result.device.link
        for source in sources
        if source.result.device is not None
        and any(case.direction == direction and case.link_fraction for case in source.result.bandwidth_cases)
    }
    for ceiling, link in links.items():
        if ceiling is not None:
            axes.axhline(ceiling / 1e9, color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
            axes.annotate(
                _link_words(link, ceiling),
                xy=(0, ceiling / 1e9),
                xycoords=("axes fraction", "data"),
                xytext=(3, 3),
                textcoords="offset points",
                color=FAINT,
                fontsize=8.5,
            )


def _link_words(link: Link, ceiling: float) -> str:
    name = f"PCIe Gen{link.generation} x{link.width}" if link.generation and link.width else "link"
    return f"{name}, {format_rate(ceiling)} GB/s"


def _label_sizes(axes: Axes, sizes: Sequence[int]) -> None:
    """Ticks at powers of two, a whole number of powers apart, in binary units."""
    axes.set_xscale("log", base=2)
    first, last = math.floor(math.log2(min(sizes))), math.ceil(math.log2(max(sizes)))
    step = next(step for step in (1, 2, 4, 5, 10, 20, 48) if (last - first) // step < _MOST_TICKS)
    ticks = [2**exponent for exponent in range(first, last + 1, step)]
    axes.set_xticks(ticks, [format_size(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("size of one copy")
