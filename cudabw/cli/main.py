"""The command group: finds commands by name, and turns every way a command can end into its exit code."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from cudabw import __version__
from cudabw.errors import CudabwError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

READER_LEFT = 141

_COMMANDS = {
    "bandwidth": "cudabw.cli.bandwidth",
    "latency": "cudabw.cli.latency",
    "launch-overhead": "cudabw.cli.launch_overhead",
    "run": "cudabw.cli.run",
    "show": "cudabw.cli.show",
    "compare": "cudabw.cli.compare",
    "plot": "cudabw.cli.plot",
    "devices": "cudabw.cli.devices",
    "doctor": "cudabw.cli.doctor",
    "completion": "cudabw.cli.completion",
}


class _OutputFailedError(Exception):
    """Carries an error of output past click, which would answer a closed pipe with an exit code of its own."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def _past_click() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _OutputFailedError(error) from error


class _LazyGroup(click.Group):
    """Imports a command's module only when the command is asked for."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 - click's signature
    ) -> click.Context:
        with _past_click():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with _past_click():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(_COMMANDS[cmd_name]).command
        assert isinstance(command, click.Command)  # noqa: S101 - each module of the table has one
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="cudabw", message="%(prog)s %(version)s")
def cudabw() -> None:
    """Measure what a CUDA machine really gives."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; every error becomes one message on stderr and an exit code.

    Args:
        arguments: The command line; None for the process's own.
    """
    arguments = tuple(sys.argv[1:] if arguments is None else arguments)
    try:
        code = cudabw.main(arguments, prog_name="cudabw", standalone_mode=False, obj=arguments)
        standard_output().flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Exit as error:
        return error.exit_code
    except CudabwError as error:
        show_error(error.message, error.hint)
        return error.exit_code
    except _OutputFailedError as failure:
        return _output_failed(failure.error)
    except OSError as error:
        return _output_failed(error)
    except (KeyboardInterrupt, click.Abort):
        return 130
    return code if isinstance(code, int) else 0


def show_error(message: str, hint: str) -> None:
    """Print an error and what to do about it on stderr."""
    notify(f"error: {message}")
    if hint:
        notify(f"hint: {hint}")


def notify(text: str) -> None:
    """Tell the user something now, on stderr, as coming from this program."""
    tell(f"cudabw: {text}")


def tell(line: str) -> None:
    """Print a line on stderr; a stderr that cannot be written costs only what it was to carry."""
    try:
        click.echo(line, err=True)
    except OSError:
        _abandon(sys.stderr)


def standard_output() -> TextIO:
    """Where results go.

    Raises:
        OSError: The caller closed it.
    """
    if sys.stdout is None:
        raise OSError(errno.EBADF, "stdout is closed")
    return sys.stdout


def _output_failed(error: OSError) -> int:
    _abandon(sys.stdout)
    if error.errno == errno.EPIPE:
        return READER_LEFT
    show_error(f"the output could not be written: {error.strerror or error}", "")
    return 1


def _abandon(stream: TextIO | None) -> None:
    """Let the rest of what was to be written go nowhere, so that the interpreter does not try again at its end."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
