"""Small copies on a real GPU: what must hold of the figures whatever the machine."""

import numpy as np
import pytest

import cudabw
from cudabw.copying.copy_list import CopyList
from cudabw.copying.driver_copy import copy
from cudabw.copying.many_copies import BatchCopy, GraphCopy, LoopedCopies
from cudabw.copying.scatter_copy import ScatterCopier
from cudabw.errors import UnsupportedError
from cudabw.results.latency import Pace, Way
from cudabw.results.model import Clock, State
from cudabw.runtime.memory import DeviceBuffer, MappedBuffer, PageableBuffer

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def run():
    """The default run."""
    result = cudabw.measure_latency(backend="cuda")
    assert result.error is None
    return result


def test_every_case_is_measured_or_lacks_its_function(run):
    # How precise the figures are is a matter of the machine.
    wrong = {case.id: case.reason for case in run.cases if not case.state.measured}
    assert {name for name in wrong if not name.endswith(f"/{Way.BATCH}")} == set()
    assert {case.way for case in run.small_copies_cases if case.state is State.UNSUPPORTED} <= {Way.BATCH}


def test_queued_copies_of_pinned_memory_are_timed_by_the_device_and_are_faster_than_those_waited_for(run):
    cases = {(case.kind, case.direction, case.size_bytes, case.pace): case for case in run.latency_cases}
    for (kind, direction, size, pace), case in cases.items():
        if kind == "pinned" and pace is Pace.QUEUED:
            assert (case.clock, case.gated) == (Clock.EVENT, True)
            assert case.seconds.median < cases[kind, direction, size, Pace.END_TO_END].seconds.median


def test_a_call_takes_no_longer_than_the_copy_that_is_waited_for(run):
    for case in run.latency_cases:
        if case.pace is Pace.END_TO_END:
            assert case.submit_s.median < case.seconds.median < 1e-3


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_one_kernel_makes_32_copies_of_4_kib_faster_than_a_loop(run, direction):
    (found,) = (
        one
        for one in run.small_copies.way_pays
        if (one.kind, one.direction, one.size_bytes, one.way) == ("pinned", direction, 4096, Way.KERNEL)
    )
    assert found.from_copies <= 32


@pytest.mark.parametrize("way", ["loop", "batch", "graph", "kernel"])
@pytest.mark.parametrize("to_device", [True, False])
def test_blocks_of_any_size_and_alignment_arrive_and_nothing_else_changes(gpu, stream, way, to_device):
    random = np.random.default_rng(3)
    area, count = 1 << 21, 400
    blocks = []
    for place in random.permutation(count):
        nbytes = int(random.integers(1, 5000))
        start = int(place) * 5120 + int(random.integers(0, 100))
        blocks.append((start, int(random.integers(0, area - 5000)), nbytes))
    data = random.integers(0, 256, area, np.uint8)
    expected = np.full(area, 0xA5, np.uint8)
    with DeviceBuffer(gpu, area) as memory, MappedBuffer(gpu, area) as host, ScatterCopier(gpu) as copier:
        destination, source = (memory, host) if to_device else (host, memory)
        copy(source, PageableBuffer.over(gpu, data))
        copy(destination, PageableBuffer.over(gpu, expected))
        copies = CopyList([(destination[to : to + n], source[at : at + n]) for to, at, n in blocks], stream)
        ways = {"loop": LoopedCopies, "batch": BatchCopy, "graph": GraphCopy, "kernel": copier.prepare}
        work = ways[way](copies)
        try:
            work.submit()
        except UnsupportedError as error:
            pytest.skip(str(error))
        received = np.empty(area, np.uint8)
        copy(PageableBuffer.over(gpu, received), destination)
        for to, at, nbytes in blocks:
            expected[to : to + nbytes] = data[at : at + nbytes]
        assert np.array_equal(received, expected)
        if hasattr(work, "close"):
            work.close()


def test_a_single_large_block_is_copied_by_several_blocks_of_threads(gpu, stream):
    nbytes = (1 << 20) + 13
    data = np.random.default_rng(4).integers(0, 256, nbytes, np.uint8)
    with DeviceBuffer(gpu, nbytes) as memory, MappedBuffer(gpu, nbytes) as host, ScatterCopier(gpu) as copier:
        host.array()[:] = data
        with copier.prepare(CopyList([(memory, host)], stream)) as work:
            assert work.grid[0] > 1
            work.submit()
        received = np.empty(nbytes, np.uint8)
        copy(PageableBuffer.over(gpu, received), memory)
    assert np.array_equal(received, data)
