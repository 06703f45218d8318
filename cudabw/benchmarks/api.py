"""The measurements as plain Python calls."""

from __future__ import annotations

from dataclasses import replace
from operator import index
from typing import TYPE_CHECKING, Any

from cudabw.benchmarks.bandwidth_plan import (
    ALL_DIRECTIONS,
    DEFAULT_KINDS,
    DEFAULT_SIZE,
    DIRECTIONS,
    ENGINES,
    KINDS,
    BandwidthPlan,
    Staging,
    page_states,
    require_sense,
)
from cudabw.benchmarks.latency_plan import DEFAULT_COPIES, LatencyPlan
from cudabw.benchmarks.latency_plan import KINDS as LATENCY_KINDS
from cudabw.benchmarks.launch_overhead import LaunchPlan, sets_for
from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.places import on_nodes
from cudabw.benchmarks.running import run_plans
from cudabw.errors import CudabwError, RefusedError, UnsupportedError, WrongDataError
from cudabw.measuring.effort import Level
from cudabw.results.launch import ARG_TYPES, MOST_ARGS
from cudabw.results.model import State
from cudabw.units import parse_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabw.results.model import RunResult

_CLASSES = {
    State.REFUSED: RefusedError,
    State.UNSUPPORTED: UnsupportedError,
    State.WRONG_DATA: WrongDataError,
}


def measure_bandwidth(
    *,
    kinds: Sequence[str] = DEFAULT_KINDS,
    directions: Sequence[str] = DIRECTIONS,
    engines: Sequence[str] | None = None,
    sizes: Sequence[int] = (DEFAULT_SIZE,),
    device: int = 0,
    backend: str = "auto",
    effort: str = Level.DEFAULT,
    trials: int | None = None,
    precision: float | None = None,
    time_budget: float | None = None,
    threads: int | None = None,
    slot: int | None = None,
    numa: int | str | None = None,
    first_touch: bool = False,
    huge_pages: bool = False,
    setup_cost: bool = False,
    seed: int = 0,
    observer: Observer = Observer(),  # noqa: B008 - frozen
) -> RunResult:
    """Measure bandwidth between host and device.

    Args:
        kinds: Of ``pageable``, ``pinned``, ``mapped``, ``write-combined``, ``registered``, ``managed``.
        directions: Of ``h2d``, ``d2h``, ``bidirectional`` for both at once (three results: ``bidirectional-h2d``,
            ``bidirectional-d2h`` and ``bidirectional-total``), and ``d2d`` for copies within device memory.
        engines: Of ``driver``, ``kernel`` (mapped memory), ``staged`` (pageable memory); kinds that have none of them
            are left out. None takes the kernel for mapped memory, and the driver for all other.
        sizes: Bytes of one copy, each measured.
        device: The device's number.
        backend: ``auto`` (the GPU; the emulated device only where no NVIDIA driver is installed),
            ``cuda`` or ``emulated``.
        effort: How much is done for each figure: ``quick`` (three trials), ``default`` (five or more, until within
            0.5 % or 8 s have passed) or ``rigorous`` (twelve or more, 0.1 %, two minutes).
        trials: Exactly as many independent draws of each case, each with fresh allocations, instead.
        precision: How far the 99 % interval may reach from the median, as a share of it (0.005 is 0.5 %); instead of
            the effort's. With ``trials``, and not without it, figures that do not reach it are ``unconverged``.
        time_budget: Seconds after which no further trial begins; each case gets at least one. Instead of the effort's.
        threads: How many threads of the staged engine copy; None to find out.
        slot: Bytes of a pinned slot of the staged engine; None to find out.
        numa: Put host memory and thread on a NUMA node: its number, ``auto`` for the device's, or ``all`` for one
            case on each that has memory. None places nothing. Where they really were, each trial says.
        first_touch: Whether to measure besides what copies into pageable memory reach that was never touched; each
            copy then has memory of its own.
        huge_pages: Whether to measure pageable memory on transparent huge pages besides.
        setup_cost: Whether to measure besides what it costs to have memory of each kind and size ready, and after how
            many copies pinning has paid.
        seed: Seeds the bytes that are copied and the order of the cases.
        observer: Hears of progress and notices, and may stop the run.

    Returns:
        Every case with every sample; rates in bytes per second. Behind a sweep, ``fits`` has the line through each of
        its curves. What failed is in it as well: see each case's ``state`` and the run's ``error``.

    Raises:
        ValueError: An argument that cannot be meant.
        TypeError: A number that is not whole.
    """
    plan = replace(
        _checked_plan(kinds, directions, sizes, seed), **_checked_effort(effort, trials, precision, time_budget)
    )
    if engines is not None:
        _require_members("engine", engines, ENGINES)
        plan = replace(plan, engines=tuple(dict.fromkeys(engines)), named=frozenset(engines))
    if threads is not None and index(threads) < 1:
        raise ValueError(f"threads are at least 1: {threads}")
    staging = Staging(*(None if given is None else index(given) for given in (threads, slot)))
    pages = page_states(first_touch=first_touch, huge_pages=huge_pages)
    plan = replace(plan, staging=staging, pages=pages, setup_kinds=plan.kinds if setup_cost else ())
    plan = on_nodes(plan, None if numa is None else parse_node(str(numa)))
    require_sense(plan)
    return run_plans(("bandwidth",), (plan,), backend=backend, device=device, observer=observer)


def measure_launch_overhead(
    *,
    args: Sequence[int] | None = None,
    arg_types: Sequence[str] | None = None,
    device: int = 0,
    backend: str = "auto",
    effort: str = Level.DEFAULT,
    trials: int | None = None,
    precision: float | None = None,
    time_budget: float | None = None,
    seed: int = 0,
    observer: Observer = Observer(),  # noqa: B008 - frozen
) -> RunResult:
    """Measure what launching a kernel from Python costs, and how much of it is converting its arguments.

    Args:
        args: Numbers of arguments, each measured, from 0 to 256. Without these and ``arg_types``, three buffers and an
            int32, and 0, 1, 4 and 16 buffers; otherwise 0, 1, 4 and 16.
        arg_types: Of ``pointer``, ``int32``, ``uint32``, ``float32``, ``float64``, ``numpy``, ``buffer``,
            ``struct``, ``mixed``; buffers where only ``args`` are given.
        device: The device's number.
        backend: ``auto`` (the GPU; the emulated device only where no NVIDIA driver is installed),
            ``cuda`` or ``emulated``.
        effort: How much is done for each figure: ``quick`` (three trials), ``default`` (twelve or more, until within
            1 % or 8 s have passed) or ``rigorous`` (24 or more, 0.5 %, two minutes).
        trials: Exactly as many independent draws of each set of arguments, each with a freshly loaded kernel and fresh
            buffers, instead.
        precision: How far the 99 % interval of a call may reach from the median, as a share of it; as of
            :func:`measure_bandwidth`.
        time_budget: Seconds after which no further trial begins; each set of arguments gets at least one. Instead of
            the effort's.
        seed: Seeds the order of sets and modes.
        observer: Hears of progress and notices, and may stop the run.

    Returns:
        Every case with every sample, in seconds; what is known beyond the cases is in ``launch_overhead``. What failed
        is in it as well: see each case's ``state`` and the run's ``error``.

    Raises:
        ValueError: An argument that cannot be meant.
        TypeError: A number that is not whole.
    """
    if arg_types is not None:
        _require_members("argument type", arg_types, ARG_TYPES)
    counts = None if args is None else tuple(dict.fromkeys(index(count) for count in args))
    if counts is not None and (not counts or not 0 <= min(counts) <= max(counts) <= MOST_ARGS):
        raise ValueError(f"numbers of arguments are from 0 to {MOST_ARGS}: {counts}")
    plan = LaunchPlan(sets_for(arg_types, counts), seed=seed, **_checked_effort(effort, trials, precision, time_budget))
    return run_plans(("launch-overhead",), (plan,), backend=backend, device=device, observer=observer)


def measure_latency(
    *,
    kinds: Sequence[str] = LATENCY_KINDS,
    directions: Sequence[str] = DIRECTIONS,
    sizes: Sequence[int] | None = None,
    copies: int = DEFAULT_COPIES,
    device: int = 0,
    backend: str = "auto",
    effort: str = Level.DEFAULT,
    trials: int | None = None,
    precision: float | None = None,
    time_budget: float | None = None,
    seed: int = 0,
    observer: Observer = Observer(),  # noqa: B008 - frozen
) -> RunResult:
    """Measure what small copies cost: one at a time, and many at once in several ways.

    Args:
        kinds: Of ``pinned``, ``pageable``.
        directions: Of ``h2d``, ``d2h``.
        sizes: Bytes of one copy, each measured; many at once up to 256 KiB. None for eight from 1 B to 1 MiB, five of
            which many at once.
        copies: How many copies are made at once; at 4 KiB, 1, 2, 8, 32 and 128 as well.
        device: The device's number.
        backend: ``auto`` (the GPU; the emulated device only where no NVIDIA driver is installed),
            ``cuda`` or ``emulated``.
        effort: How much is done for each figure: ``quick`` (three trials), ``default`` (eight or more, until within
            5 % or 8 s have passed) or ``rigorous`` (24 or more, 1 %, two minutes).
        trials: Exactly as many independent draws, each with fresh memory, instead.
        precision: How far the 99 % interval of a time may reach from the median, as a share of it; as of
            :func:`measure_bandwidth`.
        time_budget: Seconds after which no further trial begins; each size of each kind gets at least one. Instead of
            the effort's.
        seed: Seeds the bytes, the places of the blocks and the order of all.
        observer: Hears of progress and notices, and may stop the run.

    Returns:
        Every case with every sample, in seconds; from where on which way is worth it is in ``small_copies``. What
        failed is in it as well: see each case's ``state`` and the run's ``error``.

    Raises:
        ValueError: An argument that cannot be meant.
        TypeError: A number that is not whole.
    """
    _require_members("kind", kinds, LATENCY_KINDS)
    _require_members("direction", directions, DIRECTIONS)
    if index(copies) < 1:
        raise ValueError(f"copies are at least 1: {copies}")
    plan = LatencyPlan(
        kinds=tuple(dict.fromkeys(kinds)),
        directions=tuple(dict.fromkeys(directions)),
        sizes=() if sizes is None else _checked_sizes(sizes),
        copies=index(copies),
        seed=seed,
        **_checked_effort(effort, trials, precision, time_budget),
    )
    return run_plans(("latency",), (plan,), backend=backend, device=device, observer=observer)


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
        ValueError: An argument that cannot be meant.
        TypeError: A number that is not whole.
        NoDriverError: There is no usable GPU.
        UsageError: There is no device of that number.
        RefusedError: There is not enough memory.
        WrongDataError: A copy succeeded without moving the right bytes.
        CudabwError: A figure could not be taken for another reason.
    """
    kind = "pinned" if pinned else "pageable"
    plan = replace(
        _checked_plan((kind,), DIRECTIONS, (nbytes,), seed=0), **_checked_effort(Level.DEFAULT, trials, None, None)
    )
    result = run_plans(
        ("bandwidth",), (plan,), backend=backend, device=device, observer=Observer(), on_error=_raise_error
    )
    d2h, h2d = (_gigabytes_per_s(result, direction) for direction in ("d2h", "h2d"))
    return d2h, h2d


def _raise_error(error: CudabwError) -> None:
    raise error


def _gigabytes_per_s(result: RunResult, direction: str) -> float:
    (case,) = (case for case in result.bandwidth_cases if case.direction == direction)
    if case.rate_bytes_per_s is None:
        raise _CLASSES.get(case.state, CudabwError)(f"{case.id}: {case.reason}")
    return case.rate_bytes_per_s.median / 1e9


def _checked_plan(kinds: Sequence[str], directions: Sequence[str], sizes: Sequence[int], seed: int) -> BandwidthPlan:
    _require_members("kind", kinds, KINDS)
    _require_members("direction", directions, ALL_DIRECTIONS)
    return BandwidthPlan(
        tuple(dict.fromkeys(kinds)), tuple(dict.fromkeys(directions)), _checked_sizes(sizes), seed=seed
    )


def _checked_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    # Plain ints, which JSON can hold, also from a NumPy array.
    wanted = tuple(dict.fromkeys(index(size) for size in sizes))
    if not wanted or min(wanted) < 1:
        raise ValueError(f"sizes are positive numbers of bytes: {wanted}")
    return wanted


def _checked_effort(
    effort: str, trials: int | None, precision: float | None, time_budget: float | None
) -> dict[str, Any]:
    """The fields that plans of all benchmarks have in common."""
    _require_members("effort", (effort,), tuple(Level))
    if trials is not None and index(trials) < 1:
        raise ValueError(f"trials are at least 1: {trials}")
    if trials is not None and effort != Level.DEFAULT:
        raise ValueError(f"effort {effort} and trials {trials} contradict each other")
    if precision is not None and not 0 < precision <= 1:
        raise ValueError(f"a precision is a share of the median, above 0 and up to 1: {precision}")
    if time_budget is not None and not time_budget > 0:
        raise ValueError(f"a time budget is above 0 seconds: {time_budget}")
    return {
        "level": Level(effort),
        "trials": None if trials is None else index(trials),
        "precision": precision,
        "time_budget_s": time_budget,
    }


def _require_members(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    if isinstance(given, str):
        raise TypeError(f"{what}s are a sequence such as [{given!r}], not {given!r}")
    unknown = [member for member in given if member not in known]
    if unknown or not given:
        found = f"unknown {what} {unknown[0]!r}" if unknown else f"no {what} given"
        raise ValueError(f"{found}; choose from {', '.join(known)}")
