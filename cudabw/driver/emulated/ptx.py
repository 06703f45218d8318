"""What the emulated device reads from PTX: the entries and the sizes of their parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cudabw.driver.emulated.refusals import INVALID_PTX, Refusal

TYPE_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$%]+)\s*(?:\(([^)]*)\))?\s*((?:\.[^{;]*)?)\{", re.DOTALL)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?:[busf](?P<bits>8|16|32|64))"
    r"(?:\s+\.ptr(?:\s+\.\w+)?(?:\s+\.align\s+\d+)?)?\s+[\w$%]+\s*(?:\[\s*(?P<count>\d+)\s*\])?"
)
_LIMIT = re.compile(r"\.(?:maxntid|reqntid)\s+([\d,\s]+)")


@dataclass(frozen=True, slots=True)
class Parameter:
    """Where a kernel parameter lies, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel in a module.

    Attributes:
        name: Its name.
        parameters: In order.
        max_threads: Threads per block that it was compiled for at most; None for the device's limit.
    """

    name: str
    parameters: tuple[Parameter, ...]
    max_threads: int | None


def parse(text: str) -> dict[str, Entry]:
    """The entries of a PTX module by name.

    Raises:
        Refusal: 218, this is not PTX.
    """
    source = _COMMENT.sub(" ", text)
    header = re.match(r"\s*\.version\s+\d+\.\d+\s+\.target\s+sm_\d+\w*", source)
    if header is None or source.count("{") != source.count("}"):
        raise Refusal(INVALID_PTX)
    entries = [_entry(match) for match in _ENTRY.finditer(source)]
    if len(entries) != len(re.findall(r"\.entry\b", source)):
        raise Refusal(INVALID_PTX)
    return {entry.name: entry for entry in entries}


def _entry(match: re.Match[str]) -> Entry:
    name, parameters, directives = match.groups()
    limit = _LIMIT.search(directives)
    threads = 1
    for extent in limit.group(1).split(",") if limit else ():
        threads *= int(extent)
    return Entry(name, _layout(parameters or ""), threads if limit else None)


def _layout(text: str) -> tuple[Parameter, ...]:
    parameters: list[Parameter] = []
    end = 0
    for declaration in filter(None, (part.strip() for part in text.split(","))):
        match = _PARAMETER.fullmatch(declaration)
        if match is None:
            raise Refusal(INVALID_PTX)
        element = TYPE_SIZES[match["bits"]]
        size = element * int(match["count"] or 1)
        alignment = max(int(match["align"] or element), 1)
        offset = -(-end // alignment) * alignment
        parameters.append(Parameter(offset, size))
        end = offset + size
    return tuple(parameters)
