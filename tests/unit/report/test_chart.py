"""The chart of text, from results made by hand."""
# ruff: noqa: RUF001 - tables use the typographic dash

import io

import pytest
from rich.console import Console

from cudabw.report.chart import print_chart, print_run_and_chart
from cudabw.report.curves import curves_of
from cudabw.results.model import CaseResult, DeviceInfo, Link, Pages, Rate, RunResult, State

LINK = Link(generation=5, width=16, ceiling_bytes_per_s=64e9, source="nvml")
GPU = DeviceInfo(0, "NVIDIA H200 [x]", None, None, emulated=False, link=LINK)
EMULATED = DeviceInfo(0, "Emulated", None, None, emulated=True)


def case(kind, direction, size, gb_per_s, *, engine="driver", share=None, **fields):
    rate = None if gb_per_s is None else Rate(gb_per_s * 1e9, None, None, gb_per_s, gb_per_s)
    name = f"bandwidth/{kind}/{engine}/{direction}/{size}"
    found = {"state": State.OK, "rate_bytes_per_s": rate, "link_fraction": share} | fields
    return CaseResult(name, "bandwidth", kind, engine, direction, size, **found)


def run_result(*cases, device=GPU):
    return RunResult(("bandwidth",), "2026-01-02T03:04:05Z", "1.0", device=device, cases=cases)


def printed(result, *, encoding="utf-8", width=80, report=print_chart, **console):
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, write_through=True) as stream:
        report(result, Console(file=stream, width=width, highlight=False, markup=False, **console))
        text = raw.getvalue().decode(encoding)
    return "\n".join(line.rstrip() for line in text.split("\n"))


SWEEP = run_result(
    case("pinned", "h2d", 1 << 20, 64, share=1),
    case("pinned", "h2d", 4096, 0.0686, share=0.001),
    case("pinned", "d2h", 4096, 1, share=1 / 64),
    case("pinned", "d2h", 1 << 20, 32, share=0.5),
    case("pageable", "h2d", 4096, 9, engine="staged", share=9 / 64),
    case("pageable", "h2d", 1 << 20, None, engine="staged", state=State.WRONG_DATA, reason="x"),
)

TEXT = """\
Host ↔ device bandwidth · device 0: NVIDIA H200 [x]
A whole bar is 64.0 GB/s, what the link can carry.

                                h2d                   d2h
Memory             Size        GB/s                  GB/s
──────────────────────────────────────────────────────────────────────────
pinned            4 KiB      0.0686                  1.00  ▎
                  1 MiB        64.0  ██████████████  32.0  ███████

pageable, staged  4 KiB        9.00  ██                 –
                  1 MiB  wrong data                     –
"""


def test_states_of_pages_have_bars_of_their_own():
    cases = [case("pageable", "d2h", size, 8) for size in (4096, 8192)]
    fresh = [case("pageable", "d2h", size, 2, pages=Pages.FIRST_TOUCH) for size in (4096, 8192)]
    lines = [line.split() for line in printed(run_result(*cases, *fresh)).splitlines()]
    assert [line[:-1] for line in lines if "KiB" in line] == [
        ["pageable", "4", "KiB", "8.00"],
        ["8", "KiB", "8.00"],
        ["pageable", "(first", "touch)", "4", "KiB", "2.00"],
        ["8", "KiB", "2.00"],
    ]


def test_bars_of_one_scale_stand_beside_their_figures_and_fit_80_columns():
    assert printed(SWEEP) == TEXT


def test_without_a_known_link_a_whole_bar_is_the_fastest_rate():
    lines = printed(run_result(case("pinned", "h2d", 4096, 5), case("pinned", "h2d", 8192, 20))).splitlines()
    assert lines[1] == "A whole bar is 20.0 GB/s, the fastest here."
    assert [line.count("█") for line in lines[-2:]] == [10, 40]


def test_in_ascii_bars_are_made_of_number_signs():
    text = printed(SWEEP, encoding="ascii")
    assert text.isascii()
    assert text.splitlines()[0] == "Host <-> device bandwidth | device 0: NVIDIA H200 [x]"
    assert [line.count("#") for line in text.splitlines() if "MiB" in line] == [21, 0]


def test_the_emulated_device_is_named_as_what_it_is():
    title = "Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)"
    assert printed(run_result(case("pinned", "h2d", 4096, 5), device=EMULATED)).splitlines()[0] == title


@pytest.mark.parametrize("width", [20, 80, 160])
def test_bars_fit_the_width_where_there_is_room_and_are_never_cut(width):
    ways = ("bidirectional-h2d", "bidirectional-d2h", "bidirectional-total")
    text = printed(run_result(*(case("write-combined", way, 1 << 20, 5) for way in ways)), width=width)
    row = text.splitlines()[-1]
    assert row.startswith("write-combined  1 MiB  5.00  ██")
    bars = [cell.strip() for cell in row.split("5.00")[1:]]
    assert len(set(bars)) == 1
    assert set(bars[0]) == {"█"}
    assert len(row) <= max(width, 80)


@pytest.mark.parametrize("ways", [("h2d", "d2h"), ("bidirectional-h2d", "bidirectional-d2h", "bidirectional-total")])
@pytest.mark.parametrize("state", [State.FAILED, State.UNSUPPORTED])
@pytest.mark.parametrize("size", [1 << 10, 1023 << 10])
def test_whatever_its_rows_are_called_and_hold_a_chart_fits_80_columns(ways, state, size):
    cases = [case("write-combined", way, size, 0.123, numa_node=1, pages=pages) for way in ways for pages in Pages] + [
        case("pageable", way, size, None, state=state, reason="x", engine="staged", numa_node=10) for way in ways
    ]
    lines = printed(run_result(*cases)).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("█" in line or "▏" in line for line in lines) == len(Pages)


def test_a_name_that_leaves_no_room_for_bars_is_broken_between_words():
    wide = case("pageable", "h2d", 1 << 20, None, state=State.UNSUPPORTED, reason="x", pages=Pages.HUGE)
    named = [
        case("pageable", way, 1 << 20, 9, engine="staged", numa_node=1, pages=Pages.HUGE) for way in ("h2d", "d2h")
    ]
    text = printed(run_result(wide, *named))
    assert "\npageable (huge pages),      1 MiB" in text
    assert "\nstaged, node 1\n" in text
    assert "█" * 8 in text


def test_each_group_of_directions_has_a_scale_of_its_own():
    result = run_result(case("pinned", "h2d", 4096, 5), case("device", "d2d", 4096, 2000))
    scales = [line for line in printed(result).splitlines() if line.startswith("A whole bar")]
    assert scales == ["A whole bar is 5.00 GB/s, the fastest here.", "A whole bar is 2000 GB/s, the fastest here."]


def test_each_numa_node_that_was_asked_for_is_a_row_and_a_curve_of_its_own():
    cases = [case("pinned", "h2d", 1 << 20, rate, numa_node=node) for node, rate in ((0, 50.0), (1, 40.0))]
    rows = [line.split()[:6] for line in printed(run_result(*cases)).splitlines() if line.startswith("pinned")]
    assert rows == [["pinned,", "node", "0", "1", "MiB", "50.0"], ["pinned,", "node", "1", "1", "MiB", "40.0"]]
    assert [(curve.label, len(curve.points)) for curve in curves_of(cases)] == [
        ("pinned, node 0", 1),
        ("pinned, node 1", 1),
    ]


def test_without_a_rate_nothing_is_drawn():
    failed = case("pinned", "h2d", 4096, None, state=State.REFUSED, reason="no room")
    assert printed(run_result(failed)) == ""
    assert "bar" not in printed(run_result(failed), report=print_run_and_chart)


def test_under_the_tables_the_chart_is_the_last():
    text = printed(SWEEP, report=print_run_and_chart)
    assert text.endswith(f"\n\n{TEXT}")
    assert text.startswith("Host ↔ device bandwidth")


def test_colours_are_for_terminals():
    assert "\x1b[" in printed(SWEEP, force_terminal=True, color_system="standard")
    assert "\x1b[36" not in printed(SWEEP, force_terminal=True, color_system="standard", no_color=True)
