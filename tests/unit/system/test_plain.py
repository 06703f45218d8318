from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.system.plain import plain


@pytest.mark.parametrize(
    ("value", "held"),
    [
        (13000, 13000),
        (1.5, 1.5),
        (float("nan"), None),
        (float("-inf"), None),
        (None, None),
        (True, True),
        ((13, Path("/lib")), [13, "/lib"]),
        ({1: {"inner": [float("nan"), "x"]}}, {"1": {"inner": [None, "x"]}}),
        (b"ab", "b'ab'"),
        ("a\udcffb", "a\\udcffb"),
    ],
)
def test_a_value_becomes_what_json_can_hold(value: object, held: object) -> None:
    assert plain(value) == held


@given(
    st.dictionaries(
        st.text(),
        st.text() | st.floats() | st.binary() | st.lists(st.integers() | st.complex_numbers()),
    )
)
def test_whatever_is_given_is_strict_json(value: dict[str, object]) -> None:
    json.dumps(plain(value), allow_nan=False, ensure_ascii=False).encode("utf-8")
