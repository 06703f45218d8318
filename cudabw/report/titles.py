"""The titles of tables: what is shown, and on which device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

    from cudabw.report.console import Symbols
    from cudabw.results.model import DeviceInfo


def print_title(what: str, device: DeviceInfo | None, console: Console, symbols: Symbols) -> None:
    """Print a table's title and an empty line."""
    console.print(Text(symbols.fold(_title(what, device)), style="bold"), soft_wrap=True)
    console.print()


def _title(what: str, device: DeviceInfo | None) -> str:
    if device is None:
        return what
    # Figures of the emulated device must never be taken for a GPU's.
    name = "EMULATED, not a GPU (host memory)" if device.emulated else device.name
    return f"{what} · device {device.ordinal}: {name}"
