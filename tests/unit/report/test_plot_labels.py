"""Where names stand beside lines."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.report.plot_labels import spread

APART = 0.05


def test_names_with_room_between_them_stand_where_their_lines_end():
    assert spread([0.9, 0.5, 0.1], APART) == pytest.approx([0.9, 0.5, 0.1])


def test_names_that_are_too_close_move_apart_by_the_same_on_both_sides():
    assert spread([0.5, 0.5], 0.1) == pytest.approx([0.55, 0.45])
    assert spread([0.9, 0.5, 0.5, 0.5], 0.1) == pytest.approx([0.9, 0.6, 0.5, 0.4])


def test_names_stay_beside_the_panel():
    assert spread([1.0, 1.0], 0.1) == pytest.approx([1.0, 0.9])
    assert spread([0.0, 0.0], 0.1) == pytest.approx([0.1, 0.0])


@given(st.lists(st.floats(0, 1), max_size=20))
def test_names_keep_their_order_and_are_never_too_close(ends):
    places = spread(sorted(ends, reverse=True), APART)
    assert len(places) == len(ends)
    assert all(above - below >= APART * (1 - 1e-9) for above, below in pairwise(places))
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
