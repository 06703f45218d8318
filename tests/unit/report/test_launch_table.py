"""The tables of ``cudabw launch-overhead``, from results made by hand."""
# ruff: noqa: RUF001 - tables use the typographic dash

import io
from dataclasses import replace

import pytest
from rich.console import Console

from cudabw.report.launch_table import print_launches
from cudabw.results.launch import Counts, Difference, LaunchCase, LaunchTrial, Mode, Seconds, Verdict
from cudabw.results.launch_sets import ArgumentSetResult, LaunchOverhead, QueueDepth, SetTrial, Slope, StageSplit
from cudabw.results.model import DeviceInfo, RunResult, State

EMULATED = DeviceInfo(ordinal=0, name="Emulated", uuid=None, pci=None, emulated=True)
GPU = DeviceInfo(ordinal=1, name="NVIDIA H200 [x]", uuid="GPU-1", pci="0000:17:00.0", emulated=False)
SOFTWARE = {"python": "3.12.3", "cuda_bindings": "13.3.1", "nvidia_driver": "580.159.03"}
TRIAL = LaunchTrial(125, (1e-6,) * 6, (1e-6,) * 6, (1e-6,) * 6, 1.0, Counts(100))
SET_TRIAL = SetTrial(1e-3, 1e-4, (1e-6,), (1e-6,), (1e-6,), (1e-6,), (1e-6,), (1e-6,), (1e-6,))

BASELINES = {
    Mode.PREPARED: Mode.BARE,
    Mode.PACKED: Mode.PREPARED,
    Mode.CONVERTED: Mode.PREPARED,
    Mode.SPECIALISED: Mode.CONVERTED,
    Mode.REBOUND: Mode.PREPARED,
}


def micro(median, spread=0.05):
    seconds = median * 1e-6
    return Seconds(seconds, seconds * (1 - spread), seconds * (1 + spread / 2), seconds / 2, seconds * 2)


def difference(over, median, half_width=0.02, verdict=Verdict.MORE):
    return Difference(
        over, median * 1e-6, (median - half_width) * 1e-6, (median + half_width / 2) * 1e-6, verdict, (median * 1e-6,)
    )


def case(arg_type, args, mode, submit=None, differs=None, **fields):
    found = {}
    if submit is not None:
        found = {
            "submit_s": micro(submit),
            "sustained_s": micro(submit + 0.4),
            "synchronised_s": micro(submit + 7),
            "conversions_per_launch": {Mode.CONVERTED: args, Mode.SPECIALISED: 2 * args, Mode.REBOUND: 1}.get(mode, 0),
            "waits_per_launch": 0.0,
            "difference": differs,
            "trials": (TRIAL,) * 10,
        }
    return LaunchCase(
        id=f"launch_overhead/{arg_type}/{args}/{mode}",
        benchmark="launch_overhead",
        arg_type=arg_type,
        args=args,
        mode=mode,
        **({"state": State.OK} | found | fields),
    )


def cases(arg_type, args, submits, conversion=None):
    """The cases of one set; ``conversion`` is the headline, if it is not the difference of the medians."""
    found = []
    for mode, submit in submits.items():
        over = BASELINES.get(mode)
        differs = None if over is None else difference(over, submit - submits[over])
        found.append(
            case(arg_type, args, mode, submit, conversion if mode is Mode.CONVERTED and conversion else differs)
        )
    return found


def set_result(arg_type, args, **fields):
    found = ArgumentSetResult(
        id=f"launch_overhead/{arg_type}/{args}",
        arg_type=arg_type,
        args=args,
        blind=args == 0,
        device_s=micro(1.12),
        device_gated=True,
        module_load_s=micro(1234.5),
        first_launch_s=micro(123.45),
        prepare_s=micro(21),
        repaid_after=22,
        stages=StageSplit(micro(0.3), micro(0.6), micro(0.15), micro(0.1), micro(3.6), 4.75e-6, 4.9e-6, adds_up=True),
        trials=(SET_TRIAL,) * 10,
    )
    return replace(found, **fields)


MIXED = {"bare": 3.5, "prepared": 3.8, "packed": 4.1, "converted": 4.9, "specialised": 10.9, "rebound": 5.25}
NONE = {"bare": 3.4, "prepared": 3.6, "packed": 3.7, "converted": 4.0, "specialised": 4.5}
SLOPE = Slope("mixed", (0, 4), 212e-9, 200e-9, 216e-9, Verdict.MORE, (212e-9,))


def modes(submits):
    return {Mode(mode): submit for mode, submit in submits.items()}


def run_result(*cases, device=GPU, sets=None, slopes=(SLOPE,), **fields):
    sets = (set_result("mixed", 4), set_result("none", 0, repaid_after=None)) if sets is None else sets
    found = LaunchOverhead(QueueDepth(1020, 1021), 125, "off while timing", sets, slopes)
    return RunResult(
        ("launch-overhead",),
        "2026-01-02T03:04:05Z",
        "1.0",
        device=device,
        environment={"software": SOFTWARE},
        cases=cases,
        launch_overhead=found,
        **fields,
    )


WHOLE = run_result(*cases("mixed", 4, modes(MIXED)), *cases("none", 0, modes(NONE)))


def printed(result, *, encoding="utf-8", width=80):
    """What is printed, without the blanks at the ends of lines, which mean nothing."""
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, write_through=True) as stream:
        print_launches(result, Console(file=stream, width=width, highlight=False, markup=False))
        text = raw.getvalue().decode(encoding)
    return "\n".join(line.rstrip() for line in text.splitlines())


TABLES = """\
Kernel launches from Python · device 1: NVIDIA H200 [x]
Converting 4 mixed arguments on each launch costs 1.10 µs ± 20.0 ns more than a prepared launch, 29 % of it.
Each further mixed argument costs 212 ns ± 12.0 ns (slope over 0, 4 arguments).

One launch in µs: the call (submit), in bursts (sustained), waited for (+ wait)
Arguments  Mode         Submit      ±  Sustained  + wait  Conv.  Waits
───────────────────────────────────────────────────────────────────────
4 mixed    bare           3.50  5.0 %       3.90   10.50      0      0
           prepared       3.80  5.0 %       4.20   10.80      0      0
           packed         4.10  5.0 %       4.50   11.10      0      0
           converted      4.90  5.0 %       5.30   11.90      4      0
           specialised   10.90  5.0 %      11.30   17.90      8      0
           rebound        5.25  5.0 %       5.65   12.25      1      0

0 (blind)  bare           3.40  5.0 %       3.80   10.40      0      0
           prepared       3.60  5.0 %       4.00   10.60      0      0
           packed         3.70  5.0 %       4.10   10.70      0      0
           converted      4.00  5.0 %       4.40   11.00      0      0
           specialised    4.50  5.0 %       4.90   11.50      0      0

Differences of submit in µs, taken in pairs
            converted      packed     rebound    prepared  specialised
Arguments  – prepared  – prepared  – prepared      – bare  – converted
───────────────────────────────────────────────────────────────────────
4 mixed    1.10 ±0.02  0.30 ±0.02  1.45 ±0.02  0.30 ±0.02   6.00 ±0.02
0 (blind)  0.40 ±0.02  0.10 ±0.02           –  0.20 ±0.02   0.50 ±0.02

Where the time of a converted launch goes, µs
Arguments  Call  Convert  Ownership  Pack  Driver   Sum  Whole  Sum/whole
──────────────────────────────────────────────────────────────────────────
4 mixed    0.30     0.60       0.15  0.10    3.60  4.75   4.90       97 %
0 (blind)  0.30     0.60       0.15  0.10    3.60  4.75   4.90       97 %

Whatever the mode, µs
                    First  Module           Repaid after  Hidden by kernels of
Arguments  Kernel  launch    load  Prepare      launches         prep. / conv.
───────────────────────────────────────────────────────────────────────────────
4 mixed      1.12   123.4    1234    21.00            22           4.20 / 5.30
0 (blind)    1.12   123.4    1234    21.00             –           4.00 / 4.40

Medians of 10 trials, ± a 99 % interval; each with a freshly loaded null kernel, modes in pairs (ABBA).
bare: the driver's function alone; prepared: converted and packed once; packed: converted once, packed anew;
converted: kernel(*args); specialised: kernel.specialise(*args)(*args), converted twice;
rebound: prepared, with one argument bound anew each time.
mixed: three buffers and an int32, over and over.
0 (blind): blind to conversion, because there are no arguments to convert.
Bursts of 125 launches, drained between; the queue holds 1020 launches (detected).
Garbage collector off while timing.
Python 3.12.3, cuda-bindings 13.3.1, NVIDIA driver 580.159.03.
"""


def test_a_whole_run_reads_well_in_80_columns():
    assert printed(WHOLE) == TABLES.rstrip("\n")


def lines_of(result, **how):
    return printed(result, **how).splitlines()


def test_ascii_streams_get_ascii():
    text = printed(WHOLE, encoding="ascii")
    assert "Converting 4 mixed arguments on each launch costs 1.10 us +/- 20.0 ns more than a prepared launch" in text
    assert "4 mixed    bare           3.50  5.0 %       3.90   10.50      0      0" in text
    assert "4 mixed    1.10 +/-0.02  0.30 +/-0.02  1.45 +/-0.02  0.30 +/-0.02  6.00 +/-0.02" in text


def test_tables_stay_within_80_columns_in_ascii_too():
    rows = [
        line for line in lines_of(WHOLE, encoding="ascii") if line.startswith(("4 ", "0 ", "1 ", "16 ", "Arguments"))
    ]
    assert max(map(len, rows)) <= 80


def test_the_emulated_device_is_never_taken_for_a_gpu():
    lines = lines_of(replace(WHOLE, device=EMULATED))
    text = " ".join(lines)
    assert lines[0] == "Kernel launches from Python · device 0: EMULATED, not a GPU"
    assert "Emulated: the driver's share of each time is emulated, the conversion share is real." in text


def second_line(conversion):
    return lines_of(run_result(*cases("mixed", 4, modes(MIXED), conversion)))[1]


@pytest.mark.parametrize(
    ("conversion", "headline"),
    [
        (difference(Mode.PREPARED, 0.38), "costs 380 ns ± 20.0 ns more than a prepared launch, 10 % of it."),
        (
            difference(Mode.PREPARED, -0.19, verdict=Verdict.LESS),
            "costs 190 ns ± 20.0 ns less than a prepared launch, 5.0 % of it.",
        ),
        (
            difference(Mode.PREPARED, 0.01, verdict=Verdict.NONE),
            "or once before: no difference seen (10.0 ns ± 20.0 ns).",
        ),
        (
            Difference(Mode.PREPARED, 1e-6, None, None, Verdict.UNKNOWN, (1e-6,)),
            "took 1.00 µs more than a prepared launch in the one trial, too few for a verdict.",
        ),
    ],
)
def test_the_headline_has_a_verdict(conversion, headline):
    assert second_line(conversion) == f"Converting 4 mixed arguments on each launch {headline}"


def test_a_difference_that_is_not_seen_is_no_number():
    none = difference(Mode.PREPARED, 0.01, verdict=Verdict.NONE)
    (row,) = (line for line in lines_of(run_result(*cases("mixed", 4, modes(MIXED), none))) if "none seen" in line)
    assert " ".join(row.split()) == "4 mixed none seen 0.30 ±0.02 1.45 ±0.02 0.30 ±0.02 6.00 ±0.02"


def test_launches_without_arguments_alone_are_blind():
    lines = lines_of(run_result(*cases("none", 0, modes(NONE)), sets=(set_result("none", 0),), slopes=()))
    assert lines[1] == "Blind to conversion: without arguments there is nothing to convert."
    assert "0 (blind): blind to conversion, because there are no arguments to convert." in lines


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"verdict": Verdict.NONE}, ": no cost seen (212 ns ± 12.0 ns; slope over 0, 4 arguments)."),
        (
            {"median": -212e-9, "low": -220e-9, "high": -200e-9, "verdict": Verdict.LESS},
            " saves 212 ns ± 12.0 ns (slope over 0, 4 arguments).",
        ),
        (
            {"low": None, "high": None, "verdict": Verdict.UNKNOWN},
            " took 212 ns in the one trial (slope over 0, 4 arguments).",
        ),
    ],
)
def test_the_slope_has_a_verdict(found, said):
    beyond = replace(WHOLE.launch_overhead, slopes=(replace(SLOPE, **found),))
    assert lines_of(replace(WHOLE, launch_overhead=beyond))[2] == f"Each further mixed argument{said}"


VOID = "7 waits for memory in 804 launches, where none was due"


def test_a_void_row_has_its_reason_in_place_of_times():
    void = case("mixed", 4, Mode.PACKED, state=State.FAILED, reason=VOID, trials=(TRIAL,) * 10)
    others = [one for one in cases("mixed", 4, modes(MIXED)) if one.mode is not Mode.PACKED]
    lines = lines_of(run_result(*others[:2], void, *others[2:]))
    (row,) = (line for line in lines if " packed  " in line and "failed" in line)
    assert row.split() == ["packed", "failed", "–", "–", "–", "–", "–", "1"]
    assert lines[-1] == f"[1] failed: {VOID}"


def test_nothing_measured_is_said_with_its_reason():
    failed = [case("buffer", 2, mode, state=State.FAILED, reason="interrupted") for mode in Mode]
    unmeasured = ArgumentSetResult("launch_overhead/buffer/2", "buffer", 2, blind=False)
    lines = lines_of(run_result(*failed, sets=(unmeasured,), slopes=()))
    assert lines[1] == "Converting 2 buffer arguments on each launch: no difference could be taken."
    assert lines[-1] == "[1] failed: interrupted"
    assert not any(line.startswith(("Where the time", "Differences", "Whatever")) for line in lines)


def test_stages_that_do_not_add_up_are_marked():
    stages = replace(set_result("mixed", 4).stages, sum_s=4.2e-6, adds_up=False)
    lines = lines_of(run_result(*cases("mixed", 4, modes(MIXED)), sets=(set_result("mixed", 4, stages=stages),)))
    (row,) = (line for line in lines if line.endswith(" !"))
    assert " ".join(row.split()) == "4 mixed 0.30 0.60 0.15 0.10 3.60 4.20 4.90 86 % !"
    assert "!: the stages, taken one after the other, do not add up to the whole within 10" in " ".join(lines)


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        (QueueDepth(1020, 1021), "the queue holds 1020 launches (detected)."),
        (QueueDepth(None, 2048), "no end of the queue up to 2048 launches."),
        (QueueDepth(None, 0), "the queue's depth could not be detected without a gate."),
    ],
)
def test_the_queue_s_depth_is_told_as_far_as_it_is_known(queue, said):
    result = replace(WHOLE, launch_overhead=replace(WHOLE.launch_overhead, queue=queue))
    assert said in printed(result, width=200)


def test_a_kernel_s_time_without_a_gate_says_so():
    ungated = run_result(*cases("mixed", 4, modes(MIXED)), sets=(set_result("mixed", 4, device_gated=False),))
    assert "No gate on this device: the time to queue may be in the kernel's time." in lines_of(ungated)


def test_a_run_without_launches_prints_nothing():
    assert printed(RunResult(("launch-overhead",), "", "1.0")) == ""
