"""How all pictures look: colours that colour-blind readers can tell apart, and files that are the same every time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cudabw.results.model import Pages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

# Okabe and Ito, "Color Universal Design", 2008, without the yellow, which is too pale for a line on white.
BLACK: Final = "#000000"
ORANGE: Final = "#E69F00"
SKY: Final = "#56B4E9"
GREEN: Final = "#009E73"
BLUE: Final = "#0072B2"
VERMILLION: Final = "#D55E00"
PURPLE: Final = "#CC79A7"
GREY: Final = "#999999"

INK: Final = "#222222"
FAINT: Final = "#666666"

KIND_COLOURS: Final[Mapping[str, str]] = {
    "pageable": VERMILLION,
    "pinned": BLUE,
    "mapped": GREEN,
    "write-combined": ORANGE,
    "registered": SKY,
    "managed": PURPLE,
    "device": BLACK,
}
"""The same kind of memory has the same colour in every picture."""

FILE_COLOURS: Final = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY)
FILE_DASHES: Final = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (9, 3)))
MARKERS: Final[Mapping[str, str]] = {"driver": "o", "kernel": "^", "staged": "s"}
PAGES_MARKERS: Final = {Pages.FIRST_TOUCH: "v", Pages.HUGE: "P"}
"""Of states of pages that are not the usual one, whatever the engine, which dashes still tell."""

ENGINE_DASHES: Final[Mapping[str, Any]] = {"driver": "-", "kernel": (0, (6, 1.5)), "staged": (0, (3, 1.5))}

STYLE: Final[Mapping[str, Any]] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#bbbbbb",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": FAINT,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "figure.facecolor": "white",
    "font.family": "sans-serif",
    "font.size": 9,
    "grid.color": "#e8e8e8",
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "lines.solid_capstyle": "round",
    "text.color": INK,
    "xtick.color": FAINT,
    "xtick.labelsize": 8.5,
    "ytick.color": FAINT,
    "ytick.labelsize": 8.5,
    "ytick.major.size": 0,
    # Text stays text, which readers can select and search; the salt makes the names within a file the same every time.
    "svg.fonttype": "none",
    "svg.hashsalt": "cudabw",
}


def set_title(figure: SubFigure, title: str) -> None:
    """The title of a row of panels, at its left."""
    figure.suptitle(title, x=0.008, ha="left", fontsize=11.5, fontweight="bold")


def panels_of(figure: SubFigure, number: int) -> Sequence[Axes]:
    """Panels of one scale side by side, which fill the row."""
    panels: Sequence[Axes] = figure.subplots(1, number, sharey=True, squeeze=False)[0]
    return panels
