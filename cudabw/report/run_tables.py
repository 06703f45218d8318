"""Everything that a run's results say, of whatever benchmarks: what a command prints when it has measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.report.bandwidth_report import print_bandwidth_report
from cudabw.report.latency_table import print_latency
from cudabw.report.launch_table import print_launches
from cudabw.report.limits_table import print_limits

if TYPE_CHECKING:
    from rich.console import Console

    from cudabw.results.model import RunResult


def print_run(result: RunResult, console: Console) -> None:
    """Print the tables of all benchmarks of a run."""
    small = result.latency_cases or result.small_copies_cases
    print_bandwidth_report(result, console)
    if result.bandwidth_cases and small:
        console.print()
    print_latency(result, console)
    if (result.bandwidth_cases or small) and result.launch_cases:
        console.print()
    print_launches(result, console)
    if result.limits and result.cases:
        console.print()
    print_limits(result, console)
