"""The laws of the house: who may import whom, and what the seam must offer."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cudabw
from cudabw.driver.emulated import EmulatedDriver

PACKAGE = Path(cudabw.__file__).parent
FLOORS = [
    {"errors", "units", "stats"},
    {"results", "driver", "config"},
    {"runtime", "system", "report"},
    {"copying", "measuring"},
    {"benchmarks"},
    {"cli"},
]
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
ENTRANCES = {"__init__", "__main__"}

MODULES = sorted(PACKAGE.rglob("*.py"))
EACH_MODULE = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path):
    """Every module that a file imports, wherever in it and also for its types alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"cudabw.{alias.name}" for alias in node.names) if node.module == "cudabw" else (node.module,)


@EACH_MODULE
def test_a_module_imports_only_from_floors_below_its_own(path):
    room = room_of(path)
    if room in ENTRANCES:
        return
    others = {name.split(".")[1] for name in imports_of(path) if name.startswith("cudabw.")}
    forbidden = {other for other in others - {room, "__version__"} if FLOOR_OF[other] >= FLOOR_OF[room]}
    assert forbidden == set(), f"{room} may not import {forbidden}"


@pytest.mark.parametrize(
    ("library", "rooms"),
    [
        ("cuda", {"driver"}),
        ("rich", {"report", "cli"}),
        ("click", {"cli"}),
        ("matplotlib", {"report"}),
        ("numpy", set(FLOOR_OF) - {"errors", "units", "config"}),
    ],
)
def test_a_library_is_known_only_where_it_may_be(library, rooms):
    users = {
        room_of(path)
        for path in MODULES
        if "peers" not in path.parts and library in {name.split(".")[0] for name in imports_of(path)}
    }
    assert users, "the search itself must find something"
    assert users <= rooms


def test_only_the_modules_of_pictures_know_matplotlib_which_is_an_extra():
    users = {path for path in MODULES if "matplotlib" in {name.split(".")[0] for name in imports_of(path)}}
    assert {path.parent.name for path in users} == {"report"}
    assert {path.name for path in users if not path.name.startswith("plot")} == set()
    leading = {path for path in MODULES if any(name.startswith("cudabw.report.plot") for name in imports_of(path))}
    assert leading - users == {PACKAGE / "cli" / "plot.py"}, "only the command leads to them"


def test_every_driver_function_that_is_used_exists_in_the_emulated_driver():
    used = {
        name
        for path in MODULES
        if "emulated" not in path.parts
        for name in re.findall(r"(?:\"|\.)(cu[A-Z]\w+)(?:\"|\()", path.read_text())
    }
    assert used, "the search itself must find something"
    # What the loader asks of libcuda itself belongs to the emulated driver as well.
    assert {name for name in used if not hasattr(EmulatedDriver, name)} == set()


def packages_loaded_by(statement):
    program = f"{statement}\nimport sys; print(*sorted(sys.modules), file=sys.stderr)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize(
    "statement",
    [
        "import cudabw",
        "from cudabw.cli.main import run; run(['--help']); run(['bandwidth', '--help']); run(['plot', '--help'])",
    ],
)
def test_starting_up_loads_nothing_heavy(statement):
    # cuda-bindings 12.9 has a .pth file, by which every interpreter loads some of it.
    loaded = packages_loaded_by(statement) - packages_loaded_by("")
    assert "cudabw" in loaded
    assert loaded & {"numpy", "cuda", "rich", "matplotlib"} == set()
