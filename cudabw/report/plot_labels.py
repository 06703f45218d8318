"""Name the lines of a row of panels where they end: no name hides a line, and lines that lie on each other have two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.transforms import ScaledTranslation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

LINE_INCHES: Final = 0.17
"""How far apart names stand."""

_BESIDE_INCHES: Final = 0.25
"""How far beside the panel names begin."""


def name_lines(panels: Sequence[Axes], height: float) -> None:
    """Write the name of each line once, in the last panel that has it, and draw a leader from the line's end to it.

    Args:
        panels: From left to right, of one scale, which is linear and final.
        height: Of each, in inches.
    """
    named: set[str] = set()
    for axes in reversed(panels):
        lines = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
        fresh = [line for line in lines if line.get_label() not in named]
        named |= {str(line.get_label()) for line in fresh}
        _name(axes, sorted(fresh, key=lambda line: -_end(line)[1]), LINE_INCHES / height)


def spread(wanted: Sequence[float], apart: float) -> list[float]:
    """Places between 0 and 1, from the top down, each as near to where it is wanted as its neighbours allow.

    Those that are too close to each other are moved together, so that their middle stays (isotonic regression).

    Args:
        wanted: The places, none above the one before it.
        apart: How far apart they must be; where that leaves no room for all, they reach beyond 0.
    """
    groups: list[tuple[float, int]] = []
    for number, place in enumerate(wanted):
        top, size = place + number * apart, 1
        while groups and groups[-1][0] < top:
            above, members = groups.pop()
            top, size = (above * members + top * size) / (members + size), members + size
        groups.append((top, size))
    tops = [min(max(top, (len(wanted) - 1) * apart), 1.0) for top, size in groups for _ in range(size)]
    return [top - number * apart for number, top in enumerate(tops)]


def _name(axes: Axes, lines: Sequence[Line2D], apart: float) -> None:
    top = axes.get_ylim()[1]
    beside = axes.transAxes + ScaledTranslation(_BESIDE_INCHES, 0, axes.figure.dpi_scale_trans)
    places = spread([_end(line)[1] / top for line in lines], apart)
    for line, place in zip(lines, places, strict=True):
        axes.annotate(
            str(line.get_label()),
            xy=_end(line),
            xytext=(1, place),
            textcoords=beside,
            verticalalignment="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": line.get_color(),
                "linewidth": 1,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 3,
            },
        )


def _end(line: Line2D) -> tuple[float, float]:
    x, y = np.asarray(line.get_xydata(), dtype=float)[-1]
    return float(x), float(y)
