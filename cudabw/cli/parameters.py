"""The types of option values: strict, and refused with the text quoted before a driver is touched."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from cudabw import units
from cudabw.results.launch import ARG_TYPES, MOST_ARGS

if TYPE_CHECKING:
    from collections.abc import Callable

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # not generic before click 8.4

STDIN = STDOUT = "-"
_REGRESSION = re.compile(r"slower(?:=([0-9]+(?:\.[0-9]+)?)%?)?", re.ASCII)
OUTPUT_SUFFIXES = (".json", ".csv", ".md")
PICTURE_SUFFIXES = (".svg", ".png")

Function = TypeVar("Function", bound="Callable[..., Any]")


class _Parsed(_ParamType):
    """A value read by one of the parsers of :mod:`cudabw.units`."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's signature
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _parse_argument_counts(text: str) -> tuple[int, ...]:
    try:
        counts = [units.parse_ordinal(member) for member in text.split(",")]
    except ValueError:
        counts = [-1]
    if not 0 <= min(counts) <= max(counts) <= MOST_ARGS:
        raise ValueError(f"{text!r} are no numbers of arguments: each is from 0 to {MOST_ARGS}, for example 0,1,4,16")
    return tuple(counts)


def _parse_argument_types(text: str) -> tuple[str, ...]:
    members = text.split(",")
    for member in members:
        if member not in ARG_TYPES:
            raise ValueError(f"{member!r} is no type of argument: it is one of {', '.join(ARG_TYPES)}")
    return tuple(members)


def _parse_output(text: str) -> Path:
    return Path(STDOUT) if text == STDOUT else _parse_written(text, OUTPUT_SUFFIXES)


def _parse_picture(text: str) -> Path:
    return _parse_written(text, PICTURE_SUFFIXES)


def _parse_written(text: str, suffixes: tuple[str, ...]) -> Path:
    path = Path(text)
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"{text!r} ends in none of {', '.join(suffixes)}, which say how it is written")
    return path


class _File(_Parsed):
    """The name of a file, which the shell completes."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        return [CompletionItem(incomplete, type="file")]


def format_option(name: str, text: str) -> Callable[[Function], Function]:
    """A flag that chooses how results are shown."""
    return click.option(f"--{name}", name, is_flag=True, help=text)


def _parse_regression(text: str) -> float:
    """Read ``slower`` or ``slower=PCT``; gives the fraction of its speed that a case has lost at least."""
    match = _REGRESSION.fullmatch(text)
    percent = float(match[1] or 0) if match else -1.0
    if not 0 <= percent < 100:
        raise ValueError(f"{text!r} is nothing to fail on: write slower, or slower=PCT with PCT from 0 to below 100")
    return percent / 100


OUTPUT_FILE = _File("file", _parse_output)
PICTURE_FILE = _File("file", _parse_picture)
RESULT_FILE = _File("file", str)
ARGUMENT_COUNTS = _Parsed("counts", _parse_argument_counts)
ARGUMENT_TYPES = _Parsed("types", _parse_argument_types)
SIZE = _Parsed("size", units.parse_size)
SIZES = _Parsed("sizes", units.parse_sizes)
COUNT = _Parsed("count", units.parse_count)
REGRESSION = _Parsed("regression", _parse_regression)
SECONDS = _Parsed("seconds", units.parse_seconds)
PRECISION = _Parsed("percent", units.parse_percent)
ORDINAL = _Parsed("number", units.parse_ordinal)
NODE = _Parsed("node", units.parse_node)


_TAG = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.*)", re.ASCII | re.DOTALL)
_TAGS = "cudabw.tags"


def _parse_tag(text: str) -> tuple[str, str]:
    match = _TAG.fullmatch(text)
    if match is None or not match[2].isprintable():
        raise ValueError(f"{text!r} is no tag: KEY=VALUE, the key of letters, digits, dots, dashes and underscores")
    return match[1], match[2]


TAG = _Parsed("tag", _parse_tag)


def tags() -> dict[str, str]:
    """The tags that the command being run was given."""
    return dict(click.get_current_context().meta.get(_TAGS, {}))


def _keep_tags(context: click.Context, parameter: click.Parameter, given: tuple[tuple[str, str], ...]) -> None:
    kept: dict[str, str] = {}
    for key, value in given:
        if kept.setdefault(key, value) != value:
            raise click.BadParameter(f"{key!r} cannot be both {kept[key]!r} and {value!r}", context, parameter)
    context.meta[_TAGS] = kept


def device_options(function: Function) -> Function:
    """``--device`` and ``--backend``, as every command that measures has them."""
    return click.option(
        "--device", type=ORDINAL, default=None, metavar="N", help="Number of the device.  [default: 0]"
    )(backend_option(function))


def backend_option(function: Function) -> Function:
    """``--backend``."""
    return click.option(
        "--backend",
        type=click.Choice(["auto", "cuda", "emulated"]),
        default=None,
        help="auto takes the GPU, and the emulated device only where no NVIDIA driver is installed.  [default: auto]",
    )(function)


def output_options(function: Function) -> Function:
    """``--tag``, ``--json``, ``-o`` and ``--github`` of every command that measures; :func:`tags` gives the tags."""
    tag = click.option(
        "--tag",
        type=TAG,
        multiple=True,
        metavar="KEY=VALUE",
        expose_value=False,
        callback=_keep_tags,
        help="Keep this with the results; may be repeated.",
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="Print the results with every sample as JSON.")
    files = click.option(
        "-o",
        "--output",
        "outputs",
        type=OUTPUT_FILE,
        multiple=True,
        metavar="FILE",
        help="Also write the results to a file, by its end as .json, .csv or .md; kept up to date while measuring. "
        "May be repeated; - is the same as --json.",
    )
    return tag(as_json(files(github_option(function))))


def github_option(function: Function) -> Function:
    """``--github``."""
    return click.option(
        "--github",
        is_flag=True,
        help="In GitHub Actions: add the tables to the summary of the step, and annotate what makes it fail.",
    )(function)
