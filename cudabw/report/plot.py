"""A picture of one or several runs, as SVG or PNG. Needs matplotlib, which the extra ``plot`` brings."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import matplotlib.style
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from cudabw.errors import UsageError
from cudabw.report.curves import curves_of, is_sweep
from cudabw.report.plot_bandwidth import BandwidthRow, bandwidth_rows, draw_bandwidth
from cudabw.report.plot_launches import LaunchRow, argument_types, draw_launches, highest_of, launch_rows
from cudabw.report.plot_style import FAINT, FILE_DASHES, STYLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabw.results.model import RunResult

MOST_SOURCES: Final = len(FILE_DASHES)

_PANEL_WIDTH: Final = 3.7
_NAMES_WIDTH: Final = 2.0
"""Beside the panels."""
_CAPTION_HEIGHT: Final = 0.2
_DOTS_PER_INCH: Final = 160
"""Of a PNG."""


@dataclass(frozen=True, slots=True)
class Source:
    """A run to draw.

    Attributes:
        label: What it is called beside other runs.
    """

    label: str
    result: RunResult

    @property
    def name(self) -> str:
        """What its lines are called beside those of other runs."""
        device = self.result.device
        return f"{self.label}, EMULATED" if device is not None and device.emulated else self.label


def draw(sources: Sequence[Source], as_format: str) -> bytes:
    """Draw runs into one picture; the same runs give the same bytes.

    Args:
        sources: At least one.
        as_format: ``svg`` or ``png``.

    Raises:
        UsageError: There is nothing to draw in one of them, or there are too many to tell apart.
    """
    if len(sources) > MOST_SOURCES:
        raise UsageError(
            f"{len(sources)} files are too many for one picture: lines of at most {MOST_SOURCES} are told apart"
        )
    for source in sources:
        _require_something(source)
    with matplotlib.style.context(["default", dict(STYLE)]):
        return _saved(_figure(sources), _title("cudabw", sources), as_format)


def _require_something(source: Source) -> None:
    if is_sweep(source.result) or argument_types(source.result):
        return
    if curves_of(source.result.bandwidth_cases):
        raise UsageError(
            f"{source.label} has rates at one size only, which make no curve",
            hint="Measure several: cudabw bandwidth --size 4KiB:256MiB:x4 -o sweep.json",
        )
    if source.result.launch_cases:
        raise UsageError(
            f"{source.label} has no launches with several numbers of arguments, which a picture compares",
            hint="Measure several: cudabw launch-overhead --args 0,1,4,16 -o launches.json",
        )
    raise UsageError(f"{source.label} has neither rates nor launches to draw")


def _figure(sources: Sequence[Source]) -> Figure:
    copies = bandwidth_rows([source for source in sources if is_sweep(source.result)])
    launches = launch_rows(sources)
    rows: Sequence[BandwidthRow | LaunchRow] = [*copies, *launches]
    heights = [row.inches for row in rows]
    size = (_PANEL_WIDTH * max(row.columns for row in rows) + _NAMES_WIDTH, sum(heights) + _CAPTION_HEIGHT)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.08))
    parts = iter(figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0])
    for copy_row in copies:
        draw_bandwidth(copy_row, next(parts), _title)
    runs = {row.source.label for row in launches}
    for launch_row in launches:
        caption = f" ({launch_row.source.label})" if len(runs) > 1 else ""
        draw_launches(launch_row, highest_of(launches), next(parts), _title, caption)
    marks = " and ".join([*(["bands"] if copies else []), *(["whiskers"] if launches else [])])
    figure.supxlabel(_caption(sources, marks), x=0.008, ha="left", fontsize=8, color=FAINT)
    return figure


def _title(what: str, sources: Sequence[Source]) -> str:
    devices = [source.result.device for source in sources if source.result.device is not None]
    emulated = [device.emulated for device in devices]
    names = list(dict.fromkeys(device.name for device in devices if not device.emulated))
    # Figures of the emulated device must never be taken for a GPU's.
    if emulated and all(emulated):
        return f"{what} · EMULATED, not a GPU"
    shown = [*names, *(["EMULATED, not a GPU"] if any(emulated) else [])]
    return " · ".join([what, ", ".join(shown)]) if shown else what


def _caption(sources: Sequence[Source], marks: str) -> str:
    trials = [len(case.trials) for source in sources for case in source.result.cases if case.trials]
    few, most = min(trials, default=0), max(trials, default=0)
    number = f"{most}" if few == most else f"{few} to {most}"
    return f"Medians of {number} trials; {marks}: their 99 % interval." if most > 1 else "One trial; no interval."


def _saved(figure: Figure, title: str, as_format: str) -> bytes:
    # Neither a date nor a version, so that a picture changes only when its figures do.
    metadata = (
        {"Title": title, "Date": None, "Creator": None} if as_format == "svg" else {"Title": title, "Software": None}
    )
    stream = io.BytesIO()
    figure.savefig(stream, format=as_format, dpi=_DOTS_PER_INCH, metadata=metadata)
    return stream.getvalue()
