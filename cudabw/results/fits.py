"""The line through a curve of times over sizes: frozen values, part of a run's results."""

from __future__ import annotations

from dataclasses import dataclass

from cudabw.results.model import Pages


@dataclass(frozen=True, slots=True)
class Fit:
    """``time = start-up + size / rate``, fitted to the median time of one copy at each size of a curve.

    Source: Hockney and Jesshope, "Parallel Computers 2", 1988 (the asymptotic rate r_inf and the half-rate size n_1/2).

    Attributes:
        kind: Kind of memory.
        engine: What copied.
        direction: Which way.
        pages: The state of host memory's pages.
        numa_node: The NUMA node that it was put on; null where none was asked for.
        sizes_bytes: The sizes that were measured.
        startup_s: Seconds that a copy takes whatever its size, as queued; null where they are within the scatter of
            the points about the line.
        rate_bytes_per_s: What copies of any size stay below.
        half_rate_bytes: The size that reaches half of this rate, ``startup_s * rate_bytes_per_s``.
        largest_residual: The largest distance of a point from the line, as a share of the point.
        reason: Why there are no figures; null where there are.
    """

    kind: str
    engine: str
    direction: str
    sizes_bytes: tuple[int, ...]
    startup_s: float | None = None
    rate_bytes_per_s: float | None = None
    half_rate_bytes: float | None = None
    largest_residual: float | None = None
    pages: Pages = Pages.WARM
    numa_node: int | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        """Hold the contract: a rate if and only if there is no reason against it."""
        if (self.rate_bytes_per_s is None) != (self.reason is not None):
            raise ValueError(f"a fit of {self.kind} {self.direction} has either a rate or a reason why not")
