"""The tables of ``--dry-run``; whole commands are in tests/cli/test_run.py."""

import io

from rich.console import Console

from cudabw.benchmarks.bandwidth_plan import KINDS, BandwidthPlan
from cudabw.benchmarks.estimate import estimate_run
from cudabw.benchmarks.latency_plan import LatencyPlan
from cudabw.report.plan_table import print_plan


def printed(*plans, width):
    stream = io.StringIO()
    print_plan(estimate_run("ci", plans, backend="cuda", device=0), Console(file=stream, width=width))
    return stream.getvalue()


def test_nothing_is_cut_off_where_a_terminal_is_narrow():
    plans = (BandwidthPlan(kinds=KINDS, sizes=(1 << 20, 1 << 26), setup_kinds=KINDS), LatencyPlan())
    assert printed(*plans, width=30) == printed(*plans, width=300)
