"""Staged copies move exactly their bytes, leave to the driver what it does better, and stop as a whole."""

import ctypes
import gc
import os
import signal
import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudabw.copying import claims, staging_area, staging_calibration, staging_slots
from cudabw.copying.call_rows import FOUR_ARGUMENTS, address_of, make_calls, make_calls_in_python
from cudabw.copying.claims import claim_in_python
from cudabw.copying.driver_copy import PreparedCopy, copy
from cudabw.copying.staged_copy import StagedCopier
from cudabw.copying.staging_calibration import SMALLEST_STAGED, Calibration, Setting, usable_cpus
from cudabw.copying.staging_programs import (
    FUNCTIONS,
    QUEUE,
    SMALLEST_PIECE,
    Places,
    Transfer,
    cut,
    piece_lengths,
    program,
    takers,
)
from cudabw.copying.staging_slots import SLOTS_PER_WORKER, Post
from cudabw.copying.staging_stores import past_caches, through_caches
from cudabw.driver.emulated import Fault, ModelledClock
from cudabw.errors import ClosedError, CudabwError, DriverError, RefusedError
from cudabw.measuring.timing import BatchTimer
from cudabw.results.model import Clock
from cudabw.runtime.memory import DeviceBuffer, PageableBuffer, PinnedBuffer
from tests.unit.copying.conftest import record

SLOT = 4096
THREADS = 3
SIZES = (1, 3, 4095, 4096, 4097, 65535, 65536, 65537, (1 << 20) + 1)
OFFSETS = ((1, 3), (13, 0), (63, 1), (3, 9), (0, 7), (7, 63), (5, 5), (9, 13), (31, 33))
MARGIN = 64
DIRECTIONS = ("h2d", "d2h")


@pytest.fixture(autouse=True)
def eight_cpus(monkeypatch):
    monkeypatch.setattr(staging_area, "usable_cpus", lambda: 8)


@pytest.fixture
def make_copier():
    """Makes a copier that stages everything; all are closed afterwards."""
    copiers = []

    def make(device, *, threads=THREADS, slot=SLOT, at_least=1):
        copiers.append(StagedCopier(device, threads=threads, slot=slot, at_least=at_least))
        return copiers[-1]

    yield make
    for copier in copiers:
        copier.close()


@pytest.fixture
def copier(device, make_copier):
    return make_copier(device)


def filled(device, data):
    buffer = DeviceBuffer(device, len(data))
    copy(buffer, PageableBuffer.over(device, data))
    return buffer


def read(buffer):
    out = np.empty(buffer.nbytes, np.uint8)
    copy(PageableBuffer.over(buffer.device, out), buffer)
    return out


def workers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("cudabw-staging")]


def moves(copier, noise, direction, nbytes, at=0, to=0):
    """Whether exactly the bytes of a slice move into a slice."""
    total = nbytes + 2 * MARGIN
    expected = np.full(total, 0xA5, np.uint8)
    host, memory = expected.copy(), filled(copier.device, expected)
    if direction == "h2d":
        copier.copy(memory[to : to + nbytes], noise[at : at + nbytes])
        got = read(memory)
    else:
        copy(memory[at : at + nbytes], PageableBuffer.over(copier.device, noise[at : at + nbytes]))
        copier.copy(host[to : to + nbytes], memory[at : at + nbytes])
        got = host
    expected[to : to + nbytes] = noise[at : at + nbytes]
    return got.tobytes() == expected.tobytes()


# -- bytes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("nbytes", "offsets"), list(zip(SIZES, OFFSETS, strict=True)))
def test_exactly_the_bytes_of_a_slice_move(copier, noise, direction, nbytes, offsets):
    assert moves(copier, noise, direction, nbytes, *offsets)
    assert copier.device.page_locked_bytes == THREADS * SLOTS_PER_WORKER * SLOT


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    direction=st.sampled_from(DIRECTIONS),
    nbytes=st.integers(0, 40 * SLOT),
    at=st.integers(0, MARGIN),
    to=st.integers(0, MARGIN),
)
def test_any_size_and_alignment_is_byte_exact(copier, noise, direction, nbytes, at, to):
    assert moves(copier, noise, direction, nbytes, at, to)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_pieces_that_grow_and_shrink_are_byte_exact(device, copier, direction):
    nbytes = 7 * SMALLEST_PIECE + 77
    data = np.random.default_rng(3).integers(0, 256, nbytes, np.uint8)
    copier._area._settings = {direction: Setting(2, 2 * SMALLEST_PIECE, 1) for direction in DIRECTIONS}
    source, target = (data, DeviceBuffer(device, nbytes)) if direction == "h2d" else (filled(device, data), data * 0)
    copier.copy(target, source)
    assert (read(target) if direction == "h2d" else target).tobytes() == data.tobytes()


def test_an_array_of_any_dtype_and_shape_goes_there_and_back(copier):
    array = np.arange(30_000, dtype=np.float64).reshape(100, 300)
    memory, back = DeviceBuffer(copier.device, array.nbytes), np.zeros_like(array)
    copier.copy(memory, array)
    copier.copy(back, memory)
    assert np.array_equal(back, array)


def test_bytes_move_as_they_lie_in_memory_also_from_a_read_only_array_in_fortran_order(copier):
    array = np.asfortranarray(np.arange(30_000, dtype=np.int32).reshape(100, 300))
    array.flags.writeable = False
    memory, back = DeviceBuffer(copier.device, array.nbytes), np.zeros((300, 100), np.int32)
    copier.copy(memory, array)
    copier.copy(back, memory)
    assert np.array_equal(back, array.T)


def test_nothing_is_copied_of_an_empty_array(copier, noise):
    memory = filled(copier.device, noise[:100])
    copier.copy(memory, np.empty((0, 5), np.float32))
    assert read(memory).tobytes() == noise[:100].tobytes()


def test_our_own_pageable_buffers_are_staged(device, copier, noise):
    memory, host = DeviceBuffer(device, len(noise)), PageableBuffer(device, len(noise))
    host.array()[:] = noise
    copier.copy(memory, host)
    assert device.page_locked_bytes
    assert read(memory).tobytes() == noise.tobytes()


@pytest.mark.parametrize("kind", ["pinned", "mapped", "registered", "managed", "device"])
def test_other_kinds_of_memory_are_copied_by_the_driver(device, copier, make_buffer, noise, kind):
    memory, other = filled(device, noise[:5000]), make_buffer(kind, 5000)
    held = device.page_locked_bytes
    copier.copy(other, memory)
    assert read(other).tobytes() == noise[:5000].tobytes()
    assert device.page_locked_bytes == held
    assert workers() == []


def test_a_copy_can_be_repeated_and_timed_like_any_other_work(device, copier, noise, calls):
    memory = DeviceBuffer(device, 3 * SLOT)
    work = copier.prepare(memory, noise[: 3 * SLOT])
    work.submit()
    calls.clear()
    work.submit(4)
    assert calls.count("cuMemcpyHtoDAsync") == 4 * 3
    with BatchTimer(device, gate=None) as timer:
        timing = timer.time(work, 2)
    assert (timing.clock, timing.gated) == (Clock.HOST, False)
    assert timing.seconds > 0
    assert read(memory).tobytes() == noise[: 3 * SLOT].tobytes()


def test_two_threads_may_share_a_copier(device, copier, noise):
    buffers = [DeviceBuffer(device, 50_000) for _ in range(4)]
    threads = [
        threading.Thread(target=copier.copy, args=(buffer, noise[number:][:50_000]))
        for number, buffer in enumerate(buffers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, buffer in enumerate(buffers):
        assert read(buffer).tobytes() == noise[number:][:50_000].tobytes()


@pytest.mark.parametrize(("direction", "held"), [("h2d", 1), ("d2h", SLOTS_PER_WORKER)])
def test_a_worker_that_gets_no_further_leaves_the_other_pieces_to_the_rest(device, make_copier, noise, direction, held):
    """The worker that copies first waits until the other has copied all that it does not hold itself."""
    nbytes, data = 60 * SLOT, noise[: 60 * SLOT]
    source, target = (data, DeviceBuffer(device, nbytes)) if direction == "h2d" else (filled(device, data), data * 0)
    work = make_copier(device, threads=2).prepare(target, source)
    plain = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 3)(work._transfer.copy_bytes)
    copied, rest = {}, threading.Event()

    def copy_bytes(to, at, length):
        me = threading.current_thread()
        if not copied.setdefault(me, []) and me is next(iter(copied)):
            assert rest.wait(60)
        plain(to, at, length)
        copied[me] += [length] if length else []
        if len(copied[me]) == 60 - held:
            rest.set()

    work._transfer = with_copy(work._transfer, copy_bytes)
    work.submit()
    assert [len(lengths) for lengths in copied.values()] == [held, 60 - held]
    assert (read(target) if direction == "h2d" else target).tobytes() == data.tobytes()


# -- what is refused ---------------------------------------------------------------------------------------


def test_what_cannot_be_copied_is_refused_before_anything_moves(device, make_device, copier):
    memory, array = DeviceBuffer(device, 100), np.zeros(101, np.uint8)
    with pytest.raises(ValueError, match="101 bytes of pageable memory do not fit into 100 bytes"):
        copier.copy(memory, array)
    with pytest.raises(ValueError, match="not contiguous"):
        copier.copy(memory, array[::2])
    with pytest.raises(ValueError, match="overlap"):
        copier.copy(array[1:], array[:-1])
    with pytest.raises(ValueError, match="only copies between pageable and device memory are staged"):
        copier.prepare(memory, memory)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        copier.copy(array, memory)
    with pytest.raises(TypeError, match="not a NumPy array but list"):
        copier.copy(memory, [1, 2])
    other = make_device()
    with pytest.raises(ValueError, match="memory and streams of device 0"):
        copier.copy(DeviceBuffer(other, 101), array)
    with pytest.raises(ValueError, match="memory and streams of device 0"):
        copier.prepare(memory, array[:100], other.default_stream)
    assert workers() == []


@pytest.mark.parametrize("argument", ["threads", "slot", "at_least"])
def test_numbers_are_positive(device, argument):
    with pytest.raises(ValueError, match=f"{argument} is at least 1, not 0"):
        StagedCopier(device, **{argument: 0})
    with pytest.raises(TypeError):
        StagedCopier(device, **{argument: 2.5})


def test_only_the_two_directions_have_a_setting(copier):
    with pytest.raises(ValueError, match="unknown direction 'd2d'; choose from h2d, d2h"):
        copier.setting("d2d")


def test_a_copy_that_would_wait_behind_a_closed_gate_is_refused(device, copier, stream, gate, noise):
    memory, pinned = DeviceBuffer(device, 5000), PinnedBuffer(device, 5000)
    gate.close_on(stream)
    PreparedCopy(memory, pinned, stream).submit()
    with pytest.raises(CudabwError, match="closed gate"):
        copier.copy(memory, noise[:5000])
    gate.open()
    copier.copy(memory, noise[:5000])
    assert read(memory).tobytes() == noise[:5000].tobytes()


def test_a_capture_is_not_spoiled(device, copier, stream, noise):
    work = copier.prepare(DeviceBuffer(device, 5000), noise[:5000], stream)
    mode = device.driver.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    device.call("cuStreamBeginCapture", stream.handle, mode)
    stream.disturb()
    with pytest.raises(CudabwError, match="captured"):
        work.submit()
    device.call("cuStreamEndCapture", stream.handle)


# -- order -------------------------------------------------------------------------------------------------


def test_a_copy_takes_ownership_and_comes_after_earlier_work_of_another_stream(device, copier, stream, noise):
    memory, pinned = DeviceBuffer(device, 1 << 20), PinnedBuffer(device, 1 << 20)
    pinned.array()[:] = 1
    earlier = PreparedCopy(memory, pinned, stream)
    waits = device.waits.stream
    for number in range(10):
        earlier.submit(20)
        copier.copy(memory, noise[number:][: 1 << 20])
        assert read(memory).tobytes() == noise[number:][: 1 << 20].tobytes()
    assert device.waits.stream >= waits + 10
    assert memory.ownership.stream is device.default_stream


# -- failures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "direction"),
    [
        ("cuMemcpyHtoDAsync", "h2d"),
        ("cuMemcpyDtoHAsync", "d2h"),
        ("cuEventRecord", "h2d"),
        ("cuStreamWaitEvent", "h2d"),
        ("cuStreamSynchronize", "h2d"),
        ("cuStreamSynchronize", "d2h"),
    ],
)
@pytest.mark.parametrize("nth", [1, 3])
def test_a_failure_in_a_worker_stops_the_copy_and_surfaces_and_the_copier_stays_usable(
    make_device, make_copier, noise, function, direction, nth
):
    device = make_device(faults=[Fault(function=function, status=2, nth=nth)])
    copier, nbytes = make_copier(device), 60 * SLOT
    memory, array = DeviceBuffer(device, nbytes), noise[:nbytes].copy()
    with pytest.raises(DriverError) as caught:
        copier.prepare(*((memory, array) if direction == "h2d" else (array, memory))).submit(nth)
    assert caught.value.function == function
    assert device.page_locked_bytes == THREADS * SLOTS_PER_WORKER * SLOT
    assert len(workers()) == THREADS
    assert moves(copier, noise, direction, nbytes)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_copy_that_fails_in_the_third_worker_stops_all_three(device, copier, noise, monkeypatch, direction):
    made = []

    def astray(transfer, pieces, *rest):
        """The third worker has pieces of its own, which are where no memory is."""
        made.append(cut(replace(transfer, device=4096), 1) if len(made) == 2 else pieces)
        return program(transfer, made[-1], *rest)

    nbytes = 60 * SLOT
    memory, array = DeviceBuffer(device, nbytes), noise[:nbytes].copy()
    with monkeypatch.context() as patch:
        patch.setattr(staging_slots, "program", astray)
        with pytest.raises(DriverError) as caught:
            copier.copy(*((memory, array) if direction == "h2d" else (array, memory)))
    assert (caught.value.function, caught.value.code) == (QUEUE[direction], 1)
    assert len(workers()) == THREADS
    assert moves(copier, noise, direction, nbytes)


def test_threads_that_the_system_does_not_start_are_a_refusal_that_leaves_nothing_behind(device, monkeypatch):
    start = threading.Thread.start

    def start_two(thread):
        if len(workers()) == 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_two)
    with pytest.raises(RefusedError, match="start only 2 of 3 threads to stage copies"):
        staging_slots.Crew(device, 3, SLOT)
    assert workers() == []
    assert device.page_locked_bytes == 0
    monkeypatch.setattr(threading.Thread, "start", start)
    with staging_slots.Crew(device, 3, SLOT):
        assert len(workers()) == 3


def test_no_piece_is_moved_after_a_failure(make_device, make_copier, noise):
    device = make_device(faults=[Fault(function="cuMemcpyHtoDAsync", status=2, nth=3)])
    copier, moved = make_copier(device, threads=1), []
    memory = DeviceBuffer(device, 60 * SLOT)
    work = copier.prepare(memory, noise[: 60 * SLOT])
    work._transfer = with_copy(work._transfer, lambda *piece: moved.append(piece))
    with pytest.raises(DriverError):
        work.submit()
    assert len(moved) == 3


def stop_words(monkeypatch):
    """The words that end programs, of all that are given from now on."""
    words, give = [], Post.give

    def give_and_tell(post, program, stop):
        words.append(ctypes.c_uint32.from_address(stop))
        give(post, program, stop)

    monkeypatch.setattr(Post, "give", give_and_tell)
    return words


def test_a_failure_in_one_worker_ends_the_program_of_another(make_device, make_copier, noise, monkeypatch):
    """The second worker is at its first piece when the first worker's copy fails; it makes no further call."""
    device = make_device(faults=[Fault(function="cuMemcpyHtoDAsync", status=2, nth=1)])
    copier, words, threads = make_copier(device, threads=2), stop_words(monkeypatch), {}
    work = copier.prepare(DeviceBuffer(device, 60 * SLOT), noise[: 60 * SLOT])
    names = record(device)

    def copy_bytes(*_):
        if threads.setdefault(threading.current_thread(), len(threads)):
            while not words[0].value:
                threading.Event().wait(0.001)

    work._transfer = with_copy(work._transfer, copy_bytes)
    with pytest.raises(DriverError):
        work.submit()
    assert names.count("cuMemcpyHtoDAsync") == 1


def test_a_failure_in_the_third_worker_surfaces_and_the_next_copy_works(make_device, make_copier, noise, monkeypatch):
    device = make_device(faults=[Fault(function="cuMemcpyHtoDAsync", status=2, nth=1)])
    copier, words = make_copier(device), stop_words(monkeypatch)
    work = copier.prepare(DeviceBuffer(device, 60 * SLOT), noise[: 60 * SLOT])
    names = record(device)

    def copy_bytes(*_):
        while not threading.current_thread().name.endswith("-2") and not words[0].value:
            threading.Event().wait(0.001)

    work._transfer = with_copy(work._transfer, copy_bytes)
    with pytest.raises(DriverError) as caught:
        work.submit()
    assert caught.value.function == "cuMemcpyHtoDAsync"
    assert names.count("cuMemcpyHtoDAsync") == 1
    for direction in DIRECTIONS:
        assert moves(copier, noise, direction, 60 * SLOT)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_worker_that_gets_no_piece_moves_nothing_of_an_earlier_copy(direction):
    moved = []

    def answering(name):
        return FOUR_ARGUMENTS(lambda *_: moved.append(name) or 0 if name in QUEUE.values() else 0)

    kinds = {name: answering(name) for name in FUNCTIONS}
    functions = {name: address_of(function) for name, function in kinds.items()}
    plain = Transfer(direction, 1 << 40, 1 << 45, 2 * SLOT, 1, SLOT, 0)
    transfer = with_copy(plain, lambda to, at, length: moved.append((to, at, length)) if length else None)
    taken = cut(transfer, 1)
    done = program(
        transfer, taken, Places((1 << 50, 1 << 51), (1, 2), 3), {n: address_of(f) for n, f in functions.items()}
    )
    word = ctypes.c_uint32(0)
    for expected in (4, 0):
        for calls, again in done.parts:
            assert make_calls()(calls.ctypes.data, len(calls), ctypes.addressof(word), again) == 0
        assert len(moved) == expected
        moved.clear()
        for calls, _ in done.parts:  # as an interrupted copy would leave them
            calls["arguments"][calls["function"] == transfer.copy_bytes, 2] = 4096


@pytest.fixture
def alarm():
    """Lets a handler act on a signal to the main thread, and sends it."""
    before = signal.getsignal(signal.SIGALRM)

    def send():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)

    send.acts = partial(signal.signal, signal.SIGALRM)
    yield send
    signal.signal(signal.SIGALRM, before)


def test_a_signal_waits_for_the_pieces_under_way_and_ends_the_rest(device, copier, noise, alarm):
    """What interrupts the waiting thread is raised only when no worker touches the memory any more."""
    leave, busy = threading.Event(), []

    def slow(*_):
        busy.append(1)
        alarm()
        leave.wait()
        busy.pop()

    def interrupt(*_):
        leave.set()
        raise KeyboardInterrupt

    alarm.acts(interrupt)
    work = copier.prepare(DeviceBuffer(device, 60 * SLOT), noise[: 60 * SLOT])
    work._transfer = with_copy(work._transfer, slow)
    names = record(device)
    with pytest.raises(KeyboardInterrupt):
        work.submit()
    assert busy == []
    assert names.count("cuMemcpyHtoDAsync") < 60
    alarm.acts(signal.SIG_IGN)
    assert moves(copier, noise, "h2d", 60 * SLOT)


def test_a_signal_that_raises_nothing_does_not_end_a_copy(copier, noise, alarm):
    arrived, memory = [], DeviceBuffer(copier.device, 60 * SLOT)
    alarm.acts(lambda *_: arrived.append(1))
    work = copier.prepare(memory, noise[: 60 * SLOT])
    transfer = work._transfer
    plain = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 3)(transfer.copy_bytes)
    work._transfer = with_copy(transfer, lambda *piece: (alarm(), plain(*piece))[0])
    work.submit()
    assert read(memory).tobytes() == noise[: 60 * SLOT].tobytes()
    assert arrived


_CALLBACKS = []


def with_copy(transfer, copy_bytes):
    """The transfer, with a Python function for the CPU's copy of a piece."""
    function = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)(copy_bytes)
    _CALLBACKS.append(function)  # which an address does not keep alive
    return replace(transfer, copy_bytes=ctypes.cast(function, ctypes.c_void_p).value)


@pytest.mark.parametrize("nth", [1, 3])
def test_a_refused_slot_is_refused_memory_and_leaves_nothing_behind(make_device, make_copier, noise, nth):
    device = make_device(faults=[Fault(function="cuMemHostAlloc", status=2, nth=nth)])
    copier, memory = make_copier(device), DeviceBuffer(device, 9000)
    with pytest.raises(RefusedError, match="8192 bytes of host pinned memory were refused"):
        copier.copy(memory, noise[:9000])
    assert device.page_locked_bytes == 0
    assert workers() == []
    assert moves(copier, noise, "h2d", 9000)


# -- which copies are staged, and with what ----------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_only_copies_of_at_least_the_size_are_staged(device, make_copier, noise, direction):
    copier = make_copier(device, at_least=10_000)
    assert moves(copier, noise, direction, 9999)
    assert device.page_locked_bytes == 0
    assert moves(copier, noise, direction, 10_000)
    assert device.page_locked_bytes == THREADS * SLOTS_PER_WORKER * SLOT


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_driver_does_exactly_what_it_does_without_us_below_that_size(device, make_copier, noise, calls, direction):
    copier, memory = make_copier(device, at_least=10_000), filled(device, noise[:9999])
    sides = (memory, PageableBuffer.over(device, noise[:9999].copy()))
    sides = sides if direction == "h2d" else sides[::-1]
    staged, driver = copier.prepare(*sides), PreparedCopy(*sides, None)
    assert staged.setting is None
    driver.submit()
    recorded = []
    for work in (driver, staged):
        calls.clear()
        work.submit(3)
        recorded.append(list(calls))
    assert recorded[0] == recorded[1]


def modelled(make_device, monkeypatch, probe, **clock):
    """A device on a modelled clock, whose calibration moves little."""
    monkeypatch.setattr(staging_area, "PROBE_BYTES", probe)
    return make_device(clock=ModelledClock(clock.pop("rates"), **clock))


@pytest.mark.parametrize(
    ("leads_at_mib", "found_mib"),
    [
        ({4, 8, 16, 32, 64}, 4),
        ({16, 32, 64}, 16),
        ({4, 16, 32, 64}, 16),
        ({64}, 64),
        ({4, 8, 16, 32}, None),
        (set(), None),
    ],
)
def test_the_size_is_found_from_which_on_staging_leads_everywhere(device, monkeypatch, leads_at_mib, found_mib):
    monkeypatch.setattr(Calibration, "_staged", lambda _, __, nbytes: nbytes >> 20)
    monkeypatch.setattr(Calibration, "_driver", lambda _, nbytes: nbytes >> 20)
    # A lead of less than 15 % is none.
    seconds = {True: [1.0, 1.16], False: [1.0, 1.14]}
    monkeypatch.setattr(Calibration, "_seconds", lambda _, ways: seconds[ways[0] in leads_at_mib])
    host, memory = PageableBuffer(device, 128 << 20), DeviceBuffer(device, 128 << 20)
    setting = Calibration(None, None, "h2d", host, memory).choose((4,), (4 << 20,), None)
    assert setting.at_least == (found_mib and found_mib << 20)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_calibration_measures_both_engines(make_device, make_copier, monkeypatch, direction):
    rates = {"h2d": 1e12, "d2h": 1e12, "h2d/pageable": 1e9, "d2h/pageable": 1e9}
    device = modelled(make_device, monkeypatch, rates=rates, probe=SMALLEST_STAGED)
    copier = make_copier(device, threads=2, slot=SMALLEST_PIECE, at_least=None)
    assert copier.setting(direction).at_least == SMALLEST_STAGED


def test_nothing_is_staged_where_the_driver_is_faster_at_every_size(make_device, make_copier, monkeypatch):
    rates = {"h2d": 1e9, "d2h": 1e9, "h2d/pageable": 1e12, "d2h/pageable": 1e12}
    device = modelled(make_device, monkeypatch, probe=SMALLEST_STAGED, rates=rates)
    copier = make_copier(device, threads=2, slot=1 << 20, at_least=None)
    assert copier.setting("h2d").at_least is None
    array = np.zeros(2 * SMALLEST_STAGED, np.uint8)
    assert copier.prepare(DeviceBuffer(device, len(array)), array).setting is None
    assert device.page_locked_bytes == 0


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        (lambda _: 1.0, (4, 4 << 20)),
        (lambda setting: 1 / setting.threads, (8, 4 << 20)),
        (lambda setting: setting.threads, (4, 4 << 20)),
        (lambda setting: 1 - setting.threads / 1000, (4, 4 << 20)),
        (lambda setting: 1 / setting.slot, (4, 8 << 20)),
    ],
    ids=["alike", "more are faster", "fewer are faster", "hardly faster", "large slots"],
)
def test_the_fastest_setting_is_chosen_and_the_modest_one_where_they_are_alike(device, monkeypatch, seconds, chosen):
    monkeypatch.setattr(Calibration, "_staged", lambda _, setting, __: setting)
    monkeypatch.setattr(Calibration, "_seconds", lambda _, ways: [seconds(way) for way in ways])
    host, memory = PageableBuffer(device, 1), DeviceBuffer(device, 1)
    setting = Calibration(None, None, "h2d", host, memory).choose((4, 6, 8), (4 << 20, 8 << 20), 1)
    assert (setting.threads, setting.slot) == chosen


def test_calibration_happens_once_and_leaves_only_what_was_chosen(device, make_copier, monkeypatch, calls):
    monkeypatch.setattr(staging_area, "PROBE_BYTES", 4 << 20)
    monkeypatch.setattr(staging_area, "SLOTS", (1 << 20, 2 << 20))
    copier = make_copier(device, threads=2, slot=None, at_least=None)
    first = copier.setting("h2d"), copier.setting("d2h")
    assert device.page_locked_bytes == 0
    assert workers() == []
    calls.clear()
    assert (copier.setting("h2d"), copier.setting("d2h")) == first
    assert calls == []
    assert all(setting.threads == 2 and setting.slot in (1 << 20, 2 << 20) for setting in first)


def test_small_copies_need_no_calibration(device, make_copier, noise):
    copier = make_copier(device, threads=None, slot=None, at_least=None)
    assert SMALLEST_STAGED > 5000
    assert moves(copier, noise, "h2d", 5000)
    assert copier._area._settings == {}


def test_calibration_is_kept_apart_from_a_closed_gate(device, make_copier, gate, monkeypatch):
    monkeypatch.setattr(staging_area, "PROBE_BYTES", SMALLEST_STAGED)
    gate.close_on(device.default_stream)
    assert make_copier(device, at_least=None).setting("h2d").threads == THREADS


def test_never_more_threads_than_usable_cpus(device, make_copier, noise, monkeypatch):
    monkeypatch.setattr(staging_area, "usable_cpus", lambda: 2)
    copier = make_copier(device, threads=64)
    assert moves(copier, noise, "h2d", 60 * SLOT)
    assert len(workers()) == 2
    assert device.page_locked_bytes == 2 * SLOTS_PER_WORKER * SLOT


def test_no_more_threads_take_part_than_the_direction_wants(device, copier, noise):
    copier._area._settings = {"h2d": Setting(2, SLOT, at_least=1), "d2h": Setting(THREADS, SLOT, at_least=1)}
    seen, both = set(), threading.Barrier(2)

    def copy_bytes(*_):
        seen.add(threading.current_thread())
        both.wait()

    work = copier.prepare(DeviceBuffer(device, 20 * SLOT), noise[: 20 * SLOT])
    work._transfer = with_copy(work._transfer, copy_bytes)
    work.submit()
    assert len(workers()) == THREADS
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, 6),
        ({"cpu.max": "max 100000\n"}, 6),
        ({"cpu.max": "400000 100000\n"}, 4),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "6400000 100000\n"}, 6),
        ({"cpu.max": "?"}, 6),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 6),
    ],
)
def test_usable_cpus_are_those_of_the_affinity_or_of_the_quota(tmp_path, monkeypatch, files, cpus):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    for name, text in files.items():
        path = tmp_path / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert usable_cpus(root=tmp_path) == cpus


# -- pieces ------------------------------------------------------------------------------------------------


@given(
    nbytes=st.integers(1, 1 << 33),
    slot=st.one_of(
        st.sampled_from([SMALLEST_PIECE // 2, SMALLEST_PIECE, 4 << 20, 7 << 20]), st.integers(1 << 18, 8 << 20)
    ),
    workers=st.integers(1, 24),
    direction=st.sampled_from(DIRECTIONS),
)
def test_pieces_fit_the_slots_and_cover_everything_once_in_whole_pages(nbytes, slot, workers, direction):
    lengths = piece_lengths(nbytes, workers, slot, direction)
    assert sum(lengths) == nbytes
    assert all(0 < length <= slot for length in lengths)
    assert all(length % 4096 == 0 for length in lengths[:-1])


@given(nbytes=st.integers(1, 1 << 16), slot=st.integers(1, 5000), workers=st.integers(1, 24))
def test_slots_may_be_smaller_than_a_page(nbytes, slot, workers):
    lengths = piece_lengths(nbytes, workers, slot, "d2h")
    assert sum(lengths) == nbytes
    assert all(0 < length <= slot for length in lengths)


@pytest.mark.parametrize(("direction", "times"), [("h2d", 1), ("d2h", 2)])
def test_pieces_begin_small_grow_by_a_fifth_up_to_a_slot_and_end_small(direction, times):
    lengths = [length >> 10 for length in piece_lengths(512 << 20, 8, 4 << 20, direction)]
    assert lengths[:5] == [512, 612, 732, 876, 1048]
    assert max(lengths) == 4 << 10
    assert lengths[-3:-1] == [512, 512]
    # Each is at most what is left for a worker, or half of it; the last are as small as the first.
    left = np.cumsum(lengths[::-1])[::-1]
    assert all(length <= max(512, rest // (8 * times)) for length, rest in zip(lengths[:-1], left, strict=False))
    assert any(512 < length > rest // (8 * times) - 4 for length, rest in zip(lengths, left, strict=True))


@pytest.mark.parametrize(
    ("mib", "workers", "kib"),
    [(1, 1, [512] * 2), (1, 3, [344, 344, 336]), (2, 4, [512] * 4), (4, 6, [684] * 5 + [676])],
)
def test_of_a_small_copy_each_worker_has_as_much(mib, workers, kib):
    assert piece_lengths(mib << 20, workers, 4 << 20, "d2h") == [length << 10 for length in kib]


def test_what_is_hardly_worth_a_piece_of_its_own_goes_along():
    assert piece_lengths(2 * SMALLEST_PIECE + 1, 1, 4 << 20, "h2d") == [SMALLEST_PIECE + 4096, SMALLEST_PIECE - 4095]
    assert piece_lengths(9 * 4096 + 1, 2, 3 * 4096 + 1, "h2d")[-1] == 3 * 4096 + 1


@pytest.mark.parametrize(
    ("direction", "mib", "workers"),
    [("h2d", 1, 1), ("h2d", 2, 2), ("h2d", 16, 4), ("h2d", 64, 8), ("h2d", 512, 12), ("d2h", 1, 3), ("d2h", 8, 8)],
)
def test_small_copies_wake_few_workers(direction, mib, workers):
    assert takers(Setting(12, 4 << 20).transfer(direction, 0, 0, mib << 20)) == workers


# -- stores ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(past_caches() is None, reason="no streaming stores on this machine")
@given(nbytes=st.integers(0, 700), at=st.integers(0, 70), to=st.integers(0, 70))
def test_streaming_stores_copy_exactly_the_bytes(nbytes, at, to):
    source = np.random.default_rng(nbytes).integers(0, 256, 800, np.uint8)
    target = np.full(800, 0xA5, np.uint8)
    expected = target.copy()
    copy_bytes = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(past_caches())
    copy_bytes(target.ctypes.data + to, source.ctypes.data + at, nbytes)
    expected[to : to + nbytes] = source[at : at + nbytes]
    assert target.tobytes() == expected.tobytes()


def test_what_goes_to_the_device_stays_in_caches_and_what_comes_from_it_does_not(monkeypatch):
    monkeypatch.setattr(staging_calibration, "past_caches", lambda: 7)
    assert Setting(1, SLOT).transfer("h2d", 0, 0, 1).copy_bytes == through_caches()
    assert Setting(1, SLOT).transfer("d2h", 0, 0, 1).copy_bytes == 7
    monkeypatch.setattr(staging_calibration, "past_caches", lambda: None)
    assert Setting(1, SLOT).transfer("d2h", 0, 0, 1).copy_bytes == through_caches()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_without_machine_code_copies_are_the_same(device, make_copier, noise, monkeypatch, direction):
    monkeypatch.setattr(staging_slots, "make_calls", make_calls_in_python)
    monkeypatch.setattr(claims, "claim", claim_in_python)
    assert moves(make_copier(device), noise, direction, 60 * SLOT + 1, 1, 3)


# -- the end -----------------------------------------------------------------------------------------------


def test_closing_frees_the_slots_and_ends_the_threads(device, copier, noise):
    assert moves(copier, noise, "h2d", 60 * SLOT)
    streams = len(device.streams)
    copier.close()
    copier.close()
    assert device.page_locked_bytes == 0
    assert workers() == []
    assert len([stream for stream in device.streams if not stream.closed]) == streams - THREADS * SLOTS_PER_WORKER
    with pytest.raises(ClosedError, match="this copier was closed"):
        copier.copy(DeviceBuffer(device, 5000), noise[:5000])
    with pytest.raises(ClosedError, match="this copier was closed"):
        copier.setting("h2d")


def test_a_prepared_copy_of_a_closed_copier_or_buffer_is_refused(device, copier, noise):
    with DeviceBuffer(device, 5000) as memory:
        work = copier.prepare(memory, noise[:5000])
    with pytest.raises(ClosedError):
        work.submit()
    work = copier.prepare(DeviceBuffer(device, 5000), noise[:5000])
    copier.close()
    with pytest.raises(ClosedError, match="this copier was closed"):
        work.submit()


def test_a_copier_that_is_dropped_lets_its_threads_end_and_its_slots_go(device, noise):
    copier = StagedCopier(device, threads=THREADS, slot=SLOT, at_least=1)
    assert moves(copier, noise, "h2d", 60 * SLOT)
    threads = workers()
    assert len(threads) == THREADS
    del copier
    gc.collect()
    for thread in threads:
        thread.join()
    gc.collect()
    device.reap()
    assert device.page_locked_bytes == 0


def test_a_copier_may_be_closed_after_its_device(make_device, noise):
    device = make_device()
    copier = StagedCopier(device, threads=THREADS, slot=SLOT, at_least=1)
    assert moves(copier, noise, "h2d", 60 * SLOT)
    device.close()
    copier.close()
    assert workers() == []
