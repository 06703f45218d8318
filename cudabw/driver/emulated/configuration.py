"""The emulated device as one environment variable describes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from cudabw import units
from cudabw.driver.emulated.clock import ModelledClock
from cudabw.driver.emulated.driver import EmulatedDriver
from cudabw.driver.emulated.faults import Fault
from cudabw.driver.emulated.shape import Shape
from cudabw.errors import ConfigurationError

T = TypeVar("T")

VARIABLE = "CUDABW_EMULATED"

CLOCK_SETTINGS = ("submit_s", "launch_s", "kernel_s", "latency_s", "tick_s", "noise", "seed")


def from_environment(environ: Mapping[str, str]) -> EmulatedDriver:
    """The emulated driver that ``CUDABW_EMULATED`` describes; the default one when it is not set.

    Its value is a JSON object with any of the keys ``devices``, ``memory`` (bytes, or a size such as
    ``"8GiB"``), ``peer_access``, ``faults`` (a list of objects with the fields of `Fault`) and ``clock``
    (rates in bytes per second such as ``"h2d"``, ``"h2d/pageable"`` or ``"pin"``, and the settings of `ModelledClock`).

    Raises:
        ConfigurationError: The value is no such object.
    """
    text = environ.get(VARIABLE, "")
    if not text:
        return EmulatedDriver()
    settings = _check_object(_parse(text), "the value", ("devices", "memory", "peer_access", "faults", "clock"))
    faults = _check_type(settings.get("faults", []), "faults", list)
    # Nothing is constructed before all of it has been read: a driver would need closing.
    return _build(
        "the value",
        EmulatedDriver,
        shape=_shape(settings),
        faults=[_fault(fault, f"faults[{index}]") for index, fault in enumerate(faults)],
        clock=_clock(settings["clock"]) if "clock" in settings else None,
    )


def _parse(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _error(f"is not JSON: {error}") from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    settings = dict(pairs)
    if len(settings) != len(pairs):
        raise ValueError("a key is given twice")
    return settings


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _shape(settings: Mapping[str, Any]) -> Shape:
    given: dict[str, Any] = {}
    if "devices" in settings:
        given["devices"] = _check_type(settings["devices"], "devices", int)
    if "peer_access" in settings:
        given["peer_access"] = _check_type(settings["peer_access"], "peer_access", bool)
    if "memory" in settings:
        given["memory"] = _size(settings["memory"])
    return _build("the value", Shape, **given)


def _size(value: object) -> int:
    if not isinstance(value, str):
        size: int = _check_type(value, "memory", int, what='a number of bytes or a size such as "8GiB"')
        return size
    try:
        return units.parse_size(value)
    except ValueError as error:
        raise _error(f"memory: {error}") from error


def _fault(value: object, where: str) -> Fault:
    types: dict[str, type] = {
        "function": str,
        "status": int,
        "copy": str,
        "delay_s": float,
        "hang": bool,
        "lose_device": bool,
        "throttle": str,
        "nth": int,
        "at_least_bytes": int,
        "direction": str,
    }
    given = _check_object(value, where, tuple(field.name for field in fields(Fault)))
    checked = {key: _check_type(item, f"{where}.{key}", types[key]) for key, item in given.items()}
    return _build(where, Fault, **checked)


def _clock(value: object) -> ModelledClock:
    given = dict(_check_type(value, "clock", dict))
    settings: dict[str, Any] = {}
    for key in CLOCK_SETTINGS:
        if key in given:
            settings[key] = _check_type(given.pop(key), f"clock.{key}", int if key == "seed" else float)
    rates = {key: _check_type(rate, f"clock.{key}", float) for key, rate in given.items()}
    return _build("clock", ModelledClock, rates=rates, **settings)


def _check_object(value: object, where: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    settings: dict[str, Any] = _check_type(value, where, dict)
    for key in settings:
        if key not in allowed:
            raise _error(f"{where} has an unknown key {key!r}; allowed are {', '.join(allowed)}")
    return settings


def _check_type(value: object, where: str, kind: type, what: str = "") -> Any:  # noqa: ANN401 - of the kind asked for
    names = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        list: "a list",
        dict: "an object",
    }
    accepted = (int, float) if kind is float else kind
    # JSON's true is Python's True, which is an int.
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise _error(f"{where} must be {what or names[kind]}, not {json.dumps(value)}")
    return value


def _build(where: str, make: Callable[..., T], **given: Any) -> T:  # noqa: ANN401 - whatever it is made of
    try:
        return make(**given)
    except ValueError as error:
        raise _error(f"{where}: {error}") from error


def _error(message: str) -> ConfigurationError:
    return ConfigurationError(
        f"{VARIABLE}: {message}", hint="The README's table of environment variables shows its form."
    )
