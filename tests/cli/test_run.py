"""``cudabw run``: whole commands."""
# ruff: noqa: RUF001 - tables use the typographic dash

import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import cudabw
from cudabw.cli.main import run
from cudabw.config.lookup import suite_names
from cudabw.results.model import SCHEMA_VERSION

ROOT = Path(cudabw.__file__).parents[1]

NIGHTLY = """
version = 1
backend = "emulated"
[[bandwidth]]
kinds = ["pageable", "pinned"]
sizes = ["4KiB"]
trials = 1
[[bandwidth]]
kinds = ["mapped"]
directions = ["d2h"]
sizes = ["4KiB:64KiB:x4"]
trials = 2
time_budget = "30s"
"""

PLAN = """\
Plan of nightly.toml · backend emulated, device 0

#  Memory    Engine  Direction  Sizes                Trials  Cases
───────────────────────────────────────────────────────────────────
1  pageable  driver  h2d, d2h   4 KiB                     1      2
1  pinned    driver  h2d, d2h   4 KiB                     1      2
2  mapped    kernel  d2h        4 KiB to 64 KiB (3)       2      3

7 cases, 10 trials; about 230 MiB copied in about 0.2 s.
Memory at most: 16512 KiB host, the emulated device's own included.
Time budget: 30 s in section 2.
Estimates assume copies at 25.0 GB/s, filling and checking memory at 4.00 GB/s.
"""

FULL_PLAN = """\
Plan of full · backend cuda, device 1

#  Memory          Engine  Direction  Sizes                 Trials  Cases
──────────────────────────────────────────────────────────────────────────
1  pageable        driver  h2d, d2h   4 KiB to 256 MiB (9)       7     18
1  pinned          driver  h2d, d2h   4 KiB to 256 MiB (9)       7     18
1  mapped          kernel  h2d, d2h   4 KiB to 256 MiB (9)       7     18
1  write-combined  driver  h2d, d2h   4 KiB to 256 MiB (9)       7     18
1  registered      driver  h2d, d2h   4 KiB to 256 MiB (9)       7     18
1  managed         driver  h2d, d2h   4 KiB to 256 MiB (9)       7     18

108 cases, 756 trials; about 280 GiB copied in about 100 s.
Memory at most: 272 MiB host, 272 MiB device.
Time budget: 600 s in section 1.
Estimates assume copies at 25.0 GB/s, filling and checking memory at 4.00 GB/s.
"""

ASCII_PLAN = """\
Plan of nightly.toml | backend auto, device 2

#  Memory    Engine  Direction  Sizes  Trials  Cases
-----------------------------------------------------
1  pageable  driver  h2d, d2h   1 KiB       5      2
1  pinned    driver  h2d, d2h   1 KiB       5      2
2  mapped    kernel  d2h        1 KiB       5      1

5 cases, 25 trials; about 31 MiB copied in about 0.5 s.
Memory at most: 16385 KiB host, 1 KiB device (emulated: 16386 KiB host).
Time budget: 3 s in section 1, 3 s in section 2.
Estimates assume copies at 25.0 GB/s, filling and checking memory at 4.00 GB/s.
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own, with a suite in it, and a terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("CUDABW_EMULATED", raising=False)
    write(NIGHTLY)
    return tmp_path


def write(text, name="nightly.toml"):
    Path(name).write_text(text)


def run_process(*arguments, **environ):
    return subprocess.run(
        [sys.executable, "-m", "cudabw", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"} | environ,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def results(capsys):
    return json.loads(capsys.readouterr().out)


def test_the_plan_fits_80_columns_and_says_what_it_assumes(capsys):
    assert run(["run", "nightly.toml", "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (PLAN, "")


def test_the_plan_of_the_longest_built_in_suite_fits_80_columns(capsys):
    assert run(["run", "full", "--dry-run", "--backend", "cuda", "--device", "1"]) == 0
    assert capsys.readouterr().out == FULL_PLAN


NODE_PLAN = """\
#  Memory  Engine  Direction  Sizes  Node  Trials  Cases
─────────────────────────────────────────────────────────
1  pinned  driver  h2d        1 MiB  0, 2       5      2
1  device  driver  d2d        1 MiB     –       5      1
2  pinned  driver  h2d        2 MiB  auto       5      1
"""


def test_the_plan_shows_the_numa_nodes_that_are_asked_for(capsys, monkeypatch):
    monkeypatch.setattr("cudabw.benchmarks.places.memory_nodes", lambda **_: (0, 2))
    every = '[[bandwidth]]\nkinds = ["pinned"]\nsizes = ["1MiB"]\ndirections = ["h2d", "d2d"]\nnuma = "all"\n'
    own = '[[bandwidth]]\nkinds = ["pinned"]\nsizes = ["2MiB"]\ndirections = ["h2d"]\nnuma = "auto"\n'
    write(f"version = 1\n{every}{own}", "nodes.toml")
    assert run(["run", "nodes.toml", "--dry-run"]) == 0
    assert NODE_PLAN in capsys.readouterr().out


def test_flags_override_the_file_and_the_plan_is_ascii_where_the_stream_is():
    flags = ["--backend", "auto", "--device", "2", "--size", "1KiB", "--trials", "5", "--time-budget", "3s"]
    done = run_process("run", "nightly.toml", "--dry-run", *flags, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout, done.stderr) == (0, ASCII_PLAN, "")


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {}])
def test_the_plan_in_a_pipe_has_no_escape_codes(environ):
    assert run_process("run", "nightly.toml", "--dry-run", **environ).stdout == PLAN


def test_the_plan_touches_no_driver():
    program = (
        "import sys; from cudabw.cli.main import run\n"
        "code = run(['run', 'full', '--backend', 'cuda', '--dry-run'])\n"
        "sys.exit(code or 9 * any(name.split('.')[0] == 'cuda' for name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_plan_as_json_is_one_document_with_every_case(capsys):
    assert run(["run", "nightly.toml", "--dry-run", "--json"]) == 0
    document = results(capsys)
    assert (document["schema"], document["suite"], document["backend"]) == (SCHEMA_VERSION, "nightly.toml", "emulated")
    assert [[case["id"] for case in section["cases"]] for section in document["sections"]] == [
        [
            "bandwidth/pageable/driver/h2d/4096",
            "bandwidth/pageable/driver/d2h/4096",
            "bandwidth/pinned/driver/h2d/4096",
            "bandwidth/pinned/driver/d2h/4096",
        ],
        [
            "bandwidth/mapped/kernel/d2h/4096",
            "bandwidth/mapped/kernel/d2h/16384",
            "bandwidth/mapped/kernel/d2h/65536",
        ],
    ]


def test_what_is_planned_is_what_is_measured(capsys):
    run(["run", "nightly.toml", "--dry-run", "--json"])
    planned = [case for section in results(capsys)["sections"] for case in section["cases"]]
    assert run(["run", "nightly.toml", "--json"]) == 0
    measured = results(capsys)["cases"]
    assert [(case["id"], case["named"], len(case["trials"])) for case in measured] == [
        (case["id"], True, case["trials"]) for case in planned
    ]
    assert {case["state"] for case in measured} == {"ok"}


SETUP_PLAN = """\
Plan of memory.toml · backend emulated, device 0

#  Memory    Engine  Direction  Sizes         Trials  Cases
────────────────────────────────────────────────────────────
1  pageable  driver  h2d, d2h   4 KiB, 8 KiB       2      4
1  pinned    driver  h2d, d2h   4 KiB, 8 KiB       2      4
2  pinned    driver  h2d, d2h   16 KiB             1      2

#  Cost of memory    Sizes         Trials  Cases
─────────────────────────────────────────────────
1  pageable, pinned  4 KiB, 8 KiB       2      4

14 cases, 26 trials; about 160 MiB copied in about 0.36 s.
Memory at most: 16416 KiB host, the emulated device's own included.
Estimates assume copies at 25.0 GB/s, filling and checking memory at 4.00 GB/s.
"""

SETUP_SUITE = """\
version = 1
backend = "emulated"
[[bandwidth]]
kinds = ["pageable", "pinned"]
sizes = ["4KiB", "8KiB"]
trials = 2
setup_cost = true
[[bandwidth]]
kinds = ["pinned"]
sizes = ["16KiB"]
trials = 1
"""


def test_what_memory_costs_is_planned_and_measured_as_planned(capsys):
    write(SETUP_SUITE, "memory.toml")
    assert run(["run", "memory.toml", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    run(["run", "memory.toml", "--dry-run", "--json"])
    planned = [case for section in results(capsys)["sections"] for case in section["cases"]]
    assert run(["run", "memory.toml", "--json"]) == 0
    measured = results(capsys)["cases"]
    assert sorted((case["id"], case["named"], len(case["trials"])) for case in measured) == sorted(
        (case["id"], True, case["trials"]) for case in planned
    )
    assert len(planned) == 14
    assert shown == SETUP_PLAN


def test_flags_override_what_is_measured(capsys):
    flags = ["--size", "1KiB,1000B", "--size", "1KiB", "--trials", "3", "--time-budget", "1min"]
    assert run(["run", "nightly.toml", "--json", *flags]) == 0
    cases = results(capsys)["cases"]
    assert {(case["size_bytes"], len(case["trials"])) for case in cases} == {(1024, 3), (1000, 3)}


def test_the_device_comes_from_the_file_or_the_flag(capsys, monkeypatch):
    monkeypatch.setenv("CUDABW_EMULATED", '{"devices": 3}')
    write(NIGHTLY.replace("version = 1", "version = 1\ndevice = 1"))
    assert run(["run", "nightly.toml", "--json"]) == 0
    assert results(capsys)["device"]["ordinal"] == 1
    assert run(["run", "nightly.toml", "--json", "--device", "2"]) == 0
    assert results(capsys)["device"]["ordinal"] == 2


def test_a_device_that_is_not_there_is_a_usage_error(capsys):
    assert run(["run", "nightly.toml", "--device", "1"]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (
        "",
        (
            "cudabw: error: there is no device 1: the driver sees device 0 only\n"
            "cudabw: hint: `cudabw devices` lists them.\n"
        ),
    )


def test_the_smoke_suite_measures_every_kind(capsys):
    assert run(["run", "smoke"]) == 0
    captured = capsys.readouterr()
    title, *report = captured.out.splitlines()
    assert title == "Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)"
    table = report[: report.index("Small copies · device 0: EMULATED, not a GPU (host memory)")]
    rows = [" ".join(line.split()[:4]) for line in table if " B " in line or " MiB " in line]
    kinds = ["pageable", "pinned", "mapped", "write-combined", "registered", "managed"]
    engines = {"mapped": "kernel"}
    assert rows == [
        f"{kind} {engines.get(kind, 'driver')} {size}" for kind in kinds for size in ("1000 B", "4097 B", "20 MiB")
    ]
    assert captured.err == ""


REFUSING = '{"faults": [{"function": "cuMemHostAlloc", "status": 801}]}'


@pytest.mark.parametrize(
    ("kinds", "code"), [('["pageable", "pinned"]', 4), ('["pageable"]', 0), ('"all"', 0), ('["pinned"]', 4)]
)
def test_a_kind_that_the_suite_names_must_be_there(capsys, monkeypatch, kinds, code):
    monkeypatch.setenv("CUDABW_EMULATED", REFUSING)
    write(f'version = 1\nbackend = "emulated"\n[[bandwidth]]\nkinds = {kinds}\nsizes = ["4KiB"]\ntrials = 1\n')
    assert run(["run", "nightly.toml", "--json"]) == code
    states = {case["kind"]: case["state"] for case in results(capsys)["cases"]}
    assert states.get("pinned", "unsupported") == "unsupported"
    assert states.get("pageable", "ok") == "ok"


def test_the_default_kinds_need_not_be_there(monkeypatch):
    monkeypatch.setenv("CUDABW_EMULATED", REFUSING)
    write('version = 1\nbackend = "emulated"\n[[bandwidth]]\nsizes = ["4KiB"]\ntrials = 1\n')
    assert run(["run", "nightly.toml"]) == 0


@pytest.mark.parametrize("flags", [[], ["--json"], ["--dry-run"]])
@pytest.mark.parametrize(
    ("name", "stderr"),
    [
        (
            "broken.toml",
            (
                "cudabw: error: broken.toml: [[bandwidth]] section 2: unknown key 'kind' (did you mean 'kinds'?)\n"
                "cudabw: hint: The keys of [[bandwidth]] are kinds, directions, engines, sizes, trials, "
                "effort, precision, time_budget, threads, slot, numa, first_touch, huge_pages, setup_cost.\n"
            ),
        ),
        (
            "quik",
            (
                "cudabw: error: there is no built-in suite 'quik' (did you mean 'quick'?)\n"
                "cudabw: hint: There are acceptance-pcie5-x16, full, quick, smoke. "
                "A file is given by a path that ends in .toml.\n"
            ),
        ),
        ("./nightly", "cudabw: error: nightly: cannot be read: No such file or directory\n"),
    ],
)
def test_a_suite_that_cannot_be_meant_is_refused_before_a_driver_is_touched(capsys, monkeypatch, flags, name, stderr):
    def touched(*_, **__):
        raise AssertionError("the driver was touched")

    monkeypatch.setattr("cudabw.driver.loader.load_driver", touched)
    monkeypatch.setattr("cudabw.benchmarks.session.load_driver", touched)
    write("version = 1\n[[bandwidth]]\n[[bandwidth]]\nkind = 1\n", "broken.toml")
    assert run(["run", name, *flags]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", stderr)


def test_a_suite_has_to_be_given(capsys):
    assert run(["run"]) == 2
    assert capsys.readouterr().out == ""


def test_help_names_every_built_in_suite(capsys):
    assert run(["run", "--help"]) == 0
    out = capsys.readouterr().out
    assert [name for name in suite_names() if f"\n    {name} " not in out] == []


def test_a_wheel_holds_the_suites_where_the_installed_package_looks(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {"configs": "cudabw/configs"}
    shutil.copytree(ROOT / "cudabw", tmp_path / "site" / "cudabw", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "configs", tmp_path / "site" / included["configs"])
    done = run_process("run", "smoke", "--dry-run", PYTHONPATH=str(tmp_path / "site"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Plan of smoke · backend emulated, device 0\n")


LIMITED = """
version = 1
backend = "emulated"
[[bandwidth]]
kinds = ["pinned"]
directions = ["h2d"]
sizes = ["1MiB"]
trials = 2
[[limits]]
cases = "bandwidth/pinned/*"
min_gb_per_s = 50
"""


@pytest.fixture
def as_a_gpu(monkeypatch):
    """Results say that a GPU gave them; the modelled clock gives 50 GB/s to the device and 40 back."""
    from cudabw.benchmarks import session

    describe = session.describe_device
    monkeypatch.setenv("CUDABW_EMULATED", '{"clock": {"h2d": 50e9, "d2h": 40e9}}')
    monkeypatch.setattr(session, "describe_device", lambda device: replace(describe(device), emulated=False))


@pytest.mark.parametrize(("flags", "in_json"), [([], False), (["--json"], True)])
def test_a_limit_on_the_emulated_device_cannot_be_told_which_is_exit_3(capsys, flags, in_json):
    write(LIMITED)
    assert run(["run", "nightly.toml", *flags]) == 3
    captured = capsys.readouterr()
    assert captured.err == "cudabw: The one limit: cannot be told.\n"
    if in_json:
        (limit,) = json.loads(captured.out)["limits"]
        assert (limit["state"], limit["reason"]) == ("cannot_tell", "the emulated device is no GPU")
        assert (limit["of"], limit["bound"]) == ("bandwidth/pinned/driver/h2d/1048576", "min_rate_bytes_per_s")
        assert limit["median"] > 0
    else:
        assert "\nLimits · device 0: EMULATED, not a GPU: no limit can be told\nThe one limit: c" in captured.out
        assert captured.out.endswith("\n[1] the emulated device is no GPU\n")


@pytest.mark.parametrize(("gigabytes", "code", "err"), [(45, 0, ""), (55, 3, "cudabw: The one limit: not met.\n")])
@pytest.mark.usefixtures("as_a_gpu")
def test_limits_decide_the_exit_code(capsys, gigabytes, code, err):
    write(LIMITED.replace("= 50", f"= {gigabytes}").replace("1MiB", "64MiB"))
    assert run(["run", "nightly.toml"]) == code
    captured = capsys.readouterr()
    assert captured.err == err
    verdict = "fail [1]" if code else "pass"
    (row,) = [line for line in captured.out.splitlines() if line.startswith("pinned h2d 64 MiB")]
    assert row.split("  ")[-1] == verdict


@pytest.mark.usefixtures("as_a_gpu")
def test_wrong_data_outranks_a_limit_and_the_limit_cannot_be_told(capsys, monkeypatch):
    monkeypatch.setenv("CUDABW_EMULATED", '{"faults": [{"copy": "drop", "direction": "h2d"}]}')
    write(LIMITED)
    assert run(["run", "nightly.toml", "--json"]) == 1
    (limit,) = results(capsys)["limits"]
    assert limit["state"] == "cannot_tell"
    assert limit["reason"].startswith("wrong data: ")


def test_a_limit_on_nothing_is_said_before_anything_is_measured(capsys):
    write(LIMITED.replace("bandwidth/pinned/*", "bandwidth/pined/*"))
    warning = "cudabw: no case of this suite matches the limit on 'bandwidth/pined/*', so it cannot be told (exit 3)\n"
    assert run(["run", "nightly.toml", "--dry-run"]) == 0
    assert capsys.readouterr().err == warning
    assert run(["run", "nightly.toml"]) == 3
    assert capsys.readouterr().err == f"{warning}cudabw: The one limit: cannot be told.\n"


@pytest.mark.parametrize(
    ("counts", "pattern", "said"),
    [
        ("[4]", "launch_overhead/buffer/*", True),
        ("[0]", "launch_overhead/*", True),
        ("[0, 4]", "launch_overhead/none/*", True),
        ("[0, 4]", "launch_overhead/*", False),
        ("[1, 4]", "launch_overhead/buffer/4/*", False),
    ],
)
def test_a_slope_that_the_suite_does_not_measure_is_said_at_once(capsys, counts, pattern, said):
    write(f"""
version = 1
[[launch_overhead]]
args = {counts}
arg_types = ["buffer"]
[[limits]]
cases = "{pattern}"
max_ns_per_argument = 400
""")
    assert run(["run", "nightly.toml", "--dry-run"]) == 0
    warning = (
        f"cudabw: the limit on '{pattern}' takes launches with two numbers of arguments, which this suite does not "
        "measure, so it cannot be told (exit 3)\n"
    )
    assert capsys.readouterr().err == (warning if said else "")


def test_two_sections_with_a_number_of_arguments_each_make_no_slope(capsys):
    section = '[[launch_overhead]]\narg_types = ["buffer"]\ntrials = 1\n'
    limit = '[[limits]]\ncases = "launch_overhead/*"\nmax_ns_per_argument = 400\n'
    write(f'version = 1\nbackend = "emulated"\n{section}args = [1]\n{section}args = [4]\n{limit}')
    assert run(["run", "nightly.toml"]) == 3
    out, err = capsys.readouterr()
    assert "needs two numbers of arguments" in out
    assert err.startswith(
        "cudabw: the limit on 'launch_overhead/*' takes launches with two numbers of arguments, which "
    )


def test_limits_stand_in_the_document_of_a_run_that_never_began(capsys):
    write(LIMITED)
    assert run(["run", "nightly.toml", "--device", "7", "--json"]) == 2
    assert run(["run", "nightly.toml", "--backend", "cuda", "--json"]) == 5
    (limit,) = results(capsys)["limits"]
    assert (limit["state"], limit["reason"]) == ("cannot_tell", "nothing was measured")
