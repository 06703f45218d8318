"""Pictures of results made by hand: what is in them, and that they are the same every time."""

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from cudabw.errors import UsageError
from cudabw.report.plot import MOST_SOURCES, Source, draw
from cudabw.results.launch import LaunchCase, Mode, Seconds
from cudabw.results.launch_sets import ArgumentSetResult, LaunchOverhead, QueueDepth, StageSplit
from cudabw.results.model import CaseResult, DeviceInfo, Link, Pages, Rate, RunResult, State, Trial

LINK = Link(generation=5, width=16, ceiling_bytes_per_s=63.0e9, source="nvml")
GPU = DeviceInfo(0, "Some <GPU> & co", None, None, emulated=False, link=LINK)
EMULATED = DeviceInfo(0, "Emulated", None, None, emulated=True)
SIZES = (4096, 65536, 1 << 20)
SVG = "{http://www.w3.org/2000/svg}"


def copy_case(kind, direction, size, *, engine="driver", trials=5, **fields):
    rate = 50e9 * size / (size + 65536)
    ends = (None, None) if trials == 1 else (rate * 0.9, rate * 1.1)
    return CaseResult(
        f"bandwidth/{kind}/{engine}/{direction}/{size}",
        "bandwidth",
        kind,
        engine,
        direction,
        size,
        **{
            "state": State.OK,
            "rate_bytes_per_s": Rate(rate, *ends, rate / 2, rate * 2),
            "link_fraction": rate / 63e9,
            "trials": (Trial(1, (1e-3,)),) * trials,
        }
        | fields,
    )


def run_result(*cases, device=GPU, **fields):
    return RunResult(("bandwidth",), "2026-01-02T03:04:05Z", "1.0", device=device, cases=cases, **fields)


def sweep(*kinds, directions=("h2d", "d2h"), sizes=SIZES, device=GPU, **fields):
    cases = (copy_case(kind, way, size, **fields) for kind in kinds for way in directions for size in sizes)
    return run_result(*cases, device=device)


def seconds(micro):
    return Seconds(micro * 1e-6, micro * 0.9e-6, micro * 1.1e-6, micro * 0.5e-6, micro * 2e-6)


def launches(*sets, device=GPU):
    """Launches of sets of arguments, each a kind and a number."""
    cases, results = [], []
    for arg_type, args in sets:
        name = f"launch_overhead/{arg_type}/{args}"
        for mode, micro in ((Mode.PREPARED, 4), (Mode.CONVERTED, 5 + args)):
            fields = {"state": State.OK, "submit_s": seconds(micro)}
            cases.append(LaunchCase(f"{name}/{mode}", "launch_overhead", arg_type, args, mode, **fields))
        # The stages add up to the whole; one of them came out below zero.
        stages = StageSplit(*map(seconds, (-0.1, 1 + args, 0.2, 0.3, 3.6)), sum_s=5e-6, total_s=5e-6, adds_up=True)
        results.append(ArgumentSetResult(name, arg_type, args, blind=args == 0, stages=stages))
    overhead = LaunchOverhead(QueueDepth(1020, 1021), 100, "off", tuple(results))
    return run_result(*cases, device=device, launch_overhead=overhead)


DEFAULT_SETS = (("mixed", 4), ("none", 0), ("buffer", 1), ("buffer", 4))


def texts(*results, labels="abcdefgh"):
    """Every text in the picture, in its order."""
    sources = [Source(label, result) for label, result in zip(labels, results, strict=False)]
    root = ET.fromstring(draw(sources, "svg"))
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def test_states_of_pages_have_lines_of_their_own():
    usual, fresh, huge = (sweep("pageable", pages=pages) for pages in (Pages.WARM, Pages.FIRST_TOUCH, Pages.HUGE))
    found = texts(run_result(*usual.cases, *fresh.cases, *huge.cases))
    names = [text for text in found if text.startswith("pageable")]
    assert names == ["pageable", "pageable (first touch)", "pageable (huge pages)"]


def test_a_sweep_has_a_panel_for_each_direction_a_name_for_each_line_and_the_link():
    found = texts(sweep("pageable", "pinned"))
    assert "Host ↔ device bandwidth · Some <GPU> & co" in found
    for text in ("host to device", "device to host", "PCIe Gen5 x16, 63.0 GB/s"):
        assert found.count(text) == (2 if "PCIe" in text else 1)
    assert sorted(text for text in found if text in ("pageable", "pinned")) == ["pageable", "pinned"]
    assert found.count("64 KiB") == 2
    assert found[-1] == "Medians of 5 trials; bands: their 99 % interval."


def picture(*results):
    return ET.fromstring(draw([Source("a", result) for result in results], "svg"))


def panels(root):
    """Of each panel its left, right, top and bottom."""
    for group in root.iter(f"{SVG}g"):
        if group.get("id", "").startswith("axes_"):
            path = next(group.iter(f"{SVG}path")).get("d")
            across, down = zip(*((float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", path)), strict=True)
            yield min(across), max(across), min(down), max(down)


def places(root, wanted):
    """Where texts stand, by text."""
    found = {}
    for element in root.iter(f"{SVG}text"):
        text = "".join(element.itertext())
        if text in wanted:
            found[text] = (float(element.get("x")), float(element.get("y")))
    return found


KINDS = ("pageable", "pinned", "mapped", "write-combined", "registered", "managed")


def test_lines_that_lie_on_each_other_have_names_beside_the_panel_that_do_not():
    root = picture(sweep(*KINDS))
    names = places(root, KINDS)
    assert set(names) == set(KINDS)
    right = max(right for _, right, *_ in panels(root))
    assert min(x for x, _ in names.values()) > right
    heights = sorted(y for _, y in names.values())
    assert min(below - above for above, below in pairwise(heights)) > 10


def test_as_many_lines_as_there_are_have_room_for_their_names():
    root = picture(*(sweep(*KINDS) for _ in range(2)))
    heights = [y for _, y in places(root, {f"{kind} (a)" for kind in KINDS}).values()]
    few = picture(sweep("pinned"))
    assert float(root.get("height").removesuffix("pt")) >= float(few.get("height").removesuffix("pt"))
    many = picture(*(sweep(*KINDS, pages=pages) for pages in (Pages.WARM, Pages.HUGE, Pages.FIRST_TOUCH)))
    assert float(many.get("height").removesuffix("pt")) > float(few.get("height").removesuffix("pt"))
    assert len(heights) == len(KINDS)


def test_a_line_is_named_once_in_the_last_panel_that_has_it():
    cases = sweep("pinned").cases + sweep("pageable", directions=("h2d",)).cases
    root = picture(run_result(*cases))
    (_, left_end, *_), (right_start, right_end, *_) = panels(root)
    names = places(root, ("pinned", "pageable"))
    assert left_end < names["pageable"][0] < right_start
    assert right_end < names["pinned"][0]


def test_the_panels_of_each_row_fill_it():
    both = sweep("pinned", directions=("bidirectional-h2d", "bidirectional-d2h", "bidirectional-total"))
    local = sweep("device", directions=("d2d",), link_fraction=None)
    root = picture(run_result(*sweep("pinned").cases, *both.cases, *local.cases))
    rows = {}
    for left, right, _, bottom in panels(root):
        rows.setdefault(bottom, []).append((left, right))
    assert [len(row) for row in rows.values()] == [2, 3, 1]
    width = float(root.get("width").removesuffix("pt"))
    for row in rows.values():
        assert row[0][0] < 0.06 * width
        assert row[-1][1] > 0.85 * width
        assert all(after[0] - before[1] < 0.05 * width for before, after in pairwise(row))


def test_a_picture_brings_its_own_white_ground():
    first = next(picture(sweep("pinned")).iter(f"{SVG}path"))
    assert first.get("style") == "fill: #ffffff"


def test_many_kinds_of_arguments_are_in_rows_of_three_at_most():
    sets = [(kind, args) for kind in ("buffer", "mixed", "int32", "pointer") for args in (1, 4)]
    rows = Counter(bottom for *_, bottom in panels(picture(launches(*sets))))
    assert list(rows.values()) == [2, 2]


def test_sizes_are_labelled_in_binary_units_and_never_crowded():
    found = texts(sweep("pinned", directions=("h2d",), sizes=[4096 * 4**power for power in range(9)]))
    assert [text for text in found if text.endswith("iB")] == ["4 KiB", "64 KiB", "1 MiB", "16 MiB", "256 MiB"]


def test_sizes_that_are_no_powers_of_two_stand_between_ticks_that_are():
    found = texts(sweep("pinned", directions=("h2d",), sizes=[1000, 3000, 5000]))
    assert [text for text in found if text.endswith("B")] == ["512 B", "1 KiB", "2 KiB", "4 KiB", "8 KiB"]


def test_engines_are_named_and_both_directions_and_the_device_have_rows_of_their_own():
    both = sweep("pinned", directions=("bidirectional-h2d", "bidirectional-total"), link_fraction=None)
    local = sweep("device", directions=("d2d",), link_fraction=None)
    mapped = sweep("mapped", directions=("h2d",), engine="kernel", link_fraction=None)
    found = texts(run_result(*mapped.cases, *both.cases, *local.cases))
    titles = [text for text in found if "·" in text]
    assert [title.split(" · ")[0] for title in titles] == [
        "Host ↔ device bandwidth",
        "Both directions at once",
        "Copies within the device",
    ]
    assert "mapped, kernel" in found
    assert not [text for text in found if "PCIe" in text], "there is a ceiling only where a share of it is known"


@pytest.mark.parametrize("results", [[sweep("pinned", device=EMULATED)], [launches(*DEFAULT_SETS, device=EMULATED)]])
def test_the_emulated_device_is_named_in_the_title(results):
    (title,) = [text for text in texts(*results) if "·" in text]
    assert title.endswith(" · EMULATED, not a GPU")


def test_several_files_are_several_lines_named_by_file():
    found = texts(sweep("pinned"), sweep("pinned", device=EMULATED), labels=("old", "new"))
    assert "pinned (old)" in found
    assert "pinned (new, EMULATED)" in found
    assert "Host ↔ device bandwidth · Some <GPU> & co, EMULATED, not a GPU" in found


def test_launches_have_their_stages_over_the_numbers_of_arguments():
    found = texts(launches(*DEFAULT_SETS))
    assert "Kernel launches from Python · Some <GPU> & co" in found
    assert [text for text in found if text in ("buffer arguments", "mixed arguments")] == [
        "mixed arguments",
        "buffer arguments",
    ]
    # As bars are stacked, from the top down.
    legend = ["converted, whole", "prepared, whole", "call", "convert", "ownership", "pack", "driver"]
    assert [text for text in found if text in legend] == legend


def test_a_run_of_both_has_both_and_several_runs_of_launches_a_row_each():
    whole = launches(*DEFAULT_SETS)
    found = texts(replace(whole, cases=whole.cases + sweep("pinned").cases), launches(*DEFAULT_SETS), labels="xy")
    assert [text for text in found if "·" in text] == [
        "Host ↔ device bandwidth · Some <GPU> & co",
        "Kernel launches from Python · Some <GPU> & co (x)",
        "Kernel launches from Python · Some <GPU> & co (y)",
    ]


def test_an_interval_that_reaches_far_above_all_lines_leaves_them_their_scale():
    wide = sweep("pinned", rate_bytes_per_s=Rate(40e9, 1e9, 4e21, 1e9, 60e9))
    assert max(float(text) for text in texts(wide) if text.isdecimal()) == 100


def test_one_trial_has_no_interval_and_says_so():
    assert texts(sweep("pinned", trials=1))[-1] == "One trial; no interval."


@pytest.mark.parametrize("as_format", ["svg", "png"])
def test_a_picture_is_the_same_every_time_and_holds_no_date(as_format):
    sources = [Source("a", sweep("pageable", "pinned")), Source("b", launches(*DEFAULT_SETS))]
    first, second = draw(sources, as_format), draw(sources, as_format)
    assert first == second
    assert first.startswith(b"\x89PNG" if as_format == "png" else b"<?xml")
    assert not [word for word in (b"date", b"Matplotlib", b"Software") if word in first]


def test_a_users_own_style_changes_nothing(monkeypatch):
    import matplotlib as mpl

    before = draw([Source("a", sweep("pinned"))], "svg")
    monkeypatch.setitem(mpl.rcParams, "font.size", 30)
    monkeypatch.setitem(mpl.rcParams, "axes.facecolor", "black")
    assert draw([Source("a", sweep("pinned"))], "svg") == before


FAILED = {"state": State.FAILED, "reason": "lost", "rate_bytes_per_s": None, "link_fraction": None}


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (sweep("pinned", sizes=[4096]), "a has rates at one size only, which make no curve"),
        (
            launches(("buffer", 4), ("mixed", 4)),
            "a has no launches with several numbers of arguments, which a picture compares",
        ),
        (run_result(), "a has neither rates nor launches to draw"),
        (sweep("pinned", **FAILED), "a has neither rates nor launches to draw"),
    ],
)
def test_what_makes_no_curve_is_refused_in_words(result, message):
    with pytest.raises(UsageError) as caught:
        draw([Source("a", result)], "svg")
    assert caught.value.message == message


def test_more_files_than_can_be_told_apart_are_refused():
    with pytest.raises(UsageError, match=r"^7 files are too many for one picture"):
        draw([Source(str(number), sweep("pinned")) for number in range(MOST_SOURCES + 1)], "svg")


def test_a_case_that_failed_is_left_out_of_its_line():
    whole = sweep("pinned", directions=("h2d",))
    gap = replace(whole, cases=(*whole.cases[:2], copy_case("pinned", "h2d", 1 << 20, **FAILED)))
    assert [text for text in texts(gap) if text.endswith("iB")] == ["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB"]
