"""The JSON Schema of result files."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from cudabw.results.files import to_document
from cudabw.results.json_schema import json_schema
from cudabw.results.model import CaseResult
from cudabw.results.reading import read_result

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))


def test_the_shipped_schema_is_what_the_dataclasses_say(schema):
    assert schema.schema == json_schema(), (
        "write it anew: python -m cudabw.results.json_schema > cudabw/results/schema/1.json"
    )


def test_it_is_a_schema(schema):
    type(schema).check_schema(schema.schema)


def test_it_says_of_each_field_what_its_docstring_says(schema):
    case = schema.schema["$defs"]["CaseResult"]
    assert list(case["properties"]) == [field.name for field in fields(CaseResult)]
    assert case["description"] == "One measured cell: kind x engine x direction x size."
    assert case["properties"]["named"] == {
        "description": "Whether a flag or a suite named this case, so that its absence is the run's failure.",
        "type": "boolean",
    }
    assert case["properties"]["benchmark"] == {"enum": ["bandwidth"]}
    assert case["required"] == ["id", "benchmark", "kind", "engine", "direction", "size_bytes", "state"]


# Files that were written once and must be read for ever


def test_there_is_a_stored_file_of_each_benchmark_and_of_each_way_to_end():
    runs = [read_result(path) for path in GOLDEN]
    assert {case.benchmark for run in runs for case in run.cases} >= {"bandwidth", "launch_overhead"}
    assert {run.interrupted for run in runs} == {True, False}
    assert any(run.error is not None and run.error.exit_code == 5 for run in runs)
    assert any(run.launch_overhead is not None for run in runs)


def lost(old, new, at="$"):
    """What of an old document is not in a new one, or has another value there."""
    if isinstance(old, dict):
        for name, value in old.items():
            yield from lost(value, new[name], f"{at}.{name}") if name in new else [f"{at}.{name}"]
    elif isinstance(old, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from lost(*pair, f"{at}[{index}]")
    elif old != new:
        yield at


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_stored_file_is_valid_and_read_without_a_loss(path, schema):
    document = json.loads(path.read_text())
    assert list(schema.iter_errors(document)) == []
    written_again = json.loads(json.dumps(to_document(read_result(path))))
    assert list(lost(document, written_again)) == []
