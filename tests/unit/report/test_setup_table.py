"""The tables of ``--setup-cost``, from results made by hand."""
# ruff: noqa: RUF001 - tables use the typographic dash

import io

import pytest
from rich.console import Console

from cudabw.report.setup_table import print_setup_cost
from cudabw.results.launch import Seconds
from cudabw.results.model import DeviceInfo, RunResult, State
from cudabw.results.setup_cost import BreakEven, Change, Repaid, SetupCase, SetupTrial

MIB = 1 << 20
GPU = DeviceInfo(ordinal=1, name="NVIDIA H200", uuid="GPU-1", pci="0000:17:00.0", emulated=False)
TRIAL = SetupTrial(1.0, 1.0, None, None, 1.0)


def over(seconds, spread=0.031):
    ends = (None, None) if spread is None else (seconds * (1 - spread), seconds * (1 + spread / 2))
    return Seconds(seconds, *ends, seconds, seconds)


def case(kind, *steps, size=256 * MIB, trials=5, spread=0.031, **fields):
    """A case from the seconds of its steps: allocate, touch, free, and register and unregister where they apply."""
    names = ("allocate_s", "touch_s", "free_s", "register_s", "unregister_s")
    figures = {name: over(step) for name, step in zip(names, steps, strict=False)}
    return SetupCase(
        id=f"setup-cost/{kind}/{size}",
        benchmark="setup_cost",
        kind=kind,
        size_bytes=size,
        state=fields.pop("state", State.OK),
        total_s=over(sum(steps), spread) if steps else None,
        trials=(TRIAL,) * trials,
        **figures,
        **fields,
    )


def even(kind, direction, *copies, repaid=Repaid.AFTER, engine="driver", change=Change.ALLOCATE, size=256 * MIB):
    return BreakEven(kind, engine, direction, size, change, repaid, *copies)


def printed(*cases, break_even=(), device=GPU, encoding="utf-8", width=80):
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, write_through=True) as stream:
        result = RunResult(
            ("bandwidth",), "2026-01-02T03:04:05Z", "1.0", device=device, cases=cases, break_even=break_even
        )
        print_setup_cost(result, Console(file=stream, width=width, highlight=False, markup=False))
        text = raw.getvalue().decode(encoding)
    return "\n".join(line.rstrip() for line in text.split("\n"))


CASES = (
    case("pageable", 9.4e-6, 71.24e-3, 12.35e-3),
    case("pinned", 123.4e-3, 1.2e-3, 45.6e-3),
    case("mapped", 1.234, 1.2e-3, 45.6e-3, spread=1.5),
    case("write-combined", 123.4e-3, 1.2e-3, 999.6e-6, notes=("3 of 5 trials: time budget of 2 s",)),
    case("registered", 9.4e-6, 71.24e-3, 12.35e-3, 88.8e-3, 44.4e-3),
    case("managed", state=State.REFUSED, reason="no room", trials=0),
)

EVENS = (
    even("pinned", "h2d", 12, 7, 23),
    even("pinned", "d2h", repaid=Repaid.NEVER),
    even("mapped", "h2d", 0, 0, 2, engine="kernel"),
    even("registered", "h2d", 1234, 1000, 2000, change=Change.REGISTER),
    even("registered", "d2h", repaid=Repaid.UNKNOWN, change=Change.REGISTER),
)

TEXT = """
The cost of having memory ready · device 1: NVIDIA H200

                                  First
Memory             Size  Alloc.   touch    Pin  Unpin    Free   In all       ±  Note
─────────────────────────────────────────────────────────────────────────────────────
pageable        256 MiB  9.4 µs   71 ms      –      –   12 ms  83.6 ms   3.1 %
pinned          256 MiB  123 ms  1.2 ms      –      –   46 ms   170 ms   3.1 %
mapped          256 MiB   1.2 s  1.2 ms      –      –   46 ms   1.28 s  >100 %
write-combined  256 MiB  123 ms  1.2 ms      –      –  1.0 ms   126 ms   3.1 %  1
registered      256 MiB  9.4 µs   71 ms  89 ms  44 ms   12 ms   217 ms   3.1 %
managed         256 MiB       –       –      –      –       –  refused       –  2

Median of 5 trials, each with fresh memory; ± is the 99 % interval of all steps together.
Allocating pinned, mapped and write-combined memory pins it, and freeing unpins it.
Registered memory is pageable memory, pinned where it is after its first touch (pin, unpin).
[1] 3 of 5 trials: time budget of 2 s
[2] refused: no room

Copies after which pinning has paid · device 1: NVIDIA H200

Memory      Engine     Size      h2d          99 %        d2h  99 %
────────────────────────────────────────────────────────────────────
pinned      driver  256 MiB       12       7 to 23      never     –
mapped      kernel  256 MiB  at once        0 to 2          –     –
registered  driver  256 MiB     1234  1000 to 2000  not known     –

What it costs more to have the memory ready, over what each copy takes less than the driver's copy of pageable memory.
Registered: memory that is there already, registered before the copies and unregistered after them.
"""

ONE_TRIAL = """
The cost of having memory ready · device 1: NVIDIA H200

                           First
Memory       Size  Alloc.  touch   Free   In all  ±
────────────────────────────────────────────────────
pageable  256 MiB  9.4 µs  71 ms  12 ms  83.6 ms  –
pinned      4 KiB     0 s    0 s    0 s      0 s  –

One trial.
Allocating pinned memory pins it, and freeing unpins it.
"""


def test_engines_that_are_faster_in_one_direction_each_share_a_row():
    evens = (
        even("mapped", "h2d", 2, 2, 3, engine="driver"),
        even("mapped", "d2h", 4, 3, 5, engine="kernel"),
        even("mapped", "d2h", 9, 8, 10, engine="kernel", size=1 << 20),
    )
    lines = [
        " ".join(line.split()) for line in printed(*CASES, break_even=evens).splitlines() if line.startswith("mapped  ")
    ]
    assert lines[-2:] == [
        "mapped driver / kernel 256 MiB 2 2 to 3 4 3 to 5",
        "mapped kernel 1 MiB – – 9 8 to 10",
    ]


@pytest.mark.parametrize("width", [20, 80, 200])
def test_steps_are_columns_and_what_pays_is_a_table_of_its_own(width):
    assert printed(*CASES, break_even=EVENS, width=width) == TEXT
    plain = TEXT.replace("·", "|").replace("─", "-").replace("–", "-").replace("µ", "u")
    table = printed(*CASES, break_even=EVENS, width=width, encoding="ascii")
    assert table.replace("+/-", "±").split() == plain.replace("─", "-").split()


def test_without_registered_memory_its_columns_are_left_out_and_one_trial_has_no_spread():
    cases = (
        case("pageable", 9.4e-6, 71.24e-3, 12.35e-3, trials=1, spread=None),
        case("pinned", 0.0, 0.0, 0.0, size=4096, trials=1),
    )
    assert printed(*cases) == ONE_TRIAL


def test_all_kinds_without_a_note_fit_80_columns():
    text = printed(*(case(kind, 123.4e-3, 1.2e-3, 45.6e-3, spread=0.12) for kind in ("write-combined", "registered")))
    assert max(len(line) for line in text.splitlines()[4:8]) <= 80


def test_without_pageable_memory_nothing_can_be_compared_which_is_said():
    line = "When pinning pays is seen only beside pageable memory."
    assert line in printed(CASES[1]).splitlines()
    assert line not in printed(*CASES[:2])
    assert line not in printed(CASES[-1])


def test_where_nothing_was_measured_there_is_nothing_to_read():
    assert printed() == ""


def test_where_nothing_succeeded_only_the_reason_stands_below():
    text = printed(CASES[-1], device=None)
    assert text.splitlines()[-1] == "[1] refused: no room"
    assert "Median" not in text
