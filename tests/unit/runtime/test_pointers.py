"""Addresses of the two sides never mix."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.runtime.pointers import DevicePointer, HostPointer

addresses = st.integers(0, 2**64 - 1)
SIDES = [HostPointer, DevicePointer]


@given(address=addresses, offset=st.integers(0, 2**48))
@pytest.mark.parametrize("side", SIDES)
def test_arithmetic_is_in_bytes_and_keeps_the_type(side, address, offset):
    pointer = side(address, np.float64)
    moved = pointer + offset
    assert type(moved) is side
    assert int(moved) == address + offset
    assert moved - pointer == offset
    assert moved - offset == pointer
    assert moved.dtype == np.float64


@given(address=addresses)
def test_the_same_number_on_the_other_side_is_never_equal(address):
    host, device = HostPointer(address), DevicePointer(address)
    assert host != device
    assert len({host, device}) == 2
    assert host == HostPointer(address)


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge, operator.sub])
def test_the_sides_are_neither_ordered_nor_subtracted(compare):
    with pytest.raises(TypeError):
        compare(HostPointer(8), DevicePointer(8))


@pytest.mark.parametrize("side", SIDES)
def test_pointers_of_one_side_are_ordered_by_address(side):
    assert side(8) < side(16) <= side(16) < side(24)
    assert side(24) > side(16) >= side(16) > side(8)


@pytest.mark.parametrize("made", [lambda: HostPointer(DevicePointer(8)), lambda: DevicePointer(HostPointer(8))])
def test_one_side_is_never_made_of_the_other(made):
    with pytest.raises(TypeError, match=r"address is an integer, not (Host|Device)Pointer"):
        made()


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("wrong", [1.0, "8", None, True])
def test_only_integers_become_addresses(side, wrong):
    with pytest.raises(TypeError):
        side(wrong)


@pytest.mark.parametrize("side", SIDES)
def test_conversion_to_an_integer_is_explicit(side):
    assert int(side(8)) == 8
    with pytest.raises(TypeError):
        operator.index(side(8))


def test_a_negative_address_is_refused():
    with pytest.raises(ValueError, match="not negative: -1"):
        HostPointer(0) - 1


def test_null_is_false_and_the_rest_true():
    assert not HostPointer(0)
    assert DevicePointer(1)


def test_a_pointer_shows_its_side_address_and_element():
    assert repr(HostPointer(255, np.float32)) == "HostPointer(0xff, float32)"
    assert repr(DevicePointer(16).astype("u4")) == "DevicePointer(0x10, uint32)"
