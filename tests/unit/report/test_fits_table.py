"""The table of fitted curves, from results made by hand."""
# ruff: noqa: RUF001 - tables use the typographic dash

import io

import pytest
from rich.console import Console

from cudabw.report.fits_table import print_fits
from cudabw.results.fits import Fit
from cudabw.results.model import DeviceInfo, Pages, RunResult

GPU = DeviceInfo(ordinal=1, name="NVIDIA H200", uuid="GPU-1", pci="0000:17:00.0", emulated=False)
SIZES = tuple(1 << power for power in range(12, 30, 2))


def fit(kind, direction, *figures, engine="driver", sizes=SIZES, **fields):
    return Fit(kind, engine, direction, sizes, *figures, **fields)


def printed(*fits, device=GPU, encoding="utf-8", width=80):
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, write_through=True) as stream:
        result = RunResult(("bandwidth",), "2026-01-02T03:04:05Z", "1.0", device=device, fits=fits)
        print_fits(result, Console(file=stream, width=width, highlight=False, markup=False))
        text = raw.getvalue().decode(encoding)
    return "\n".join(line.rstrip() for line in text.split("\n"))


FITS = (
    fit("pageable", "h2d", 9.81e-6, 8.87e9, 87014.7, 0.123),
    fit("pageable", "d2h", 66.2e-6, 2.5e9, 165500.0, 0.15, pages=Pages.FIRST_TOUCH),
    fit("pageable", "h2d", engine="staged", largest_residual=0.48, reason="no line fits: the best is off by 48 %"),
    fit("write-combined", "d2h", None, 55.4e9, None, 0.004),
    fit("device", "d2d", 2.5e-6, 2092e9, 5.23e6, 0.2, sizes=SIZES[:5]),
)

TEXT = """
Fitted curves · device 1: NVIDIA H200

                                                        Rate     Half
Memory                  Engine  Direction  Start-up     GB/s  rate at  Off by
──────────────────────────────────────────────────────────────────────────────
pageable                driver  h2d         9.81 µs     8.87   85 KiB    12 %
pageable (first touch)  driver  d2h         66.2 µs     2.50  160 KiB    15 %
pageable                staged  h2d               –  no line        –    48 %
write-combined          driver  d2h        not seen     55.4        –   0.4 %
device                  driver  d2d         2.50 µs     2092    5 MiB    20 %

time = start-up + size / rate, through the medians at 5 to 9 sizes; off by: the largest distance from it.
At the half-rate size, a copy reaches half of the rate.
No line: the best one misses a point by more than 25 %, or times do not grow with the size.
"""

ASCII = TEXT.replace("·", "|").replace("─", "-").replace("–", "-").replace("µ", "u")


@pytest.mark.parametrize("width", [20, 80, 200])
def test_each_curve_is_a_row_at_any_width(width):
    assert printed(*FITS, width=width) == TEXT
    assert printed(*FITS, width=width, encoding="ascii") == ASCII
    assert max(len(line) for line in TEXT.splitlines()[:10]) <= 80


def test_without_a_curve_there_is_nothing_to_read():
    assert printed() == ""


def test_figures_of_the_emulated_device_say_so():
    emulated = DeviceInfo(ordinal=0, name="Emulated", uuid=None, pci=None, emulated=True)
    assert "Fitted curves · device 0: EMULATED, not a GPU (host memory)\n" in printed(FITS[0], device=emulated)
    assert "at 9 sizes" in printed(FITS[0], device=emulated)
