"""Results from documents: what was written comes back, and what is not as expected is refused in words."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from typing import get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudabw import __version__
from cudabw.benchmarks.api import measure_bandwidth, measure_latency, measure_launch_overhead
from cudabw.errors import ResultFileError
from cudabw.results import fits, latency, launch, launch_sets, model, setup_cost
from cudabw.results.files import to_document, to_json
from cudabw.results.fits import Fit
from cudabw.results.latency import LatencyCase, SmallCopiesCase
from cudabw.results.launch import LaunchCase
from cudabw.results.launch_sets import LaunchOverhead
from cudabw.results.limits import LimitResult, LimitState
from cudabw.results.model import CaseResult, DeviceInfo, Rate, RunError, RunResult, State, Trial
from cudabw.results.reading import read_json, read_result
from cudabw.results.setup_cost import SetupCase
from cudabw.results.shape import CASE_CLASSES, fields_of

SMALL = RunResult(
    ("bandwidth",),
    "2026-01-02T03:04:05Z",
    __version__,
    device=DeviceInfo(0, "GPU", None, None, emulated=False),
    cases=(
        CaseResult("i", "bandwidth", "mapped", "driver", "d2h", 1, State.REFUSED, "no room"),
        CaseResult(
            "j",
            "bandwidth",
            "pinned",
            "driver",
            "d2h",
            1,
            State.OK,
            rate_bytes_per_s=Rate(1.0, None, None, 1.0, 1.0),
            trials=(Trial(1, (1.0, 2.0)),),
        ),
    ),
)


def changed(path, value):
    """The document of a small run with the value at a path replaced, or taken out."""
    document = json.loads(to_json(SMALL))
    *way, last = path
    at = document
    for step in way:
        at = at[step]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return json.dumps(document)


# What was written comes back


@pytest.mark.parametrize(
    "measure",
    [
        lambda: measure_bandwidth(backend="emulated", kinds=["pinned", "pageable", "managed"], sizes=[4096], trials=2),
        lambda: measure_bandwidth(backend="emulated", sizes=[1 << 47], trials=1),
        lambda: measure_bandwidth(backend="emulated", device=9),
        lambda: measure_bandwidth(
            backend="emulated",
            kinds=["pageable", "registered"],
            sizes=[4096 << step for step in range(5)],
            trials=2,
            first_touch=True,
            setup_cost=True,
        ),
        lambda: measure_launch_overhead(backend="emulated", args=[0, 2], arg_types=["buffer", "mixed"], trials=2),
        lambda: measure_latency(backend="emulated", kinds=["pinned"], sizes=[64, 1024], copies=2, trials=2),
    ],
    ids=["bandwidth", "refused", "never began", "ready memory", "launches", "small copies"],
)
def test_a_real_run_is_valid_and_comes_back_as_it_was(measure, closed_schema):
    run = measure()
    text = to_json(run)
    assert list(closed_schema.iter_errors(json.loads(text))) == []
    assert read_json(text, "run.json") == run


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | st.text(),
    lambda members: st.lists(members, max_size=2) | st.dictionaries(st.text(), members, max_size=2),
    max_leaves=4,
)
HEADLINES = {
    CaseResult: ("rate_bytes_per_s",),
    LaunchCase: ("submit_s",),
    LatencyCase: ("seconds",),
    SmallCopiesCase: ("per_copy_s",),
    SetupCase: ("total_s",),
}


@st.composite
def made(draw, cls):
    """Any value of a dataclass, of the types that its fields have."""
    values = {field.name: draw(values_of(field.type)) for field in fields_of(cls)}
    if cls in HEADLINES:
        (benchmark,) = (name for name, of in CASE_CLASSES.items() if of is cls)
        measured, ok = values["state"].measured, values["state"] is State.OK
        values |= {"benchmark": benchmark, "reason": None if ok else draw(st.text())}
        types = {field.name: field.type for field in fields_of(cls)}
        for name in HEADLINES[cls]:
            values[name] = draw(values_of(types[name]).filter(lambda value: value is not None)) if measured else None
    if cls is LimitResult:
        values["reason"] = None if values["state"] is LimitState.PASS else draw(st.text())
    if cls is Fit:
        values["reason"] = draw(st.text()) if values["rate_bytes_per_s"] is None else None
    return cls(**values)


def values_of(kind):
    simple = {str: st.text(), int: st.integers(), float: NUMBERS, bool: st.booleans(), object: JSON_VALUES}
    if kind in simple:
        return simple[kind]
    if kind is type(None):
        return st.none()
    if is_dataclass(kind):
        return made(kind)
    if isinstance(kind, type) and issubclass(kind, str):
        return st.sampled_from(kind)
    if kind.__class__.__name__ == "GenericAlias" and kind.__origin__ is tuple:
        return st.lists(values_of(get_args(kind)[0]), max_size=2).map(tuple)
    if get_origin(kind) is Mapping:
        return st.dictionaries(st.text(), values_of(get_args(kind)[1]), max_size=2)
    return st.one_of([values_of(member) for member in get_args(kind)])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(run=made(RunResult))
def test_every_result_that_can_be_made_is_valid_and_comes_back_as_it_was(run, closed_schema):
    text = to_json(run)
    assert list(closed_schema.iter_errors(json.loads(text))) == []
    assert read_json(text, "run.json") == run


def test_the_class_of_every_case_is_known_by_its_benchmark():
    (cases,) = (field.type for field in fields_of(RunResult) if field.name == "cases")
    (union, _) = get_args(cases)
    assert set(CASE_CLASSES.values()) == set(get_args(union))


MODULES = (fits, latency, launch, launch_sets, model, setup_cost)


def test_every_class_of_the_model_has_a_shape():
    classes = [cls for module in MODULES for cls in vars(module).values() if is_dataclass(cls)]
    assert RunResult in classes
    assert LaunchOverhead in classes
    for cls in classes:
        assert [field.name for field in fields_of(cls)] == [field.name for field in fields(cls)]


def test_a_file_is_read_in_any_unicode_and_numbers_may_lack_their_fraction(tmp_path):
    text = to_json(SMALL).replace(": 1.0,", ": 1,")
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        path = tmp_path / f"{encoding}.json"
        path.write_text(text, encoding)
        run = read_result(path)
        assert run == SMALL
        assert isinstance(run.cases[1].rate_bytes_per_s.median, float)


# Other versions


def test_keys_of_later_versions_are_passed_over_and_those_of_earlier_ones_take_their_default():
    document = json.loads(to_json(SMALL))
    document["later"] = 1
    document["device"]["later"] = {}
    document["cases"][1]["trials"][0]["later"] = []
    del document["cases"][1]["host_held"]
    del document["warnings"]
    assert read_json(json.dumps(document), "run.json") == SMALL


def test_a_later_schema_is_refused_with_the_version_that_is_needed():
    document = json.loads(changed(["schema"], 2))
    document["tool"]["version"] = "9.1"
    with pytest.raises(ResultFileError) as caught:
        read_json(json.dumps(document), "new.json")
    assert str(caught.value) == f"new.json is of schema 2, and cudabw {__version__} reads none above 1"
    assert caught.value.hint == "Read it with cudabw 9.1 or newer."
    assert caught.value.exit_code == 2


def test_an_earlier_schema_is_upgraded_step_by_step():
    old = json.loads(to_json(SMALL))
    old |= {"schema": -1, "verdicts": old.pop("cases")}
    upgrades = {
        -1: lambda document: {**document, "schema": 0, "results": document["verdicts"]},
        0: lambda document: {**document, "schema": 1, "cases": document["results"]},
    }
    assert read_json(json.dumps(old), "old.json", upgrades=upgrades) == SMALL
    with pytest.raises(ResultFileError, match=r"old\.json: schema: found -1, expected 1 or one that this version can"):
        read_json(json.dumps(old), "old.json")


def test_what_another_version_wrote_and_this_one_does_not_know_names_both():
    document = json.loads(changed(["cases", 0, "state"], "marvellous"))
    document["tool"]["version"] = "9.1"
    with pytest.raises(ResultFileError) as caught:
        read_json(json.dumps(document), "new.json")
    assert caught.value.hint == f"It was written by cudabw 9.1; this is {__version__}."


# What is refused


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (["schema"], "1", 'schema: found "1", expected a whole number'),
        (["schema"], True, "schema: found true, expected a whole number"),
        (["schema"], ..., "the document: 'schema' is missing"),
        (["tool"], ..., "the document: 'tool' is missing"),
        (["tool", "version"], 1, "tool.version: found 1, expected text"),
        (["cases"], ..., "it is not the results of a run: there are no 'cases' in it"),
        (["cases"], {}, "cases: found {}, expected a list"),
        (["cases", 0], None, "cases[0]: found null, expected an object"),
        (["cases", 0, "benchmark"], ..., "cases[0]: 'benchmark' is missing"),
        (["cases", 0, "benchmark"], "x", 'cases[0].benchmark: found "x", expected one of bandwidth, launch_overhead'),
        (["cases", 0, "benchmark"], "launch_overhead", "cases[0]: 'arg_type' is missing"),
        (["cases", 0, "size_bytes"], 1.5, "cases[0].size_bytes: found 1.5, expected a whole number"),
        (["cases", 0, "reason"], None, "cases[0]: case i: a reason belongs to every state but ok, not to refused"),
        (["cases", 0, "clock"], "sun", 'cases[0].clock: found "sun", expected one of event, host or null'),
        (
            ["cases", 0, "state"],
            None,
            "cases[0].state: found null, expected one of ok, unconverged, unstable, throttled, suspect",
        ),
        (
            ["cases", 1, "trials", 0, "samples_s", 1],
            "2",
            'cases[1].trials[0].samples_s[1]: found "2", expected a number',
        ),
        (["cases", 1, "trials", 0, "samples_s", 1], 10**400, "expected a number that a double can hold"),
        (
            ["cases", 1, "rate_bytes_per_s", "low"],
            False,
            "rate_bytes_per_s.low: found false, expected a number or null",
        ),
        (["device"], [], "device: found [], expected an object or null"),
        (["device", "emulated"], 0, "device.emulated: found 0, expected true or false"),
        (["device", "name"], ["x" * 99], 'device.name: found ["' + "x" * 55 + "..., expected text"),
        (["environment"], 1, "environment: found 1, expected an object"),
        (["interrupted"], None, "interrupted: found null, expected true or false"),
    ],
)
def test_a_mismatch_says_where_what_was_found_and_what_is_expected_and_is_not_valid(path, value, text, schema):
    document = changed(path, value)
    with pytest.raises(ResultFileError, match=rf"^run\.json: .*{re.escape(text)}") as caught:
        read_json(document, "run.json")
    assert caught.value.hint == ""
    assert not schema.is_valid(json.loads(document)) or value == 10**400


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("null x", "Extra data"),
        ('{"schema": NaN}', "NaN is not a number"),
        ('{"schema": 1e999}', "1e999 is beyond what a double can hold"),
        ('{"schema": 1, "a": 2, "a": 3}', "the key 'a' stands twice in one object"),
        ("[" * 100_000, "recursion"),
        (b"\x80abc", "can't decode"),
    ],
)
def test_what_is_not_strict_json_is_refused(text, why):
    with pytest.raises(ResultFileError, match=rf"run\.json is not JSON: .*{why}"):
        read_json(text, "run.json")


@pytest.mark.parametrize("text", ["[]", "1", "null", '"text"'])
def test_json_that_is_no_object_is_refused(text):
    with pytest.raises(ResultFileError, match=r"run\.json: the document: found .*, expected an object"):
        read_json(text, "run.json")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ResultFileError, match=rf"{tmp_path}/none\.json cannot be read: No such file or directory"):
        read_result(tmp_path / "none.json")
    with pytest.raises(ResultFileError, match=r"cannot be read: Is a directory"):
        read_result(tmp_path)


@settings(max_examples=200, deadline=None)
@given(document=JSON_VALUES)
def test_whatever_the_json_is_there_is_an_answer(document):
    base = to_document(SMALL)
    for text in (json.dumps(document), json.dumps({**base, "cases": document}), json.dumps({**base, "tool": document})):
        with suppress(ResultFileError):
            read_json(text, "run.json")


def test_an_error_of_the_run_comes_back():
    error = RunError("Interrupted", "interrupted", "", 130)
    run = replace(SMALL, interrupted=True, error=error)
    assert read_json(to_json(run), "run.json").error == error
