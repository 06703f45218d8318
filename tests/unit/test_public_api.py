"""The names that the package promises."""

import pytest

import cudabw


@pytest.mark.parametrize("name", cudabw.__all__)
def test_every_public_name_can_be_loaded(name):
    assert getattr(cudabw, name) is not None
    assert name in dir(cudabw)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'"):
        cudabw.nosuch  # noqa: B018 - the access itself is what fails
