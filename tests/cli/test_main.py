"""The command group: help, usage errors, and how every way to end becomes an exit code."""

import importlib

import click
import pytest

import cudabw
from cudabw.cli.main import cudabw as group
from cudabw.errors import CudabwError


def fail_with(monkeypatch, error):
    def fail(*_arguments, **_settings):
        raise error

    monkeypatch.setattr("cudabw.benchmarks.running.run_plans", fail)


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_every_command_with_what_it_is_for(command, option):
    done = command(option)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(
        "Usage: cudabw [OPTIONS] COMMAND [ARGS]...\n\n  Measure what a CUDA machine really gives.\n"
    )
    measuring = ("bandwidth", "latency", "launch-overhead", "run")
    for name in (*measuring, "show", "compare", "plot", "devices", "doctor", "completion"):
        assert f"\n  {name} " in done.out


def test_version(command):
    done = command("--version")
    assert (done.code, done.out, done.err) == (0, f"cudabw {cudabw.__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["bandwidth", "--help"]])
def test_as_a_module_it_is_the_same_program(command, spawn, arguments):
    done = spawn(*arguments, text=True, environment={"COLUMNS": "80"})
    assert (done.returncode, done.stdout, done.stderr) == (0, command(*arguments).out, "")


@pytest.mark.parametrize(
    ("arguments", "quoted"),
    [
        (["nosuch"], "nosuch"),
        (["band"], "band"),
        (["--nosuch"], "--nosuch"),
        (["bandwidth", "--nosuch"], "--nosuch"),
        (["bandwidth", "extra"], "extra"),
        (["bandwidth", "--size"], "--size"),
    ],
)
@pytest.mark.usefixtures("no_start")
def test_what_is_not_known_is_a_usage_error_that_quotes_it(command, arguments, quoted):
    done = command(*arguments)
    assert (done.code, done.out) == (2, "")
    assert quoted in done.err.splitlines()[-1]


def test_an_error_is_one_line_and_its_hint_another(command, monkeypatch):
    fail_with(monkeypatch, CudabwError("it broke", hint="Mend it."))
    done = command("bandwidth")
    assert (done.code, done.out, done.err) == (1, "", "cudabw: error: it broke\ncudabw: hint: Mend it.\n")


def test_an_error_without_a_hint_is_one_line(command, monkeypatch):
    fail_with(monkeypatch, CudabwError("it broke"))
    assert command("bandwidth").err == "cudabw: error: it broke\n"


def test_a_keyboard_interrupt_outside_of_a_measurement_is_130(command, monkeypatch):
    fail_with(monkeypatch, KeyboardInterrupt())
    done = command("bandwidth")
    assert (done.code, done.out) == (130, "")


def commands():
    return sorted(group.list_commands(click.Context(group)))


@pytest.mark.parametrize("name", commands())
def test_each_command_is_found_by_its_name_and_explains_itself(command, name):
    module = importlib.import_module(f"cudabw.cli.{name.replace('-', '_')}")
    assert group.get_command(click.Context(group), name) is module.command
    done = command(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: cudabw {name} [OPTIONS]")


@pytest.mark.parametrize("name", commands())
def test_each_option_has_help(name):
    parameters = importlib.import_module(f"cudabw.cli.{name.replace('-', '_')}").command.params
    assert [option.name for option in parameters if isinstance(option, click.Option) and not option.help] == []
