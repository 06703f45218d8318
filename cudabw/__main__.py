"""``python -m cudabw``, and the console script."""

from __future__ import annotations

import sys

from cudabw.cli.main import run


def main() -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(run())


if __name__ == "__main__":
    main()
