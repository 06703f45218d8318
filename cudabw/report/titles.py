"""The titles of tables: what is shown, and on which device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

    from cudabw.report.console import Symbols
    from cudabw.results.model import DeviceInfo

# Figures of the emulated device must never be taken for a GPU's.
EMULATED: Final = "EMULATED, not a GPU"
EMULATED_COPIES: Final = f"{EMULATED} (host memory)"


def print_title(what: str, device: DeviceInfo | None, console: Console, symbols: Symbols) -> None:
    """Print the title of a table of copies and an empty line."""
    title = title_of(what, device, emulated=EMULATED_COPIES)
    console.print(Text(symbols.fold(title), style="bold"), soft_wrap=True)
    console.print()


def title_of(what: str, device: DeviceInfo | None, *, emulated: str = EMULATED) -> str:
    """A title with the device, in words that are still to be folded.

    Args:
        what: Is shown.
        device: On which; None where that is not known.
        emulated: What is said in place of the emulated device's name.
    """
    if device is None:
        return what
    return f"{what} · device {device.ordinal}: {emulated if device.emulated else device.name}"
