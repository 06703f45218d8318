"""``cudabw completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")

_INSTALL = """\b
To install it, add one line to the file that your shell reads when it starts:
  bash, ~/.bashrc:                   eval "$(cudabw completion bash)"
  zsh,  ~/.zshrc:                    eval "$(cudabw completion zsh)"
  fish, ~/.config/fish/config.fish:  cudabw completion fish | source
"""


@click.command(short_help="Print the script that completes commands and options.", epilog=_INSTALL)
@click.argument("shell", type=click.Choice(_SHELLS), metavar="SHELL")
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script with which SHELL (bash, zsh or fish) completes commands, options and suites."""
    make = get_completion_class(shell)
    assert make is not None  # noqa: S101 - click has all of these; for the type checker
    completion = make(context.find_root().command, {}, "cudabw", "_CUDABW_COMPLETE")
    # Not source(), which for bash starts a bash to learn its version, though the script may be for another machine.
    click.echo(completion.source_template % completion.source_vars())
