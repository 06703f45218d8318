"""A trial moves fresh bytes that are proven to have arrived, whatever the kind, direction and size."""

import ctypes
import mmap
from contextlib import ExitStack, closing
from functools import partial

import numpy as np
import pytest

from cudabw.benchmarks import transfers
from cudabw.benchmarks.transfers import (
    HOST_BUFFERS,
    SCRATCH_BYTES,
    DeviceToDevice,
    DeviceToFreshPages,
    DeviceToHost,
    DeviceToWriteCombined,
    HostToDevice,
    ManagedToDevice,
    ManagedToHost,
    transfer_class,
)
from cudabw.driver.emulated import Fault
from cudabw.driver.emulated.clock import ModelledClock
from cudabw.errors import CudabwError, UnsupportedError, WrongDataError
from cudabw.measuring.verification import PAGE_BYTES, Pattern
from cudabw.results.model import Pages
from cudabw.runtime.memory import PageableBuffer, PinnedBuffer
from cudabw.system.huge_pages import HugePages

KINDS = tuple(HOST_BUFFERS)
DIRECTIONS = ("h2d", "d2h")
ROWS = [(kind, direction) for kind in KINDS for direction in DIRECTIONS]
COPIED_ROWS = [row for row in ROWS if row[0] != "managed"]
ODD_SIZE = 3 * PAGE_BYTES + 1


@pytest.fixture(scope="module")
def pattern():
    with closing(Pattern(3, threads=2)) as pattern:
        yield pattern


@pytest.fixture
def make_transfer(pattern):
    """Makes a trial's transfer on a device; all are released afterwards."""
    with ExitStack() as owned:

        def make(device, kind, direction, nbytes=ODD_SIZE, pages=Pages.WARM):
            stream = owned.enter_context(device.stream())
            scratch = owned.enter_context(PageableBuffer(device, SCRATCH_BYTES))
            make = transfer_class(kind, direction, pages)
            return make(device, stream, pattern, scratch, kind, nbytes, owned, pages=pages)

        yield make


def run(transfer, stamp):
    transfer.change(stamp)
    transfer.work.submit()
    transfer.work.stream.synchronize()
    transfer.verify(stamp)


def run_batches(transfer, count):
    for stamp in range(1, count + 1):
        run(transfer, stamp)


def resident(transfer):
    api = transfer.host.device.driver.api
    return api._machine.memory.find(int(transfer.host.host_pointer))[0].resident


@pytest.mark.parametrize("nbytes", [1, PAGE_BYTES - 1, PAGE_BYTES, ODD_SIZE, SCRATCH_BYTES + PAGE_BYTES + 1])
def test_the_bytes_of_every_local_copy_arrive(device, make_transfer, nbytes):
    transfer = make_transfer(device, "device", "d2d", nbytes)
    assert transfer.confirm() == "memory of device 0"
    for stamp in (1, 2, 255):
        run(transfer, stamp)


def test_a_local_copy_that_was_not_done_fails_the_verification(device, make_transfer):
    transfer = make_transfer(device, "device", "d2d")
    with pytest.raises(WrongDataError, match="byte 1 of the destination holds 0x00"):
        transfer.verify(0)
    run(transfer, 1)
    transfer.change(2)
    with pytest.raises(WrongDataError, match="byte 0 of the destination holds 0x01 where the source holds 0x02"):
        transfer.verify(2)


@pytest.mark.parametrize("fault", ["drop", "corrupt"])
@pytest.mark.parametrize("direction", ["h2d", "d2h", "d2d"])
def test_a_local_copy_that_loses_or_changes_bytes_fails_the_verification(make_device, make_transfer, fault, direction):
    device = make_device(faults=[Fault(copy=fault, direction=direction, nth=1)])
    with pytest.raises(WrongDataError):
        run_batches(make_transfer(device, "device", "d2d"), 4)


def test_every_row_has_the_transfer_that_measures_it():
    assert [transfer_class("pinned", direction) for direction in DIRECTIONS] == [HostToDevice, DeviceToHost]
    assert transfer_class("device", "d2d") is DeviceToDevice
    assert [transfer_class("managed", direction) for direction in DIRECTIONS] == [ManagedToDevice, ManagedToHost]
    assert [transfer_class("write-combined", direction) for direction in DIRECTIONS] == [
        HostToDevice,
        DeviceToWriteCombined,
    ]


def resident_pages(buffer):
    """Whether the system has given each page of a buffer."""
    given = (ctypes.c_ubyte * -(-buffer.nbytes // PAGE_BYTES))()
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(int(buffer.host_pointer)), buffer.nbytes, given) == 0
    return {bool(page & 1) for page in given}


@pytest.mark.parametrize("nbytes", [1, PAGE_BYTES, ODD_SIZE, SCRATCH_BYTES + PAGE_BYTES + 1])
def test_a_copy_into_memory_that_was_never_touched_has_memory_of_its_own_each_time(device, make_transfer, nbytes):
    transfer = make_transfer(device, "pageable", "d2h", nbytes, pages=Pages.FIRST_TOUCH)
    assert isinstance(transfer, DeviceToFreshPages)
    assert not transfer.work.repeatable
    before = [transfer.host]
    for stamp in (1, 2, 255):
        transfer.change(stamp)
        assert resident_pages(transfer.host) == {False}
        assert all(buffer.closed for buffer in before)
        before.append(transfer.host)
        transfer.work.submit()
        transfer.verify(stamp)
        assert resident_pages(transfer.host) == {True}


def test_a_copy_into_fresh_memory_that_was_not_done_fails_the_verification(device, make_transfer):
    transfer = make_transfer(device, "pageable", "d2h", pages=Pages.FIRST_TOUCH)
    run(transfer, 1)
    transfer.change(2)
    with pytest.raises(WrongDataError, match="byte 0 of the destination holds 0x00 where the source holds 0x02"):
        transfer.verify(2)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_memory_that_is_not_on_huge_pages_is_never_measured_as_such(device, make_transfer, monkeypatch, direction):
    said = {"bytes": 1 << 40}
    monkeypatch.setattr("cudabw.benchmarks.huge_pages.read_huge_pages", lambda: HugePages("madvise", 2 << 20))
    monkeypatch.setattr("cudabw.benchmarks.huge_pages.huge_bytes_of", lambda _: said["bytes"])
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", mmap.MADV_NORMAL)
    transfer = make_transfer(device, "pageable", direction, pages=Pages.HUGE)
    assert resident_pages(transfer.host) == {True}
    assert int(transfer.host.host_pointer) % (2 << 20) == 0
    assert transfer.confirm() == "unknown to the driver"
    run_batches(transfer, 2)
    said["bytes"] = 0
    with pytest.raises(UnsupportedError, match="gave 0 B on huge pages"):
        transfer.confirm()


@pytest.mark.parametrize("nbytes", [1, PAGE_BYTES - 1, PAGE_BYTES, ODD_SIZE])
@pytest.mark.parametrize(("kind", "direction"), ROWS)
def test_the_bytes_of_every_batch_arrive(device, make_transfer, kind, direction, nbytes):
    transfer = make_transfer(device, kind, direction, nbytes)
    assert transfer.host.kind == kind
    for stamp in (1, 2, 255):
        run(transfer, stamp)


@pytest.mark.parametrize(
    ("kind", "direction"), [("pinned", "h2d"), ("pinned", "d2h"), ("write-combined", "d2h"), ("managed", "d2h")]
)
def test_the_bytes_arrive_where_they_do_not_fit_the_scratch_memory(device, make_transfer, kind, direction):
    transfer = make_transfer(device, kind, direction, SCRATCH_BYTES + PAGE_BYTES + 1)
    run(transfer, 1)
    transfer.host.array()[-1] ^= 1
    if direction == "d2h":
        with pytest.raises(WrongDataError, match=f"byte {SCRATCH_BYTES + PAGE_BYTES} of the destination"):
            transfer.verify(1)


@pytest.mark.parametrize(("kind", "direction"), COPIED_ROWS)
def test_work_that_was_not_done_fails_the_verification(device, make_transfer, kind, direction):
    transfer = make_transfer(device, kind, direction)
    run(transfer, 1)
    transfer.change(2)
    with pytest.raises(WrongDataError, match="byte 0 of the destination holds 0x01 where the source holds 0x02"):
        transfer.verify(2)


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("fault", ["drop", "corrupt"])
@pytest.mark.parametrize(("kind", "direction"), COPIED_ROWS)
def test_a_copy_that_loses_or_changes_bytes_fails_the_verification(make_device, pattern, kind, direction, fault, nth):
    # The nth copy of the direction, whether it is the timed one or one that carries the proof.
    device = make_device(faults=[Fault(copy=fault, direction=direction, nth=nth)])
    with ExitStack() as owned:
        stream = owned.enter_context(device.stream())
        scratch = owned.enter_context(PageableBuffer(device, SCRATCH_BYTES))
        transfer = transfer_class(kind, direction)(device, stream, pattern, scratch, kind, ODD_SIZE, owned)
        with pytest.raises(WrongDataError):
            run_batches(transfer, 4)


@pytest.mark.parametrize(("kind", "direction"), ROWS)
def test_every_page_of_the_source_changes_from_batch_to_batch(device, make_transfer, pattern, kind, direction):
    transfer = make_transfer(device, kind, direction)
    seen = []
    for stamp in (1, 2):
        transfer.change(stamp)
        # Read past the library: the source is host memory, or the emulated device's.
        source = transfer.host if direction == "h2d" or kind == "managed" else transfer._device_buffer
        out = np.zeros(ODD_SIZE, np.uint8)
        address = int(source.host_pointer if source.has_host_side else source.device_pointer)
        device.call("cuMemcpy", out.ctypes.data, address, ODD_SIZE)
        pattern.check(out, stamp=stamp)
        seen.append(out)
    assert np.flatnonzero(seen[0] != seen[1]).tolist() == [0, 4096, 8192, 12288]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "managed"])
def test_every_page_of_a_host_destination_is_written_before_it_is_timed(device, make_transfer, kind, monkeypatch):
    prepare = HOST_BUFFERS[kind]

    def make_dirty(device, nbytes):
        buffer = prepare(device, nbytes)()
        buffer.array()[:] = 0xEE
        return buffer

    monkeypatch.setitem(HOST_BUFFERS, kind, lambda device, nbytes: lambda: make_dirty(device, nbytes))
    assert not make_transfer(device, kind, "d2h").host.array().any()


def test_every_page_of_a_device_destination_is_written_before_it_is_timed(device, make_transfer, monkeypatch):
    set_bytes, ranges = device.driver.api.cuMemsetD8Async, []

    def recording(address, value, count, stream):
        ranges.append((int(address), value, count))
        return set_bytes(address, value, count, stream)

    monkeypatch.setattr(device.driver.api, "cuMemsetD8Async", recording, raising=False)
    transfer = make_transfer(device, "pinned", "h2d")
    assert ranges == [(int(transfer._device_buffer.device_pointer), 0, ODD_SIZE)]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_managed_pages_are_on_the_other_side_before_the_interval_and_on_this_side_after(
    device, make_transfer, direction
):
    transfer = make_transfer(device, "managed", direction)
    for stamp in (1, 2, 3):
        transfer.change(stamp)
        assert not transfer.host.busy
        assert resident(transfer) == (None if direction == "h2d" else 0)
        transfer.work.submit()
        transfer.work.stream.synchronize()
        assert resident(transfer) == (0 if direction == "h2d" else None)
        transfer.verify(stamp)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_cpu_changes_managed_pages_only_on_its_own_side(device, make_transfer, monkeypatch, direction):
    transfer, places = make_transfer(device, "managed", direction), []
    monkeypatch.setattr(transfers, "stamp_host", lambda *_arguments: places.append(resident(transfer)))
    for stamp in (1, 2):
        transfer.change(stamp)
        transfer.work.submit()
    assert places == [None, None]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_byte_that_changed_in_managed_memory_fails_the_verification(device, make_transfer, direction):
    transfer = make_transfer(device, "managed", direction)
    run(transfer, 1)
    transfer.host.array()[5000] ^= 1
    with pytest.raises(WrongDataError, match="byte 5000 of the destination"):
        transfer.verify(1)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("pageable", "unknown to the driver"),
        ("pinned", "page-locked"),
        ("mapped", "page-locked, mapped"),
        ("write-combined", "page-locked, write-combined"),
        ("registered", "page-locked"),
        ("managed", "managed"),
    ],
)
def test_the_driver_confirms_the_host_memory(device, make_transfer, kind, answer):
    assert make_transfer(device, kind, "h2d").confirm() == answer


def test_a_contradiction_of_the_driver_is_an_error(device, make_transfer, monkeypatch):
    monkeypatch.setitem(
        HOST_BUFFERS,
        "pageable",
        lambda device, nbytes: lambda: PageableBuffer.over(device, PinnedBuffer(device, nbytes).array()),
    )
    with pytest.raises(CudabwError, match=r"^the driver contradicts a pageable buffer"):
        make_transfer(device, "pageable", "h2d").confirm()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_time_to_allocate_is_that_of_the_host_memory_alone(make_device, make_transfer, monkeypatch, direction):
    clock = ModelledClock({"h2d": 1e6, "d2h": 1e6})
    device = make_device(clock=clock)

    def slow(seconds, act):
        def slowly(*arguments, **named):
            clock.advance(seconds)
            return act(*arguments, **named)

        return slowly

    monkeypatch.setitem(HOST_BUFFERS, "pinned", lambda device, nbytes: slow(3.0, partial(PinnedBuffer, device, nbytes)))
    monkeypatch.setattr(transfers, "DeviceBuffer", slow(100.0, transfers.DeviceBuffer))
    monkeypatch.setattr(Pattern, "fill", slow(100.0, Pattern.fill))
    assert make_transfer(device, "pinned", direction).allocation_s == 3.0


@pytest.mark.parametrize(("kind", "direction"), ROWS)
def test_a_trial_gives_all_its_memory_back(device, pattern, kind, direction):
    free = device.free_bytes
    with ExitStack() as owned:
        stream = owned.enter_context(device.stream())
        scratch = owned.enter_context(PageableBuffer(device, SCRATCH_BYTES))
        transfer = transfer_class(kind, direction)(device, stream, pattern, scratch, kind, ODD_SIZE, owned)
        run(transfer, 1)
    device.synchronize()
    assert device.free_bytes == free
    assert device.page_locked_bytes == 0
