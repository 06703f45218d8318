"""Whole commands, inside the test's process and in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import cudabw
from cudabw.cli.main import run
from cudabw.system.numa import memory_nodes

ROOT = Path(cudabw.__file__).parents[1]
SCHEMA = json.loads((ROOT / "cudabw" / "results" / "schema" / "1.json").read_text())
INHERITED = ("PATH", "HOME", "TMPDIR", "SYSTEMROOT")


@pytest.fixture
def plain_environment(monkeypatch, one_node):
    """Nothing of the user's own terminal, colours, CUDA settings or NUMA nodes."""
    settle_on(one_node, monkeypatch)
    for name in list(os.environ):
        if name.startswith(("CUDA", "NVIDIA")) or name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LD_PRELOAD"):
            monkeypatch.delenv(name)


@pytest.fixture
def nodes(plain_environment, monkeypatch, two_nodes):  # noqa: ARG001 - it must come first
    """Lets the commands that follow run on two NUMA nodes."""
    settle_on(two_nodes, monkeypatch)
    return two_nodes


@pytest.fixture
def emulate(plain_environment, monkeypatch):  # noqa: ARG001 - what it sets must be all there is
    """Describes the emulated device of the commands that follow."""

    def describe(**settings):
        monkeypatch.setenv("CUDABW_EMULATED", json.dumps(settings))

    return describe


@pytest.fixture
def command(plain_environment, capsys):  # noqa: ARG001 - it must come first
    """Runs a command line; gives its exit code and what it printed."""

    def run_command(*arguments):
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return run_command


@pytest.fixture
def document(command):
    """Runs a command line with ``--json``; gives its one strict document, and exit code and stderr beside it."""

    def run_command(*arguments):
        done = command(*arguments, "--json")
        done.json = strict_json(done.out)
        if "cases" in done.json:
            pytest.importorskip("jsonschema").validate(done.json, SCHEMA)
        return done

    return run_command


@pytest.fixture
def no_start(monkeypatch):
    """Makes starting a driver the test's failure."""

    def start(*_arguments, **_settings):
        pytest.fail("a driver was started")

    monkeypatch.setattr("cudabw.benchmarks.session.load_driver", start)


@pytest.fixture
def spawn():
    """Runs a command line in a process of its own, with no other environment than what is given."""

    def run_process(*arguments, environment=None, redirections="", **how):
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return subprocess.run(
            ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "cudabw", *arguments],
            env=inherited | {"PYTHONPATH": str(ROOT)} | (environment or {}),
            timeout=120,
            check=False,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how,
        )

    return run_process


def settle_on(machine, monkeypatch):
    monkeypatch.setattr("cudabw.benchmarks.running.Placement", lambda: machine.placement)
    monkeypatch.setattr("cudabw.benchmarks.places.memory_nodes", lambda **_: memory_nodes(root=machine.root))


def strict_json(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)
