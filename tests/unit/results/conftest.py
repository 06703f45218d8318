"""The JSON Schema of result files, as it is shipped."""

import json
from importlib.resources import files

import pytest


@pytest.fixture(scope="session")
def schema():
    """A validator of the shipped schema."""
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    text = (files("cudabw.results") / "schema" / "1.json").read_text()
    return validator(json.loads(text))


@pytest.fixture(scope="session")
def closed_schema(schema):
    """The same, without the room for keys that it leaves to later versions."""

    def close(part):
        if isinstance(part, list):
            return [close(member) for member in part]
        if not isinstance(part, dict):
            return part
        closed = {name: close(member) for name, member in part.items()}
        return closed | {"additionalProperties": False} if "properties" in part and "type" in part else closed

    return type(schema)(close(schema.schema))
