"""Every way of making many copies moves exactly its blocks, and obeys the same rules as a single copy."""

import numpy as np
import pytest
from cuda.bindings import driver as cuda
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudabw.copying.copy_list import CopyList
from cudabw.copying.driver_copy import copy
from cudabw.copying.many_copies import BatchCopy, GraphCopy, LoopedCopies
from cudabw.copying.scatter_copy import ScatterCopier
from cudabw.driver.emulated import Fault, Shape
from cudabw.driver.emulated.versions import Versioned
from cudabw.errors import ClosedError, CudabwError, DriverError, MemorySideError, UnsupportedError
from cudabw.measuring.timing import BatchTimer
from cudabw.runtime.gate import Gate
from cudabw.runtime.memory import DeviceBuffer, MappedBuffer, PageableBuffer, PinnedBuffer

AREA = 4096
WAYS = {"loop": LoopedCopies, "batch": BatchCopy, "graph": GraphCopy, "kernel": None}
# The driver's function of each way.
FUNCTIONS = {
    "loop": "cuMemcpyHtoDAsync",
    "batch": "cuMemcpyBatchAsync",
    "graph": "cuGraphLaunch",
    "kernel": "cuLaunchKernelEx",
}
EACH_WAY = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def prepare(device):
    """Prepares copies in a way, by its name."""
    with ScatterCopier(device) as copier:
        yield lambda way, copies: (WAYS[way] or copier.prepare)(copies)


@pytest.fixture
def pair(device, noise):
    """Device memory of 0xa5, and mapped memory of random bytes."""
    source, destination = MappedBuffer(device, AREA), DeviceBuffer(device, AREA)
    source.array()[:] = noise[:AREA]
    clear(destination)
    return destination, source


def clear(buffer):
    copy(buffer, PageableBuffer.over(buffer.device, np.full(buffer.nbytes, 0xA5, np.uint8)))


def read(buffer):
    out = np.empty(buffer.nbytes, np.uint8)
    copy(PageableBuffer.over(buffer.device, out), buffer)
    return out


def slices(destination, source, blocks):
    return [(destination[to : to + nbytes], source[at : at + nbytes]) for to, at, nbytes in blocks]


def moved(noise, blocks):
    expected = np.full(AREA, 0xA5, np.uint8)
    for to, at, nbytes in blocks:
        expected[to : to + nbytes] = noise[at : at + nbytes]
    return expected


@EACH_WAY
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(data=st.data())
def test_exactly_the_blocks_move(prepare, stream, pair, noise, way, data):
    count = data.draw(st.integers(1, 8))
    places = data.draw(st.permutations(range(8)))
    blocks = [
        (512 * place + data.draw(st.integers(0, 40)), data.draw(st.integers(0, 3000)), data.draw(st.integers(0, 400)))
        for place in places[:count]
    ]
    clear(pair[0])
    work = prepare(way, CopyList(slices(*pair, blocks), stream))
    work.submit()
    assert read(pair[0]).tobytes() == moved(noise, blocks).tobytes()


BLOCKS = [(0, 100, 10), (1000, 0, 1), (500, 3000, 77)]


@EACH_WAY
def test_the_other_direction_works_too(prepare, device, stream, noise, way):
    source, destination = DeviceBuffer(device, AREA), PinnedBuffer(device, AREA, flags=("mapped",))
    copy(source, PageableBuffer.over(device, noise[:AREA]))
    destination.array()[:] = 0xA5
    prepare(way, CopyList(slices(destination, source, BLOCKS), stream)).submit()
    assert destination.array().tobytes() == moved(noise, BLOCKS).tobytes()


@EACH_WAY
def test_what_the_source_holds_when_the_work_runs_is_copied_every_time(prepare, stream, pair, noise, way):
    work = prepare(way, CopyList(slices(*pair, BLOCKS), stream))
    work.submit()
    pair[1].array()[:] = noise[AREA : 2 * AREA]
    work.submit()
    assert read(pair[0]).tobytes() == moved(noise[AREA:], BLOCKS).tobytes()


@EACH_WAY
def test_one_submission_takes_the_driver_one_call_and_a_loop_one_for_each(prepare, stream, pair, calls, way):
    work = prepare(way, CopyList(slices(*pair, BLOCKS), stream))
    work.submit()
    calls.clear()
    work.queue()
    assert [call for call in calls if call != "cuCtxSetCurrent"] == [FUNCTIONS[way]] * (3 if way == "loop" else 1)
    stream.synchronize()


@EACH_WAY
def test_every_submission_takes_ownership_of_all_memory_once(prepare, device, stream, pair, way):
    destination, source = pair
    work = prepare(way, CopyList(slices(destination, source, BLOCKS), stream))
    for _ in range(2):
        copy(source, destination, stream=device.default_stream)
        waits = device.waits.stream
        work.submit()
        assert device.waits.stream == waits + 1
        assert (destination.ownership.stream, source.ownership.stream) == (stream, stream)
        assert destination.ownership.dirty


@EACH_WAY
def test_work_is_timed_behind_a_gate_like_any_other(prepare, device, stream, pair, noise, way):
    work = prepare(way, CopyList(slices(*pair, BLOCKS), stream))
    with Gate(device) as gate, BatchTimer(device, gate) as timer:
        assert timer.time(work, 3).gated
    assert read(pair[0]).tobytes() == moved(noise, BLOCKS).tobytes()


@pytest.mark.parametrize("way", ["loop", "batch"])
def test_pageable_memory_holds_the_host_and_never_waits_behind_a_closed_gate(prepare, device, stream, noise, way):
    destination, source = DeviceBuffer(device, AREA), PageableBuffer.over(device, noise[:AREA])
    clear(destination)
    work = prepare(way, CopyList(slices(destination, source, BLOCKS), stream))
    assert work.holds_host
    with Gate(device) as gate:
        gate.close_on(stream)
        with pytest.raises(CudabwError, match="3 copies of pageable memory would hold the host behind a closed gate"):
            work.submit()
    work.submit()
    assert stream.ready()
    assert read(destination).tobytes() == moved(noise, BLOCKS).tobytes()


def test_a_kernel_reaches_no_memory_without_a_device_pointer(prepare, device, stream):
    destination, source = DeviceBuffer(device, AREA), PageableBuffer(device, AREA)
    with pytest.raises(MemorySideError, match="pageable memory has no device pointer"):
        prepare("kernel", CopyList([(destination, source)], stream))


def test_a_kernel_reaches_no_memory_of_another_device_without_peer_access(make_device):
    here = make_device(shape=Shape(devices=2))
    there = make_device(1, driver=here.driver)
    with ScatterCopier(here) as copier, here.stream() as stream:
        copies = CopyList([(DeviceBuffer(there, AREA), MappedBuffer(here, AREA))], stream)
        with copier.prepare(copies) as work, pytest.raises(UnsupportedError, match="peer access"):
            work.submit()


@EACH_WAY
def test_empty_copies_are_left_out(prepare, stream, pair, calls, way):
    work = prepare(way, CopyList(slices(*pair, [(0, 0, 0), (10, 10, 0)]), stream))
    calls.clear()
    work.submit()
    assert calls == []


def test_copies_that_depend_on_their_order_are_refused(pair):
    destination, source = pair
    for blocks in ([(0, 0, 10), (9, 100, 10)], [(9, 100, 10), (0, 0, 10)], [(0, 0, 100), (50, 200, 1), (60, 300, 1)]):
        with pytest.raises(ValueError, match="a destination overlaps with memory of another copy"):
            CopyList(slices(destination, source, blocks))
    with pytest.raises(ValueError, match="a destination overlaps with memory of another copy"):
        CopyList([(destination[:10], source[:10]), (source[5:15], destination[100:110])])
    with pytest.raises(ValueError, match="do not fit"):
        CopyList([(destination[:10], source[:11])])
    with pytest.raises(ValueError, match="nothing to copy"):
        CopyList([])
    # Neighbours do not overlap, and sources may.
    CopyList(slices(destination, source, [(0, 0, 10), (10, 5, 10), (20, 0, 100)]))


@EACH_WAY
def test_closed_buffers_are_refused(prepare, device, stream, way):
    destination, source = DeviceBuffer(device, AREA), MappedBuffer(device, AREA)
    work = prepare(way, CopyList(slices(destination, source, BLOCKS), stream))
    source.close()
    with pytest.raises(ClosedError, match="mapped buffer of"):
        work.submit()


def test_a_closed_graph_is_refused_and_forgotten_once(stream, pair):
    with GraphCopy(CopyList(slices(*pair, BLOCKS), stream)) as work:
        work.submit()
    work.close()
    with pytest.raises(ClosedError, match="graph was closed"):
        work.submit()


def test_the_table_of_a_kernel_is_freed_after_the_last_launch(device, stream, pair, noise):
    with ScatterCopier(device) as copier:
        used = device.free_bytes
        with copier.prepare(CopyList(slices(*pair, BLOCKS), stream)) as work:
            assert device.free_bytes < used
            work.submit()
        assert device.free_bytes == used
    assert read(pair[0]).tobytes() == moved(noise, BLOCKS).tobytes()


@pytest.mark.parametrize(
    ("count", "nbytes", "block", "grid"),
    [
        (64, 1, 32, (1, 64)),
        (64, 4096, 256, (1, 64)),
        (64, 1 << 14, 512, (1, 64)),
        (2, 1 << 20, 512, (8, 2)),
        (1, 1 << 14, 512, (2, 1)),
        (70000, 1, 32, (1, 65535)),
    ],
)
def test_the_grid_of_a_kernel_has_a_row_for_each_copy(device, count, nbytes, block, grid):
    destination, source = DeviceBuffer(device, count * nbytes), MappedBuffer(device, count * nbytes)
    copies = [(destination[at : at + nbytes], source[at : at + nbytes]) for at in range(0, count * nbytes, nbytes)]
    with ScatterCopier(device) as copier, copier.prepare(CopyList(copies)) as work:
        assert (work.block, work.grid) == (block, grid)


def test_a_driver_without_batches_says_so(stream, pair, monkeypatch):
    monkeypatch.delattr(Versioned, "cuMemcpyBatchAsync")
    work = BatchCopy(CopyList(slices(*pair, BLOCKS), stream))
    with pytest.raises(UnsupportedError, match="cuMemcpyBatchAsync does not exist"):
        work.submit()


@EACH_WAY
@pytest.mark.parametrize("status", [1, 801])
def test_what_the_driver_refuses_is_an_error_that_names_it(make_device, way, status):
    nth = {"kernel": 2}.get(way, 1)  # the copier launches its kernel once
    device = make_device(faults=[Fault(function=FUNCTIONS[way], status=status, nth=nth)])
    destination, source = DeviceBuffer(device, AREA), MappedBuffer(device, AREA)
    with ScatterCopier(device) as copier, device.stream() as stream:
        work = (WAYS[way] or copier.prepare)(CopyList(slices(destination, source, BLOCKS), stream))
        with pytest.raises(UnsupportedError if status == 801 else DriverError, match=f"{FUNCTIONS[way]}|cudabw_copies"):
            work.submit()
        work.submit()


def test_a_batch_says_when_its_sources_are_read(device, stream, pair):
    # The driver refuses attributes that leave this open.
    seen = []
    real = device.driver.api.cuMemcpyBatchAsync
    device.driver.api.cuMemcpyBatchAsync = lambda *arguments: (seen.append(arguments), real(*arguments))[1]
    BatchCopy(CopyList(slices(*pair, BLOCKS), stream)).submit()
    ((dsts, srcs, sizes, count, attributes, starts, number, _),) = seen
    assert (sizes, count, starts, number) == ([10, 1, 77], 3, [0], 1)
    assert all(isinstance(address, cuda.CUdeviceptr) for address in (*dsts, *srcs))
    assert attributes[0].srcAccessOrder == cuda.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
