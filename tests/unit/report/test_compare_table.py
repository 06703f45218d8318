"""The table of ``cudabw compare``, from comparisons made by hand."""
# ruff: noqa: RUF001 - tables use the typographic dash

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from cudabw.report.compare_table import print_comparison
from cudabw.report.markdown import markdown_of
from cudabw.results.compare import Change, Comparison, Reason, Verdict
from cudabw.results.facts import Fact
from cudabw.results.model import State


def change(label, old, new, verdict, reason, *interval, quantity="bytes/s"):
    """A case with its speed and the interval of it."""
    return Change(label, label, quantity, old, new, (State.OK,), State.OK, verdict, reason, *interval)


FOUND = Comparison(
    old="before.json",
    new="after.json",
    old_runs=1,
    device="NVIDIA H200 [x]",
    emulated=False,
    cases=(
        change("pageable h2d 64 MiB", 8.9e9, 8.0e9, Verdict.INCONCLUSIVE, Reason.TOO_WIDE, 0.9, 0.7, 1.2),
        change("pinned h2d 64 MiB", 55.4e9, 52.6e9, Verdict.SLOWER, Reason.BEYOND_MARGIN, 0.95, 0.947, 0.952),
        change("pinned d2h 64 MiB", 55.3e9, 55.3e9, Verdict.SAME, Reason.WITHIN_MARGIN, 1.0, 0.999, 1.001),
        change("mapped h2d 64 MiB", 55.4e9, None, Verdict.INCONCLUSIVE, Reason.NOT_MEASURED),
        change(
            "launch bare, 4 buffer", 4.8e-6, 3.9e-6, Verdict.FASTER, Reason.BEYOND_MARGIN, 1.23, 1.1, 1.4, quantity="s"
        ),
        change(
            "launch packed, 4 buffer", 4.8e-6, 4.8e-6, Verdict.INCONCLUSIVE, Reason.TOO_WIDE, 1, 1e-9, 1e9, quantity="s"
        ),
    ),
    only_old=("managed h2d 64 MiB", "managed d2h 64 MiB"),
    only_new=(),
    facts=(Fact("nvidia_driver", "580.1", "590.2", unlike=False),),
)

TEXT = """\
after.json against before.json · NVIDIA H200 [x]

Case                           Old        New   Speed       ±  Verdict
──────────────────────────────────────────────────────────────────────────────
pageable h2d 64 MiB      8.90 GB/s  8.00 GB/s   -10 %    30 %  ? too wide
pinned h2d 64 MiB        55.4 GB/s  52.6 GB/s  -5.0 %   0.3 %  slower
pinned d2h 64 MiB        55.3 GB/s  55.3 GB/s     0 %   0.1 %  same
mapped h2d 64 MiB        55.4 GB/s          –       –       –  ? not measured
launch bare, 4 buffer      4.80 µs    3.90 µs   +23 %    17 %  faster
launch packed, 4 buffer    4.80 µs    4.80 µs     0 %  >100 %  ? too wide

6 cases: 1 faster, 1 slower, 1 same, 3 inconclusive.
Speed is a rate, or one over a time; ± is the 99 % interval of its change, from trials' medians (Welch).
It compares geometric means of trials, old and new are medians: where trials scatter, these differ.
faster, slower: the whole interval is beyond 2 %; same: it is within ±2 %.
By chance at most one in 100 cases that did not change is called faster or slower.
? too wide: the interval is too wide to tell a change from none.
? not measured: not measured on both sides.
Only in before.json: managed h2d 64 MiB; managed d2h 64 MiB.
Not the same: nvidia_driver was 580.1, is 590.2.
"""


def printed(comparison, *, encoding="utf-8", width=80, **console):
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, write_through=True) as stream:
        print_comparison(comparison, Console(file=stream, width=width, highlight=False, markup=False, **console))
        text = raw.getvalue().decode(encoding)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def folded(text):
    for symbol, plain in (("±", "+/-"), ("·", "|"), ("–", "-"), ("µs", "us"), ("─", "-")):
        text = text.replace(symbol, plain)
    return text


@pytest.mark.parametrize("width", [20, 80, 200])
def test_every_case_has_its_verdict_and_what_is_open_says_why(width):
    assert printed(FOUND, width=width) == TEXT


def test_ascii_is_enough():
    shown, expected = printed(FOUND, encoding="ascii"), folded(TEXT)
    assert re.sub(r" +|-+", " ", shown) == re.sub(r" +|-+", " ", expected)


@pytest.mark.parametrize("reason", sorted(set(Reason) - {Reason.BEYOND_MARGIN, Reason.WITHIN_MARGIN}))
def test_every_reason_for_no_verdict_is_explained(reason):
    name = str(reason).replace("_", " ")
    text = printed(replace(FOUND, cases=(change("a", 1.0, 2.0, Verdict.INCONCLUSIVE, reason, 2.0, 1.9, 2.1),)))
    assert re.search(rf"  \? {name}\n", text)
    assert re.search(rf"^\? {name}: \w.*\.$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("speed", "shown"),
    [(1.0, "0 %"), (1.00001, "<0.01 %"), (0.99999, "<0.01 %"), (1.0007, "+0.07 %"), (0.95, "-5.0 %"), (1.2, "+20 %")],
)
def test_a_change_has_a_sign_where_it_matters(speed, shown):
    case = change("a", 1.0, 1.0, Verdict.SAME, Reason.WITHIN_MARGIN, speed, speed, speed)
    assert re.search(rf"  {re.escape(shown)}  ", printed(replace(FOUND, cases=(case,))))


def test_several_earlier_runs_and_an_emulated_device_are_said():
    text = printed(replace(FOUND, old_runs=7, emulated=True))
    assert text.startswith("after.json against before.json (7 runs) · EMULATED, not a GPU\n")
    assert "± is the 99 % interval of its change, from 7 earlier runs.\n" in text


@pytest.mark.parametrize(
    ("speed", "said"),
    [
        (None, None),
        (1.019, None),
        (0.981, None),
        (1.0312, "3.1 % faster"),
        (0.94, "6.0 % slower"),
    ],
)
def test_that_the_cpu_was_faster_or_slower_is_said_beyond_the_margin(speed, said):
    line = f"Not the same: the CPU worked {said} than before; times by the host's clock follow it.\n" if said else ""
    assert printed(replace(FOUND, cpu_speed=speed)) == TEXT + line


def test_sides_that_were_throttled_or_unstable_are_named_below_those_of_one_side_alone():
    states = (
        ((State.OK, State.THROTTLED), State.UNCONVERGED),
        ((State.OK,), State.THROTTLED),
        ((State.UNSTABLE, State.THROTTLED), State.UNSTABLE),
        ((State.REFUSED,), State.OK),
        ((State.UNCONVERGED,), State.THROTTLED),
        ((State.OK,), State.SUSPECT),
    )
    cases = tuple(
        replace(case, old_states=old, new_state=new) for case, (old, new) in zip(FOUND.cases, states, strict=True)
    )
    only = "Only in before.json: managed h2d 64 MiB; managed d2h 64 MiB.\n"
    assert only in TEXT
    assert printed(replace(FOUND, cases=cases)) == TEXT.replace(
        only,
        only + "Throttled in before.json: pageable h2d 64 MiB; pinned d2h 64 MiB.\n"
        "Unstable in before.json: pinned d2h 64 MiB.\n"
        "Throttled in after.json: pinned h2d 64 MiB; launch bare, 4 buffer.\n"
        "Unstable in after.json: pinned d2h 64 MiB.\n",
    )


def test_without_a_case_in_common_that_is_all_there_is_to_say():
    nothing = Comparison("a", "b", 1, None, emulated=False, cases=(), only_old=(), only_new=("x",), facts=())
    assert printed(nothing) == "b against a\n\nNo case is in both.\nOnly in b: x.\n"


def test_verdicts_have_colours_on_a_terminal():
    text = printed(FOUND, force_terminal=True, color_system="standard", no_color=False)
    for word, colour in (("slower", 31), ("faster", 32), ("\\? too wide", 33)):
        assert re.search(rf"\x1b\[{colour}m{word}", text)


def test_it_is_a_table_in_markdown_too():
    text = markdown_of(lambda console: print_comparison(FOUND, console))
    assert text.startswith("### after.json against before.json · NVIDIA H200 [x]\n\n| Case | Old | New | Speed | ± | ")
    assert "| pinned h2d 64 MiB | 55.4 GB/s | 52.6 GB/s | -5.0 % | 0.3 % | slower |" in text
