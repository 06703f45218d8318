"""``cudabw bandwidth``."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cudabw.cli.effort import EffortFlags, effort_options
from cudabw.cli.parameters import COUNT, NODE, SIZE, SIZES, STDOUT, device_options, output_options
from cudabw.errors import UsageError
from cudabw.measuring.effort import Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabw.benchmarks.bandwidth_plan import BandwidthPlan

_KINDS = {
    "pageable": "Ordinary memory; the driver copies it through buffers of its own.",
    "pinned": "Page-locked memory, which the copy engines reach directly.",
    "mapped": "Pinned memory that the device has an address for.",
    "write-combined": "Pinned memory outside the CPU's caches.",
    "registered": "An existing array's pages, locked where they are.",
    "managed": "Memory whose pages move; measured by prefetching.",
}


def _kind_options(function: click.decorators.FC) -> click.decorators.FC:
    for kind, text in reversed(_KINDS.items()):
        function = click.option(f"--{kind}", is_flag=True, help=text)(function)
    return function


_EXAMPLES = """\b
Examples:
  cudabw bandwidth --pinned --size 512MiB
  cudabw bandwidth --all --size 4KiB:256MiB:x4 --direction h2d
  cudabw bandwidth --pageable --pinned --engine all --size 512MiB
  cudabw bandwidth --pinned --precision 0.1% --time-budget 1min --strict
  cudabw bandwidth --pageable --pinned --registered --setup-cost
  cudabw bandwidth -o result.json
"""


@click.command(short_help="Bandwidth between host and device, for each kind of host memory.", epilog=_EXAMPLES)
@_kind_options
@click.option("--all", "all_kinds", is_flag=True, help="All six kinds; those this machine lacks do not fail the run.")
@click.option(
    "--direction",
    "directions",
    type=click.Choice(["h2d", "d2h", "bidirectional", "d2d"]),
    multiple=True,
    help="Host to device, device to host, both at once, or within device memory; may be repeated.  "
    "[default: h2d and d2h]",
)
@click.option(
    "--engine",
    "engines",
    type=click.Choice(["driver", "kernel", "staged", "all"]),
    multiple=True,
    help="What copies: the driver; a kernel that reads or writes mapped memory; threads that stage pageable memory "
    "through pinned slots; or all that a kind has. May be repeated; kinds that were not named and have none are "
    "left out.  "
    "[default: kernel for mapped memory, else driver]",
)
@click.option(
    "--size",
    "sizes",
    type=SIZES,
    multiple=True,
    metavar="SIZE",
    help="Bytes of one copy: 64MiB, a list 1MiB,64MiB, or a range 4KiB:256MiB:x4 or 1MiB:8MiB:+1MiB; "
    "may be repeated.  [default: 64MiB]",
)
@effort_options(trials="5 or more", precision="0.5%", time_budget="8s, beyond the first 5 trials of each case")
@click.option("--threads", type=COUNT, default=None, metavar="N", help="Of the staged engine.  [default: found out]")
@click.option(
    "--slot",
    type=SIZE,
    default=None,
    metavar="SIZE",
    help="Bytes of each of the two pinned slots of a thread of the staged engine, 64KiB or more.  [default: found out]",
)
@click.option(
    "--numa",
    type=NODE,
    default=None,
    metavar="NODE",
    help="Put host memory and thread on a NUMA node: its number; auto for the device's; or all, a row for each that "
    "has memory. Where they really were is said too.  [default: not placed]",
)
@click.option(
    "--first-touch",
    is_flag=True,
    help="Measure besides what copies from the device reach into pageable memory that was never touched.",
)
@click.option("--huge-pages", is_flag=True, help="Measure pageable memory on transparent huge pages besides.")
@click.option(
    "--setup-cost",
    is_flag=True,
    help="Measure besides what it costs to allocate, touch, register, unregister and free such memory, and after how "
    "many copies pinning has paid.",
)
@device_options
@output_options
@click.option("--chart", is_flag=True, help="Also draw the rates over sizes, as bars of text under the table.")
def command(
    *,
    all_kinds: bool,
    directions: tuple[str, ...],
    engines: tuple[str, ...],
    sizes: tuple[tuple[int, ...], ...],
    effort: EffortFlags,
    threads: int | None,
    slot: int | None,
    numa: int | str | None,
    first_touch: bool,
    huge_pages: bool,
    setup_cost: bool,
    device: int | None,
    backend: str | None,
    as_json: bool,
    outputs: tuple[Path, ...],
    github: bool,
    chart: bool,
    **kinds: bool,
) -> int:
    """Measure how fast bytes move between host and device.

    Without a kind, pageable, pinned and mapped memory are measured. Each figure is the median over trials with
    fresh allocations, of which there are more until its 99 % interval is narrow enough or the time is used up. What
    arrived is verified after every batch, and a wrong figure is never shown as a number.
    """
    from cudabw.benchmarks.bandwidth_plan import (
        ALL_DIRECTIONS,
        DEFAULT_KINDS,
        DEFAULT_SIZE,
        DIRECTIONS,
        ENGINES,
        BandwidthPlan,
        Staging,
        page_states,
    )
    from cudabw.benchmarks.places import on_nodes
    from cudabw.benchmarks.running import run_plans
    from cudabw.cli.present import command_line, measure_and_present
    from cudabw.report.chart import print_run_and_chart
    from cudabw.report.run_tables import print_run

    if chart and (as_json or Path(STDOUT) in outputs):
        raise UsageError("--chart draws under the table, and --json prints no table")
    named = _named_kinds(kinds)
    measured = tuple(_KINDS) if all_kinds else named or DEFAULT_KINDS
    plan = BandwidthPlan(
        kinds=measured,
        directions=[way for way in ALL_DIRECTIONS if way in (directions or DIRECTIONS)],
        sizes=tuple(dict.fromkeys(chain.from_iterable(sizes))) or (DEFAULT_SIZE,),
        trials=effort.trials,
        time_budget_s=effort.time_budget_s,
        named=frozenset((*named, *engines)) - {"all"},
        sizes_named=bool(sizes),
        engines=ENGINES if "all" in engines else tuple(dict.fromkeys(engines)),
        staging=Staging(threads, slot),
        level=effort.level or Level.DEFAULT,
        precision=effort.precision,
        pages=page_states(first_touch=first_touch, huge_pages=huge_pages),
        setup_kinds=measured if setup_cost else (),
    )
    plan = on_nodes(plan, numa)
    _require_sense(plan)
    return measure_and_present(
        lambda observer: run_plans(
            command_line(), (plan,), backend=backend or "auto", device=device or 0, observer=observer
        ),
        as_json=as_json,
        outputs=outputs,
        strict=effort.strict,
        github=github,
        print_report=print_run_and_chart if chart else print_run,
    )


def _require_sense(plan: BandwidthPlan) -> None:
    from cudabw.benchmarks.bandwidth_plan import require_sense

    try:
        require_sense(plan)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _named_kinds(flags: dict[str, bool]) -> Sequence[str]:
    return [kind for kind in _KINDS if flags[kind.replace("-", "_")]]
