"""The table of ``cudabw bandwidth``, from results made by hand."""
# ruff: noqa: RUF001 - tables use the typographic dash

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from cudabw.report.bandwidth_table import print_bandwidth
from cudabw.results.model import CaseResult, Clock, DeviceInfo, Hop, Link, Rate, RunError, RunResult, State, Trial

MIB = 1 << 20
EMULATED = DeviceInfo(ordinal=0, name="Emulated", uuid=None, pci=None, emulated=True)
LINK = Link(generation=5, width=16, ceiling_bytes_per_s=63.0e9, source="nvml")
GPU = DeviceInfo(ordinal=1, name="NVIDIA H200 [x]", uuid="GPU-1", pci="0000:17:00.0", emulated=False, link=LINK)


def case(kind, direction, gb_per_s=None, *, engine="driver", size=64 * MIB, spread=0.0, trials=None, **fields):
    """A case of which each field can be set; one without a rate needs a state and a reason."""
    rate = None
    if trials is None:
        trials = 0 if gb_per_s is None else 5
    if gb_per_s is not None:
        median = gb_per_s * 1e9
        # The wider side of the interval is the one to show.
        low, high = (None, None) if trials == 1 else (median * (1 - spread), median * (1 + spread / 2))
        rate = Rate(median=median, low=low, high=high, min=median / 2, max=median * 2)
        fields.setdefault("clock", Clock.HOST if kind == "pageable" else Clock.EVENT)
    return CaseResult(
        id=f"bandwidth/{kind}/{engine}/{direction}/{size}",
        benchmark="bandwidth",
        kind=kind,
        engine=engine,
        direction=direction,
        size_bytes=size,
        state=fields.pop("state", State.OK),
        rate_bytes_per_s=rate,
        trials=(Trial(16, (1e-3,)),) * trials,
        **fields,
    )


def run_result(*cases, device=EMULATED, **fields):
    return RunResult(("bandwidth",), "2026-01-02T03:04:05Z", "1.0", device=device, cases=cases, **fields)


def with_links(result):
    """The same run on a GPU whose link is known."""
    cases = [
        replace(case, link_fraction=case.rate_bytes_per_s.median / 63.0e9) if case.rate_bytes_per_s else case
        for case in result.cases
    ]
    return replace(result, device=GPU, cases=tuple(cases))


def printed(result, *, encoding="utf-8", width=80, **console):
    """What is printed, without the blanks at the ends of lines, which mean nothing."""
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, write_through=True) as stream:
        print_bandwidth(result, Console(file=stream, width=width, highlight=False, markup=False, **console))
        text = raw.getvalue().decode(encoding)
    return "\n".join(line.rstrip() for line in text.split("\n"))


MEASURED = run_result(
    case("pageable", "h2d", 8.873, spread=0.013),
    case("pageable", "d2h", 14.81, spread=0.12),
    case("pinned", "h2d", 55.36, spread=0.0004),
    case("pinned", "d2h", 1234.5),
)

MEASURED_TEXT = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

Memory      Size  h2d GB/s       ±  d2h GB/s     ±  Clock
──────────────────────────────────────────────────────────
pageable  64 MiB      8.87   1.3 %      14.8  12 %  host
pinned    64 MiB      55.4  0.04 %      1234   0 %  event

Median of 5 trials; ± is its 99 % interval.
"""

MEASURED_ASCII = """\
Host <-> device bandwidth | device 0: EMULATED, not a GPU (host memory)

Memory      Size  h2d GB/s     +/-  d2h GB/s   +/-  Clock
----------------------------------------------------------
pageable  64 MiB      8.87   1.3 %      14.8  12 %  host
pinned    64 MiB      55.4  0.04 %      1234   0 %  event

Median of 5 trials; +/- is its 99 % interval.
"""

GPU_TEXT = """\
Host ↔ device bandwidth · device 1: NVIDIA H200 [x]

Memory      Size  h2d GB/s       ±  link  d2h GB/s     ±    link  Clock
────────────────────────────────────────────────────────────────────────
pageable  64 MiB      8.87   1.3 %  14 %      14.8  12 %    24 %  host
pinned    64 MiB      55.4  0.04 %  88 %      1234   0 %  1960 %  event

Median of 5 trials; ± is its 99 % interval; link: PCIe Gen5 x16, 63.0 GB/s (nvml, under load).
"""

GPU_ASCII = """\
Host <-> device bandwidth | device 1: NVIDIA H200 [x]

Memory      Size  h2d GB/s     +/-  link  d2h GB/s   +/-    link  Clock
------------------------------------------------------------------------
pageable  64 MiB      8.87   1.3 %  14 %      14.8  12 %    24 %  host
pinned    64 MiB      55.4  0.04 %  88 %      1234   0 %  1960 %  event

Median of 5 trials; +/- is its 99 % interval; link: PCIe Gen5 x16, 63.0 GB/s (nvml, under load).
"""


@pytest.mark.parametrize("width", [20, 80, 200])
@pytest.mark.parametrize(
    ("result", "encoding", "text"),
    [
        (MEASURED, "utf-8", MEASURED_TEXT),
        (MEASURED, "ascii", MEASURED_ASCII),
        (MEASURED, "latin-1", MEASURED_ASCII),
        (with_links(MEASURED), "utf-8", GPU_TEXT),
        (with_links(MEASURED), "ascii", GPU_ASCII),
    ],
)
def test_a_measured_run_is_one_row_a_kind_at_any_width(result, encoding, text, width):
    assert printed(result, encoding=encoding, width=width) == text


STAGED = {"engine": "staged", "clock": Clock.HOST, "spread": 0.0004}
EIGHT = ("staged by 8 threads, slots of 4 MiB",)
TWELVE = ("staged by 12 threads, slots of 4 MiB",)

ENGINES = run_result(
    case("pageable", "h2d", 8.873, spread=0.094),
    case("pageable", "d2h", 14.81, spread=0.12),
    case("pageable", "h2d", 49.3, notes=TWELVE, **STAGED),
    case("pageable", "d2h", 46.2, notes=EIGHT, **STAGED),
    case("pinned", "h2d", 55.36, spread=0.0008),
    case("pinned", "d2h", 1234.5),
    case("mapped", "h2d", 51.4, engine="kernel"),
    case("mapped", "d2h", 52.5, engine="kernel"),
    case("write-combined", "h2d", 55.4),
)

ENGINES_TEXT = """\
Host ↔ device bandwidth · device 1: NVIDIA H200 [x]

                                 h2d     ±  link   d2h     ±  link
Memory          Engine    Size  GB/s     %     %  GB/s     %     %  Clock  Note
────────────────────────────────────────────────────────────────────────────────
pageable        driver  64 MiB  8.87   9.4    14  14.8    12    24  host
pageable        staged  64 MiB  49.3  0.04    78  46.2  0.04    73  host   1 2
pinned          driver  64 MiB  55.4  0.08    88  1234     0  1960  event
mapped          kernel  64 MiB  51.4     0    82  52.5     0    83  event
write-combined  driver  64 MiB  55.4     0    88     –     –     –  event

Median of 5 trials; ± is its 99 % interval; link: PCIe Gen5 x16, 63.0 GB/s (nvml, under load).
[1] staged by 12 threads, slots of 4 MiB
[2] staged by 8 threads, slots of 4 MiB
"""

ENGINES_ASCII = """\
Host <-> device bandwidth | device 0: EMULATED, not a GPU (host memory)

                                 h2d   +/-   d2h   +/-
Memory          Engine    Size  GB/s     %  GB/s     %  Clock  Note
--------------------------------------------------------------------
pageable        driver  64 MiB  8.87   9.4  14.8    12  host
pageable        staged  64 MiB  49.3  0.04  46.2  0.04  host   1 2
pinned          driver  64 MiB  55.4  0.08  1234     0  event
mapped          kernel  64 MiB  51.4     0  52.5     0  event
write-combined  driver  64 MiB  55.4     0     -     -  event

Median of 5 trials; +/- is its 99 % interval.
[1] staged by 12 threads, slots of 4 MiB
[2] staged by 8 threads, slots of 4 MiB
"""


def test_an_engine_beside_the_driver_is_a_column_and_the_units_stand_under_the_headings():
    assert printed(with_links(ENGINES)) == ENGINES_TEXT
    assert printed(ENGINES, encoding="ascii") == ENGINES_ASCII
    assert max(len(line) for line in ENGINES_TEXT.splitlines()[2:10]) <= 80


BOTH_TEXT = """\
Both directions at once · device 1: NVIDIA H200 [x]

                         h2d    ±   d2h    ±  total    ±
Memory            Size  GB/s    %  GB/s    %   GB/s    %  Clock
────────────────────────────────────────────────────────────────
pinned          64 MiB  52.0  1.2  50.4  1.2    102  1.2  event
write-combined  64 MiB  52.0  1.2  50.4  1.2    102  1.2  event

Median of 5 trials; ± is its 99 % interval; link: PCIe Gen5 x16, 63.0 GB/s (nvml, under load).
"""


def test_both_directions_at_once_are_a_table_of_their_own():
    cases = (
        case(kind, f"bidirectional-{result}", rate, spread=0.0123)
        for kind in ("pinned", "write-combined")
        for result, rate in (("total", 102.4), ("h2d", 52.0), ("d2h", 50.4))
    )
    assert printed(with_links(run_result(*cases))) == BOTH_TEXT


def on_node(asked, found, kind, direction, rate, **fields):
    """A case whose memory lay where its trials say."""
    trial = Trial(16, (1e-3,), pages_on=found, thread_node=asked)
    measured = case(kind, direction, rate, spread=0.0123, numa_node=asked, **fields)
    asked_for = "" if asked is None else f"/node{asked}"
    return replace(measured, id=measured.id + asked_for, trials=(trial,) * 5)


NODES = run_result(
    *(on_node(0, {"0": 64}, kind, way, 55.4) for kind in ("pageable", "pinned") for way in ("h2d", "d2h")),
    on_node(1, {"0": 64}, "pinned", "h2d", 41.2, notes=("asked for node 1, but",)),
    on_node(1, {"1": 64}, "pinned", "d2h", 39.9),
)

NODES_TEXT = """\
Host ↔ device bandwidth · device 1: NVIDIA H200 [x]

                         h2d    ±  link   d2h    ±  link
Memory      Size  Node  GB/s    %     %  GB/s    %     %  Clock  Note
──────────────────────────────────────────────────────────────────────
pageable  64 MiB     0  55.4  1.2    88  55.4  1.2    88  host
pinned    64 MiB     0  55.4  1.2    88  55.4  1.2    88  event
pinned    64 MiB     1  41.2  1.2    65  39.9  1.2    63  event  1

Median of 5 trials; ± is its 99 % interval; link: PCIe Gen5 x16, 63.0 GB/s (nvml, under load); \
Node: the NUMA node asked for (the device's: unknown).
[1] asked for node 1, but
"""

MIXED_TEXT = """\
Host ↔ device bandwidth · device 1: NVIDIA H200 [x]

                           h2d    ±   d2h    ±
Memory        Size  Node  GB/s    %  GB/s    %  Clock
──────────────────────────────────────────────────────
pinned      64 MiB     1  55.4  1.2  55.4  1.2  event
mapped      64 MiB  0, 1  55.4  1.2     –    –  event
registered  64 MiB     –  55.4    0     –    –  event

Median of 5 trials; ± is its 99 % interval; Node: the host memory's NUMA node (the device's: 0).
"""


def test_nodes_that_were_asked_for_are_rows_of_their_own():
    assert printed(with_links(NODES)) == NODES_TEXT


def test_nodes_that_memory_happened_to_be_on_are_shown_where_they_differ():
    same = [on_node(None, {"1": 64}, "pinned", way, 55.4) for way in ("h2d", "d2h")]
    assert "Node" not in printed(run_result(*same))
    mixed = [*same, on_node(None, {"0": 1, "1": 63}, "mapped", "h2d", 55.4), case("registered", "h2d", 55.4)]
    device = replace(GPU, numa_node=0, link=Link())
    assert printed(run_result(*mixed, device=device)) == MIXED_TEXT


LOCAL = {"spread": 0.002, "clock": Clock.EVENT}

LOCAL_TEXT = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

Memory    Size  h2d GB/s    ±  Clock
─────────────────────────────────────
pinned  64 MiB      55.4  0 %  event

Copies within the device · device 0: EMULATED, not a GPU (host memory)

Memory    Size  copied GB/s      ±  Clock  Note
────────────────────────────────────────────────
device   1 MiB         3012  0.2 %  event  1 2
device  64 MiB         2092  0.2 %  event  3

Median of 5 trials; ± is its 99 % interval.
[1] cache: small
[2] read + write traffic 6024 GB/s
[3] read + write traffic 4184 GB/s
"""


def test_copies_within_the_device_are_a_table_of_their_own():
    cases = (
        case("pinned", "h2d", 55.36),
        case("device", "d2d", 3012.0, size=MIB, notes=("cache: small", "read + write traffic 6024 GB/s"), **LOCAL),
        case("device", "d2d", 2092.0, notes=("read + write traffic 4184 GB/s",), **LOCAL),
    )
    assert printed(run_result(*cases)) == LOCAL_TEXT


REFUSED = "67108864 bytes of host pinned memory were refused; this process holds 4096 bytes of page-locked host memory"
BUDGET = ("3 of 5 trials: time budget of 2 s",)

TROUBLED = run_result(
    case("pageable", "h2d", 8.0, trials=3, notes=BUDGET),
    case("pageable", "d2h", 8.0, trials=3, notes=(*BUDGET, "the link was slow")),
    case("pinned", "h2d", state=State.REFUSED, reason=REFUSED),
    case("pinned", "d2h", state=State.REFUSED, reason=REFUSED),
    case("mapped", "h2d", 55.0),
    # Its samples are kept, and neither shown nor counted as trials.
    case("mapped", "d2h", state=State.WRONG_DATA, reason="byte 7 differs", clock=Clock.EVENT, trials=9),
    case("write-combined", "h2d", state=State.FAILED, reason="device 0 was lost"),
    case("write-combined", "d2h", state=State.UNSUPPORTED, reason="no ± here"),
)

TROUBLED_TEXT = f"""\
Host ↔ device bandwidth · device 1: NVIDIA H200 [x]

Memory            Size  h2d GB/s    ±  link     d2h GB/s    ±  link  Clock  Note
─────────────────────────────────────────────────────────────────────────────────
pageable        64 MiB      8.00  0 %  13 %         8.00  0 %  13 %  host   1 2
pinned          64 MiB   refused    –     –      refused    –     –  –      3
mapped          64 MiB      55.0  0 %  87 %   wrong data    –     –  event  4
write-combined  64 MiB    failed    –     –  unsupported    –     –  –      5 6

Median of 3 to 5 trials; ± is its 99 % interval; link: PCIe Gen5 x16, 63.0 GB/s (nvml, under load).
[1] 3 of 5 trials: time budget of 2 s
[2] the link was slow
[3] refused: {REFUSED}
[4] wrong data: byte 7 differs
[5] failed: device 0 was lost
[6] unsupported: no ± here
"""

TROUBLED_ASCII = f"""\
Host <-> device bandwidth | device 0: EMULATED, not a GPU (host memory)

Memory            Size  h2d GB/s  +/-     d2h GB/s  +/-  Clock  Note
---------------------------------------------------------------------
pageable        64 MiB      8.00  0 %         8.00  0 %  host   1 2
pinned          64 MiB   refused    -      refused    -  -      3
mapped          64 MiB      55.0  0 %   wrong data    -  event  4
write-combined  64 MiB    failed    -  unsupported    -  -      5 6

Median of 3 to 5 trials; +/- is its 99 % interval.
[1] 3 of 5 trials: time budget of 2 s
[2] the link was slow
[3] refused: {REFUSED}
[4] wrong data: byte 7 differs
[5] failed: device 0 was lost
[6] unsupported: no +/- here
"""


@pytest.mark.parametrize("width", [80, 200])
def test_what_is_missing_says_why_in_a_note_that_equal_reasons_share(width):
    assert printed(with_links(TROUBLED), width=width) == TROUBLED_TEXT
    assert printed(TROUBLED, encoding="ascii", width=width) == TROUBLED_ASCII


def test_a_single_trial_has_no_spread():
    text = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

Memory    Size  h2d GB/s  ±  Clock
───────────────────────────────────
pinned  64 MiB      50.0  –  event

One trial.
"""
    assert printed(run_result(case("pinned", "h2d", 50.0, trials=1))) == text


def test_a_direction_that_a_row_lacks_is_a_dash_and_one_that_no_row_has_is_no_column():
    text = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

Memory   Size  h2d GB/s    ±  d2h GB/s    ±  Clock
───────────────────────────────────────────────────
pinned  4 KiB         –    –      50.0  0 %  event
mapped  6 KiB      25.0  0 %         –    –  event

Median of 5 trials; ± is its 99 % interval.
"""
    cases = case("pinned", "d2h", 50.0, size=4096), case("mapped", "h2d", 25.0, size=6144)
    assert printed(run_result(*cases)) == text
    assert "d2h" not in printed(run_result(cases[1]))


def test_directions_of_different_clocks_name_both():
    cases = case("managed", "h2d", 50.0), case("managed", "d2h", 50.0, clock=Clock.HOST)
    assert "managed  64 MiB      50.0  0 %      50.0  0 %  event, host\n" in printed(run_result(*cases))


def test_an_interrupted_run_shows_what_was_finished():
    text = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

Memory    Size  h2d GB/s    ±  d2h GB/s  ±  Clock  Note
────────────────────────────────────────────────────────
pinned  64 MiB      50.0  0 %    failed  –  event  1 2

Median of 2 trials; ± is its 99 % interval.
[1] 2 of 5 trials: interrupted
[2] failed: interrupted
"""
    cases = (
        case("pinned", "h2d", 50.0, trials=2, notes=("2 of 5 trials: interrupted",)),
        case("pinned", "d2h", state=State.FAILED, reason="interrupted"),
    )
    error = RunError("Interrupted", "interrupted", "", 130)
    assert printed(run_result(*cases, interrupted=True, error=error)) == text


def test_a_run_in_which_nothing_was_measured_explains_no_figures():
    text = """\
Host ↔ device bandwidth

Memory    Size  h2d GB/s  ±  Clock  Note
─────────────────────────────────────────
pinned  64 MiB   refused  –  –      1

[1] refused: no room
"""
    assert printed(run_result(case("pinned", "h2d", state=State.REFUSED, reason="no room"), device=None)) == text


def test_a_run_that_never_began_prints_nothing():
    assert printed(run_result(device=None, error=RunError("NoDriverError", "no driver", "", 5))) == ""


def test_on_a_terminal_failures_are_red_and_refusals_yellow():
    text = printed(TROUBLED, force_terminal=True, color_system="standard", no_color=False)
    for word, colour in (("wrong data", 31), ("failed", 31), ("unsupported", 33), ("refused", 33)):
        assert re.search(rf"\x1b\[1;{colour}m *{word}\x1b", text)


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (Link(source="integrated"), "no PCIe link: device and host share one memory."),
        (Link(source="nvlink-c2c"), "no PCIe link: NVLink-C2C connects device and host."),
        (
            Link(5, 16, 15.75e9, "nvml", Hop("0000:00:01.0", 4, 8)),
            "link: PCIe Gen5 x16 (nvml, under load) behind Gen4 x8 at bridge 0000:00:01.0 (sysfs), 15.8 GB/s.",
        ),
        (Link(), "± is its 99 % interval."),
    ],
)
def test_under_the_table_stands_what_the_bytes_went_through(link, words):
    result = replace(MEASURED, device=replace(GPU, link=link))
    assert printed(result, width=160).splitlines()[-1].endswith(f"; {words}")
