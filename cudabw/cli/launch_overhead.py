"""``cudabw launch-overhead``."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import click

from cudabw.cli.effort import EffortFlags, effort_options
from cudabw.cli.parameters import ARGUMENT_COUNTS, ARGUMENT_TYPES, device_options, output_options
from cudabw.measuring.effort import Level

if TYPE_CHECKING:
    from pathlib import Path

_EXAMPLES = """\b
Examples:
  cudabw launch-overhead
  cudabw launch-overhead --args 0,1,2,4,8,16,32 --arg-type pointer,buffer
  cudabw launch-overhead --args 4 --arg-type mixed -o result.json
"""


@click.command(
    "launch-overhead",
    short_help="What a launch from Python costs, and how much of it is converting arguments.",
    epilog=_EXAMPLES,
)
@click.option(
    "--args",
    "counts",
    type=ARGUMENT_COUNTS,
    multiple=True,
    metavar="N,...",
    help="Numbers of arguments, 0 to 256; may be repeated.  [default: 0,1,4,16]",
)
@click.option(
    "--arg-type",
    "arg_types",
    type=ARGUMENT_TYPES,
    multiple=True,
    metavar="TYPE,...",
    help="Of pointer, int32, uint32, float32, float64, numpy, buffer, struct and mixed (three buffers and an int32); "
    "may be repeated.  [default: buffer, and without --args mixed as well]",
)
@effort_options(trials="12 or more", precision="1%", time_budget="8s, beyond the first 12 trials of each case")
@device_options
@output_options
def command(
    *,
    counts: tuple[tuple[int, ...], ...],
    arg_types: tuple[tuple[str, ...], ...],
    effort: EffortFlags,
    device: int | None,
    backend: str | None,
    as_json: bool,
    outputs: tuple[Path, ...],
    github: bool,
) -> int:
    """Measure what launching a kernel from Python costs.

    One null kernel is launched with the same arguments in several ways, from the bare driver call to converting
    every argument twice, in pairs, so that the difference which conversion makes is told from drift and noise.
    """
    from cudabw.benchmarks.launch_overhead import LaunchPlan, sets_for
    from cudabw.benchmarks.running import run_plans
    from cudabw.cli.present import command_line, measure_and_present

    plan = LaunchPlan(
        sets=sets_for(
            tuple(dict.fromkeys(chain.from_iterable(arg_types))) or None,
            tuple(dict.fromkeys(chain.from_iterable(counts))) or None,
        ),
        trials=effort.trials,
        time_budget_s=effort.time_budget_s,
        level=effort.level or Level.DEFAULT,
        precision=effort.precision,
    )
    return measure_and_present(
        lambda observer: run_plans(
            command_line(), (plan,), backend=backend or "auto", device=device or 0, observer=observer
        ),
        as_json=as_json,
        outputs=outputs,
        strict=effort.strict,
        github=github,
    )
