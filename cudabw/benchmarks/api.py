"""The measurements as plain Python calls."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cudabw import errors
from cudabw.benchmarks.bandwidth import (
    DEFAULT_KINDS,
    DEFAULT_SIZE,
    DEFAULT_TRIALS,
    DIRECTIONS,
    KINDS,
    BandwidthPlan,
    run_bandwidth,
    with_link,
)
from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.session import Session, run_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabw.benchmarks.outcome import Outcome
    from cudabw.results.model import RunResult


def measure_bandwidth(
    *,
    kinds: Sequence[str] = DEFAULT_KINDS,
    directions: Sequence[str] = DIRECTIONS,
    sizes: Sequence[int] = (DEFAULT_SIZE,),
    device: int = 0,
    backend: str = "auto",
    trials: int = DEFAULT_TRIALS,
    time_budget: float | None = None,
    seed: int = 0,
    observer: Observer = Observer(),  # noqa: B008 - frozen
) -> RunResult:
    """Measure bandwidth between host and device.

    Args:
        kinds: Of ``pageable``, ``pinned``, ``mapped``, ``write-combined``, ``registered``, ``managed``.
        directions: ``h2d``, ``d2h`` or both.
        sizes: Bytes of one copy, each measured.
        device: The device's number.
        backend: ``auto`` (the GPU; the emulated device only where no NVIDIA driver is installed),
            ``cuda`` or ``emulated``.
        trials: Independent draws of each case, each with fresh allocations.
        time_budget: Seconds after which no further trial begins; each case gets at least one.
        seed: Seeds the bytes that are copied and the order of the cases.
        observer: Hears of progress and notices, and may stop the run.

    Returns:
        Every case with every sample; rates in bytes per second. What failed is in it as well:
        see each case's ``state`` and the run's ``error``.

    Raises:
        ValueError: An argument that cannot be meant.
    """
    _require_members("kind", kinds, KINDS)
    _require_members("direction", directions, DIRECTIONS)
    if not sizes or any(size < 1 for size in sizes):
        raise ValueError(f"sizes are positive numbers of bytes: {sizes!r}")
    if trials < 1:
        raise ValueError(f"trials are at least 1: {trials}")
    plan = BandwidthPlan(kinds, directions, sizes, trials, time_budget, seed=seed)
    return run_plans(("bandwidth",), (plan,), backend=backend, device=device, observer=observer)


def empirical_bandwidth(
    *,
    nbytes: int = DEFAULT_SIZE,
    device: int = 0,
    trials: int = 10,
    pinned: bool = False,
    backend: str = "cuda",
) -> tuple[float, float]:
    """Measure what copies of ``nbytes`` reach from and to a GPU, in one line.

    Args:
        nbytes: Bytes of one copy.
        device: The device's number.
        trials: Independent draws; the result is the median.
        pinned: Whether the host memory is pinned or pageable.
        backend: ``cuda``; with ``emulated`` the figures are host memory's, not a GPU's.

    Returns:
        ``(d2h, h2d)`` in GB/s (10^9 bytes per second).

    Raises:
        NoDriverError: There is no usable GPU.
        CudabwError: A figure could not be taken, or the data was wrong.
    """
    kind = "pinned" if pinned else "pageable"
    result = measure_bandwidth(kinds=(kind,), sizes=(nbytes,), device=device, backend=backend, trials=trials)
    raise_error(result)
    rates = {}
    for case in result.cases:
        if case.rate_bytes_per_s is None:
            raise errors.CudabwError(f"{case.id}: {case.state}: {case.reason}")
        rates[case.direction] = case.rate_bytes_per_s.median / 1e9
    return rates["d2h"], rates["h2d"]


def run_plans(
    command: Sequence[str],
    plans: Sequence[BandwidthPlan],
    *,
    backend: str,
    device: int,
    observer: Observer,
) -> RunResult:
    """Measure the cases of bandwidth plans in one session."""
    return run_session(
        command,
        partial(_bandwidth, plans),
        backend=backend,
        ordinal=device,
        observer=observer,
        finish_case=with_link,
    )


def raise_error(result: RunResult) -> None:
    """Raise what ended a run early, as the class it was.

    Raises:
        CudabwError: The run has an error.
    """
    if result.error is None:
        return
    kind = getattr(errors, result.error.type, errors.CudabwError)
    error = errors.CudabwError(result.error.message, hint=result.error.hint)
    # The class says what may be caught; its own constructor may want facts that a result does not keep.
    error.__class__ = kind
    raise error


def _bandwidth(plans: Sequence[BandwidthPlan], session: Session) -> Outcome:
    return run_bandwidth(session.device, plans, session.observer, sample_link=session.sample_link)


def _require_members(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    unknown = [member for member in given if member not in known]
    if unknown or not given:
        raise ValueError(f"unknown {what} {unknown[0]!r}" if unknown else f"no {what} given; choose from {known}")
