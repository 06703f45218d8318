"""How samples lie, as bars of text."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cudabw.report.histogram import LONGEST_BAR, print_histograms
from cudabw.results.launch import Counts, LaunchCase, LaunchTrial, Mode, Seconds
from cudabw.results.model import CaseResult, DeviceInfo, Rate, RunResult, State, Trial

EMULATED = DeviceInfo(ordinal=0, name="Emulated", uuid=None, pci=None, emulated=True)
GPU = DeviceInfo(ordinal=1, name="NVIDIA H200", uuid="GPU-1", pci=None, emulated=False)


def copies(*trials, engine="driver"):
    """Trials of a rate in GB/s."""
    size = 64 << 20
    return CaseResult(
        "id", "bandwidth", "pinned", engine, "h2d", size, State.OK,
        rate_bytes_per_s=Rate(1e9, None, None, 1e9, 1e9),
        trials=tuple(Trial(1, tuple(size / rate / 1e9 for rate in rates)) for rates in trials),
    )  # fmt: skip


def launches(*micro):
    seconds = tuple(each * 1e-6 for each in micro)
    trial = LaunchTrial(10, seconds, seconds, seconds, None, Counts(10))
    return LaunchCase(
        "id", "launch_overhead", "buffer", 4, Mode.BARE, State.OK,
        submit_s=Seconds(1e-6, None, None, 1e-6, 1e-6), trials=(trial,),
    )  # fmt: skip


def printed(*cases, device=GPU, encoding="utf-8", width=80):
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, write_through=True) as stream:
        run = RunResult(("bandwidth",), "", "1", device=device, cases=cases)
        print_histograms(run, Console(file=stream, width=width, highlight=False, markup=False))
        return raw.getvalue().decode(encoding)


def test_each_bin_has_its_lower_end_a_bar_and_its_number():
    cases = (
        copies((50.0, 51.5), (52.0, 54.0)),
        launches(4.0, 4.2, 4.2, 6.4),
        CaseResult("id", "bandwidth", "mapped", "kernel", "d2h", 1, State.REFUSED, "no room"),
    )
    half, whole, third = "#" * 24, "#" * 48, "#" * 16
    assert (
        printed(*cases)
        == f"""\
Samples · device 1: NVIDIA H200

pinned h2d 64 MiB: 4 samples of 2 trials, GB/s
  50.0 | {half} 1
  51.3 | {whole} 2
  52.7 | {half} 1

launch bare, 4 buffer: 4 samples of 1 trial, µs
  4.00 | {whole} 3
  4.80 |
  5.60 | {third} 1

mapped kernel d2h 1 B: refused: no room
"""
    )


def test_the_emulated_device_is_never_taken_for_a_gpu_and_ascii_is_enough():
    text = printed(launches(4.0, 5.0), device=EMULATED, encoding="ascii")
    assert text.startswith(
        "Samples | device 0: EMULATED, not a GPU\n\nlaunch bare, 4 buffer: 2 samples of 1 trial, us\n"
    )


@pytest.mark.parametrize("rates", [(50.0,), (50.0, 50.0, 50.0), (50.0, 50.0 * (1 + 1e-12))])
def test_equal_samples_are_one_bar(rates):
    *_, title, bar = printed(copies(rates)).splitlines()
    assert title.startswith("pinned h2d 64 MiB")
    assert bar == f"  50 | {'#' * LONGEST_BAR} {len(rates)}"


@given(st.lists(st.floats(min_value=1e-6, max_value=1e6), min_size=1, max_size=300))
def test_every_sample_is_counted_and_no_line_is_wider_than_80(rates):
    lines = printed(copies(rates)).splitlines()[3:]
    assert sum(int(line.rpartition(" ")[2]) for line in lines if "#" in line) == len(rates)
    assert all(len(line) <= 80 for line in lines)


def test_a_run_without_cases_prints_nothing():
    assert printed() == ""
