"""``cudabw plot``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cudabw.cli.parameters import PICTURE_FILE, RESULT_FILE, STDIN
from cudabw.errors import CudabwError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabw.results.model import RunResult

_EXAMPLES = """\b
Examples:
  cudabw bandwidth --all --size 4KiB:256MiB:x4 -o sweep.json
  cudabw plot sweep.json -o sweep.svg
  cudabw plot old.json new.json -o both.png
"""


@click.command(short_help="Draw results as a picture (SVG or PNG).", epilog=_EXAMPLES)
@click.argument("files", type=RESULT_FILE, metavar="FILE...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    "picture",
    type=PICTURE_FILE,
    required=True,
    metavar="PICTURE",
    help="The file to write, by its end as .svg or .png.",
)
def command(*, files: tuple[str, ...], picture: Path) -> int:
    """Draw the results in each FILE, a JSON file of an earlier run, or - for stdin.

    Of bandwidth: the rate over sizes, a line for each kind of memory and engine, its 99 % interval as a band, and what
    the link can carry. Of launches: where the time goes, over numbers of arguments. Several files are several lines.

    Needs matplotlib: pip install 'cudabw[plot]'.
    """
    from cudabw.cli.inputs import load_result
    from cudabw.results.writing import require_writable, write_whole

    try:
        from cudabw.report.plot import Source, draw
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "matplotlib"
        why = "is not installed" if missing else f"cannot be imported: {error}"
        raise UsageError(f"pictures need matplotlib, which {why}", hint="pip install 'cudabw[plot]'") from error

    try:
        require_writable(picture)
    except OSError as error:
        raise UsageError(f"-o {picture} cannot be written: {error.strerror or error}") from error
    sources = [Source(label, load_result(name)) for name, label in zip(files, _labels(files), strict=True)]
    for source in sources:
        _tell_what_is_left_out(source.label, source.result)
    drawn = draw(sources, picture.suffix.lower().removeprefix("."))
    try:
        write_whole(picture, drawn)
    except OSError as error:
        raise CudabwError(f"{picture} could not be written: {error.strerror or error}") from error
    return 0


def _labels(files: Sequence[str]) -> list[str]:
    """The files' own names, without folder and end where that still tells them apart."""
    short = ["stdin" if name == STDIN else Path(name).stem for name in files]
    return short if len(set(short)) == len(short) else list(files)


def _tell_what_is_left_out(label: str, result: RunResult) -> None:
    from cudabw.cli.main import notify

    missing = [case for case in result.bandwidth_cases if case.rate_bytes_per_s is None]
    if missing:
        first = missing[0]
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        notify(f"{label}: left out, having no figure: {first.id} ({first.state.replace('_', ' ')}){others}")
