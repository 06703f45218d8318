"""What a reader has to know of a case beside its figure, because another machine or size would do it otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.benchmarks.bandwidth_plan import LOCAL
from cudabw.copying.staged_copy import PreparedStagedCopy
from cudabw.measuring.timing import Once
from cudabw.units import format_count, format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudabw.benchmarks.bandwidth_plan import BandwidthCase
    from cudabw.measuring.pairs import Pair
    from cudabw.measuring.timing import Work
    from cudabw.results.model import Rate
    from cudabw.runtime.device import Device

# Up to twice its size, a good part of source and destination is still in the cache from the copy before.
_CACHED_SHARE = 2


def remarks(case: BandwidthCase, work: Work | Pair, device: Device) -> Iterator[str]:
    """How the work is done, seen before it is timed."""
    staged = _staged(work)
    if staged is not None:
        yield _staging(staged)
    if case.direction == LOCAL:
        cache = device.attribute("L2_CACHE_SIZE")
        if 2 * case.size_bytes <= _CACHED_SHARE * cache:
            yield f"cache: source and destination are within twice the L2 cache of {format_size(cache)}"


def staging_threads(work: Work | Pair) -> int | None:
    """How many threads stage the work; None where none do."""
    staged = _staged(work)
    return None if staged is None or staged.setting is None else staged.setting.threads


def traffic(case: BandwidthCase, rate: Rate) -> Iterator[str]:
    """What the device's memory does for the rate: a local copy reads and writes each byte that it copies."""
    if case.direction == LOCAL:
        yield f"read + write traffic {format_rate(2 * rate.median)} GB/s"


def _staged(work: Work | Pair) -> PreparedStagedCopy | None:
    copying = work.work if isinstance(work, Once) else work
    return copying if isinstance(copying, PreparedStagedCopy) else None


def _staging(work: PreparedStagedCopy) -> str:
    setting = work.setting
    if setting is None:
        return "left to the driver: staging does not lead at this size"
    return f"staged by {format_count(work.threads, 'thread')}, slots of {format_size(setting.slot)}"
