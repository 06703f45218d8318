"""All that is printed of a run that moved bytes, from results made by hand."""

import io

import pytest
from rich.console import Console

from cudabw.report.bandwidth_report import print_advice, print_bandwidth_report
from cudabw.results.fits import Fit
from cudabw.results.launch import Seconds
from cudabw.results.model import CaseResult, Clock, DeviceInfo, Rate, RunResult, State, Trial
from cudabw.results.setup_cost import BreakEven, Change, Repaid, SetupCase, SetupTrial

SIZE = 512 << 20
GPU = DeviceInfo(ordinal=0, name="NVIDIA H200", uuid="GPU-1", pci="0000:17:00.0", emulated=False)
EMULATED = DeviceInfo(ordinal=0, name="Emulated", uuid=None, pci=None, emulated=True)


def case(kind, gb_per_s):
    rate = gb_per_s * 1e9
    return CaseResult(
        id=f"bandwidth/{kind}/driver/h2d/{SIZE}",
        benchmark="bandwidth",
        kind=kind,
        engine="driver",
        direction="h2d",
        size_bytes=SIZE,
        state=State.OK,
        clock=Clock.EVENT,
        rate_bytes_per_s=Rate(rate, rate, rate, rate, rate),
        trials=(Trial(1, (SIZE / rate,)),) * 2,
    )


SECOND = Seconds(1.0, 1.0, 1.0, 1.0, 1.0)
SETUP = SetupCase(
    id=f"setup-cost/pinned/{SIZE}",
    benchmark="setup_cost",
    kind="pinned",
    size_bytes=SIZE,
    state=State.OK,
    total_s=SECOND,
    trials=(SetupTrial(1.0, 0.0, None, None, 0.0),),
)


def run(device, **fields):
    return RunResult(("bandwidth",), "2026-01-02T03:04:05Z", "1.0", device=device, **fields)


def printed(print_part, result, width=80):
    stream = io.StringIO()
    print_part(result, Console(file=stream, width=width, highlight=False, markup=False))
    return stream.getvalue()


COPIES = (case("pageable", 8.9), case("pinned", 55.4))

ADVICE = """
What follows
- Allocating pinned instead of pageable memory pays after 12 copies h2d of 512 MiB.
- Pageable copies of 512 MiB would reach 55.4 GB/s h2d instead of 8.90, in pinned memory.
"""


@pytest.mark.parametrize("width", [20, 80, 200])
def test_what_follows_from_a_gpus_figures_is_a_short_list(width):
    evens = (BreakEven("pinned", "driver", "h2d", SIZE, Change.ALLOCATE, Repaid.AFTER, 12, 12, 12),)
    assert printed(print_advice, run(GPU, cases=COPIES, break_even=evens), width) == ADVICE
    assert printed(print_advice, run(EMULATED, cases=COPIES, break_even=evens), width) == ""


def test_the_parts_of_the_report_follow_each_other():
    fits = (Fit("pinned", "driver", "h2d", (1 << 12, 1 << 20), 2e-6, 55e9, 1.1e5, 0.01),)
    text = printed(print_bandwidth_report, run(GPU, cases=(*COPIES, SETUP), fits=fits))
    titles = [line.partition(" ·")[0] for line in text.splitlines() if " · " in line or line == "What follows"]
    assert titles == [
        "Host ↔ device bandwidth",
        "Fitted curves",
        "The cost of having memory ready",
        "What follows",
    ]


def test_a_run_that_never_began_prints_nothing():
    assert printed(print_bandwidth_report, run(None)) == ""
