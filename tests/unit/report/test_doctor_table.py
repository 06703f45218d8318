"""The list of ``cudabw doctor``, from findings made by hand."""

import io

import pytest
from rich.console import Console

from cudabw.report.doctor_table import print_diagnosis
from cudabw.results.diagnosis import Diagnosis, Finding, Verdict
from cudabw.results.model import RunError

FINDINGS = (
    Finding("driver", None, Verdict.OK, "CUDA 13.0, /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.03", "It matters."),
    Finding(
        "link",
        0,
        Verdict.WRONG,
        "The PCIe link of 0000:17:00.0 ran at Gen5 x8 under load, below the Gen5 x16 that the card can do.",
        "No copy between host and device is faster than its link.",
        "lspci -vv -s 0000:17:00.0",
    ),
    Finding("link", 1, Verdict.UNKNOWN, "neither NVML nor sysfs tells the link", "It matters.", ""),
    Finding(
        "memlock",
        None,
        Verdict.ATTENTION,
        "8 MiB may be locked (hard limit 8 MiB)",
        "Pinned and registered memory may be refused above this limit.",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    Finding(
        "wsl",
        None,
        Verdict.ATTENTION,
        "this is WSL",
        "Windows stands between the driver and the GPU.",
        "Raise memory= in .wslconfig, or measure under Linux itself, where nothing limits it.",
    ),
)

TERMINAL = """\
What cudabw depends on \u00b7 nothing is changed

ok         driver         CUDA 13.0,
                          /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.03
wrong      link           GPU 0: The PCIe link of 0000:17:00.0 ran at Gen5 x8
                          under load, below the Gen5 x16 that the card can do.
                          Why: No copy between host and device is faster than
                          its link.
                          Fix: lspci -vv -s 0000:17:00.0
unknown    link           GPU 1: neither NVML nor sysfs tells the link
attention  memlock        8 MiB may be locked (hard limit 8 MiB)
                          Why: Pinned and registered memory may be refused above
                          this limit.
                          Fix: echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled
attention  wsl            this is WSL
                          Why: Windows stands between the driver and the GPU.
                          Fix: Raise memory= in .wslconfig, or measure under
                          Linux itself, where nothing limits it.

1 ok, 2 attention, 1 wrong, 1 unknown.
1 thing to mend.
"""


def printed(diagnosis, *, width=80, terminal=False, encoding="utf-8"):
    with io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) as stream:
        console = Console(file=stream, width=width, force_terminal=terminal, no_color=True, highlight=False)
        print_diagnosis(diagnosis, console)
        stream.seek(0)
        return stream.read()


def test_on_a_terminal_text_is_wrapped_and_a_command_stays_whole(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert printed(Diagnosis("0", False, FINDINGS), terminal=True) == TERMINAL


def test_in_a_pipe_every_finding_is_one_line():
    lines = printed(Diagnosis("0", False, FINDINGS)).splitlines()
    assert lines[3] == (
        "wrong      link           GPU 0: The PCIe link of 0000:17:00.0 ran at Gen5 x8 under load, below the Gen5 x16 "
        "that the card can do."
    )
    assert len(lines) == 16


def test_on_a_narrow_terminal_nothing_is_lost():
    text = printed(Diagnosis("0", False, FINDINGS), width=20, terminal=True)
    assert "/sys/kernel/mm/transparent_hugepage/enabled" in text
    assert "libcuda.so.580.159.03" in text.replace("\n", "").replace(" ", "")


def test_the_list_needs_no_more_than_ascii():
    text = printed(Diagnosis("0", True, FINDINGS), encoding="ascii")
    assert text.startswith("What cudabw depends on | nothing is changed | EMULATED, not a GPU\n")


@pytest.mark.parametrize(
    ("diagnosis", "conclusion"),
    [
        (Diagnosis("0", False, FINDINGS[:1]), "Nothing is wrong."),
        (Diagnosis("0", False, FINDINGS[1:2] * 2), "2 things to mend."),
        (Diagnosis("0", False, error=RunError("NoDriverError", "m", "h", 5)), "No CUDA driver or GPU can be used."),
        (
            Diagnosis("0", False, interrupted=True, error=RunError("Interrupted", "m", "h", 130)),
            "Interrupted: not everything was looked at.",
        ),
        (
            Diagnosis("0", True, FINDINGS[:1]),
            "The device is emulated by host memory: this says nothing of the health of a GPU.",
        ),
    ],
)
def test_the_last_line_says_what_it_all_comes_to(diagnosis, conclusion):
    assert printed(diagnosis).splitlines()[-1] == conclusion
