"""What the tables of launches say in words: the headline and its verdict, and what figures rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.report.notes import count_outliers, format_trials
from cudabw.results.facts import environment_facts
from cudabw.results.launch import Difference, Mode, Verdict
from cudabw.units import format_count, format_percent, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cudabw.results.launch import LaunchCase
    from cudabw.results.launch_sets import QueueDepth, Slope
    from cudabw.results.model import RunResult


def headline(cases: Sequence[LaunchCase]) -> str:
    """What converting arguments on each launch costs, with the interval and the verdict."""
    converted = [case for case in cases if case.mode is Mode.CONVERTED and case.args]
    if not converted:
        return "Blind to conversion: without arguments there is nothing to convert."
    found = next((case for case in converted if case.difference is not None), converted[0])
    what = f"Converting {found.args} {found.arg_type} argument{'s' * (found.args != 1)} on each launch"
    if found.difference is None:
        return f"{what}: no difference could be taken."
    same_set = (case for case in cases if (case.arg_type, case.args) == (found.arg_type, found.args))
    prepared = next(case for case in same_set if case.mode is Mode.PREPARED)
    return f"{what} {_verdict(found.difference, prepared)}"


def _verdict(difference: Difference, prepared: LaunchCase) -> str:
    if difference.verdict is Verdict.NONE:
        return f"or once before: no difference seen ({_with_interval(difference)})."
    way = "more" if difference.median > 0 else "less"
    if difference.verdict is Verdict.UNKNOWN:
        return (
            f"took {_with_interval(difference)} {way} than a prepared launch in the one trial, too few for a verdict."
        )
    base = prepared.submit_s.median if prepared.submit_s else 0.0
    share = f", {format_percent(abs(difference.median) / base)} of it" if base else ""
    return f"costs {_with_interval(difference)} {way} than a prepared launch{share}."


def _with_interval(difference: Difference | Slope) -> str:
    median, shown = difference.median, format_seconds(abs(difference.median))
    if difference.low is None or difference.high is None:
        return shown
    return f"{shown} ± {format_seconds(max(median - difference.low, difference.high - median))}"


def slope_line(slope: Slope) -> str:
    """What one more argument costs."""
    what = f"Each further {slope.arg_type} argument"
    over = f"slope over {', '.join(map(str, slope.args))} arguments"
    match slope.verdict:
        case Verdict.NONE:
            return f"{what}: no cost seen ({_with_interval(slope)}; {over})."
        case Verdict.UNKNOWN:
            return f"{what} took {_with_interval(slope)} in the one trial ({over})."
    return f"{what} {'costs' if slope.median > 0 else 'saves'} {_with_interval(slope)} ({over})."


def explain(result: RunResult) -> Iterable[str]:
    """What the figures rest on."""
    found = result.launch_overhead
    measured = [case for case in result.launch_cases if case.state.measured]
    if found is None or not measured:
        return
    several = any(len(case.trials) > 1 for case in measured)
    rest = f"medians of {format_trials(measured)}, ± a 99 % interval" if several else "one trial"
    yield f"{rest.capitalize()}; each with a freshly loaded null kernel, modes in pairs (ABBA)."
    yield "bare: the driver's function alone; prepared: converted and packed once; packed: converted once, packed anew;"
    yield "converted: kernel(*args); specialised: kernel.specialise(*args)(*args), converted twice;"
    yield "rebound: prepared, with one argument bound anew each time."
    if result.device is not None and result.device.emulated:
        yield "Emulated: the driver's share of each time is emulated, the conversion share is real."
    if any(case.arg_type == "mixed" for case in result.launch_cases):
        yield "mixed: three buffers and an int32, over and over."
    if any(not case.args for case in result.launch_cases):
        yield "0 (blind): blind to conversion, because there are no arguments to convert."
    yield from _warn(result)
    outliers = count_outliers((case.submit_s for case in result.launch_cases), "bursts")
    if outliers is not None:
        yield outliers
    yield f"Bursts of {found.launches_per_burst} launches, drained between; {_queue(found.queue)}."
    yield f"Garbage collector {found.collector}."
    yield from held_on(result)
    yield software(result)


def _warn(result: RunResult) -> Iterable[str]:
    sets = () if result.launch_overhead is None else result.launch_overhead.sets
    if any(one.stages is not None and not one.stages.adds_up for one in sets):
        yield "!: the stages, taken one after the other, do not add up to the whole within 10 %."
    if any(one.device_gated is False for one in sets):
        yield "No gate on this device: the time to queue may be in the kernel's time."


def _queue(queue: QueueDepth) -> str:
    if queue.launches is not None:
        return f"the queue holds {queue.launches} launches (detected)"
    if queue.tried:
        return f"no end of the queue up to {queue.tried} launches"
    return "the queue's depth could not be detected without a gate"


def held_on(result: RunResult) -> Iterable[str]:
    """What was done so that the host's times are those of a CPU at full speed, where that could be done."""
    speed = result.cpu_speed
    if speed is None:
        return
    were = "was" if speed.slow_at_first == 1 else "were"
    slow = f" ({speed.slow_at_first} of {speed.usable} {were} slow at first)" if speed.slow_at_first else ""
    yield f"The thread was held on one CPU at a time, chosen for its speed{slow}."
    if speed.repeated:
        timings = format_count(speed.repeated, "timing was", "timings were")
        kept = f"{speed.kept} of {speed.taken} were kept all the same"
        yield f"{timings} taken again because the CPU slowed down; {kept}."


def software(result: RunResult) -> str:
    """The versions on which the Python side of a time depends."""
    facts = environment_facts(result.environment)
    named = (("Python", "python"), ("cuda-bindings", "cuda_bindings"), ("NVIDIA driver", "nvidia_driver"))
    return ", ".join(f"{name} {facts[key]}" for name, key in named if facts.get(key)) + "."
