"""Copies on a real GPU: byte-exact for every pair of kinds, across the 4 GiB mark, and in order."""

from contextlib import ExitStack, closing
from itertools import product

import numpy as np
import pytest

from cudabw.benchmarks.transfers import HOST_BUFFERS
from cudabw.copying.driver_copy import PreparedCopy, copy
from cudabw.copying.kernel_copy import KernelCopier
from cudabw.copying.prefetch import PreparedPrefetch
from cudabw.copying.staged_copy import StagedCopier
from cudabw.errors import CudabwError, WrongDataError
from cudabw.measuring.timing import BatchTimer
from cudabw.measuring.verification import Pattern, stamp_device, stamp_host
from cudabw.results.model import Clock
from cudabw.runtime.event import Event
from cudabw.runtime.gate import Gate
from cudabw.runtime.memory import DeviceBuffer, ManagedBuffer, MappedBuffer, PageableBuffer, PinnedBuffer

pytestmark = pytest.mark.gpu

KINDS = (*HOST_BUFFERS, "device")
SIZES = (1, 3, 4095, 4096, 4097, 65535, 65536, 65537, (1 << 20) + 1)
OFFSETS = ((1, 3), (13, 0), (63, 1), (3, 9), (0, 7), (7, 63), (5, 5), (9, 13), (31, 33))
LARGEST = max(SIZES) + 64
MARK = 4 << 30
HUGE = MARK + 4096


@pytest.fixture(scope="module")
def pattern():
    with closing(Pattern(1)) as pattern:
        yield pattern


@pytest.fixture(scope="module")
def noise():
    return np.random.default_rng(1).integers(0, 256, LARGEST, np.uint8)


def write(buffer, data):
    copy(buffer, PageableBuffer.over(buffer.device, data))


def read(buffer):
    out = np.empty(buffer.nbytes, np.uint8)
    copy(PageableBuffer.over(buffer.device, out), buffer)
    return out


def make(kind, device):
    return DeviceBuffer(device, LARGEST) if kind == "device" else HOST_BUFFERS[kind](device, LARGEST)()


@pytest.mark.parametrize("queued", [False, True], ids=["sync", "stream"])
@pytest.mark.parametrize(("to", "frm"), list(product(KINDS, KINDS)))
def test_every_pair_of_kinds_moves_exactly_its_bytes(gpu, stream, noise, to, frm, queued):
    untouched = np.full(LARGEST, 0xA5, np.uint8)
    with make(to, gpu) as destination, make(frm, gpu) as source:
        write(source, noise)
        for (at_destination, at_source), size in zip(OFFSETS, SIZES, strict=True):
            write(destination, untouched)
            part = destination[at_destination : at_destination + size]
            copy(part, source[at_source : at_source + size], stream=stream if queued else None)
            expected = untouched.copy()
            expected[at_destination : at_destination + size] = noise[at_source : at_source + size]
            assert read(destination).tobytes() == expected.tobytes()


def test_more_than_4_gib_arrives_on_both_sides_of_the_mark(gpu, pattern):
    with PinnedBuffer(gpu, HUGE) as host, DeviceBuffer(gpu, HUGE) as there, DeviceBuffer(gpu, HUGE) as beside:
        array = host.array()
        pattern.fill(array, stamp=1)
        copy(there, host)
        copy(beside, there)
        stamp_device(beside, 2)
        array[:] = 0
        copy(host, beside)
        pattern.check(array, stamp=2)
        # A few bytes that lie across the mark, at odd places.
        with PinnedBuffer(gpu, 4099) as small:
            copy(small, there[MARK - 2049 : MARK + 2050])
            stamp_host(array, 1)
            assert (small.array() == array[MARK - 2049 : MARK + 2050]).all()
        # The check itself looks beyond the mark.
        array[MARK + 4095] ^= 1
        with pytest.raises(WrongDataError, match=rf"byte {MARK + 4095} of the destination"):
            pattern.check(array, stamp=1)


@pytest.mark.parametrize(
    ("kind", "copier"),
    [(PageableBuffer, None), (PageableBuffer, StagedCopier), (MappedBuffer, KernelCopier)],
    ids=["driver", "staged", "kernel"],
)
def test_more_than_4_gib_at_odd_places_arrives_by_every_engine(gpu, pattern, kind, copier):
    with ExitStack() as owned:
        move = copy if copier is None else owned.enter_context(copier(gpu)).copy
        host, there = owned.enter_context(kind(gpu, HUGE + 3)), owned.enter_context(DeviceBuffer(gpu, HUGE + 3))
        array = host.array()[3 : 3 + HUGE]
        pattern.fill(array, stamp=1)
        move(there[1 : 1 + HUGE], host[3:])
        array[:] = 0
        move(host[3:], there[1 : 1 + HUGE])
        pattern.check(array, stamp=1)


def test_copies_of_one_buffer_on_two_streams_are_ordered_by_one_wait(gpu, stream, gate, noise):
    waited = gpu.waits.stream
    with (
        PinnedBuffer(gpu, LARGEST) as source,
        DeviceBuffer(gpu, LARGEST) as shared,
        PinnedBuffer(gpu, LARGEST) as back,
        gpu.stream() as other,
    ):
        source.array()[:], back.array()[:] = noise, 0
        gate.close_on(stream)
        copy(shared, source, stream=stream)
        copy(back, shared, stream=other)
        assert gpu.waits.stream == waited + 1
        assert back.busy
        gate.open()
        assert (back.array() == noise).all()


def test_managed_pages_go_both_ways_with_their_bytes(gpu, stream, noise):
    if not gpu.attribute("CONCURRENT_MANAGED_ACCESS"):
        pytest.skip("this device does not move managed memory on demand")
    key = gpu.driver.api.CUmem_range_attribute.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION
    with ManagedBuffer(gpu, LARGEST) as buffer:
        write(buffer, noise)
        for to_device, place in ((True, gpu.ordinal), (False, -1)):
            PreparedPrefetch(buffer, stream, to_device=to_device).submit()
            stream.synchronize()
            assert int(gpu.call("cuMemRangeGetAttribute", 4, key, int(buffer.device_pointer), LARGEST)) == place
        assert (buffer.array() == noise).all()


def test_a_pageable_copy_is_never_queued_behind_a_closed_gate(gpu, stream, gate):
    with DeviceBuffer(gpu, 4096) as target, PageableBuffer(gpu, 4096) as source:
        gate.close_on(stream)
        with pytest.raises(CudabwError, match=r"would hold the host behind a closed gate for ever$"):
            copy(target, source, stream=stream)
        gate.open()
        copy(target, source, stream=stream)


def test_a_closed_gate_holds_what_is_queued_until_it_is_opened(gpu, stream, gate):
    with Event(gpu) as event:
        gate.close_on(stream)
        event.record(stream)
        assert not event.ready()
        gate.open()
        event.synchronize()
        assert not gate.expired


def test_the_watchdog_opens_a_forgotten_gate(gpu, stream):
    with Gate(gpu, watchdog_s=0.2) as gate, Event(gpu) as event:
        gate.close_on(stream)
        event.record(stream)
        event.synchronize()
        assert gate.expired


@pytest.mark.parametrize(("make", "clock"), [(PinnedBuffer, Clock.EVENT), (PageableBuffer, Clock.HOST)])
@pytest.mark.parametrize("times", [1, 64])
def test_a_batch_takes_time(gpu, stream, gate, make, clock, times):
    with make(gpu, 1 << 20) as source, DeviceBuffer(gpu, 1 << 20) as target, BatchTimer(gpu, gate) as timer:
        timing = timer.time(PreparedCopy(target, source, stream), times)
    assert timing.seconds > 0
    assert (timing.clock, timing.gated) == (clock, clock is Clock.EVENT)
