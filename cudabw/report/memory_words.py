"""What tables call the memory of a row."""

from __future__ import annotations

from typing import Final

from cudabw.results.model import Pages

_STATES: Final = {Pages.WARM: "", Pages.FIRST_TOUCH: " (first touch)", Pages.HUGE: " (huge pages)"}


def memory_label(kind: str, pages: Pages = Pages.WARM, node: int | None = None) -> str:
    """The kind, the state of its pages where that is another than a reader expects, and a node that was asked for."""
    return f"{kind}{_STATES[pages]}" if node is None else f"{kind}{_STATES[pages]}, node {node}"
