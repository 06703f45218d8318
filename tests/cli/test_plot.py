"""``cudabw plot``: whole commands."""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

SWEEP = ("bandwidth", "--backend", "emulated", "--pinned", "--size", "4KiB,64KiB", "--trials", "2")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sweep(command):
    """Measures a sweep; gives the name of its file."""

    def measure(*flags, name="sweep.json"):
        command(*SWEEP, *flags, "-o", name)
        return name

    return measure


def test_a_picture_of_a_measured_sweep_is_written_and_nothing_is_printed(command, sweep):
    done = command("plot", sweep(), "-o", "sweep.svg")
    assert (done.code, done.out, done.err) == (0, "", "")
    text = "".join(ET.fromstring(Path("sweep.svg").read_text()).itertext())
    assert "EMULATED, not a GPU" in text
    assert command("plot", "sweep.json", "-o", "SWEEP.PNG").code == 0
    assert Path("SWEEP.PNG").read_bytes().startswith(b"\x89PNG")


def test_files_are_named_without_folder_and_end_where_that_tells_them_apart(command, sweep):
    Path("old").mkdir()
    for first, names in (
        ("old/before.json", ("before", "sweep")),
        ("old/sweep.json", ("old/sweep.json", "sweep.json")),
    ):
        sweep(name=first)
        assert command("plot", first, sweep(), "-o", "two.svg").code == 0
        text = Path("two.svg").read_text()
        assert [f"pinned ({name}, EMULATED)" in text for name in names] == [True, True]


def test_what_has_no_figure_is_said(command, emulate, sweep):
    emulate(faults=[{"function": "cuMemHostAlloc", "status": 2, "at_least_bytes": 65536}])
    done = command("plot", sweep("--size", "8KiB"), "-o", "sweep.svg")
    assert done.code == 0
    assert done.err == (
        "cudabw: sweep: left out, having no figure: bandwidth/pinned/driver/h2d/65536 (refused) and 1 more\n"
    )


class _Without:
    """Looks for modules, and finds that matplotlib is missing, or broken."""

    def __init__(self, error):
        self.error = error

    def find_spec(self, name, *_):
        if name.partition(".")[0] == "matplotlib":
            raise self.error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib"), "is not installed"),
        (ImportError("libpng.so: no such file"), "cannot be imported: libpng.so: no such file"),
    ],
)
def test_without_matplotlib_it_says_how_to_get_it(command, sweep, monkeypatch, error, why):
    name = sweep()
    for module in [one for one in sys.modules if one.startswith(("matplotlib", "cudabw.report.plot"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [_Without(error), *sys.meta_path])
    done = command("plot", name, "-o", "sweep.svg")
    assert (done.code, done.out, Path("sweep.svg").exists()) == (2, "", False)
    assert done.err == (
        f"cudabw: error: pictures need matplotlib, which {why}\ncudabw: hint: pip install 'cudabw[plot]'\n"
    )


@pytest.mark.parametrize(
    ("arguments", "err"),
    [
        (("-o", "x.svg"), "Missing argument 'FILE...'"),
        (("sweep.json",), "Missing option '-o' / '--output'"),
        (("sweep.json", "-o", "x.pdf"), "'x.pdf' ends in none of .svg, .png, which say how it is written"),
        (("sweep.json", "-o", "-"), "'-' ends in none of .svg, .png, which say how it is written"),
        (("sweep.json", "-o", "no/x.svg"), "error: -o no/x.svg cannot be written: No such file or directory\n"),
        (("none.json", "-o", "x.svg"), "error: none.json cannot be read: No such file or directory\n"),
    ],
)
def test_what_cannot_be_meant_is_exit_2_and_writes_nothing(command, sweep, arguments, err):
    sweep()
    done = command("plot", *arguments)
    assert (done.code, done.out) == (2, "")
    assert err in done.err
    assert not list(Path.cwd().glob("*.svg"))


def test_one_size_makes_no_curve_and_the_hint_says_what_would(command):
    command("bandwidth", "--backend", "emulated", "--size", "4KiB", "--trials", "1", "-o", "one.json")
    done = command("plot", "one.json", "-o", "y.svg")
    assert (done.code, Path("y.svg").exists()) == (2, False)
    assert done.err == (
        "cudabw: error: one has rates at one size only, which make no curve\n"
        "cudabw: hint: Measure several: cudabw bandwidth --size 4KiB:256MiB:x4 -o sweep.json\n"
    )
