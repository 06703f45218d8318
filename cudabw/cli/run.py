"""``cudabw run``."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from cudabw.cli.effort import EffortFlags, effort_options
from cudabw.cli.main import notify
from cudabw.cli.parameters import ORDINAL, SIZES, output_options
from cudabw.config.suite import BACKENDS
from cudabw.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from cudabw.benchmarks.observer import Observer
    from cudabw.benchmarks.suite import Plan
    from cudabw.config.suite import Suite
    from cudabw.results.limits import Limit
    from cudabw.results.model import RunResult

_EXAMPLES = """\b
Built-in suites:
  smoke  Does everything work? Needs no GPU; for CI.
  quick  How fast is this machine's link? Half a minute.
  full   From which size on does pinning pay? A sweep for all kinds; minutes.
  acceptance-pcie5-x16  Does it give what PCIe Gen5 x16 should? Exit 3 if not.

\b
Examples:
  cudabw run quick
  cudabw run full --dry-run
  cudabw run nightly.toml --device 1 -o result.json
"""


def _complete_suite(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
    from cudabw.config.lookup import suite_names

    names = [CompletionItem(name) for name in suite_names() if name.startswith(incomplete)]
    return [*names, CompletionItem(incomplete, type="file")]


@click.command(short_help="Measure what a suite says: a built-in one, or a TOML file.", epilog=_EXAMPLES)
@click.argument("suite", metavar="NAME|FILE.toml", shell_complete=_complete_suite)
@click.option("--dry-run", is_flag=True, help="Print cases, bytes, memory and estimated time; touch no driver.")
@click.option("--backend", type=click.Choice(BACKENDS), default=None, help="Instead of the suite's.")
@click.option("--device", type=ORDINAL, default=None, metavar="N", help="Number of the device, instead of the suite's.")
@click.option(
    "--size",
    "sizes",
    type=SIZES,
    multiple=True,
    metavar="SIZE",
    help="Sizes, lists or ranges, instead of those of every section; may be repeated.",
)
@effort_options(trials="as each section says", precision="likewise", time_budget="likewise")
@output_options
def command(
    *,
    suite: str,
    dry_run: bool,
    backend: str | None,
    device: int | None,
    sizes: tuple[tuple[int, ...], ...],
    effort: EffortFlags,
    as_json: bool,
    outputs: tuple[Path, ...],
    github: bool,
) -> int:
    """Measure what a suite says.

    A suite is a TOML file that is kept, reviewed and run again. Something that ends in .toml or has a slash in
    it is a path; anything else is the name of a built-in suite. Flags override what the suite says.

    A kind that the suite names must be there: one that is refused or unsupported makes the exit code 4. Limits that
    the suite sets must be met: one that is not, or of which that cannot be told, makes it 3.
    """
    if dry_run and (outputs or github):
        writer = "-o" if outputs else "--github"
        raise UsageError(f"--dry-run measures nothing that {writer} could write", hint="Print the plan with --json.")

    from cudabw.benchmarks.suite import VOCABULARY, limits_of, plans_of
    from cudabw.config.lookup import load_suite
    from cudabw.config.suite import override

    settings = {
        "sizes": tuple(dict.fromkeys(chain.from_iterable(sizes))) or None,
        "effort": effort.level,
        "trials": effort.trials,
        "precision": effort.precision,
        "time_budget": effort.time_budget_s,
    }
    wanted = override(load_suite(suite, VOCABULARY), VOCABULARY, backend=backend, device=device, settings=settings)
    plans = plans_of(wanted)
    limits = limits_of(wanted)
    _warn_of_limits(limits, plans)
    if dry_run:
        return _show(suite, wanted, plans, as_json=as_json)
    return _measure(wanted, plans, limits, as_json=as_json, outputs=outputs, github=github, strict=effort.strict)


def _warn_of_limits(limits: Sequence[Limit], plans: Sequence[Plan]) -> None:
    """Say at once which limits no result of the suite can tell."""
    for why in dict.fromkeys(_why_not_told(limits, plans)):
        notify(f"{why}, so it cannot be told (exit 3)")


def _why_not_told(limits: Iterable[Limit], plans: Sequence[Plan]) -> Iterator[str]:
    from cudabw.benchmarks.suite import result_ids, slope_ids
    from cudabw.results.limits import Bound

    ids, slopes = tuple(result_ids(plans)), tuple(f"{kind}/" for kind in slope_ids(plans))
    for limit in limits:
        matched = [one for one in ids if fnmatchcase(one, limit.cases)]
        if not matched:
            yield f"no case of this suite matches the limit on {limit.cases!r}"
        elif limit.bound is Bound.MAX_PER_ARGUMENT and not any(one.startswith(slopes) for one in matched):
            numbers = "two numbers of arguments, which this suite does not measure"
            yield f"the limit on {limit.cases!r} takes launches with {numbers}"


def _measure(
    suite: Suite,
    plans: Sequence[Plan],
    limits: Sequence[Limit],
    *,
    as_json: bool,
    outputs: Sequence[Path],
    github: bool,
    strict: bool,
) -> int:
    from cudabw.benchmarks.running import run_plans
    from cudabw.cli.present import command_line, measure_and_present
    from cudabw.report.limits_table import count_limits
    from cudabw.results.limits import LimitState, judge

    backend, device = suite.backend or "auto", suite.device or 0

    def measure(observer: Observer) -> RunResult:
        result = run_plans(command_line(), plans, backend=backend, device=device, observer=observer)
        result = replace(result, limits=judge(result, limits))
        if any(found.state is not LimitState.PASS for found in result.limits):
            observer.notify(count_limits(result.limits))
        return result

    return measure_and_present(measure, as_json=as_json, outputs=outputs, github=github, strict=strict)


def _show(name: str, suite: Suite, plans: Sequence[Plan], *, as_json: bool) -> int:
    from cudabw.benchmarks.estimate import estimate_run
    from cudabw.cli.printing import rendered, write_result
    from cudabw.report.plan_table import print_plan
    from cudabw.results.plan import plan_to_json

    plan = estimate_run(name, plans, backend=suite.backend or "auto", device=suite.device or 0)
    write_result(plan_to_json(plan) + "\n" if as_json else rendered(partial(print_plan, plan)))
    return 0
