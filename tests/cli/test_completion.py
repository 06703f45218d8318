"""``cudabw completion``: whole commands."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cudabw
from cudabw.cli.main import run

ROOT = Path(cudabw.__file__).parents[1]
INSTALL_LINES = {
    "bash": 'eval "$(cudabw completion bash)"',
    "zsh": 'eval "$(cudabw completion zsh)"',
    "fish": "cudabw completion fish | source",
}


def complete(words):
    """What the program answers the script of bash for a command line whose last word is being typed."""
    done = subprocess.run(
        [sys.executable, "-m", "cudabw"],
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "_CUDABW_COMPLETE": "bash_complete"}
        | {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_this_program(capsys, shell):
    assert run(["completion", shell]) == 0
    captured = capsys.readouterr()
    assert f"_CUDABW_COMPLETE={shell}_complete" in captured.out
    assert captured.err == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_itself_understands_the_script(capsys, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    run(["completion", shell])
    checked = subprocess.run(
        [shell, "-n"], input=capsys.readouterr().out, capture_output=True, text=True, timeout=60, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_help_says_how_to_install_it(capsys):
    assert run(["completion", "--help"]) == 0
    out = capsys.readouterr().out
    assert [line for line in INSTALL_LINES.values() if line not in out] == []


def test_another_shell_is_refused_with_those_there_are(capsys):
    assert run(["completion", "tcsh"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("Error: Invalid value for 'SHELL': 'tcsh' is not one of 'bash', 'zsh', 'fish'.\n")


def test_commands_options_and_suites_are_completed():
    assert complete("cudabw compl") == ["plain,completion"]
    assert complete("cudabw run --dry") == ["plain,--dry-run"]
    assert complete("cudabw run --backend e") == ["plain,emulated"]
    assert complete("cudabw run f") == ["plain,full", "file,f"]


def test_neither_the_script_nor_a_completion_loads_anything_heavy():
    program = (
        "import sys; from cudabw.cli.main import run\n"
        "run(['completion', 'bash'])\n"
        "print(*{name.split('.')[0] for name in sys.modules} & {'cuda', 'numpy', 'rich'}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == "\n"
