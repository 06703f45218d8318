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


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if "configs" not in path.parts)


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path):
    """Every module that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module
            if node.module == "cudabw":
                yield from (f"cudabw.{alias.name}" for alias in node.names)


def is_type_checking_only(path, imported):
    guarded = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    inside = {name for block in guarded for name in imports_of_node(block)}
    return imported in inside


def imports_of_node(block):
    for node in ast.walk(block):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_floors_below_its_own(path):
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    for imported in imports_of(path):
        if not imported.startswith("cudabw."):
            continue
        other = imported.split(".")[1]
        if other in ("__version__", room):
            continue
        assert FLOOR_OF[other] < FLOOR_OF[room], f"{room} may not import {imported}"


@pytest.mark.parametrize(
    ("library", "rooms"),
    [
        ("cuda", {"driver"}),
        ("rich", {"report", "cli"}),
        ("click", {"cli"}),
        ("numpy", set(FLOOR_OF) - {"errors", "units", "config"}),
    ],
)
def test_a_library_is_known_only_where_it_may_be(library, rooms):
    users = {
        room_of(path)
        for path in modules()
        for imported in imports_of(path)
        if imported.split(".")[0] == library and "peers" not in path.parts
    }
    assert users <= rooms


def test_every_driver_function_that_is_used_exists_in_the_emulated_driver():
    used = {
        name
        for path in modules()
        if "emulated" not in path.parts
        for name in re.findall(r"\"(cu[A-Z]\w+)\"|\.(cu[A-Z]\w+)\(", path.read_text())
        for name in name
        if name
    }
    assert used, "the search itself must find something"
    driver = EmulatedDriver()
    assert sorted(name for name in used if not hasattr(driver, name)) == []


@pytest.mark.parametrize("statement", ["import cudabw", "from cudabw.cli.main import run; run(['--help'])"])
def test_starting_up_loads_nothing_heavy(statement):
    program = f"{statement}\nimport sys; print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in ast.literal_eval(done.stderr)}
    assert loaded & {"numpy", "cuda", "rich"} == set()
