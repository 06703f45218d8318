"""``cudabw bandwidth``: whole commands on the emulated device, most of them on its modelled clock."""
# ruff: noqa: RUF001 - tables use the typographic dash

import importlib
import math
import mmap

import click
import pytest

from cudabw.driver.emulated import EmulatedDriver
from cudabw.errors import CudabwError
from cudabw.measuring.effort import Effort
from cudabw.system.host_memory import HostMemory
from cudabw.system.huge_pages import HugePages
from cudabw.system.link import LinkReader

CLOCK = {"h2d": 50e9, "d2h": 25e9}
SLOW_CLOCK = {"h2d": 1e6, "d2h": 1e6}  # a batch is then one copy
MEASURE = ("bandwidth", "--backend", "emulated")
MEASURE_ONE = (*MEASURE, "--size", "4KiB")
QUICK = (*MEASURE_ONE, "--trials", "1")
KINDS = ["pageable", "pinned", "mapped", "write-combined", "registered", "managed"]
GIB = 1 << 30

TABLE = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

                            h2d  ±   d2h  ±
Memory    Engine     Size  GB/s  %  GB/s  %  Clock
───────────────────────────────────────────────────
pageable  driver   64 KiB  50.0  –  25.0  –  host
pageable  driver  100 KiB  50.0  –  25.0  –  host
pinned    driver   64 KiB  50.0  –  25.0  –  event
pinned    driver  100 KiB  50.0  –  25.0  –  event
mapped    kernel   64 KiB  50.0  –  25.0  –  event
mapped    kernel  100 KiB  50.0  –  25.0  –  event

One trial.
"""


@pytest.fixture(autouse=True)
def _modelled(emulate):
    emulate(clock=CLOCK)


@pytest.fixture(autouse=True)
def huge(monkeypatch):
    """A system with huge pages of 2 MiB, whatever this one has; gives what it says of a mapping."""
    said = {"bytes": 1 << 40}
    monkeypatch.setattr("cudabw.benchmarks.huge_pages.read_huge_pages", lambda: HugePages("madvise", 2 << 20))
    monkeypatch.setattr("cudabw.benchmarks.huge_pages.huge_bytes_of", lambda _: said["bytes"])
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", mmap.MADV_NORMAL, raising=False)
    return said


def measured(document):
    """What was measured: kind, direction, size and number of trials of each case."""
    return [(case["kind"], case["direction"], case["size_bytes"], len(case["trials"])) for case in document["cases"]]


def values(document, key):
    return {case[key] for case in document["cases"]}


# What is measured


def test_the_table_shows_what_the_clock_models(command):
    done = command(*MEASURE, "--size", "64KiB,100KiB", "--trials", "1")
    assert (done.code, done.out, done.err) == (0, TABLE, "")


def test_every_kind_in_both_directions_gives_the_modelled_rate_on_either_clock(command, document):
    arguments = (*MEASURE, "--all", "--size", "4KiB,1001B", "--trials", "2")
    done = document(*arguments)
    assert (done.code, done.err) == (0, "")
    assert len(done.json["cases"]) == len(KINDS) * 2 * 2
    for case in done.json["cases"]:
        expected = CLOCK[case["direction"]]
        assert case["state"] == "ok"
        assert case["clock"] == ("host" if case["kind"] == "pageable" else "event")
        assert case["gated"] is (case["kind"] != "pageable")
        assert case["host_held"] is (case["kind"] == "pageable")
        assert case["verified"] is True
        rate = dict(case["rate_bytes_per_s"])
        assert (rate.pop("n"), rate.pop("outliers")) == (8, None)
        assert rate == pytest.approx(dict.fromkeys(rate, expected), rel=1e-6)
        samples = [sample for trial in case["trials"] for sample in trial["samples_s"]]
        assert samples == pytest.approx([case["size_bytes"] / expected] * 2 * 4, rel=1e-6)

    rows = [line.split() for line in command(*arguments).out.splitlines() if line.startswith(tuple(KINDS))]
    assert [(row[0], row[4], row[6]) for row in rows] == [(kind, "50.0", "25.0") for kind in KINDS for _ in range(2)]


def test_a_figure_is_that_of_its_own_kind(emulate, document):
    emulate(clock=CLOCK | {"h2d/pageable": 9e9, "d2h/kernel": 7e9})
    rates = {
        (case["kind"], case["direction"]): case["rate_bytes_per_s"]["median"]
        for case in document(*MEASURE, "--size", "1MiB", "--trials", "1").json["cases"]
    }
    assert rates == pytest.approx(
        {
            ("pageable", "h2d"): 9e9,
            ("pageable", "d2h"): 25e9,
            ("pinned", "h2d"): 50e9,
            ("pinned", "d2h"): 25e9,
            ("mapped", "h2d"): 50e9,
            ("mapped", "d2h"): 7e9,
        },
        rel=1e-6,
    )


def test_the_time_to_queue_a_copy_is_not_in_its_figure(emulate, document):
    emulate(clock=CLOCK | {"submit_s": 1e-3})
    (case,) = document(*QUICK, "--pinned", "--direction", "h2d").json["cases"]
    assert case["rate_bytes_per_s"]["median"] == pytest.approx(50e9, rel=1e-6)


def test_the_headline_is_the_median_of_trials_and_its_interval_holds_it(emulate, document):
    emulate(clock=CLOCK | {"noise": 0.1, "seed": 7})
    (case,) = document(*MEASURE, "--size", "1MiB", "--pinned", "--direction", "h2d", "--trials", "5").json["cases"]
    rate = case["rate_bytes_per_s"]
    medians = sorted(2**20 / sum(sorted(trial["samples_s"])[1:3]) * 2 for trial in case["trials"])
    assert rate["median"] == pytest.approx(medians[2], rel=1e-9)
    assert rate["low"] < rate["median"] < rate["high"]
    samples = [sample for trial in case["trials"] for sample in trial["samples_s"]]
    assert (rate["min"], rate["max"]) == pytest.approx((2**20 / max(samples), 2**20 / min(samples)), rel=1e-12)


SWEEP = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

Memory     Size  h2d GB/s  ±  Clock
────────────────────────────────────
pinned    4 KiB      1.97  –  event
pinned   16 KiB      7.04  –  event
pinned   64 KiB      19.8  –  event
pinned  256 KiB      36.2  –  event

One trial.

Fitted curves · device 0: EMULATED, not a GPU (host memory)

                                     Rate     Half
Memory  Engine  Direction  Start-up  GB/s  rate at   Off by
────────────────────────────────────────────────────────────
pinned  driver  h2d         2.00 µs  50.0   98 KiB  <0.01 %

time = start-up + size / rate, through the medians at 4 sizes; off by: the largest distance from it.
At the half-rate size, a copy reaches half of the rate.
"""


def test_a_sweep_ends_with_the_start_up_and_the_rate_behind_its_curve(emulate, command, document):
    emulate(clock=CLOCK | {"latency_s": 2e-6})
    arguments = (*MEASURE, "--pinned", "--direction", "h2d", "--size", "4KiB:256KiB:x4", "--trials", "1")
    done = command(*arguments)
    assert (done.code, done.out, done.err) == (0, SWEEP, "")
    (fit,) = document(*arguments).json["fits"]
    assert (fit["startup_s"], fit["rate_bytes_per_s"], fit["half_rate_bytes"]) == pytest.approx((2e-6, 50e9, 1e5))
    assert "fits" not in document(*QUICK).json


SETUP = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

Memory       Size  h2d GB/s        ±  d2h GB/s        ±  Clock
───────────────────────────────────────────────────────────────
pageable    2 MiB      10.0  <0.01 %      25.0  <0.01 %  host
pinned      2 MiB      50.0      0 %      25.0      0 %  event
registered  2 MiB      50.0      0 %      25.0      0 %  event

Median of 2 trials; ± is its 99 % interval.

The cost of having memory ready · device 0: EMULATED, not a GPU (host memory)

                           First
Memory       Size  Alloc.  touch     Pin   Unpin    Free  In all    ±
──────────────────────────────────────────────────────────────────────
pageable    2 MiB     0 s    0 s       –       –     0 s     0 s    –
pinned      2 MiB  699 µs    0 s       –       –  300 µs  999 µs  0 %
registered  2 MiB     0 s    0 s  699 µs  300 µs     0 s  999 µs  0 %

Median of 2 trials, each with fresh memory; ± is the 99 % interval of all steps together.
Allocating pinned memory pins it, and freeing unpins it.
Registered memory is pageable memory, pinned where it is after its first touch (pin, unpin).

Copies after which pinning has paid · device 0: EMULATED, not a GPU (host memory)

Memory      Engine   Size  h2d    99 %    d2h  99 %
────────────────────────────────────────────────────
pinned      driver  2 MiB    6  6 to 6  never     –
registered  driver  2 MiB    6  6 to 6  never     –

What it costs more to have the memory ready, over what each copy takes less than the driver's copy of pageable memory.
Registered: memory that is there already, registered before the copies and unregistered after them.
"""

PINNING = CLOCK | {"h2d/pageable": 10e9, "pin": 3e9, "unpin": 7e9}


def test_what_memory_costs_besides_its_copies_and_when_pinning_has_paid(emulate, command, document):
    emulate(clock=PINNING)
    arguments = (*MEASURE, "--pageable", "--pinned", "--registered", "--setup-cost", "--size", "2MiB", "--trials", "2")
    done = command(*arguments)
    assert (done.code, done.out, done.err) == (0, SETUP, "")
    result = document(*arguments).json
    setups = [case for case in result["cases"] if case["benchmark"] == "setup_cost"]
    assert [(case["id"], case["state"]) for case in setups] == [
        (f"setup-cost/{kind}/{2 << 20}", "ok") for kind in ("pageable", "pinned", "registered")
    ]
    assert setups[1]["total_s"]["median"] == pytest.approx((2 << 20) / 3e9 + (2 << 20) / 7e9)
    assert [(one["kind"], one["direction"], one["change"], one["repaid"]) for one in result["break_even"]] == [
        (kind, way, change, repaid)
        for kind, change in (("pinned", "allocate"), ("registered", "register"))
        for way, repaid in (("h2d", "after"), ("d2h", "never"))
    ]
    # (1 / 3 + 1 / 7) / (1 / 10 - 1 / 50) = 5.95
    assert {one["copies"] for one in result["break_even"]} == {6, None}


def test_memory_that_cannot_be_had_for_its_cost_is_missing_where_it_was_named(emulate, document):
    emulate(clock=CLOCK, faults=[{"function": "cuMemHostRegister", "status": 801}])
    done = document(*QUICK, "--registered", "--setup-cost")
    assert done.code == 4
    assert {(case["benchmark"], case["state"]) for case in done.json["cases"]} == {
        ("bandwidth", "unsupported"),
        ("setup_cost", "unsupported"),
    }
    assert "break_even" not in done.json


STATES = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

                                h2d  ±   d2h  ±
Memory                   Size  GB/s  %  GB/s  %  Clock
───────────────────────────────────────────────────────
pageable                1 MiB  50.0  –  25.0  –  host
pageable (first touch)  1 MiB     –  –  25.0  –  host
pageable (huge pages)   1 MiB  50.0  –  25.0  –  host
pinned                  1 MiB  50.0  –  25.0  –  event

One trial.
"""


def test_other_states_of_pageable_memory_are_rows_beside_the_usual_one(command, document):
    arguments = (*MEASURE, "--pageable", "--pinned", "--huge-pages", "--first-touch", "--size", "1MiB", "--trials", "1")
    done = command(*arguments)
    assert (done.code, done.out, done.err) == (0, STATES, "")
    cases = [case for case in document(*arguments).json["cases"] if case["pages"] != "warm"]
    assert [(case["id"], case["pages"], case["named"]) for case in cases] == [
        ("bandwidth/pageable/driver/d2h/1048576/first-touch", "first-touch", True),
        ("bandwidth/pageable/driver/h2d/1048576/huge-pages", "huge-pages", True),
        ("bandwidth/pageable/driver/d2h/1048576/huge-pages", "huge-pages", True),
    ]
    assert cases[0]["trials"][0]["copies_per_batch"] == 1


def test_huge_pages_that_the_system_did_not_give_are_said_and_missing(huge, document):
    huge["bytes"] = 2 << 20
    done = document(*MEASURE, "--pageable", "--huge-pages", "--size", "3MiB", "--trials", "1")
    assert done.code == 4
    (reason,) = {case["reason"] for case in done.json["cases"] if case["pages"] == "huge-pages"}
    assert reason == (
        "of 4 MiB of memory the system gave 2 MiB on huge pages (AnonHugePages in /proc/self/smaps). "
        "Memory may be too fragmented. As root: echo 1 > /proc/sys/vm/compact_memory"
    )


@pytest.mark.usefixtures("no_start")
@pytest.mark.parametrize(
    ("arguments", "goes"),
    [
        (
            ("--pinned", "--first-touch"),
            "first-touch goes with none of the other choices: it is of pageable memory (d2h)",
        ),
        (
            ("--first-touch", "--direction", "h2d"),
            "first-touch goes with none of the other choices: it is of pageable memory (d2h)",
        ),
        (
            ("--mapped", "--huge-pages"),
            "huge-pages goes with none of the other choices: it is of pageable memory (h2d, d2h)",
        ),
    ],
)
def test_a_state_of_memory_that_is_not_measured_is_a_usage_error(command, arguments, goes):
    done = command(*MEASURE, *arguments)
    assert (done.code, done.out, done.err) == (2, "", f"cudabw: error: {goes}\n")


# Each option changes what it says


def staged_by_one_thread(done):
    said = [note for case in done.json["cases"] if case["size_bytes"] == 8 << 20 for note in case["notes"]]
    return said and all(note.startswith("staged by 1 thread, slots of 3 MiB") for note in said)


EFFECTS = {
    **{f"--{kind}": ([f"--{kind}"], lambda done, kind=kind: values(done.json, "kind") == {kind}) for kind in KINDS},
    "--all": (["--all"], lambda done: values(done.json, "kind") == set(KINDS)),
    "--direction": (["--direction", "d2h"], lambda done: values(done.json, "direction") == {"d2h"}),
    "--engine": (["--engine", "driver"], lambda done: values(done.json, "engine") == {"driver"}),
    "--threads": (["--engine", "staged", "--size", "8MiB", "--threads", "1", "--slot", "3MiB"], staged_by_one_thread),
    "--slot": (["--engine", "staged", "--size", "8MiB", "--slot", "3MiB", "--threads", "1"], staged_by_one_thread),
    "--size": (["--size", "8KiB"], lambda done: values(done.json, "size_bytes") == {4096, 8192}),
    "--trials": (["--trials", "3"], lambda done: {count for *_, count in measured(done.json)} == {3}),
    "--numa": (["--numa", "0"], lambda done: values(done.json, "numa_node") == {0}),
    "--time-budget": (
        ["--trials", "3", "--time-budget", "1ms"],
        lambda done: done.json["cases"][0]["notes"] == ["1 of 3 trials: time budget of 0.001 s"],
    ),
    "--quick": (["--quick"], lambda done: {count for *_, count in measured(done.json)} == {3}),
    "--rigorous": (["--rigorous"], lambda done: {count for *_, count in measured(done.json)} == {12}),
    "--precision": (
        ["--precision", "0.1%"],
        lambda done: values(done.json, "reason") == {"one trial has no interval (1 trial)"},
    ),
    "--strict": (["--precision", "0.1%", "--strict"], lambda done: done.code == 4),
    "--first-touch": (["--first-touch"], lambda done: values(done.json, "pages") == {"warm", "first-touch"}),
    "--huge-pages": (["--huge-pages"], lambda done: values(done.json, "pages") == {"warm", "huge-pages"}),
    "--setup-cost": (["--setup-cost"], lambda done: values(done.json, "benchmark") == {"bandwidth", "setup_cost"}),
    "--device": (["--device", "1"], lambda done: done.json["device"]["ordinal"] == 1),
    "--backend": (["--backend", "cuda"], lambda done: done.code == 5),
    "--tag": (["--tag", "a=b"], lambda done: done.json["tags"] == {"a": "b"}),
    "--json": (["--json"], lambda done: done.json["tool"]["name"] == "cudabw"),
}


# What these do has tests of its own: here, in test_files.py and in test_github.py.
ELSEWHERE = {"--chart", "-o", "--output", "--github"}


def test_the_effect_of_each_option_is_tested():
    parameters = importlib.import_module("cudabw.cli.bandwidth").command.params
    assert {option for parameter in parameters for option in parameter.opts} == set(EFFECTS) | ELSEWHERE
    assert all(isinstance(parameter, click.Option) for parameter in parameters)


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize("option", EFFECTS)
def test_an_option_has_its_effect(emulate, document, option):
    emulate(clock=SLOW_CLOCK, devices=2)
    arguments, holds = EFFECTS[option]
    base = MEASURE_ONE if option in ("--quick", "--rigorous") else QUICK
    assert option == "--json" or not holds(document(*base)), "the effect must be the option's"
    assert holds(document(*base, *arguments))


def test_without_options_three_kinds_are_measured_both_ways_at_64_mib_five_times_or_more(monkeypatch, command):
    asked = []

    def run_plans(_command, plans, *, backend, device, observer):  # noqa: ARG001 - the real one's
        asked.extend((*plans, backend, device))
        raise CudabwError("enough")

    monkeypatch.setattr("cudabw.benchmarks.running.run_plans", run_plans)
    command("bandwidth")
    plan, backend, device = asked
    cases = [(case.kind, case.engine, case.direction, case.size_bytes, case.named) for case in plan.cases()]
    engines = {"pageable": "driver", "pinned": "driver", "mapped": "kernel"}
    assert cases == [(kind, engines[kind], way, 64 << 20, False) for kind in engines for way in ("h2d", "d2h")]
    assert (plan.effort, backend, device) == (Effort(5, 100, 0.005, budget_s=8.0, sure=5), "auto", 0)


def test_sizes_and_directions_add_up_without_repeats_in_the_order_of_the_table(emulate, document):
    emulate(clock=SLOW_CLOCK)
    done = document(
        *(*MEASURE, "--trials", "1", "--pinned", "--direction", "d2h", "--direction", "h2d", "--direction", "d2h"),
        *("--size", "16KiB,4KiB", "--size", "4KiB:16KiB:x2", "--size", "1KiB:3KiB:+1KiB"),
    )
    assert measured(done.json) == [
        ("pinned", way, kib << 10, 1) for kib in (16, 4, 8, 1, 2, 3) for way in ("h2d", "d2h")
    ]


def test_a_kind_that_is_named_is_marked_so_and_one_that_all_includes_is_not(emulate, document):
    emulate(clock=SLOW_CLOCK)
    done = document(*QUICK, "--all", "--mapped")
    assert {case["kind"] for case in done.json["cases"] if case["named"]} == {"mapped"}


# The time budget


def test_at_the_time_budget_each_case_has_a_trial_and_says_why_there_are_no_more(emulate, document):
    emulate(clock=SLOW_CLOCK)
    done = document(*MEASURE, "--all", "--size", "64KiB", "--trials", "50", "--time-budget", "1ms")
    assert done.code == 0
    assert len(done.json["cases"]) == 12
    for case in done.json["cases"]:
        assert (case["state"], len(case["trials"])) == ("ok", 1)
        assert case["notes"] == ["1 of 50 trials: time budget of 0.001 s"]


def test_the_table_says_that_the_time_budget_stopped_it(command):
    done = command(*MEASURE, "--pinned", "--size", "64KiB", "--trials", "50", "--time-budget", "1ms")
    assert done.out.endswith(
        "pinned  64 KiB      50.0  –      25.0  –  event  1\n\nOne trial.\n[1] 1 of 50 trials: time budget of 0.001 s\n"
    )


def test_a_time_budget_that_suffices_is_not_mentioned(document):
    done = document(*QUICK, "--time-budget", "16min")
    assert values(done.json, "state") == {"ok"}
    assert [case["notes"] for case in done.json["cases"]] == [[]] * 6


# The document


def test_the_document_has_the_documented_shape(document):
    arguments = (*QUICK, "--pinned", "--direction", "h2d")
    done = document(*arguments)
    run, (case,) = done.json, done.json["cases"]
    assert list(run) == [
        *("schema", "tool", "command", "started", "finished", "tags", "interrupted", "error"),
        *("device", "environment", "warnings", "limits", "cases"),
    ]
    assert run["command"] == [*arguments, "--json"]
    assert (run["schema"], run["interrupted"], run["error"], run["warnings"]) == (1, False, None, [])
    no_link = dict.fromkeys(["generation", "width", "ceiling_bytes_per_s", "source", "narrowest_hop"])
    assert run["device"] == {
        "ordinal": 0,
        "name": run["device"]["name"],
        "uuid": run["device"]["uuid"],
        "pci": "0000:01:00.0",
        "emulated": True,
        "memory_bytes": 2 * GIB,
        "link": no_link,
        "max_link": no_link,
        "numa_node": None,
    }
    assert list(run["environment"]) == [*("software", "gpu", "cpu", "memory", "host", "variables", "other_variables")]
    assert run["environment"]["variables"] == {}
    assert (case["id"], case["engine"]) == ("bandwidth/pinned/driver/h2d/4096", "driver")
    assert (case["reason"], case["link_fraction"], case["notes"]) == (None, None, [])
    assert case["driver_says"].startswith("page-locked")
    assert list(case["rate_bytes_per_s"]) == ["median", "low", "high", "min", "max", "p5", "p95", "n", "outliers"]
    assert (case["rate_bytes_per_s"]["low"], case["rate_bytes_per_s"]["high"]) == (None, None)
    (trial,) = case["trials"]
    assert (type(trial["copies_per_batch"]), type(trial["allocation_s"])) == (int, float)
    assert [type(sample) for sample in trial["samples_s"]] == [float] * 4
    assert (case["numa_node"], trial["pages_on"], trial["thread_node"]) == (None, {"0": 1}, 0)
    assert math.isclose(trial["samples_s"][0], 4096 / 50e9, rel_tol=1e-6)


def test_a_distorting_environment_is_said_and_kept(monkeypatch, document):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    done = document(*QUICK)
    (warning,) = done.json["warnings"]
    assert warning.startswith("CUDA_LAUNCH_BLOCKING=1 ")
    assert done.err == f"cudabw: {warning}\n"
    assert done.json["environment"]["variables"] == {"CUDA_LAUNCH_BLOCKING": "1"}


# The link


SUSPECT = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

Memory   Size  h2d GB/s  ±  link  d2h GB/s  ±  link  Clock  Note
─────────────────────────────────────────────────────────────────
pinned  4 KiB   suspect  –     –      12.0  –  76 %  event  1

One trial; link: PCIe Gen3 x16, 15.8 GB/s (sysfs, under load).
[1] suspect: 50.0 GB/s would be 317 % of what the link can carry (15.8 GB/s), so the figure or what is known of the \
link is wrong
"""


@pytest.fixture
def link(plain_environment, monkeypatch):  # noqa: ARG001 - it must come first
    """Gives the emulated device of the commands that follow a link in sysfs."""

    def make(root, speed, width):
        folder = root / "sys/bus/pci/devices/0000:01:00.0"
        folder.mkdir(parents=True)
        for which in ("current", "max"):
            (folder / f"{which}_link_speed").write_text(f"{speed} GT/s PCIe\n")
            (folder / f"{which}_link_width").write_text(f"{width}\n")
        reader = LinkReader("0000:01:00.0", root=root)
        monkeypatch.setattr("cudabw.benchmarks.session.link_reader", lambda *_, **__: reader)

    return make


def test_a_rate_above_the_link_is_suspect_and_fails_the_run(link, emulate, command, tmp_path):
    link(tmp_path, "8.0", 16)
    emulate(clock={"h2d": 50e9, "d2h": 12e9})
    done = command(*QUICK, "--pinned")
    assert (done.code, done.err) == (1, "")
    assert done.out == SUSPECT


@pytest.mark.parametrize("only", [("--pageable",), ("--direction", "d2d")])
def test_the_link_is_known_also_where_no_copy_let_it_be_read(link, emulate, document, tmp_path, only):
    link(tmp_path, "32.0", 16)
    emulate(clock={"h2d": 50e9, "d2h": 50e9})
    done = document(*MEASURE, *only, "--size", "4KiB", "--trials", "1")
    assert done.json["device"]["link"]["generation"] == 5
    assert {case["link_fraction"] is None for case in done.json["cases"]} == {"d2d" in only}


# NUMA nodes


NODES_TABLE = """\
Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)

                        h2d  ±
Memory     Size  Node  GB/s  %  Clock
──────────────────────────────────────
pageable  4 KiB     0  50.0  –  host
pageable  4 KiB     1  50.0  –  host
pinned    4 KiB     0  50.0  –  event
pinned    4 KiB     1  50.0  –  event

One trial; Node: the NUMA node asked for.
"""


@pytest.mark.usefixtures("nodes")
def test_each_node_that_has_memory_is_a_row(command):
    done = command(*QUICK, "--pageable", "--pinned", "--direction", "h2d", "--numa", "all")
    assert (done.code, done.out, done.err) == (0, NODES_TABLE, "")


def test_memory_that_is_elsewhere_has_a_note(nodes, command):
    nodes.pages = lambda _: 0
    done = command(*QUICK, "--pinned", "--direction", "h2d", "--numa", "1")
    assert done.code == 0
    assert done.out.splitlines()[-1] == "[1] asked for NUMA node 1, but of 1 pages looked at 1 on node 0"


@pytest.mark.parametrize(
    ("numa", "refused", "code"),
    [
        ("0", {}, 0),
        ("2", {}, 4),
        ("9", {}, 4),
        ("auto", {}, 4),
        ("all", {}, 0),
        ("1", {"set_mempolicy": "EPERM"}, 4),
        ("1", {"set_mempolicy": "ENOSYS"}, 4),
        ("all", {"set_mempolicy": "EPERM"}, 4),
        ("1", {"move_pages": "EPERM"}, 0),
    ],
)
def test_a_node_that_cannot_be_had_is_the_exit_code(nodes, document, numa, refused, code):
    nodes.refused = refused
    assert document(*QUICK, "--pinned", "--direction", "h2d", "--numa", numa).code == code


def test_one_node_of_all_that_cannot_be_had_is_no_failure(nodes, document):
    nodes.write("proc/self/status", "Mems_allowed_list:\t1\n")
    done = document(*QUICK, "--pinned", "--direction", "h2d", "--numa", "all")
    assert [(case["numa_node"], case["state"]) for case in done.json["cases"]] == [(0, "refused"), (1, "ok")]
    assert done.code == 0
    nodes.refused = {"set_mempolicy": "EPERM"}
    assert document(*QUICK, "--pinned", "--numa", "all").code == 4


@pytest.mark.usefixtures("no_start")
def test_a_node_for_device_memory_alone_is_a_usage_error(command):
    done = command(*MEASURE, "--direction", "d2d", "--numa", "0")
    assert (done.code, done.out) == (2, "")
    assert done.err == "cudabw: error: a NUMA node is for host memory, of which nothing is chosen\n"


# Bad input


BAD_SIZES = [
    *("", "0", "00", "0MiB", "-1", "+1", "1.5", "1.5.2K", "1e99", "1e3", "inf", "nan", "2 M", " 2M", "2M ", "1_000"),
    *("١", "２", "2\u212a", "2MM", "2MiBB", "0x10", "M", "2P", "1,", ",1", "1,,2", "1;2", "257TiB", "9" * 99, "all"),
    *("1:2", "5:1:x2", "1:5:x1", "1:5:x0", "1:5:1", "1:5:+0", "1:5:-1", "1:5:x1.5", "1:5:x", "1:5:+", "1:5:x2:x2"),
    *("0:5:x2", "1:5:*2", "1KiB:1GiB:+1B", "4KiB:256MiB"),
]


@pytest.mark.usefixtures("no_start")
@pytest.mark.parametrize("extra", [[], ["--json"]])
@pytest.mark.parametrize("size", BAD_SIZES)
def test_what_is_no_size_is_quoted_with_an_example_before_a_driver_is_touched(command, size, extra):
    done = command(*MEASURE, f"--size={size}", *extra)
    assert (done.code, done.out) == (2, "")
    message = done.err.splitlines()[-1]
    assert message.startswith("Error: Invalid value for '--size': ")
    assert (repr(size) if len(size) < 60 else repr(size[:57] + "...")) in message
    assert "for example" in message


@pytest.mark.usefixtures("no_start")
@pytest.mark.parametrize(
    ("option", "text"),
    [
        *(("--trials", text) for text in ("0", "-1", "1.5", "", "nan", "٣", "1e3", "1_0", " 1", "many")),
        *(("--threads", text) for text in ("0", "-1", "1.5", "", "nan", "all")),
        *(("--slot", text) for text in ("0", "-1", "1.5", "", "1MiB,2MiB", "1MiB:4MiB:x2")),
        *(("--device", text) for text in ("-1", "1.0", "", "x", "0x1", "all", "99999999999", "GPU-1")),
        *(("--numa", text) for text in ("-1", "1.0", "", "x", "0,1", "ALL", "node0", "99999999999")),
        *(("--time-budget", text) for text in ("nan", "inf", "0", "-1", "", "1h", "1,5s", "1e3", "s", "5 s")),
    ],
)
def test_what_is_no_number_is_quoted_with_an_example_before_a_driver_is_touched(command, option, text):
    done = command(*MEASURE, f"{option}={text}")
    assert (done.code, done.out) == (2, "")
    message = done.err.splitlines()[-1]
    assert message.startswith(f"Error: Invalid value for '{option}': ")
    assert repr(text) in message
    assert "for example" in message


@pytest.mark.usefixtures("no_start")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--dev", "0"],
        ["--siz", "1MiB"],
        ["--pin"],
        ["--direction", "both"],
        ["--engine", "cpu"],
        ["--direction", "H2D"],
        ["--backend", "gpu"],
        ["--kind", "pinned"],
        ["pinned"],
    ],
)
def test_an_unknown_or_abbreviated_option_or_choice_is_refused(command, arguments):
    done = command(*MEASURE, *arguments)
    assert (done.code, done.out) == (2, "")
    assert arguments[-1] in done.err or arguments[0] in done.err


@pytest.mark.usefixtures("no_start")
@pytest.mark.parametrize("extra", [[], ["--json"]])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--pinned", "--engine", "kernel"],
            "kernel goes with none of the other choices: it copies mapped memory (h2d, d2h)",
        ),
        (
            ["--mapped", "--engine", "staged", "--engine", "kernel"],
            "staged goes with none of the other choices: it copies pageable memory (h2d, d2h)",
        ),
        (["--threads", "3"], "threads and slot are of the staged engine, which is not chosen"),
        (["--engine", "staged", "--slot", "3B"], "a slot has 64 KiB or more, not 3 B"),
    ],
)
def test_choices_that_do_not_go_together_are_refused_with_what_does(command, arguments, message, extra):
    done = command(*MEASURE, *arguments, *extra)
    assert (done.code, done.out, done.err) == (2, "", f"cudabw: error: {message}\n")


def test_all_engines_are_those_that_each_kind_has_and_a_name_carries_the_engine(emulate, document):
    emulate(clock=SLOW_CLOCK)
    done = document(*QUICK, "--engine", "all", "--direction", "h2d")
    assert [case["id"] for case in done.json["cases"]] == [
        "bandwidth/pageable/driver/h2d/4096",
        "bandwidth/pageable/staged/h2d/4096",
        "bandwidth/pinned/driver/h2d/4096",
        "bandwidth/mapped/driver/h2d/4096",
        "bandwidth/mapped/kernel/h2d/4096",
    ]
    assert not any(case["named"] for case in done.json["cases"])


def test_local_copies_are_asked_for_by_their_direction(emulate, document):
    emulate(clock=SLOW_CLOCK | {"d2d": 1e6})
    done = document(*QUICK, "--direction", "d2d")
    assert [case["id"] for case in done.json["cases"]] == ["bandwidth/device/driver/d2d/4096"]
    assert [case["named"] for case in done.json["cases"]] == [True]


def test_both_directions_at_once_are_of_the_usual_kinds_that_can(emulate, document):
    emulate(clock=SLOW_CLOCK)
    done = document(*QUICK, "--direction", "bidirectional")
    assert done.code == 0
    assert [case["id"] for case in done.json["cases"]] == [
        f"bandwidth/{kind}/driver/bidirectional-{result}/4096"
        for kind in ("pinned", "mapped")
        for result in ("total", "h2d", "d2h")
    ]


@pytest.mark.parametrize(("engine", "code"), [("kernel", 4), ("all", 0)])
def test_an_engine_that_is_named_and_not_there_is_exit_4(emulate, document, engine, code):
    emulate(clock=SLOW_CLOCK, faults=[{"function": "cuModuleLoadData", "status": 801}])
    done = document(*QUICK, "--engine", engine)
    assert done.code == code
    states = {case["state"] for case in done.json["cases"] if case["engine"] == "kernel"}
    assert states == {"unsupported"}


@pytest.mark.parametrize(
    ("devices", "wanted", "there_is"),
    [(1, 7, "the driver sees device 0 only"), (3, 3, "the driver sees devices 0 to 2")],
)
@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_a_device_out_of_range_is_refused_with_the_range_and_no_other_is_measured(
    emulate, command, devices, wanted, there_is, extra
):
    emulate(clock=CLOCK, devices=devices)
    done = command(*QUICK, "--device", wanted, *extra)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0] == f"cudabw: error: there is no device {wanted}: {there_is}"


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_a_description_of_the_emulated_device_that_cannot_be_meant_is_refused(monkeypatch, command, extra):
    monkeypatch.setenv("CUDABW_EMULATED", '{"faults": [{"status": 1}]}')
    done = command(*QUICK, *extra)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("cudabw: error: CUDABW_EMULATED: faults[0]: a fault needs the function it happens in\n")


# More memory than there is


@pytest.fixture
def allocated(monkeypatch):
    """Bytes that each allocating function of the driver was asked for."""
    asked = []
    for function in ("cuMemAlloc", "cuMemHostAlloc", "cuMemAllocManaged", "cuMemHostRegister"):
        original = getattr(EmulatedDriver, function)

        def spy(self, *arguments, original=original):
            asked.append(max(value for value in arguments if isinstance(value, int)))
            return original(self, *arguments)

        monkeypatch.setattr(EmulatedDriver, function, spy)
    return asked


DEVICE_REASON = "{kind} needs 3 GiB of device memory, and 2 GiB is free on device 0. {hint}"
HOST_REASON = (
    "{kind} needs 3 GiB of host memory, and 2816 MiB can be used (cgroup limit 3 GiB). Choose a smaller --size."
)


@pytest.mark.parametrize("kind", ["pageable", "pinned", "mapped", "registered", "managed"])
def test_more_than_the_device_has_is_refused_with_the_numbers_before_allocating(document, allocated, kind):
    done = document(*MEASURE, f"--{kind}", "--size", "3GiB", "--trials", "1")
    reason = DEVICE_REASON.format(kind=kind, hint="Choose a smaller --size, or free memory on the device.")
    assert done.code == 4
    assert [(case["state"], case["reason"]) for case in done.json["cases"]] == [("refused", reason)] * 2
    assert max(allocated) < 1 << 20


@pytest.mark.parametrize("kind", ["pageable", "pinned", "mapped", "registered"])
def test_more_than_the_host_has_left_is_refused_with_the_numbers_before_allocating(
    monkeypatch, emulate, document, allocated, kind
):
    # The emulated device's own memory is the host's, too: two buffers and 16 MiB to pass through.
    emulate(clock=CLOCK, memory="8GiB")
    memory = HostMemory(total_bytes=3 * GIB, available_bytes=3 * GIB, limit_source="cgroup limit 3 GiB")
    monkeypatch.setattr("cudabw.benchmarks.space.host_memory", lambda: memory)
    size = (3 * GIB - (16 << 20)) // 2
    done = document(*MEASURE, f"--{kind}", "--size", size, "--trials", "1")
    assert done.code == 4
    assert [(case["state"], case["reason"]) for case in done.json["cases"]] == [
        ("refused", HOST_REASON.format(kind=kind))
    ] * 2
    assert max(allocated) < 1 << 20


def test_what_still_fits_is_measured_beside_a_named_size_that_does_not(document):
    done = document(*MEASURE, "--size", "4KiB,3GiB", "--trials", "1")
    cases = {(case["size_bytes"], case["state"], case["named"]) for case in done.json["cases"]}
    assert cases == {(4096, "ok", False), (3 * GIB, "refused", True)}
    assert done.code == 4


# Which device


@pytest.mark.usefixtures("no_driver")
def test_without_any_driver_the_emulated_device_is_announced_everywhere(command):
    announcement = "cudabw: No NVIDIA driver is installed: using the emulated device, whose figures are those of host "
    arguments = ("bandwidth", "--size", "4KiB", "--trials", "1")
    done = command(*arguments)
    assert (done.code, done.err) == (0, announcement + "memory and not of a GPU.\n")
    assert done.out.startswith(TABLE.splitlines()[0] + "\n")


@pytest.mark.usefixtures("no_driver")
def test_the_document_of_a_fallback_says_emulated(document):
    assert document("bandwidth", "--size", "4KiB", "--trials", "1").json["device"]["emulated"] is True


def test_asked_for_by_name_the_emulated_device_needs_no_announcement(command):
    assert command(*QUICK).err == ""


@pytest.mark.usefixtures("no_driver")
def test_a_gpu_that_is_required_and_absent_is_one_line_and_a_hint(command):
    done = command("bandwidth", "--backend", "cuda")
    assert (done.code, done.out) == (5, "")
    assert done.err == (
        "cudabw: error: No NVIDIA driver is installed: the loader finds no libcuda.so.1\n"
        "cudabw: hint: Install the NVIDIA driver, or use the emulated device (--backend emulated).\n"
    )


@pytest.mark.usefixtures("no_driver")
def test_a_gpu_that_is_required_and_absent_is_still_one_document(document):
    done = document("bandwidth", "--backend", "cuda")
    assert done.code == 5
    assert done.json["error"] == {
        "type": "NoDriverError",
        "message": "No NVIDIA driver is installed: the loader finds no libcuda.so.1",
        "hint": "Install the NVIDIA driver, or use the emulated device (--backend emulated).",
        "exit_code": 5,
    }
    assert (done.json["device"], done.json["cases"], done.json["interrupted"]) == (None, [], False)


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize("arguments", [["--size", "0"], ["--nosuch"], ["--trials", "x"]])
def test_usage_wins_over_a_missing_gpu(command, arguments):
    done = command("bandwidth", "--backend", "cuda", *arguments)
    assert (done.code, done.out) == (2, "")


def test_an_emulated_machine_without_devices_is_an_error_and_no_fallback(emulate, document):
    emulate(devices=0)
    done = document(*QUICK)
    assert done.code == 5
    assert done.json["error"]["type"] == "NoDriverError"


CHART_HEAD = "Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)\nA whole bar is "


def test_the_chart_stands_under_the_table_and_show_draws_it_again(command, tmp_path):
    path = tmp_path / "run.json"
    done = command(*QUICK, "--pinned", "--size", "4KiB,64KiB", "--chart", "-o", path)
    assert done.code == 0
    table, _, chart = done.out.partition(f"\n\n{CHART_HEAD}")
    assert "Median of" in table or "One trial" in table
    assert "█" in chart
    shown = command("show", path, "--chart")
    assert (shown.code, shown.out, shown.err) == (0, CHART_HEAD + chart, "")


@pytest.mark.parametrize("flags", [("--json",), ("-o", "-")])
def test_a_chart_and_a_document_are_not_both_to_be_had(command, no_start, flags):  # noqa: ARG001 - nothing may start
    done = command("bandwidth", "--chart", *flags)
    assert (done.code, done.out) == (2, "")
    assert done.err == "cudabw: error: --chart draws under the table, and --json prints no table\n"


def test_a_file_without_rates_has_no_chart(command, tmp_path):
    path = tmp_path / "launches.json"
    command("launch-overhead", "--backend", "emulated", "--args", "0", "--trials", "1", "-o", path)
    done = command("show", path, "--chart")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "cudabw: error: there are no rates to draw\ncudabw: hint: --hist draws the samples of every case.\n"
    )
