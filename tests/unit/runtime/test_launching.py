"""A launcher remembers what it packed and took last, and nothing that has changed since."""

import numpy as np
import pytest

from cudabw.runtime import ptx
from cudabw.runtime.kernels import Module
from cudabw.runtime.memory import MappedBuffer
from cudabw.runtime.signature import TYPES

WORDS = 64
SIZE = {"grid": 2, "block": 32}


@pytest.fixture
def launcher(device, stream):
    add = Module(device, ptx.read("words")).kernel("cudabw_add_u32", ("pointer", "uint32", "uint64"))
    return add.launcher(**SIZE, stream=stream)


@pytest.fixture
def buffers(device):
    return [MappedBuffer(device, 4 * WORDS) for _ in range(2)]


def words(buffer):
    return set(buffer.array(np.uint32).tolist())


def test_arguments_launched_in_turn_are_packed_in_turn(launcher, buffers):
    first, second = (launcher.convert((buffer, 1, WORDS)) for buffer in buffers)
    for arguments in (first, first, second, first, second, second, second):
        launcher.submit(arguments)
    assert [words(buffer) for buffer in buffers] == [{3}, {4}]


@pytest.mark.parametrize("stage", ["own", "pack"])
def test_a_stage_of_other_arguments_stays_without_effect_on_the_next_launch(launcher, buffers, stage):
    first, second = (launcher.convert((buffer, 1, WORDS)) for buffer in buffers)
    launcher.submit(first)
    getattr(launcher, stage)(second)
    launcher.submit(first)
    assert buffers[0].ownership.stream is launcher.stream
    assert [words(buffer) for buffer in buffers] == [{2}, {0}]


def test_an_argument_packed_by_itself_does_not_stay_for_the_next_launch(launcher, buffers):
    arguments = launcher.convert((buffers[0], 1, WORDS))
    launcher.submit(arguments)
    launcher.pack_one(1, (TYPES["uint32"], 100, None))
    launcher.launch()
    launcher.submit(arguments)
    assert words(buffers[0]) == {102}


def test_memory_that_was_forgotten_is_taken_again_by_the_same_arguments(launcher, buffers):
    arguments = launcher.convert((buffers[0], 1, WORDS))
    for _ in range(2):
        launcher.submit(arguments)
        launcher.submit(arguments)
        assert buffers[0].ownership.stream is launcher.stream
        buffers[0].ownership.reset()
    launcher.stream.synchronize()
