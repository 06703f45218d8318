"""``cudabw latency``."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import click

from cudabw.cli.effort import EffortFlags, effort_options
from cudabw.cli.parameters import COUNT, SIZES, device_options, output_options
from cudabw.measuring.effort import Level

if TYPE_CHECKING:
    from pathlib import Path

_EXAMPLES = """\b
Examples:
  cudabw latency
  cudabw latency --pinned --size 4KiB --direction h2d
  cudabw latency --pinned --size 64,1KiB,16KiB --copies 256
  cudabw latency -o result.json
"""


@click.command(short_help="What small copies cost: one at a time, and many at once in several ways.", epilog=_EXAMPLES)
@click.option("--pinned", is_flag=True, help="Page-locked memory, which the copy engines reach directly.")
@click.option("--pageable", is_flag=True, help="Ordinary memory; the driver copies it through buffers of its own.")
@click.option(
    "--direction",
    "directions",
    type=click.Choice(["h2d", "d2h"]),
    multiple=True,
    help="Host to device, or device to host; may be repeated.  [default: both]",
)
@click.option(
    "--size",
    "sizes",
    type=SIZES,
    multiple=True,
    metavar="SIZE",
    help="Bytes of one copy, a list 1,64,4KiB, or a range 1KiB:64KiB:x4; may be repeated. Many at once are made of "
    "sizes up to 256KiB.  [default: 1,64,1KiB,4KiB,16KiB,64KiB,256KiB,1MiB; many at once: 64,4KiB,16KiB,64KiB,256KiB]",
)
@click.option(
    "--copies",
    type=COUNT,
    default=None,
    metavar="N",
    help="How many copies are made at once; of 4KiB, 1, 2, 8, 32 and 128 as well.  [default: 32]",
)
@effort_options(trials="8 or more", precision="5%", time_budget="8s, beyond the first 3 trials of each case")
@device_options
@output_options
def command(
    *,
    pinned: bool,
    pageable: bool,
    directions: tuple[str, ...],
    sizes: tuple[tuple[int, ...], ...],
    copies: int | None,
    effort: EffortFlags,
    device: int | None,
    backend: str | None,
    as_json: bool,
    outputs: tuple[Path, ...],
    github: bool,
) -> int:
    """Measure what small copies between host and device cost.

    One copy at a time, waited for and queued; and many scattered blocks at once: as a loop of copies, as one batch,
    as a graph, and by one kernel. Without a kind, pinned and pageable memory are measured. What arrived is verified
    after every batch, and a wrong figure is never shown as a number.
    """
    from cudabw.benchmarks.bandwidth_plan import DIRECTIONS
    from cudabw.benchmarks.latency_plan import (
        DEFAULT_COPIES,
        KINDS,
        LatencyPlan,
    )
    from cudabw.benchmarks.running import run_plans
    from cudabw.cli.present import command_line, measure_and_present

    named = tuple(kind for kind, wanted in zip(KINDS, (pinned, pageable), strict=True) if wanted)
    plan = LatencyPlan(
        kinds=named or KINDS,
        directions=[way for way in DIRECTIONS if way in (directions or DIRECTIONS)],
        sizes=tuple(dict.fromkeys(chain.from_iterable(sizes))),
        copies=copies or DEFAULT_COPIES,
        trials=effort.trials,
        time_budget_s=effort.time_budget_s,
        named=frozenset(named),
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
