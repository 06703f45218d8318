"""``cudabw latency``: whole commands."""

import json

import pytest

CLOCK = {
    "h2d": 10e9,
    "h2d/kernel": 0.5e9,
    "d2h": 2e9,
    "submit_s": 4e-6,
    "launch_s": 1e-6,
    "latency_s": 2e-6,
    "kernel_s": 3e-6,
}
QUICK = ("latency", "--backend", "emulated", "--trials", "1")
FIGURES = ("median", "min", "max", "p5", "p95")
WAYS = ["loop", "batch", "graph", "kernel"]

REPORT = """\
Small copies · device 0: EMULATED, not a GPU (host memory)
pinned h2d, 4 copies: a loop is still slower than one batch or a graph at 4 KiB; \
not seen to be slower than one kernel from 4 KiB on.
pinned h2d, 4 KiB: one batch and a graph are faster than a loop from 2 copies on; one kernel is \
not seen to be faster than a loop up to 128 copies.

One copy in µs: submitted and waited for, and queued among others
Memory  Dir.   Size  End to end        ±  Call  Queued      ±  Clock
─────────────────────────────────────────────────────────────────────
pinned  h2d    64 B        6.01  <0.01 %  4.00    2.01  0.8 %  event
              4 KiB        6.41  <0.01 %  4.00    2.41  0.8 %  event

4 scattered copies at once, by size: µs for each, submitted and waited for
                               ±             ±             ±              ±
Memory  Dir.   Size  Loop      %  Batch      %  Graph      %  Kernel      %
────────────────────────────────────────────────────────────────────────────
pinned  h2d    64 B  4.50  <0.01   3.01  <0.01   3.26  <0.01    2.13  <0.01
              4 KiB  4.60  <0.01   3.41  <0.01   3.66  <0.01   10.19  <0.01

Scattered copies of 4 KiB at once, by their number: µs for each
                                ±             ±             ±              ±
Memory  Dir.  Copies  Loop      %  Batch      %  Graph      %  Kernel      %
─────────────────────────────────────────────────────────────────────────────
pinned  h2d        1  6.41  <0.01   6.41  <0.01   7.41  <0.01   16.19  <0.01
                   2  5.20  <0.01   4.41  <0.01   4.91  <0.01   12.19  <0.01
                   4  4.60  <0.01   3.41  <0.01   3.66  <0.01   10.19  <0.01
                   8  4.30  <0.01   2.91  <0.01   3.03  <0.01    9.19  <0.01
                  32  4.08  <0.01   2.53  <0.01   2.57  <0.01    8.44  <0.01
                 128  4.02  <0.01   2.44  <0.01   2.45  <0.01    8.25  <0.01

Prepared once before, µs for all copies
Memory  Copies  Batch  Graph  Kernel
─────────────────────────────────────
pinned       1   0.00   0.00    6.00
pinned       2   0.00   0.00    6.00
pinned       4   0.00   0.00    6.01
pinned       8   0.00   0.00    6.02
pinned      32   0.00   0.00    6.08
pinned     128   0.00   0.00    6.31

Medians of 8 trials, ± a 99 % interval; each with fresh memory, in shuffled order.
Every byte was verified after every batch.
End to end: the driver's call and the wait for it, by the host's clock; call: the call alone.
Queued: one of many in a row, by events behind a gate; where a copy holds the host, by the host's clock.
Loop: a call for each copy; batch: one cuMemcpyBatchAsync; graph: one launch of a captured loop;
kernel: one launch that reads all addresses from a table and reaches pinned memory itself.
All of these by the host's clock.
Emulated: threads and host memory play the device, so that no time here is a GPU's.
"""

ASCII = """\
Small copies | device 0: EMULATED, not a GPU (host memory)

One copy in us: submitted and waited for, and queued among others
Memory    Dir.  Size  End to end  +/-  Call  Queued  +/-  Clock
----------------------------------------------------------------
pageable  d2h   64 B        6.03    -  6.03    6.03    -  host

32 scattered copies at once, by size: us for each, submitted and waited for
                            +/-         +/-         +/-          +/-
Memory    Dir.  Size  Loop    %  Batch    %  Graph    %  Kernel    %
---------------------------------------------------------------------
pageable  d2h   64 B  6.03    -   2.16    -      -    -       -    -

Prepared once before, us for all copies
Memory    Copies  Batch
------------------------
pageable      32   0.00

One trial; each with fresh memory, in shuffled order.
Every byte was verified after every batch.
End to end: the driver's call and the wait for it, by the host's clock; call: the call alone.
Queued: one of many in a row, by events behind a gate; where a copy holds the host, by the host's clock.
Loop: a call for each copy; batch: one cuMemcpyBatchAsync; graph: one launch of a captured loop;
kernel: one launch that reads all addresses from a table and reaches pinned memory itself.
All of these by the host's clock.
From where on which way is worth it takes two trials and two points.
Emulated: threads and host memory play the device, so that no time here is a GPU's.
"""


def test_the_report_says_first_from_where_on_which_way_is_worth_it(command, emulate):
    emulate(clock=CLOCK)
    sizes = ("--size", "64,4KiB", "--copies", "4")
    done = command("latency", "--backend", "emulated", "--pinned", "--direction", "h2d", "--trials", "8", *sizes)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(REPORT)


def test_one_size_in_several_numbers_has_one_table(command, emulate):  # noqa: ARG001 - a fixture
    out = command(*QUICK, "--pinned", "--direction", "h2d", "--size", "4KiB", "--copies", "64").out
    assert "by size" not in out
    assert "by their number" in out


def test_the_report_is_ascii_where_the_terminal_has_nothing_else(spawn, emulate):  # noqa: ARG001
    environment = {"CUDABW_EMULATED": json.dumps({"clock": CLOCK}), "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = spawn(*QUICK, "--pageable", "--direction", "d2h", "--size", "64", environment=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode("ascii").startswith(ASCII)


def test_the_document_has_every_case_with_its_samples(document, emulate):
    emulate(clock=CLOCK)
    arguments = (*QUICK, "--pinned", "--size", "64", "--copies", "3", "--direction", "d2h")
    done = document(*arguments)
    assert (done.code, done.err) == (0, "")
    assert done.json["command"] == [*arguments, "--json"]
    assert list(done.json)[-2:] == ["cases", "small_copies"]
    alone, queued, loop, *_, kernel = done.json["cases"]
    # Where the memory was is this machine's matter.
    (places,) = ({name: trial.pop(name) for name in ("pages_on", "thread_node")} for trial in alone["trials"])
    assert places["pages_on"] is None or sum(places["pages_on"].values()) == 1
    rest = {"low": None, "high": None, "n": 2, "outliers": None}
    assert alone == {
        "id": "latency/pinned/d2h/64/end_to_end",
        "benchmark": "latency",
        "kind": "pinned",
        "direction": "d2h",
        "size_bytes": 64,
        "pace": "end_to_end",
        "state": "ok",
        "reason": None,
        "named": True,
        "clock": "host",
        "gated": False,
        "verified": True,
        "tick_s": 0.0,
        "seconds": pytest.approx({**dict.fromkeys(FIGURES, 6.032e-6), **rest}),
        "submit_s": pytest.approx({**dict.fromkeys(FIGURES, 4e-6), **rest}),
        "driver_says": "page-locked",
        "notes": [],
        "trials": [
            {
                "times_per_batch": 33,
                "samples_s": pytest.approx([6.032e-6] * 2),
                "submit_s": pytest.approx([4e-6] * 2),
                "build_s": None,
            }
        ],
    }
    assert (queued["id"], queued["clock"], queued["gated"]) == ("latency/pinned/d2h/64/queued", "event", True)
    assert (loop["benchmark"], loop["way"], loop["copies"], loop["named"]) == ("small_copies", "loop", 3, True)
    assert kernel["id"] == "small_copies/pinned/d2h/64x3/kernel"
    assert (kernel["named"], kernel["build_s"]["n"]) == (False, 1)


def test_large_copies_are_not_made_many_at_once(document, emulate):
    emulate(clock=CLOCK)
    done = document(*QUICK, "--size", "256KiB,262145", "--direction", "h2d", "--copies", "2")
    assert [case["id"] for case in done.json["cases"] if case["benchmark"] == "small_copies"] == [
        *(f"small_copies/pinned/h2d/262144x2/{way}" for way in WAYS),
        *(f"small_copies/pageable/h2d/262144x2/{way}" for way in WAYS[:2]),
    ]
    assert {case["size_bytes"] for case in done.json["cases"] if case["benchmark"] == "latency"} == {262144, 262145}


def test_a_failing_batch_is_told_in_its_place_and_fails_the_run(command, emulate):
    emulate(clock=CLOCK, faults=[{"function": "cuMemcpyBatchAsync", "status": 1}])
    done = command(*QUICK, "--pinned", "--size", "64", "--direction", "h2d")
    assert done.code == 1
    (row,) = (line.split() for line in done.out.splitlines() if "failed" in line and not line.startswith("["))
    assert row[-3] == "0.38"
    assert "[1] failed: cuMemcpyBatchAsync failed with CUDA_ERROR_INVALID_VALUE (1)" in done.out


def test_a_way_that_the_driver_lacks_is_no_failure_even_of_a_named_kind(document, emulate):
    emulate(clock=CLOCK, faults=[{"function": "cuMemcpyBatchAsync", "status": 801}])
    done = document(*QUICK, "--pinned", "--size", "64", "--direction", "h2d")
    assert done.code == 0
    assert [case["state"] for case in done.json["cases"]] == ["ok", "ok", "ok", "unsupported", "ok", "ok"]


def test_dropped_copies_show_no_number(command, emulate):
    emulate(clock=CLOCK, faults=[{"copy": "drop", "direction": "h2d"}])
    done = command(*QUICK, "--pinned", "--size", "64", "--direction", "h2d")
    assert done.code == 1
    assert done.out.count("wrong data") >= 6
    assert not any("6.01" in line for line in done.out.splitlines())


def test_a_refused_kind_that_was_named_is_missed(document, emulate):
    emulate(clock=CLOCK, faults=[{"function": "cuMemHostAlloc", "status": 2, "at_least_bytes": 64}])
    assert document(*QUICK, "--pinned", "--pageable", "--size", "64").code == 4
    assert document(*QUICK, "--size", "64").code == 0


def test_a_lost_device_keeps_what_was_measured(document, emulate):
    emulate(clock=CLOCK, faults=[{"function": "cuStreamSynchronize", "lose_device": True, "nth": 1500}])
    done = document("latency", "--backend", "emulated", "--trials", "50", "--pinned", "--size", "64")
    assert done.code == 1
    assert done.json["error"]["message"].startswith("device 0 was lost: cuStreamSynchronize failed with ")
    assert {case["state"] for case in done.json["cases"]} == {"ok"}
    assert all("of 50 trials: " in case["notes"][0] for case in done.json["cases"])


@pytest.mark.parametrize(
    "flags",
    [
        ("--size", "0"),
        ("--size", "4KiB,"),
        ("--copies", "0"),
        ("--copies", "1,2"),
        ("--trials", "-1"),
        ("--direction", "d2d"),
        ("--mapped",),
        ("--time-budget", "0"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_a_driver_is_touched(command, no_start, flags):  # noqa: ARG001
    done = command("latency", *flags)
    assert (done.code, done.out) == (2, "")


def test_without_a_driver_there_is_a_document_with_the_error(document, no_driver):  # noqa: ARG001
    done = document("latency", "--backend", "cuda")
    assert (done.code, done.json["cases"]) == (5, [])
    assert "small_copies" not in done.json


SUITE = """
version = 1
backend = "emulated"
[[latency]]
kinds = ["pinned"]
sizes = ["64B", "3KiB"]
copies = 9
trials = 2
time_budget = "30s"
[[latency]]
kinds = ["pinned", "pageable"]
directions = ["d2h"]
sizes = ["4KiB"]
trials = 1
"""

PLAN = """\
#  Small copies  Direction  Sizes        At once           Trials  Cases
─────────────────────────────────────────────────────────────────────────
1  pinned        h2d, d2h   64 B, 3 KiB  1                      2      8
1  pinned        h2d, d2h   64 B, 3 KiB  9                      2     16
2  pinned        d2h        4 KiB        1                      1      2
2  pageable      d2h        4 KiB        1                      1      2
2  pinned        d2h        4 KiB        1, 2, 8, 32, 128       1     20
2  pageable      d2h        4 KiB        1, 2, 8, 32, 128       1     10
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "small.toml"
    path.write_text(SUITE)
    return path


def test_the_plan_of_a_suite_lists_small_copies(command, suite):
    done = command("run", suite, "--dry-run")
    assert done.code == 0
    assert PLAN in done.out
    assert "58 cases, 82 trials" in done.out


def test_a_suite_measures_what_its_plan_says(document, emulate, suite):
    emulate(clock=CLOCK)
    planned = document("run", suite, "--dry-run").json
    done = document("run", suite)
    assert done.code == 0
    assert [case["id"] for case in done.json["cases"]] == [
        case["id"] for section in planned["sections"] for case in section["cases"]
    ]
    case = planned["sections"][1]["cases"][4]
    assert case == {
        "id": "small_copies/pinned/d2h/4096x1/loop",
        "benchmark": "small_copies",
        "kind": "pinned",
        "direction": "d2h",
        "size_bytes": 4096,
        "copies": 1,
        "how": "loop",
        "trials": 1,
        "named": True,
        "host_bytes": 3 * 4352,
        "device_bytes": 4352,
        "copied_bytes": 2 * 33 * 4096,
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('kinds = ["mapped"]', "kinds: 'mapped' is not known: it is one of pinned, pageable"),
        ('kinds = "all"', "kinds: needs a list of texts"),
        ("copies = 0", "copies: count '0' is out of range"),
        ("copies = [4]", "copies: needs a whole number, not a list"),
        ('engines = ["driver"]', "unknown key 'engines'"),
    ],
)
def test_a_section_that_cannot_be_meant_is_refused(command, tmp_path, line, message):
    path = tmp_path / "wrong.toml"
    path.write_text(f"version = 1\n[[latency]]\n{line}\n")
    done = command("run", path)
    assert (done.code, done.out) == (2, "")
    assert f"[[latency]] section 1: {message}" in done.err


def test_a_kind_that_an_earlier_section_measures_is_left_out(document, emulate, tmp_path):
    emulate(clock=CLOCK)
    path = tmp_path / "again.toml"
    section = '[[latency]]\nsizes = ["64B"]\ntrials = 1\nkinds = {}\n'
    path.write_text("version = 1\nbackend = 'emulated'\n" + section.format('["pinned"]') + section.format("KINDS"))
    path.write_text(path.read_text().replace("KINDS", '["pinned", "pageable"]'))
    ids = [case["id"] for case in document("run", path).json["cases"]]
    assert len(ids) == len(set(ids)) == 2 * (2 + 4) + 2 * (2 + 2)


def test_small_copies_stand_between_bandwidth_and_launches(command, emulate, tmp_path):
    emulate(clock=CLOCK)
    path = tmp_path / "all.toml"
    path.write_text(
        'version = 1\nbackend = "emulated"\n'
        '[[launch_overhead]]\nargs = [1]\ntrials = 1\n[[latency]]\nsizes = ["64B"]\ntrials = 1\n'
        '[[bandwidth]]\nkinds = ["pinned"]\nsizes = ["4KiB"]\ntrials = 1\n'
    )
    done = command("run", path)
    assert done.code == 0
    assert [line.split(" · ")[0] for line in done.out.splitlines() if " · " in line] == [
        "Host ↔ device bandwidth",
        "Small copies",
        "Kernel launches from Python",
    ]
