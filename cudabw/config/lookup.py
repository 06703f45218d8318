"""Find a suite: by its name among those that come with the program, or by its path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cudabw.config.suite import Suite, Vocabulary, parse_suite
from cudabw.config.values import quote, suggestion
from cudabw.errors import ConfigurationError

SUFFIX: Final = ".toml"
_PACKAGE: Final = Path(__file__).resolve().parents[1]


def load_suite(name: str, vocabulary: Vocabulary, *, package: Path = _PACKAGE) -> Suite:
    """Find and read a suite.

    Args:
        name: A path, if it ends in ``.toml`` or has a separator in it; else the name of a built-in suite.
        vocabulary: What its sections may say.
        package: The package's folder.

    Raises:
        ConfigurationError: There is no such suite, it cannot be read, or it cannot be meant.
    """
    path = Path(name) if _is_path(name) else _built_in(name, package)
    return parse_suite(_read(path, package), str(path), vocabulary)


def suite_names(package: Path = _PACKAGE) -> tuple[str, ...]:
    """The names of the built-in suites, in alphabetical order."""
    return tuple(sorted(path.stem for path in suite_folder(package).glob(f"*{SUFFIX}")))


def suite_folder(package: Path = _PACKAGE) -> Path:
    """Where the built-in suites are: inside an installed package, beside it in a checkout."""
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


def _is_path(name: str) -> bool:
    return name.endswith(SUFFIX) or os.sep in name or (os.altsep is not None and os.altsep in name)


def _built_in(name: str, package: Path) -> Path:
    names = suite_names(package)
    if name not in names:
        raise ConfigurationError(
            f"there is no built-in suite {quote(name)}{suggestion(name, names)}",
            hint=f"There are {', '.join(names)}. A file is given by a path that ends in {SUFFIX}.",
        )
    return suite_folder(package) / f"{name}{SUFFIX}"


def _read(path: Path, package: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not TOML: byte {error.start} is not UTF-8") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte in it
        reason = error.strerror if isinstance(error, OSError) else error
        built_in = path.stem in suite_names(package)
        hint = f"The built-in suite is called {path.stem}, without {SUFFIX}." if built_in else ""
        raise ConfigurationError(f"{path}: cannot be read: {reason}", hint=hint) from None
