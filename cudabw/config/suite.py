"""Read a suite strictly: what it says is understood completely or refused with the file, the section and the key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from cudabw.config import limits
from cudabw.config.values import Reader, describe, quote, read_choice, read_ordinal, suggestion
from cudabw.errors import ConfigurationError

VERSION: Final = 1
"""The version of the suite format that this program reads."""

BACKENDS: Final = ("auto", "cuda", "emulated")

REPLACES: Final[Mapping[str, frozenset[str]]] = {
    "effort": frozenset({"trials", "precision", "time_budget"}),
    "trials": frozenset({"effort"}),
}
"""What a flag of ``cudabw run`` takes the place of in every section, besides the key of its own name."""

Vocabulary = Mapping[str, Mapping[str, Reader]]
"""The kinds of sections there are, and for each the reader of each of its keys."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a suite.

    Attributes:
        kind: What it measures or limits; its name in the file.
        number: Which one of its kind it is, from 1.
        settings: The values of the keys that are given; the others mean the defaults of what is measured.
    """

    kind: str
    number: int
    settings: Mapping[str, Any]

    @property
    def title(self) -> str:
        """How messages name it."""
        return f"[[{self.kind}]] section {self.number}"


@dataclass(frozen=True, slots=True)
class Suite:
    """What a suite says.

    Attributes:
        source: The file, as the user knows it.
        sections: What to measure; at least one, those of one kind together.
        backend: Which device to use; None where the suite leaves that open.
        device: Number of the device; None where the suite leaves that open.
        limits: What the figures must reach or must not exceed.
    """

    source: str
    sections: tuple[Section, ...]
    backend: str | None = None
    device: int | None = None
    limits: tuple[Section, ...] = ()


def parse_suite(text: str, source: str, vocabulary: Vocabulary) -> Suite:
    """Read a suite.

    Args:
        text: The file's content.
        source: How messages name the file.
        vocabulary: What its sections may say.

    Raises:
        ConfigurationError: It is no TOML, of another version, says anything that is not known, or asks for nothing.
    """
    document = _parse(text, source)
    _require_version(document, source)
    readers: dict[str, Reader] = {
        "version": lambda version: version,
        "backend": partial(read_choice, BACKENDS),
        "device": read_ordinal,
        **{kind: partial(_read_tables, kind) for kind in (*vocabulary, limits.SECTION)},
    }
    given = _read_table(document, readers, source, "a suite")
    read = tuple(
        _read_section(kind, number, table, source, vocabulary[kind])
        for kind in given
        if kind in vocabulary
        for number, table in enumerate(given[kind], start=1)
    )
    if not read:
        raise ConfigurationError(
            f"{source}: nothing to run: the suite has no section",
            hint=f"Add one of {', '.join(f'[[{kind}]]' for kind in vocabulary)}.",
        )
    return Suite(source, read, given.get("backend"), given.get("device"), _read_limits(given, source))


def override(
    suite: Suite,
    vocabulary: Vocabulary,
    *,
    backend: str | None = None,
    device: int | None = None,
    settings: Mapping[str, Any],
) -> Suite:
    """Put flags in place of what a suite says; None leaves what is there.

    Args:
        suite: The suite.
        vocabulary: What its sections may say.
        backend: Which device to use.
        device: Number of the device.
        settings: Values by key; each goes into every section that knows the key, and takes the place of what
            :data:`REPLACES` says.
    """
    given = {key: value for key, value in settings.items() if value is not None}
    replaced = frozenset[str]().union(*(REPLACES.get(key, ()) for key in given))
    return replace(
        suite,
        backend=suite.backend if backend is None else backend,
        device=suite.device if device is None else device,
        sections=tuple(
            replace(
                section,
                settings={
                    **{key: value for key, value in section.settings.items() if key not in replaced},
                    **_known(given, vocabulary[section.kind]),
                },
            )
            for section in suite.sections
        ),
    )


def _known(settings: Mapping[str, Any], keys: Mapping[str, Reader]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key in keys}


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    # ValueError also is a number of more digits than Python converts; RecursionError a deeply nested list.
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{source}: not TOML: {error}") from None


def _require_version(document: Mapping[str, Any], source: str) -> None:
    # Before anything else is looked at: a later version may have keys that this one does not know.
    if "version" not in document:
        raise ConfigurationError(f"{source}: the key version is missing", hint=f"Begin with: version = {VERSION}")
    version = document["version"]
    if type(version) is not int or version != VERSION:
        raise ConfigurationError(
            f"{source}: version: {describe(version)} is not a version that this program reads",
            hint=f"This program reads version {VERSION}.",
        )


def _read_section(kind: str, number: int, table: Mapping[str, Any], source: str, keys: Mapping[str, Reader]) -> Section:
    section = Section(kind, number, {})
    where = f"{source}: {section.title}"
    settings = _read_table(table, keys, where, f"[[{kind}]]")
    if settings.keys() >= {"effort", "trials"}:
        raise ConfigurationError(f"{where}: effort and trials contradict each other", hint="Leave one of them out.")
    return replace(section, settings=settings)


def _read_limits(given: Mapping[str, Any], source: str) -> tuple[Section, ...]:
    tables = enumerate(given.get(limits.SECTION, ()), start=1)
    read = tuple(_read_section(limits.SECTION, number, table, source, limits.KEYS) for number, table in tables)
    for section in read:
        missing = limits.missing_key(section.settings)
        if missing:
            raise ConfigurationError(f"{source}: {section.title}: {missing}")
    return read


def _read_table(table: Mapping[str, Any], readers: Mapping[str, Reader], where: str, what: str) -> dict[str, Any]:
    given = {}
    for key, value in table.items():
        if key not in readers:
            raise ConfigurationError(
                f"{where}: unknown key {quote(key)}{suggestion(key, readers)}",
                hint=f"The keys of {what} are {', '.join(readers)}.",
            )
        try:
            given[key] = readers[key](value)
        except ValueError as error:
            raise ConfigurationError(f"{where}: {key}: {error}") from None
    return given


def _read_tables(kind: str, value: object) -> list[dict[str, Any]]:
    tables = value if isinstance(value, list) else []
    wrong = [table for table in tables if not isinstance(table, dict)] if isinstance(value, list) else [value]
    if wrong:
        raise ValueError(f"needs sections, each under a line [[{kind}]] of its own, not {describe(wrong[0])}")
    return tables
