"""The table of limits, from results made by hand."""
# ruff: noqa: RUF001 - tables use the typographic dash

import io
from dataclasses import replace

import pytest
from rich.console import Console

from cudabw.report.limits_table import count_limits, print_limits
from cudabw.results.launch import LaunchCase, Mode, Seconds
from cudabw.results.limits import Bound, LimitResult, LimitState
from cudabw.results.model import CaseResult, DeviceInfo, RunResult, State

PASS, FAIL, CANNOT_TELL = LimitState
GPU = DeviceInfo(0, "NVIDIA H200 [x]", None, None, emulated=False)
STRADDLES = "the interval lies on both sides of the limit; more trials narrow it"


def copy_case(kind, engine, direction):
    name = f"bandwidth/{kind}/{engine}/{direction}/536870912"
    return CaseResult(name, "bandwidth", kind, engine, direction, 1 << 29, State.FAILED, "not shown here")


def launch_case(args, arg_type):
    name = f"launch_overhead/{arg_type}/{args}/prepared"
    seconds = Seconds(4e-6, None, None, 4e-6, 4e-6)
    return LaunchCase(name, "launch_overhead", arg_type, args, Mode.PREPARED, State.OK, submit_s=seconds)


CASES = (
    copy_case("write-combined", "driver", "h2d"),
    copy_case("mapped", "kernel", "d2h"),
    copy_case("pinned", "driver", "bidirectional-total"),
    launch_case(0, "none"),
    launch_case(4, "buffer"),
)
WRITE_COMBINED, MAPPED, TOTAL, NONE, BUFFERS = (case.id for case in CASES)

RESULT = RunResult(
    ("run", "nightly.toml"),
    "2026-01-02T03:04:05Z",
    "1.0",
    device=GPU,
    cases=CASES,
    limits=(
        LimitResult("*", WRITE_COMBINED, Bound.MIN_RATE, 52e9, PASS, None, 55.364e9, 55.31e9, 55.4e9),
        LimitResult("*", WRITE_COMBINED, Bound.MIN_LINK, 0.82, PASS, None, 0.8788, 0.8779, 0.8794),
        LimitResult("*", MAPPED, Bound.MIN_RATE, 49e9, CANNOT_TELL, STRADDLES, 49.9e9, 48.2e9, 51e9),
        LimitResult("*", TOTAL, Bound.MIN_RATE, 90e9, FAIL, "the whole interval misses the limit", 80e9, 7e9, 81e9),
        LimitResult("*2048", None, Bound.MIN_RATE, 1e9, CANNOT_TELL, "matches no case with a rate"),
        LimitResult("*", NONE, Bound.MAX_TIME, 8e-6, CANNOT_TELL, "one trial has no interval", 4e-6),
        LimitResult("*", BUFFERS, Bound.MAX_TIME, 8e-6, CANNOT_TELL, STRADDLES, 4e-6, -1e-6, 12e6),
        LimitResult("*", "launch_overhead/buffer", Bound.MAX_PER_ARGUMENT, 4e-7, PASS, None, 1.21e-7, 1e-8, 2.3e-7),
    ),
)

TEXT = """\
Limits · device 0: NVIDIA H200 [x]
Of 8 limits: 3 met, 1 not met, 4 cannot be told.

Rate in GB/s, at least
Case                            Limit  Figure  Interval        Verdict
───────────────────────────────────────────────────────────────────────────────
write-combined h2d 512 MiB      52.00   55.36  55.31 to 55.40  pass
mapped kernel d2h 512 MiB       49.00   49.90  48.20 to 51.00  cannot tell [1]
pinned both ways total 512 MiB  90.00   80.00  7.00 to 81.00   fail [2]
*2048                            1.00       –  –               cannot tell [3]

Share of the link in %, at least
Case                        Limit  Figure  Interval        Verdict
───────────────────────────────────────────────────────────────────
write-combined h2d 512 MiB  82.00   87.88  87.79 to 87.94  pass

The call of a launch (submit) or a small copy in µs, at most
Case                           Limit  Figure  Interval          Verdict
────────────────────────────────────────────────────────────────────────────────
launch prepared, no arguments   8.00    4.00  –                 cannot tell [4]
launch prepared, 4 buffer       8.00    4.00  -1.00 to 1.2e+13  cannot tell [1]

Converting each further argument in ns, at most
Case              Limit  Figure  Interval        Verdict
─────────────────────────────────────────────────────────
buffer arguments  400.0   121.0  10.00 to 230.0  pass

Pass: also the worse end of the 99 % interval meets the limit. Fail: even the better end misses it.
[1] the interval lies on both sides of the limit; more trials narrow it
[2] the whole interval misses the limit
[3] matches no case with a rate
[4] one trial has no interval
"""


def printed(result, *, encoding="utf-8", width=80):
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, write_through=True) as stream:
        print_limits(result, Console(file=stream, width=width, highlight=False, markup=False))
        text = raw.getvalue().decode(encoding)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def test_the_whole_report_fits_80_columns_with_one_row_for_each_limited_figure():
    assert printed(RESULT) == TEXT


def test_it_is_the_same_in_ascii():
    ascii_text = TEXT.translate({ord("·"): "|", ord("–"): "-", ord("─"): "-", ord("µ"): "u"})
    assert printed(RESULT, encoding="ascii") == ascii_text


def test_the_emulated_device_is_named_as_what_it_is():
    emulated = replace(RESULT, device=replace(GPU, emulated=True))
    title = "Limits · device 0: EMULATED, not a GPU: no limit can be told"
    assert printed(emulated).splitlines()[0] == title


def test_small_limits_have_digits_that_tell():
    small = LimitResult("*", BUFFERS, Bound.MAX_TIME, 4e-9, PASS, None, 3.14e-9, 0.0, 3.9e-9)
    shown = printed(replace(RESULT, limits=(small,))).split()
    assert {"0.004", "0.0031", "0.0039"} <= set(shown)


@pytest.mark.parametrize("missing", ["limits", "cases"])
def test_nothing_is_printed_where_there_are_no_limits_or_nothing_was_measured(missing):
    assert printed(replace(RESULT, **{missing: ()})) == ""


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ([PASS], "The one limit: met."),
        ([CANNOT_TELL], "The one limit: cannot be told."),
        ([PASS, PASS], "Of 2 limits: 2 met."),
        ([FAIL, PASS, FAIL], "Of 3 limits: 1 met, 2 not met."),
    ],
)
def test_limits_are_counted_in_one_line(states, text):
    found = [LimitResult("*", None, Bound.MIN_RATE, 1.0, state, None if state is PASS else "so") for state in states]
    assert count_limits(found) == text
