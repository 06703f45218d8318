"""A copy moves exactly its bytes between any two kinds, waits for what it must, and refuses what it cannot do."""

from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudabw.copying.driver_copy import PreparedCopy, copy
from cudabw.driver.emulated import Fault
from cudabw.errors import ClosedError, CudabwError, DriverError
from cudabw.runtime.memory import DeviceBuffer, PageableBuffer, PinnedBuffer, RegisteredBuffer

KINDS = ("pageable", "pinned", "mapped", "write-combined", "registered", "managed", "device")
PAIRS = list(product(KINDS, KINDS))
SIZES = (1, 3, 4095, 4096, 4097, 65535, 65536, 65537, (1 << 20) + 1)
OFFSETS = ((1, 3), (13, 0), (63, 1), (3, 9), (0, 7), (7, 63), (5, 5), (9, 13), (31, 33))
MARGIN = 64
LARGEST = max(SIZES) + MARGIN


def write(buffer, data):
    copy(buffer, PageableBuffer.over(buffer.device, data))


def read(buffer):
    out = np.empty(buffer.nbytes, np.uint8)
    copy(PageableBuffer.over(buffer.device, out), buffer)
    return out


# -- bytes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queued", [False, True], ids=["sync", "stream"])
@pytest.mark.parametrize(("to", "frm"), PAIRS)
def test_every_pair_of_kinds_moves_exactly_its_bytes(make_buffer, stream, noise, to, frm, queued):
    destination, source = make_buffer(to, LARGEST), make_buffer(frm, LARGEST)
    write(source, noise[:LARGEST])
    untouched = np.full(LARGEST, 0xA5, np.uint8)
    for (at_destination, at_source), size in zip(OFFSETS, SIZES, strict=True):
        write(destination, untouched)
        part = destination[at_destination : at_destination + size]
        copy(part, source[at_source : at_source + size], stream=stream if queued else None)
        expected = untouched.copy()
        expected[at_destination : at_destination + size] = noise[at_source : at_source + size]
        assert read(destination).tobytes() == expected.tobytes()
    assert read(source).tobytes() == noise[:LARGEST].tobytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data(), pair=st.sampled_from(PAIRS))
def test_any_offset_and_length_is_byte_exact(make_buffer, noise, data, pair):
    destination, source = make_buffer(pair[0], 200), make_buffer(pair[1], 200)
    write(source, noise[:200])
    write(destination, noise[200:400])
    size = data.draw(st.integers(0, 200), label="size")
    at_destination = data.draw(st.integers(0, 200 - size), label="at destination")
    at_source = data.draw(st.integers(0, 200 - size), label="at source")
    copy(destination[at_destination:], source[at_source : at_source + size])
    expected = noise[200:400].copy()
    expected[at_destination : at_destination + size] = noise[at_source : at_source + size]
    assert read(destination).tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_buffer_is_copied_within_itself_where_nothing_overlaps(make_buffer, noise, kind):
    buffer = make_buffer(kind, 256)
    write(buffer, noise[:256])
    copy(buffer[128:], buffer[:128])
    copy(buffer[:64], buffer[192:])
    assert read(buffer).tobytes() == (noise[64:128].tobytes() + noise[64:128].tobytes() + noise[:128].tobytes())


def test_a_larger_destination_keeps_its_tail(make_buffer, noise):
    destination, source = make_buffer("device", 100), make_buffer("pinned", 60)
    write(destination, noise[:100])
    write(source, noise[100:160])
    copy(destination, source)
    assert read(destination).tobytes() == noise[100:160].tobytes() + noise[60:100].tobytes()


def test_nothing_is_copied_of_nothing(make_buffer, stream, gate, calls):
    gate.close_on(stream)
    for to, frm in product(KINDS, KINDS):
        if "registered" not in (to, frm):
            destination, source = make_buffer(to, 0), make_buffer(frm, 0)
            calls.clear()
            copy(destination, source, stream=stream)
            assert [name for name in calls if name.startswith("cuMemcpy")] == []
    assert stream.submitted == 0
    gate.open()


# -- when it is done --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("to", "frm"), PAIRS)
def test_without_a_stream_the_destination_is_readable_on_return(make_buffer, to, frm):
    destination, source = make_buffer(to, 1 << 16), make_buffer(frm, 1 << 16)
    copy(destination, source)
    assert not destination.ownership.dirty
    assert not source.ownership.dirty


def test_on_a_stream_the_copy_waits_for_the_work_before_it(make_buffer, device, stream, gate, noise):
    source, between, back = make_buffer("pinned", 4096), make_buffer("device", 4096), make_buffer("pinned", 4096)
    write(source, noise[:4096])
    unread = back.array()
    gate.close_on(stream)
    copy(between, source, stream=stream)
    copy(back, between, stream=stream)
    assert (unread == 0).all()
    gate.open()
    stream.synchronize()
    assert (unread == noise[:4096]).all()
    assert device.waits.stream == 0


def test_copies_of_one_buffer_on_two_streams_are_ordered_by_one_wait(make_buffer, device, stream, gate, calls, noise):
    source, shared, back = make_buffer("pinned", 4096), make_buffer("device", 4096), make_buffer("pinned", 4096)
    write(source, noise[:4096])
    waited = device.waits.host
    with device.stream() as other:
        gate.close_on(stream)
        copy(shared, source, stream=stream)
        calls.clear()
        copy(back, shared, stream=other)
        copy(back, shared, stream=other)
        assert [name for name in calls if name in ("cuStreamWaitEvent", "cuMemcpyDtoHAsync")] == [
            "cuStreamWaitEvent",
            "cuMemcpyDtoHAsync",
            "cuMemcpyDtoHAsync",
        ]
        assert device.waits.stream == 1
        assert device.waits.host == waited
        gate.open()
        assert (back.array() == noise[:4096]).all()


def test_a_copy_between_host_buffers_waits_for_queued_work_on_either(make_buffer, device, stream, noise):
    first, second, between = make_buffer("pinned", 4096), make_buffer("pinned", 4096), make_buffer("device", 4096)
    write(between, noise[:4096])
    PreparedCopy(first, between, stream).submit(times=200)
    waited = device.waits.host
    copy(second, first)
    assert device.waits.host == waited + 1
    assert (second.array() == noise[:4096]).all()


@pytest.mark.parametrize(
    ("to", "frm", "function"),
    [
        ("device", "pinned", "cuMemcpyHtoDAsync"),
        ("device", "pageable", "cuMemcpyHtoDAsync"),
        ("mapped", "device", "cuMemcpyDtoHAsync"),
        ("device", "device", "cuMemcpyDtoDAsync"),
        ("managed", "device", "cuMemcpyAsync"),
        ("device", "managed", "cuMemcpyAsync"),
        ("pinned", "managed", "cuMemcpyAsync"),
        ("pinned", "registered", "cuMemcpyAsync"),
    ],
)
def test_each_pair_goes_through_the_drivers_own_function_for_it(make_buffer, stream, calls, to, frm, function):
    destination, source = make_buffer(to, 4096), make_buffer(frm, 4096)
    calls.clear()
    copy(destination, source, stream=stream)
    assert [name for name in calls if name.startswith("cuMemcpy")] == [function]


@pytest.mark.parametrize(
    ("to", "frm", "functions"),
    [("pinned", "pageable", []), ("mapped", "registered", []), ("managed", "pinned", ["cuMemcpyAsync"])],
)
def test_the_host_copies_by_itself_unless_pages_may_be_on_the_device(make_buffer, calls, to, frm, functions):
    destination, source = make_buffer(to, 4096), make_buffer(frm, 4096)
    calls.clear()
    copy(destination, source)
    assert [name for name in calls if name.startswith("cuMemcpy")] == functions


def test_a_prepared_copy_is_submitted_as_often_as_asked(make_buffer, stream, calls, noise):
    destination, source = make_buffer("device", 4096), make_buffer("pinned", 4096)
    prepared = PreparedCopy(destination, source, stream)
    write(source, noise[:4096])
    calls.clear()
    prepared.submit()
    prepared.submit(times=5)
    assert calls.count("cuMemcpyHtoDAsync") == 6
    assert prepared.repeatable
    assert (read(destination) == noise[:4096]).all()


@pytest.mark.parametrize(("to", "frm"), PAIRS)
def test_a_copy_says_whether_it_holds_the_host(make_buffer, stream, to, frm):
    prepared = PreparedCopy(make_buffer(to, 8), make_buffer(frm, 8), stream)
    assert prepared.holds_host == ("pageable" in (to, frm))


def test_a_failure_of_the_driver_is_an_error_with_its_function(make_device):
    device = make_device(faults=[Fault(function="cuMemcpyHtoDAsync", status=999)])
    with pytest.raises(DriverError) as failure:
        copy(DeviceBuffer(device, 64), PinnedBuffer(device, 64))
    assert (failure.value.function, failure.value.code) == ("cuMemcpyHtoDAsync", 999)


# -- gates ------------------------------------------------------------------------------------------------


def refusal_of(action):
    with pytest.raises(CudabwError) as refusal:
        action()
    return refusal.value


@pytest.mark.parametrize(("to", "frm"), [("device", "pageable"), ("pageable", "device"), ("pageable", "pinned")])
def test_a_pageable_copy_is_never_queued_behind_a_closed_gate(make_buffer, stream, gate, calls, to, frm):
    destination, source = make_buffer(to, 64), make_buffer(frm, 64)
    gate.close_on(stream)
    calls.clear()
    refusal = refusal_of(lambda: copy(destination, source, stream=stream))
    assert refusal.message == (
        f"a copy of 64 bytes from {frm} to {to} memory would hold the host behind a closed gate for ever"
    )
    assert refusal.hint == "Open the gate first, or use pinned memory."
    assert calls == []
    assert stream.submitted == 0
    gate.open()
    copy(destination, source, stream=stream)


def test_a_pageable_copy_does_not_wait_for_a_buffer_that_a_closed_gate_holds(make_buffer, device, stream, gate, calls):
    shared, source = make_buffer("device", 64), make_buffer("pageable", 64)
    with device.stream() as other:
        gate.close_on(stream)
        copy(shared, make_buffer("pinned", 64), stream=stream)
        calls.clear()
        refusal = refusal_of(lambda: copy(shared, source, stream=other))
        assert refusal.hint == "Open the gate first, or use pinned memory."
        assert calls == []
        gate.open()
        copy(shared, source, stream=other)


def test_a_closed_gate_does_not_hold_a_buffer_whose_use_is_over(make_buffer, device, stream, gate, noise):
    shared, source = make_buffer("device", 64), make_buffer("pageable", 64)
    write(source, noise[:64])
    copy(shared, make_buffer("pinned", 64), stream=stream)
    stream.synchronize()
    with device.stream() as other:
        gate.close_on(stream)
        copy(shared, source, stream=other)
        copy(source, shared)
        gate.open()
    assert (read(shared) == noise[:64]).all()


def test_a_copy_that_the_host_waits_for_does_not_wait_behind_a_closed_gate(make_buffer, device, stream, gate):
    shared, source = make_buffer("device", 64), make_buffer("pinned", 64)
    gate.close_on(stream)
    copy(shared, source, stream=stream)
    refusal = refusal_of(lambda: copy(make_buffer("pinned", 64), shared))
    assert refusal.message == (
        "a copy of 64 bytes from device to pinned memory would hold the host behind a closed gate for ever"
    )
    assert refusal.hint == "Open the gate first, or name a stream."
    assert device.waits.stream == 0
    gate.open()


def test_a_copy_between_host_buffers_does_not_wait_behind_a_closed_gate(make_buffer, stream, gate):
    source = make_buffer("pinned", 64)
    gate.close_on(stream)
    copy(make_buffer("device", 64), source, stream=stream)
    refusal = refusal_of(lambda: copy(make_buffer("pinned", 64), source))
    assert refusal.message == "the host would wait for ever for a stream that a closed gate holds"
    gate.open()


def test_copies_on_other_streams_pass_a_closed_gate(make_buffer, stream, gate, noise):
    destination, source = make_buffer("device", 64), make_buffer("pageable", 64)
    write(source, noise[:64])
    gate.close_on(stream)
    copy(destination, source)
    assert (read(destination) == noise[:64]).all()
    gate.open()


# -- refusals before any driver call ----------------------------------------------------------------------


@pytest.mark.parametrize("queued", [False, True], ids=["sync", "stream"])
@pytest.mark.parametrize(("to", "frm"), [("device", "pinned"), ("pinned", "device"), ("pageable", "mapped")])
def test_too_many_bytes_are_refused_before_any_driver_call(make_buffer, device, calls, to, frm, queued):
    destination, source = make_buffer(to, 63), make_buffer(frm, 64)
    stream = device.stream() if queued else None
    calls.clear()
    with pytest.raises(ValueError, match=rf"^64 bytes of {frm} memory do not fit into 63 bytes$"):
        copy(destination, source, stream=stream)
    assert calls == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("to", "frm"), [((1, 65), (0, 64)), ((0, 64), (1, 65)), ((0, 64), (0, 64)), ((63, 127), (0, 64))]
)
def test_overlapping_bytes_are_refused_before_any_driver_call(make_buffer, calls, kind, to, frm):
    buffer = make_buffer(kind, 128)
    destination, source = buffer[slice(*to)], buffer[slice(*frm)]
    calls.clear()
    start = int(buffer.host_pointer if buffer.has_host_side else buffer.device_pointer)
    with pytest.raises(ValueError, match=r"^source and destination overlap") as refusal:
        copy(destination, source)
    assert str(refusal.value) == (
        f"source and destination overlap: 64 bytes at 0x{start + frm[0]:x} and 0x{start + to[0]:x}"
    )
    assert calls == []


def test_two_buffers_over_one_array_overlap(device):
    array = np.zeros(128, np.uint8)
    with RegisteredBuffer(device, array) as registered, pytest.raises(ValueError, match="overlap"):
        copy(PageableBuffer.over(device, array)[32:], registered[:64])


def test_a_short_source_may_end_inside_a_long_destination(make_buffer, noise):
    # Only as many bytes as the source has are written: these two do not meet.
    buffer = make_buffer("pinned", 128)
    write(buffer, noise[:128])
    copy(buffer, buffer[100:])
    assert read(buffer).tobytes() == noise[100:128].tobytes() + noise[28:128].tobytes()


@pytest.mark.parametrize("kind", ["pinned", "device"])
@pytest.mark.parametrize("make", [RegisteredBuffer, PageableBuffer.over])
def test_a_read_only_destination_is_refused_before_any_driver_call(make_buffer, device, calls, make, kind):
    array = np.zeros(64, np.uint8)
    array.flags.writeable = False
    destination, source = make(device, array), make_buffer(kind, 64)
    calls.clear()
    with pytest.raises(ValueError, match=r"is read-only, so it cannot be a destination$"):
        copy(destination, source)
    assert calls == []


@pytest.mark.parametrize("which", [0, 1])
def test_a_closed_buffer_is_refused_before_any_driver_call(make_buffer, stream, calls, which):
    buffers = make_buffer("device", 64), make_buffer("pinned", 64)
    prepared = PreparedCopy(*buffers, stream)
    buffers[which].close()
    calls.clear()
    for action in (prepared.submit, lambda: copy(*buffers), lambda: copy(*buffers, stream=stream)):
        with pytest.raises(ClosedError, match=rf"^this {buffers[which].kind} buffer of 64 bytes was closed$"):
            action()
    assert calls == []


def test_a_closed_stream_is_refused_before_any_driver_call(make_buffer, stream, calls):
    destination, source = make_buffer("device", 64), make_buffer("pinned", 64)
    stream.close()
    calls.clear()
    with pytest.raises(ClosedError, match=r"^this stream was closed$"):
        copy(destination, source, stream=stream)
    assert calls == []


@pytest.mark.parametrize("array_first", [True, False])
def test_an_array_is_no_buffer_and_the_error_says_how_to_make_it_one(device, array_first):
    pair = [np.zeros(8, np.uint8), DeviceBuffer(device, 8)]
    with pytest.raises(TypeError, match=r"^copies are between buffers, not ndarray: wrap an array in PageableBuffer"):
        copy(*(pair if array_first else reversed(pair)))
