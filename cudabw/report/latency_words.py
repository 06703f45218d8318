"""What the tables of small copies say in words: from where on which way pays, what figures rest on."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from cudabw.report.launch_words import held_on, software
from cudabw.report.notes import count_outliers, format_trials
from cudabw.results.latency import Way
from cudabw.units import format_count, format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cudabw.results.latency import LatencyCase, LoopSuffices, SmallCopiesCase, WayPays
    from cudabw.results.model import RunResult

_NAMES = {Way.BATCH: "one batch", Way.GRAPH: "a graph", Way.KERNEL: "one kernel"}


def crossovers(result: RunResult) -> Iterable[str]:
    """A sentence for each direction of each kind of memory, and each sweep."""
    found = result.small_copies
    if found is None:
        return
    for _, sizes in groupby(found.loop_suffices, key=lambda one: (one.kind, one.direction, one.copies)):
        yield _suffices(list(sizes))
    for _, numbers in groupby(found.way_pays, key=lambda one: (one.kind, one.direction, one.size_bytes)):
        yield _pays(list(numbers))


def _suffices(ways: Sequence[LoopSuffices]) -> str:
    first = ways[0]
    places = _by_place((_NAMES[one.way], _from_size(one)) for one in ways)
    where = "; ".join(place.format(_listed(names, "or")) for place, names in places.items())
    copies = format_count(first.copies, "copy", "copies")
    return f"{first.kind} {first.direction}, {copies}: a loop is {where}."


def _from_size(found: LoopSuffices) -> str:
    """From where on a loop suffices, with a place for the names of the ways."""
    if found.from_bytes is None:
        return f"still slower than {{}} at {format_size(found.sizes[-1])}"
    if found.from_bytes == found.sizes[0]:
        return "not seen to be slower than {} at any size"
    return f"not seen to be slower than {{}} from {format_size(found.from_bytes)} on"


def _pays(ways: Sequence[WayPays]) -> str:
    first = ways[0]
    places = _by_place((_NAMES[one.way], _from_number(one)) for one in ways)
    where = "; ".join(
        f"{_listed(names, 'and')} {'is' if len(names) == 1 else 'are'} {place}" for place, names in places.items()
    )
    return f"{first.kind} {first.direction}, {format_size(first.size_bytes)}: {where}."


def _from_number(found: WayPays) -> str:
    if found.from_copies is None:
        return f"not seen to be faster than a loop up to {found.copies[-1]} copies"
    return f"faster than a loop from {format_count(found.from_copies, 'copy', 'copies')} on"


def _listed(names: Sequence[str], last: str) -> str:
    """Names in a sentence, the last of them behind a word: "a, b or c"."""
    return f" {last} ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _by_place(ways: Iterable[tuple[str, str]]) -> Mapping[str, Sequence[str]]:
    """The names of the ways that have a place in common."""
    places: dict[str, list[str]] = {}
    for name, place in ways:
        places.setdefault(place, []).append(name)
    return places


def explain(result: RunResult) -> Iterable[str]:
    """What the figures rest on."""
    one, many = result.latency_cases, result.small_copies_cases
    cases: tuple[LatencyCase | SmallCopiesCase, ...] = (*one, *many)
    measured = [case for case in cases if case.state.measured]
    if not measured:
        return
    several = any(len(case.trials) > 1 for case in measured)
    rest = f"medians of {format_trials(measured)}, ± a 99 % interval" if several else "one trial"
    yield f"{rest.capitalize()}; each with fresh memory, in shuffled order."
    yield "Every byte was verified after every batch."
    if one:
        yield "End to end: the driver's call and the wait for it, by the host's clock; call: the call alone."
        yield "Queued: one of many in a row, by events behind a gate; where a copy holds the host, by the host's clock."
    if many:
        yield "Loop: a call for each copy; batch: one cuMemcpyBatchAsync; graph: one launch of a captured loop;"
        yield "kernel: one launch that reads all addresses from a table and reaches pinned memory itself."
        yield "All of these by the host's clock."
    if many and not _has_crossovers(result):
        yield "From where on which way is worth it takes two trials and two points."
    if result.device is not None and result.device.emulated:
        yield "Emulated: threads and host memory play the device, so that no time here is a GPU's."
    times = (*(case.seconds for case in one), *(case.per_copy_s for case in many))
    outliers = count_outliers(times, "samples")
    if outliers is not None:
        yield outliers
    yield from held_on(result)
    yield software(result)


def _has_crossovers(result: RunResult) -> bool:
    found = result.small_copies
    return found is not None and bool(found.loop_suffices or found.way_pays)
