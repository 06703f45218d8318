"""Compares ways to stage pageable copies, and grids of the copy kernel, with the driver's own copies.

Run on a machine with a GPU, from the root of the checkout; takes about a minute:

    PYTHONPATH=. python3 tests/gpu/tune_staged.py [--out FILE] [--size 512MiB] [--only SECTION]

Everything is timed in turns in one process; printed are medians in GB/s and their share of pinned memory.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from functools import partial
from pathlib import Path

import numpy as np

from cudabw.copying.driver_copy import PreparedCopy, copy
from cudabw.copying.kernel_copy import KernelCopier, blocks_for
from cudabw.copying.staged_copy import StagedCopier
from cudabw.copying.staging_calibration import Setting, usable_cpus
from cudabw.copying.staging_programs import DIRECTIONS
from cudabw.copying.staging_slots import Crew
from cudabw.driver.loader import Backend, load_driver
from cudabw.measuring.timing import BatchTimer
from cudabw.measuring.verification import Pattern
from cudabw.runtime.device import Device
from cudabw.runtime.gate import Gate
from cudabw.runtime.memory import (
    DeviceBuffer,
    MappedBuffer,
    PageableBuffer,
    PinnedBuffer,
)
from cudabw.units import format_size, parse_size

MIB = 1 << 20
ROWS = []


def report(section, name, direction, nbytes, rate, pinned):
    ROWS.append({"section": section, "name": name, "direction": direction, "nbytes": nbytes, "GB/s": rate / 1e9})
    share = f"{rate / pinned:6.3f}" if pinned else ""
    print(f"{section:8} {direction} {format_size(nbytes):>8} {name:44} {rate / 1e9:7.2f} {share}", flush=True)


def in_turns(ways, rounds):
    """The median seconds of each way by name; every round starts somewhere else."""
    times = {name: [] for name in ways}
    for way in ways.values():
        way()
    names = list(ways)
    for number in range(rounds):
        shift = number * 7 % len(names)
        for name in names[shift:] + names[:shift]:
            ways[name]()  # CPUs that had nothing to do take their time to wake
            start = time.perf_counter()
            ways[name]()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


# -- what is compared ------------------------------------------------------------------------------


class Bench:
    def __init__(self, device, nbytes):
        self.device = device
        self.host = PageableBuffer(device, nbytes)
        self.host.array()[:] = np.arange(nbytes, dtype=np.uint8)
        self.memory = DeviceBuffer(device, nbytes)
        self.pinned = PinnedBuffer(device, nbytes)
        self.pinned.array()[:] = 1
        copy(self.memory, self.pinned)

    def pair(self, direction, nbytes, host):
        pair = (self.memory[:nbytes], host[:nbytes])
        return pair if direction == "h2d" else pair[::-1]

    def driver(self, direction, nbytes, host):
        return self.synchronised(PreparedCopy(*self.pair(direction, nbytes, host), None))

    def synchronised(self, work, times=1):
        def run():
            work.submit(times)
            work.stream.synchronize()

        return run

    def staged(self, crew, direction, nbytes, setting):
        addresses = int(self.memory.device_pointer), int(self.host.host_pointer)
        return partial(crew.run, setting.transfer(direction, *addresses, nbytes), self.device.default_stream)


def compare_settings(bench, nbytes, cpus, rounds):
    counts = sorted({min(count, cpus) for count in (4, 6, 8, 10, 12, 14, 16, 24)})
    with Crew(bench.device, counts[-1], 8 * MIB) as crew:
        for direction in DIRECTIONS:
            ways = {
                "driver, pageable": bench.driver(direction, nbytes, bench.host),
                "pinned": bench.driver(direction, nbytes, bench.pinned),
            }
            ways |= {
                f"{count} workers, {format_size(slot)}": bench.staged(crew, direction, nbytes, Setting(count, slot))
                for count in counts
                for slot in (2 * MIB, 4 * MIB, 6 * MIB, 8 * MIB)
            }
            seconds = in_turns(ways, rounds)
            for name, taken in seconds.items():
                report("settings", name, direction, nbytes, nbytes / taken, nbytes / seconds["pinned"])


def compare_sizes(bench, largest):
    start = time.perf_counter()
    with StagedCopier(bench.device) as copier:
        settings = {direction: copier.setting(direction) for direction in DIRECTIONS}
        print(f"calibrated in {time.perf_counter() - start:.2f} s: {settings}")
        ROWS.append({"section": "calibration", "seconds": time.perf_counter() - start, "settings": str(settings)})
        for direction in DIRECTIONS:
            nbytes = 64 << 10
            while nbytes <= largest:
                compare_size(bench, copier, direction, nbytes)
                nbytes *= 2


def compare_size(bench, copier, direction, nbytes):
    array = bench.host.array()[:nbytes]
    memory = bench.memory[:nbytes]
    sides = (memory, array) if direction == "h2d" else (array, memory)
    times = max(1, min(64, (4 * MIB) // nbytes))
    prepared = copier.prepare(*sides)
    driver = PreparedCopy(*bench.pair(direction, nbytes, bench.host), None)
    done_by = f"{prepared.threads} threads" if prepared.threads else "driver"
    ways = {
        "driver, pageable": bench.synchronised(driver, times),
        f"staged, auto ({done_by})": bench.synchronised(prepared, times),
        "staged, auto, one-shot copy()": lambda: [copier.copy(*sides) for _ in range(times)],
        "pinned": bench.synchronised(PreparedCopy(*bench.pair(direction, nbytes, bench.pinned), None), times),
    }
    seconds = in_turns(ways, 9 if nbytes >= 64 * MIB else 15)
    pinned = nbytes * times / seconds["pinned"]
    for name, taken in seconds.items():
        report("sizes", name, direction, nbytes, nbytes * times / taken, pinned)


def compare_grids(device, nbytes):
    with (
        MappedBuffer(device, nbytes) as host,
        DeviceBuffer(device, nbytes) as memory,
        Gate(device) as gate,
        BatchTimer(device, gate) as timer,
    ):
        host.array()[:] = 1
        chosen = blocks_for(device.attribute("MULTIPROCESSOR_COUNT"))
        for direction, pair in {"h2d": (memory, host), "d2h": (host, memory)}.items():
            works = {"driver": PreparedCopy(*pair, None)}
            for blocks in sorted({4, 8, 16, 24, chosen, 64, 132, 264, 528}):
                works[f"{blocks} blocks{' (chosen)' * (blocks == chosen)}"] = KernelCopier(
                    device, blocks=blocks
                ).prepare(*pair)
            times = {name: [] for name in works}
            for _ in range(5):
                for name, work in works.items():
                    times[name].append(timer.time(work, 2).seconds)
            driver = nbytes / statistics.median(times["driver"])
            for name, taken in times.items():
                report("kernel", name, direction, nbytes, nbytes / statistics.median(taken), driver)


def verify(device):
    """Every engine moves exactly the bytes, for odd sizes and offsets."""
    sizes = (1, 3, 15, 16, 17, 4095, 4096, 4097, 65535, 65536, 65537, MIB + 1, 9 * MIB + 5)
    noise = np.random.default_rng(1).integers(0, 256, 10 * MIB, np.uint8)
    with StagedCopier(device, threads=4, slot=MIB, at_least=1) as copier, KernelCopier(device) as kernels:
        engines = {"staged": (copier.copy, PageableBuffer), "kernel": (kernels.copy, MappedBuffer)}
        for name, (move, kind) in engines.items():
            with (
                kind(device, len(noise)) as up,
                kind(device, len(noise)) as down,
                DeviceBuffer(device, len(noise)) as d,
            ):
                for nbytes in sizes:
                    for at, to in ((0, 0), (1, 0), (0, 1), (3, 11), (8, 0), (16, 5)):
                        up.array()[:] = noise
                        down.array()[: nbytes + 64] = 0xA5
                        move(d[to : to + nbytes], up[at : at + nbytes])
                        move(down[at + 7 : at + 7 + nbytes], d[to : to + nbytes])
                        got = down.array()
                        assert np.array_equal(got[at + 7 : at + 7 + nbytes], noise[at : at + nbytes]), (
                            name,
                            nbytes,
                            at,
                        )
                        assert (got[: at + 7] == 0xA5).all(), (name, nbytes, at)
                        assert (got[at + 7 + nbytes : nbytes + 64] == 0xA5).all(), (name, nbytes, at)
            print(f"{name}: exact for {len(sizes)} sizes at 6 offsets")
        large = 4096 * MIB + 4096
        if device.free_bytes < 2 * large:
            return
        pattern = Pattern(3)
        with PageableBuffer(device, large + 1) as host, DeviceBuffer(device, large) as d:
            pattern.fill(host.array()[1:], stamp=7)
            copier.copy(d, host[1:])
            host.array()[:] = 0
            copier.copy(host[1:], d)
            pattern.check(host.array()[1:], stamp=7)
        pattern.close()
        print("staged: exact for 4 GiB + 4 KiB at an odd address")


def describe(device):
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    print(device.name, "|", model.partition(":")[2].strip(), "|", usable_cpus(), "CPUs |", platform.libc_ver())
    wanted = ("[", "non_temporal", "rep_movsb", "L2", "L3", "NUMA node", "Thread(s)", "Core(s)", "Socket")
    for command in (
        "cat /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/transparent_hugepage/defrag",
        "/lib64/ld-linux-x86-64.so.2 --list-tunables",
        "lscpu",
    ):
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        print("\n".join(line for line in done.stdout.splitlines() if any(word in line for word in wanted)))
    print("load", os.getloadavg())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", type=Backend, default=Backend.CUDA)
    parser.add_argument("--size", type=parse_size, default=512 * MIB)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=("verify", "sizes", "kernel", "settings"), help="one section alone")
    options = parser.parse_args()
    with Device(load_driver(options.backend, notify=print)) as device:
        describe(device)
        bench, cpus = Bench(device, options.size), usable_cpus()
        device.activate()
        sections = {
            "verify": lambda: verify(device),
            "sizes": lambda: compare_sizes(bench, options.size),
            "kernel": lambda: compare_grids(device, options.size),
            "settings": lambda: compare_settings(bench, options.size, cpus, options.rounds),
        }
        for name, section in sections.items():
            if options.only in (None, name):
                section()
    if options.out:
        options.out.write_text(json.dumps(ROWS))


if __name__ == "__main__":
    main()
