"""Compares cudabw's figures with a bare loop over cuda.bindings, alternating in one process.

Run on a machine with a GPU, from the root of the checkout:

    PYTHONPATH=. python3 tests/gpu/compare_bare_loop.py

Prints both medians and their ratio for pageable and pinned memory in each direction, and exits
with 1 if a ratio is off by more than 2 %.
"""

import argparse
import ctypes
import json
import mmap
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from cuda.bindings import driver as cu

import cudabw
from cudabw.units import format_size, parse_size

TOLERANCE = 0.02
COPIES = 4
BATCHES = 4


def checked(answer):
    status, *values = answer
    assert status == cu.CUresult.CUDA_SUCCESS, status
    return values[0] if len(values) == 1 else None


class BareLoop:
    """What anyone would write in twenty lines: allocate, touch, copy a few times, take the time."""

    def __init__(self):
        checked(cu.cuInit(0))
        # Retained for good, so that cudabw's own sessions find the context warm.
        self.context = checked(cu.cuDevicePrimaryCtxRetain(checked(cu.cuDeviceGet(0))))
        self.activate()
        self.stream = checked(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.start, self.end = checked(cu.cuEventCreate(0)), checked(cu.cuEventCreate(0))

    def activate(self):
        checked(cu.cuCtxSetCurrent(self.context))

    def rate(self, kind, direction, nbytes):
        """One trial with fresh allocations: the median batch, in bytes per second."""
        self.activate()
        device = checked(cu.cuMemAlloc(nbytes))
        pinned = checked(cu.cuMemHostAlloc(nbytes, 0)) if kind == "pinned" else None
        pages = None if pinned else mmap.mmap(-1, nbytes)
        array = np.frombuffer(pages or (ctypes.c_ubyte * nbytes).from_address(pinned), np.uint8)
        array[:] = np.arange(nbytes, dtype=np.uint8)
        address = array.ctypes.data

        def copy():
            if direction == "h2d":
                checked(cu.cuMemcpyHtoDAsync(device, address, nbytes, self.stream))
            else:
                checked(cu.cuMemcpyDtoHAsync(address, device, nbytes, self.stream))

        timed = self.by_host if kind == "pageable" else self.by_events
        copy()
        seconds = statistics.median(timed(copy) for _ in range(BATCHES))
        checked(cu.cuMemFree(device))
        if pinned:
            checked(cu.cuMemFreeHost(pinned))
        return nbytes * COPIES / seconds

    def by_host(self, copy):
        checked(cu.cuStreamSynchronize(self.stream))
        start = time.perf_counter()
        for _ in range(COPIES):
            copy()
        checked(cu.cuStreamSynchronize(self.stream))
        return time.perf_counter() - start

    def by_events(self, copy):
        copy()
        checked(cu.cuEventRecord(self.start, self.stream))
        for _ in range(COPIES):
            copy()
        checked(cu.cuEventRecord(self.end, self.stream))
        checked(cu.cuStreamSynchronize(self.stream))
        return checked(cu.cuEventElapsedTime(self.start, self.end)) * 1e-3


def ours(kind, direction, nbytes):
    result = cudabw.measure_bandwidth(kinds=(kind,), directions=(direction,), sizes=(nbytes,), trials=1, backend="cuda")
    assert result.error is None, result.error
    return result.cases[0].rate_bytes_per_s.median


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=64 << 20)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    bare = BareLoop()
    rows = []
    for kind in ("pageable", "pinned"):
        for direction in ("h2d", "d2h"):
            pairs = []
            for number in range(options.rounds):
                # Alternating which comes first, so that drift falls on both alike.
                turns = [bare.rate, ours] if number % 2 else [ours, bare.rate]
                rates = {turn: turn(kind, direction, options.size) for turn in turns}
                pairs.append((rates[ours], rates[bare.rate]))
            mine, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratio = statistics.median(own / other for own, other in pairs)
            rows.append({"kind": kind, "direction": direction, "cudabw": mine, "bare": theirs, "ratio": ratio})
            size = format_size(options.size)
            print(f"{kind:9} {direction} {size}: cudabw {mine / 1e9:6.2f}  bare {theirs / 1e9:6.2f}  ratio {ratio:.3f}")
    if options.out:
        options.out.write_text(json.dumps(rows))
    return int(any(abs(row["ratio"] - 1) > TOLERANCE for row in rows))


if __name__ == "__main__":
    sys.exit(main())
