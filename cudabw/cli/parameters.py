"""The types of option values: strict, and refused with the text quoted before a driver is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from cudabw import units

if TYPE_CHECKING:
    from collections.abc import Callable

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # not generic before click 8.4

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


SIZES = _Parsed("sizes", units.parse_sizes)
COUNT = _Parsed("count", units.parse_count)
SECONDS = _Parsed("seconds", units.parse_seconds)
ORDINAL = _Parsed("number", units.parse_ordinal)


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


def json_option(function: Function) -> Function:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print the results with every sample as JSON.")(
        function
    )
