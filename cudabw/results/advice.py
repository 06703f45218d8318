"""What follows from a run's figures: a few sentences, each earned by intervals that are clearly apart.

Nothing follows from the emulated device, whose figures are host memory's, from cases that are unstable or throttled, or
from single trials. Of several NUMA nodes, what is said is of the device's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from cudabw.results.model import Pages
from cudabw.results.setup_cost import Change, Repaid
from cudabw.units import format_about_size, format_count, format_percent, format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from cudabw.results.fits import Fit
    from cudabw.results.model import CaseResult, Rate, RunResult
    from cudabw.results.setup_cost import BreakEven

MOST: Final = 3
"""More lines than these would not be read."""

USEFUL: Final = 1.2
"""How much faster something has to be, at the unfavourable ends of both intervals, to be worth a line."""

NEARLY: Final = 0.9
"""The share of a copy's rate that a kernel has to reach for the copy to be spared."""

HELPFUL: Final = 1.05
"""Likewise, where nothing has to be changed but how memory is allocated."""

_DIRECTIONS: Final = ("h2d", "d2h")


def advise(result: RunResult) -> tuple[str, ...]:
    """The sentences that a run has earned, the most useful first; at most three."""
    if result.device is None or result.device.emulated:
        return ()
    one = _on_one_node(result)
    return tuple(islice(chain.from_iterable(rule(one) for rule in _RULES), MOST))


def _on_one_node(result: RunResult) -> RunResult:
    """The run as far as it is of one NUMA node: the device's if it was measured, else the first."""
    nodes = list(dict.fromkeys(case.numa_node for case in result.bandwidth_cases if case.kind != "device"))
    if len(nodes) < 2:
        return result
    own = None if result.device is None else result.device.numa_node
    node = own if own in nodes else nodes[0]
    return replace(
        result,
        cases=tuple(case for case in result.bandwidth_cases if case.numa_node == node),
        fits=tuple(fit for fit in result.fits if fit.numa_node == node),
        break_even=tuple(one for one in result.break_even if one.numa_node == node),
    )


@dataclass(frozen=True, slots=True)
class _Way:
    """Copies of one kind of memory by one engine."""

    kind: str
    engine: str
    pages: Pages = Pages.WARM

    def case(self, result: RunResult, direction: str, size: int) -> CaseResult | None:
        """Its case, if something follows from it."""
        wanted = (self.kind, self.engine, self.pages, direction, size)
        for case in result.bandwidth_cases:
            found = (case.kind, case.engine, case.pages, case.direction, case.size_bytes)
            if found == wanted and case.state.reliable:
                return case
        return None


_PAGEABLE: Final = _Way("pageable", "driver")
_FRESH: Final = _Way("pageable", "driver", Pages.FIRST_TOUCH)
_HUGE: Final = _Way("pageable", "driver", Pages.HUGE)
_STAGED: Final = _Way("pageable", "staged")
_PINNED: Final = _Way("pinned", "driver")
_KERNEL: Final = _Way("mapped", "kernel")


def _huge_pages_help(result: RunResult) -> Iterator[str]:
    size, pairs = _largest(result, _PAGEABLE, _HUGE, HELPFUL)
    gains = (f"{format_percent(_median(huge) / _median(warm) - 1)} {way}" for way, (warm, huge) in pairs.items())
    if pairs:
        yield f"Huge pages make pageable copies of {format_size(size)} faster by {' and '.join(gains)}."


def _fresh_memory_is_slow(result: RunResult) -> Iterator[str]:
    size, pairs = _largest(result, _FRESH, _PAGEABLE, USEFUL)
    if pairs:
        yield (
            f"Reuse the memory that is copied into: pageable copies of {format_size(size)} reach {_instead(pairs)} "
            "where no page was touched before."
        )


def _pinning_pays(result: RunResult) -> Iterator[str]:
    for kind, change, words in (
        ("registered", Change.REGISTER, "Registering memory that is there pays"),
        ("pinned", Change.ALLOCATE, "Allocating pinned instead of pageable memory pays"),
    ):
        paying = [one for one in result.break_even if (one.kind, one.change) == (kind, change) and _is_known(one)]
        size = max((one.size_bytes for one in paying), default=0)
        counts = [
            f"{format_count(one.copies or 1, 'copy', 'copies')} {one.direction}"
            for one in paying
            if one.size_bytes == size
        ]
        if counts:
            yield f"{words} after {' and '.join(counts)} of {format_size(size)}."


def _staging_leads(result: RunResult) -> Iterator[str]:
    size, pairs = _largest(result, _PAGEABLE, _STAGED, USEFUL)
    threads = sorted({staged.threads for _, staged in pairs.values() if staged.threads})
    if threads:
        how = f"{threads[0]}" if len(threads) == 1 else f"{threads[0]} to {threads[-1]}"
        yield (
            f"Pageable copies of {format_size(size)} reach {_instead(pairs)}, staged through {how} "
            f"thread{'s' * (threads != [1])} (StagedCopier)."
        )


def _pinning_leads(result: RunResult) -> Iterator[str]:
    size, pairs = _largest(result, _PAGEABLE, _PINNED, USEFUL)
    if pairs:
        yield f"Pageable copies of {format_size(size)} would reach {_instead(pairs)}, in pinned memory."


def _kernel_or_copy(result: RunResult) -> Iterator[str]:
    size, pairs = _largest(result, _PINNED, _KERNEL, NEARLY)
    if pairs:
        shares = " and ".join(f"{format_percent(_median(own) / _median(of))} {way}" for way, (of, own) in pairs.items())
        yield (
            f"A kernel reaches {shares} of the rate of copies in mapped memory ({format_size(size)}): bytes that it "
            "uses once need no copy."
        )
        return
    size, pairs = _largest(result, _KERNEL, _PINNED, USEFUL)
    if pairs:
        yield f"Copy before a kernel works: copies of {format_size(size)} reach {_instead(pairs)} in mapped memory."


def _small_copies(result: RunResult) -> Iterator[str]:
    for kind in ("pinned", "registered", "mapped", "write-combined", "pageable"):
        halves = {
            fit.direction: fit.half_rate_bytes
            for fit in result.fits
            if fit.kind == kind
            and fit.direction in _DIRECTIONS
            and (fit.half_rate_bytes or 0) > fit.sizes_bytes[0]
            and _is_repeated(fit, result)
        }
        if halves:
            sizes = " and ".join(f"{format_about_size(half or 0)} {way}" for way, half in halves.items())
            yield f"Copies of {kind} memory below {sizes} are mostly start-up: join small ones into one."
            return


def _is_repeated(fit: Fit, result: RunResult) -> bool:
    """Whether no point of a curve rests on a single trial."""
    curve = (fit.kind, fit.engine, fit.direction, fit.pages, fit.numa_node)
    return all(
        case.rate_bytes_per_s is not None and case.rate_bytes_per_s.low is not None
        for case in result.bandwidth_cases
        if (case.kind, case.engine, case.direction, case.pages, case.numa_node) == curve
        and case.size_bytes in fit.sizes_bytes
    )


_RULES: Final[Sequence[Callable[[RunResult], Iterable[str]]]] = (
    _huge_pages_help,
    _fresh_memory_is_slow,
    _pinning_pays,
    _staging_leads,
    _pinning_leads,
    _kernel_or_copy,
    _small_copies,
)


def _largest(
    result: RunResult, before: _Way, after: _Way, factor: float
) -> tuple[int, Mapping[str, tuple[CaseResult, CaseResult]]]:
    """The largest size at which a way surely reaches a multiple of another, and both cases in each such direction."""
    for size in sorted({case.size_bytes for case in result.bandwidth_cases}, reverse=True):
        pairs = {}
        for way in _DIRECTIONS:
            one, other = before.case(result, way, size), after.case(result, way, size)
            if one is not None and other is not None and _reaches(_rate(other), factor, _rate(one)):
                pairs[way] = (one, other)
        if pairs:
            return size, pairs
    return 0, {}


def _reaches(rate: Rate, factor: float, other: Rate) -> bool:
    return rate.low is not None and other.high is not None and rate.low > factor * other.high


def _instead(pairs: Mapping[str, tuple[CaseResult, CaseResult]]) -> str:
    return " and ".join(
        f"{format_rate(_median(after))} GB/s {way} instead of {format_rate(_median(before))}"
        for way, (before, after) in pairs.items()
    )


def _is_known(one: BreakEven) -> bool:
    """Whether pinning pays, and its intervals leave no more than a factor of two open."""
    return one.repaid is Repaid.AFTER and (one.most or 0) <= 2 * max(1, one.copies or 0)


def _rate(case: CaseResult) -> Rate:
    assert case.rate_bytes_per_s is not None  # noqa: S101 - such cases were left out; for the type checker
    return case.rate_bytes_per_s


def _median(case: CaseResult) -> float:
    return _rate(case).median
