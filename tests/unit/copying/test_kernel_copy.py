"""The copy kernel moves exactly its bytes, and its launches obey the same rules as any other copy."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudabw.copying.driver_copy import copy
from cudabw.copying.kernel_copy import KernelCopier, blocks_for
from cudabw.errors import ClosedError, MemorySideError
from cudabw.measuring.timing import BatchTimer
from cudabw.results.model import Clock
from cudabw.runtime import ptx
from cudabw.runtime.gate import Gate
from cudabw.runtime.memory import DeviceBuffer, MappedBuffer, PageableBuffer, RegisteredBuffer

SIZES = (0, 1, 3, 4095, 4096, 4097, 65535, 65536, 65537, (1 << 20) + 1)
OFFSETS = ((0, 0), (1, 3), (13, 0), (63, 1), (3, 9), (0, 7), (7, 63), (5, 5), (9, 13), (31, 33))
LARGEST = max(SIZES) + 64


@pytest.fixture
def copier(device):
    with KernelCopier(device) as copier:
        yield copier


def write(buffer, data):
    copy(buffer, PageableBuffer.over(buffer.device, data))


def read(buffer):
    out = np.empty(buffer.nbytes, np.uint8)
    copy(PageableBuffer.over(buffer.device, out), buffer)
    return out


def moves(copier, noise, destination, source, nbytes, to, at):
    """Whether exactly the bytes of a slice move into a slice."""
    expected = np.full(destination.nbytes, 0xA5, np.uint8)
    write(destination, expected)
    copier.copy(destination[to : to + nbytes], source[at : at + nbytes])
    expected[to : to + nbytes] = noise[at : at + nbytes]
    return read(destination).tobytes() == expected.tobytes()


@pytest.mark.parametrize(("to", "frm"), [("device", "mapped"), ("mapped", "device"), ("managed", "mapped")])
def test_exactly_the_bytes_of_a_slice_move(copier, make_buffer, noise, to, frm):
    destination, source = make_buffer(to, LARGEST), make_buffer(frm, LARGEST)
    write(source, noise[:LARGEST])
    for nbytes, offsets in zip(SIZES, OFFSETS, strict=True):
        assert moves(copier, noise, destination, source, nbytes, *offsets)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(nbytes=st.integers(0, 200), to=st.integers(0, 40), at=st.integers(0, 40))
def test_any_size_and_alignment_is_byte_exact(copier, device, noise, nbytes, to, at):
    with DeviceBuffer(device, 240) as destination, MappedBuffer(device, 240) as source:
        write(source, noise[:240])
        assert moves(copier, noise, destination, source, nbytes, to, at)


def test_memory_without_a_device_pointer_is_refused_with_the_remedy(device, copier, make_buffer):
    memory = make_buffer("device", 64)
    for kind in ("pageable", "pinned", "registered"):
        with pytest.raises(MemorySideError, match=f"{kind} memory has no device pointer") as caught:
            copier.copy(memory, make_buffer(kind, 64))
        assert caught.value.hint
    with RegisteredBuffer(device, np.zeros(64, np.uint8), flags=("mapped",)) as registered:
        copier.copy(memory, registered)


def test_what_cannot_be_copied_is_refused_before_it_is_launched(device, copier, make_buffer, calls):
    memory, mapped = make_buffer("device", 64), make_buffer("mapped", 65)
    array = np.zeros(64, np.uint8)
    array.flags.writeable = False
    constant = RegisteredBuffer(device, array, flags=("mapped",))
    calls.clear()
    with pytest.raises(ValueError, match="65 bytes of mapped memory do not fit into 64 bytes"):
        copier.copy(memory, mapped)
    with pytest.raises(ValueError, match="overlap: 40 bytes"):
        copier.copy(memory[:40], memory[24:])
    with pytest.raises(ValueError, match="overlap: 64 bytes"):
        copier.copy(memory, memory)
    with pytest.raises(ValueError, match="this registered buffer is read-only"):
        copier.copy(constant, memory)
    assert "cuLaunchKernelEx" not in calls
    copier.copy(memory[:32], memory[32:])


def test_the_kernel_is_launched_once_before_any_gate_can_be_closed(device, calls):
    calls.clear()
    with KernelCopier(device):
        assert calls.count("cuLaunchKernelEx") == 1


def test_copies_are_queued_and_repeated_behind_a_gate_like_any_other_work(device, copier, stream, noise):
    source, destination = MappedBuffer(device, 5000), DeviceBuffer(device, 5000)
    source.array()[:] = noise[:5000]
    work = copier.prepare(destination, source, stream)
    with Gate(device) as gate, BatchTimer(device, gate) as timer:
        timing = timer.time(work, 3)
    assert (timing.clock, timing.gated) == (Clock.EVENT, True)
    assert read(destination).tobytes() == noise[:5000].tobytes()


def test_every_submission_takes_ownership(device, copier, stream, noise):
    source, destination = MappedBuffer(device, 5000), DeviceBuffer(device, 5000)
    source.array()[:] = noise[:5000]
    work = copier.prepare(destination, source, stream)
    for _ in range(2):
        copy(source, destination)
        waits = device.waits.stream
        work.submit()
        assert (destination.ownership.stream, source.ownership.stream) == (stream, stream)
        assert destination.ownership.dirty
        copy(destination, source, stream=device.default_stream)
        assert device.waits.stream == waits + 1


def test_without_a_stream_the_destination_is_readable_at_once(device, copier, noise):
    source, destination = MappedBuffer(device, 5000), MappedBuffer(device, 5000)
    source.array()[:] = noise[:5000]
    copier.copy(destination, source)
    assert not destination.ownership.dirty
    assert destination.array().tobytes() == noise[:5000].tobytes()


def test_nothing_is_launched_for_no_bytes(device, copier, calls):
    work = copier.prepare(DeviceBuffer(device, 10)[:0], MappedBuffer(device, 10)[:0])
    calls.clear()
    work.submit()
    assert calls == []


def test_closed_buffers_and_copiers_are_refused(device):
    with KernelCopier(device) as copier:
        with MappedBuffer(device, 64) as source:
            work = copier.prepare(DeviceBuffer(device, 64), source)
        with pytest.raises(ClosedError, match="mapped buffer of 64 bytes was closed"):
            work.submit()
        work = copier.prepare(DeviceBuffer(device, 64), MappedBuffer(device, 64))
    with pytest.raises(ClosedError, match="module"):
        work.submit()


@pytest.mark.parametrize(("multiprocessors", "blocks"), [(1, 16), (64, 16), (132, 33), (160, 40)])
def test_the_grid_follows_the_device(multiprocessors, blocks):
    assert blocks_for(multiprocessors) == blocks


def test_a_small_copy_takes_no_more_blocks_than_it_has_work_for(device, copier):
    source, destination = MappedBuffer(device, 1 << 20), DeviceBuffer(device, 1 << 20)
    block = 512 * 16
    for nbytes, blocks in ((1, 1), (block, 1), (block + 1, 2), (1 << 20, 16)):
        assert copier.prepare(destination[:nbytes], source[:nbytes]).blocks == blocks
    with KernelCopier(device, blocks=3) as few:
        assert few.prepare(destination, source).blocks == 3
    with pytest.raises(ValueError, match="blocks is at least 1, not 0"):
        KernelCopier(device, blocks=0)


# -- the PTX itself, which the emulated device knows only by its name ----------------------------------------

MASK = (1 << 64) - 1


class Thread:
    """Runs the instructions that ``copy.ptx`` is made of, for one thread, on a ``bytearray`` as global memory."""

    def __init__(self, memory, parameters, specials):
        self.memory = memory
        self.registers = {f"%{name}": value for name, value in specials.items()}
        self.parameters = parameters

    def value(self, operand):
        return self.registers[operand] if operand.startswith("%") else int(operand)

    def address(self, operand, nbytes):
        base, _, offset = operand.strip("[]").partition("+")
        address = self.registers[base] + int(offset or 0)
        assert address % nbytes == 0, "misaligned"
        assert 0 <= address <= len(self.memory) - nbytes, "out of bounds"
        return address

    def run(self, program, labels):
        counter = 0
        while True:
            guard, opcode, operands = program[counter]
            counter += 1
            if guard and not self.registers[guard]:
                continue
            if opcode == "ret":
                return
            if opcode == "bra":
                counter = labels[operands[0]]
            else:
                self.execute(opcode, operands)

    def execute(self, opcode, operands):
        name, *kinds = opcode.split(".")
        if name in ("ld", "st") and kinds[0] == "global":
            self.access(name, kinds[1:], operands)
        elif name == "ld":
            self.registers[operands[0]] = self.parameters[operands[1].strip("[]")]
        else:
            result = self.compute(name, kinds, [self.value(operand) for operand in operands[1:]])
            width = 32 if kinds[-1].endswith("32") and name not in ("mul", "cvt") else 64
            self.registers[operands[0]] = result & ((1 << width) - 1)

    def access(self, name, kinds, operands):
        lanes = int(kinds[0][1:]) if kinds[0].startswith("v") else 1
        width = int(kinds[-1][1:]) // 8
        where, registers = (operands[-1], operands[:-1]) if name == "ld" else (operands[0], operands[1:])
        start = self.address(where, lanes * width)
        for lane, register in enumerate(registers):
            part = slice(start + lane * width, start + (lane + 1) * width)
            if name == "ld":
                self.registers[register] = int.from_bytes(self.memory[part], "little")
            else:
                self.memory[part] = self.registers[register].to_bytes(8, "little")[:width]

    def compute(self, name, kinds, values):
        a, b, *rest = (*values, 0, 0)
        clamped = min(b, 64)
        results = {
            "mov": a,
            "cvt": a,
            "cvta": a,
            "add": a + b,
            "sub": a - b,
            "mul": a * b,
            "neg": -a,
            "and": a & b,
            "or": a | b,
            "min": min(a, b),
            "shl": a << clamped,
            "shr": a >> clamped,
            "selp": a if rest[0] else b,
            "setp": {"ge": a >= b, "ne": a != b}.get(kinds[0]),
        }
        return int(results[name])


def parse(text):
    """Instructions as (guard, opcode, operands), and the labels' positions."""
    body = re.sub(r"//[^\n]*", "", text[text.index("{") + 1 : text.rindex("}")])
    program, labels = [], {}
    for statement in re.split(r";|(?<=:)\s", body):
        words = statement.split(None, 1)
        if not words or words[0].startswith(".reg"):
            continue
        if words[0].endswith(":"):
            labels[words[0][:-1]] = len(program)
            continue
        guard = words[0][1:] if words[0].startswith("@") else None
        if guard:
            words = words[1].split(None, 1)
        operands = re.sub(r"[{}\s]", "", words[1]).split(",") if len(words) > 1 else []
        program.append((guard, words[0], operands))
    return program, labels


def run_grid(text, memory, parameters, grid, threads):
    program, labels = parse(text)
    for x in range(grid[0]):
        for y in range(grid[1]):
            for thread in range(threads):
                specials = {
                    "ntid.x": threads,
                    "nctaid.x": grid[0],
                    "nctaid.y": grid[1],
                    "ctaid.x": x,
                    "ctaid.y": y,
                    "tid.x": thread,
                }
                Thread(memory, parameters, specials).run(program, labels)


@settings(deadline=None, max_examples=100)
@given(
    blocks=st.lists(st.tuples(st.integers(0, 150), st.integers(0, 31), st.integers(0, 31)), min_size=0, max_size=5),
    grid=st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 7)]),
)
def test_the_instructions_of_many_copies_move_each_block_of_their_table(noise, blocks, grid):
    # Each block has 256 bytes to itself: destinations, then sources, then the table.
    sources, table = 256 * len(blocks), 512 * len(blocks)
    rows = [(256 * n + to, sources + 256 * n + at, nbytes) for n, (nbytes, to, at) in enumerate(blocks)]
    memory = bytearray(noise[:table].tobytes()) + np.array(rows, np.uint64).tobytes()
    memory[:sources] = b"\xa5" * sources
    expected = bytearray(memory)
    for to, at, nbytes in rows:
        expected[to : to + nbytes] = memory[at : at + nbytes]
    run_grid(ptx.read("copies"), memory, {"table": table, "count": len(rows)}, grid, 32)
    assert memory == expected


@settings(deadline=None, max_examples=150)
@given(
    nbytes=st.integers(0, 400),
    to=st.integers(0, 31),
    at=st.integers(0, 31),
    blocks=st.sampled_from([1, 2]),
    threads=st.sampled_from([16, 32]),
)
def test_the_instructions_move_exactly_the_bytes_in_aligned_accesses(noise, nbytes, to, at, blocks, threads):
    # No further than the whole 16 bytes around the source may be read.
    source = 512
    memory = bytearray(noise[: source + -(-(at + nbytes) // 16) * 16].tobytes())
    memory[:source] = b"\xa5" * source
    expected = bytearray(memory)
    expected[to : to + nbytes] = memory[source + at : source + at + nbytes]
    parameters = {"dst": to, "src": source + at, "nbytes": nbytes}
    run_grid(ptx.read("copy"), memory, parameters, (blocks, 1), threads)
    assert memory == expected
