"""What a launch costs compared with a loop in C, both alternating in one process.

Run on a machine with a GPU and nvcc, from the root of the checkout:

    PYTHONPATH=. python3 tests/gpu/launch_ratios.py [--out FILE]

Every way to launch is timed in bursts between two bursts of the C loop (C, it, it, C), so that drift of the
machine cancels in each ratio. Prints the median ratios and exits with 1 if one is above its limit.
"""

import argparse
import ctypes
import gc
import itertools
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cudabw.driver.loader import Backend, load_driver
from cudabw.runtime import ptx
from cudabw.runtime.device import Device
from cudabw.runtime.kernels import Module
from cudabw.runtime.memory import DeviceBuffer

ARGUMENTS = 4
BURST = 200  # far below the 1020 launches that may be pending
ROUNDS = 250
WARM_UP_ROUNDS = 10
GRID, BLOCK = 1, 32

LIMITS = {
    "prepared": 1.35,
    "prepared()": 1.35,
    "prepared, untracked": 1.27,
    "prepared(), untracked": 1.27,
    "kernel(*args)": 1.8,
}
BELOW = [
    ("prepared", "cuda.core, its Buffers"),
    ("prepared, untracked", "cuda.core, int pointers"),
]


def build_c_loop(folder):
    """The C loop as a function of the number of launches, with its kernel and arguments filled in later."""
    library = Path(folder) / "c_loop.so"
    source = Path(__file__).with_name("c_loop.cu")
    subprocess.run(["nvcc", "-shared", "-Xcompiler", "-fPIC", "-O2", "-o", str(library), str(source)], check=True)
    # Not linked against the driver, for which a toolkit need not have a stub: its symbols are found here.
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    launch = ctypes.CDLL(str(library)).c_loop_launch
    launch.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    return launch


def repeat(call):
    """A burst of a call that takes nothing."""

    def burst():
        for _ in itertools.repeat(None, BURST):
            call()

    return burst


class Ours:
    """A null kernel of four buffers, and the ways to launch it."""

    def __init__(self, device):
        name, self.text = ptx.null_kernel(["pointer"] * ARGUMENTS)
        self.name = name
        self.device = device
        self.stream = device.stream()
        self.kernel = Module(device, self.text).kernel(name, ["pointer"] * ARGUMENTS)
        self.tracked = [DeviceBuffer(device, 4096) for _ in range(ARGUMENTS)]
        self.untracked = [DeviceBuffer(device, 4096) for _ in range(ARGUMENTS)]
        for buffer in self.untracked:
            buffer.tracked = False

    def prepare(self, buffers):
        return self.kernel.prepare(*buffers, grid=GRID, block=BLOCK, stream=self.stream)

    def c_loop(self, launch):
        api = self.device.driver.api
        function = ctypes.c_void_p(int(api.cuModuleGetFunction(self._module(api), self.name.encode())[1]))
        addresses = (ctypes.c_uint64 * ARGUMENTS)(*(int(buffer.device_pointer) for buffer in self.tracked))
        start = ctypes.addressof(addresses)
        pointers = (ctypes.c_void_p * ARGUMENTS)(*(start + 8 * index for index in range(ARGUMENTS)))
        stream = ctypes.c_void_p(int(self.stream.handle))

        def burst():
            # The addresses are named so that they live as long as this does.
            assert launch(function, GRID, BLOCK, stream, pointers, BURST) == 0, addresses

        return burst

    def _module(self, api):
        status, module = api.cuModuleLoadData(self.text.encode() + b"\0")
        assert status == 0, status
        return module

    def in_turn(self):
        """The everyday call with other buffers than the time before."""
        kernel, stream, (a, b, c, d) = self.kernel, self.stream, self.tracked

        def burst():
            for _ in itertools.repeat(None, BURST // 2):
                kernel(a, b, c, d, grid=GRID, block=BLOCK, stream=stream)
                kernel(b, a, d, c, grid=GRID, block=BLOCK, stream=stream)

        return burst

    def mixed(self):
        """The everyday call with three buffers and an int, which is another each time."""
        types = ["pointer"] * 3 + ["int32"]
        name, text = ptx.null_kernel(types)
        kernel, stream, (a, b, c, _) = Module(self.device, text).kernel(name, types), self.stream, self.tracked

        def burst():
            for number in range(BURST):
                kernel(a, b, c, number, grid=GRID, block=BLOCK, stream=stream)

        return burst

    def everyday(self):
        kernel, stream, (a, b, c, d) = self.kernel, self.stream, self.tracked

        def burst():
            for _ in itertools.repeat(None, BURST):
                kernel(a, b, c, d, grid=GRID, block=BLOCK, stream=stream)

        return burst

    def stages(self):
        """The pre-converted launch and the stages of a launch, each alone."""
        launcher = self.kernel.launcher(grid=GRID, block=BLOCK, stream=self.stream)
        arguments = launcher.convert(self.tracked)
        # Equal ones in turn, since a launcher does not pack again what it packed last.
        turns = itertools.cycle([arguments, (arguments[0].copy(), arguments[1])])
        rebound, first = self.prepare(self.tracked), self.tracked[0]
        unspecialised = Module(self.device, self.text).kernel(self.name)

        def rebind():
            rebound.rebind(0, first)
            rebound()

        def specialise():
            unspecialised.specialise(*self.tracked)(*self.tracked, grid=GRID, block=BLOCK, stream=self.stream)

        return {
            "pre-converted": repeat(lambda: launcher.submit(next(turns))),
            "prepared, one rebind": repeat(rebind),
            "specialise, then call": repeat(specialise),
            "stage: convert": repeat(lambda: launcher.convert(self.tracked)),
            "stage: ownership": repeat(lambda: launcher.own(arguments)),
            "stage: pack": repeat(lambda: launcher.pack(arguments)),
            "stage: driver": repeat(launcher.launch),
        }

    def modes(self):
        prepared, untracked = self.prepare(self.tracked), self.prepare(self.untracked)
        return {
            "bare cuLaunchKernelEx": repeat(prepared.launcher.driver_call),
            "prepared": repeat(prepared.launch),
            "prepared, untracked": repeat(untracked.launch),
            "prepared()": repeat(prepared),
            "prepared(), untracked": repeat(untracked),
            "kernel(*args)": self.everyday(),
            "kernel(*args), others in turn": self.in_turn(),
            "kernel(*args), 3 and an int": self.mixed(),
            **self.stages(),
        }


class CudaCore:
    """The same launches by cuda.core."""

    def __init__(self, name, text):
        try:
            from cuda.core import Device as CoreDevice
            from cuda.core import LaunchConfig, ObjectCode, launch
        except ImportError:
            from cuda.core.experimental import Device as CoreDevice
            from cuda.core.experimental import LaunchConfig, ObjectCode, launch
        self.launch = launch
        device = CoreDevice(0)
        device.set_current()
        self.stream = device.create_stream()
        self.config = LaunchConfig(grid=GRID, block=BLOCK)
        self.kernel = ObjectCode.from_ptx(text.encode()).get_kernel(name)
        self.buffers = [device.allocate(4096, stream=self.stream) for _ in range(ARGUMENTS)]

    def burst_of(self, arguments):
        launch, stream, config, kernel = self.launch, self.stream, self.config, self.kernel
        a, b, c, d = arguments

        def burst():
            for _ in itertools.repeat(None, BURST):
                launch(stream, config, kernel, a, b, c, d)

        return burst

    def modes(self):
        pointers = [int(buffer.handle) for buffer in self.buffers]
        return {
            "cuda.core, its Buffers": self.burst_of(self.buffers),
            "cuda.core, int pointers": self.burst_of(pointers),
        }


def timed(burst, drain):
    """Seconds per launch; the launches have run when this returns."""
    start = time.perf_counter()
    burst()
    seconds = time.perf_counter() - start
    drain()
    return seconds / BURST


def compare(c_loop, modes, drain):
    """For each way: the ratios of all rounds and its own seconds; and the C loop's seconds."""
    ratios = {name: [] for name in modes}
    seconds = {name: [] for name in modes}
    yardstick = []
    for number in range(WARM_UP_ROUNDS + ROUNDS):
        for name, burst in modes.items():
            before = timed(c_loop, drain)
            own = (timed(burst, drain) + timed(burst, drain)) / 2
            base = (before + timed(c_loop, drain)) / 2
            if number >= WARM_UP_ROUNDS:
                ratios[name].append(own / base)
                seconds[name].append(own)
                yardstick.append(base)
    return ratios, seconds, yardstick


def interval(values):
    """The middle half of the values."""
    low, _, high = statistics.quantiles(values, n=4)
    return low, high


def judge(medians):
    """What is above its limit, in words."""
    failures = [
        f"{name}: {medians[name]:.3f} is above {limit}" for name, limit in LIMITS.items() if medians[name] > limit
    ]
    for ours, theirs in BELOW:
        if theirs in medians and medians[ours] >= medians[theirs]:
            failures.append(f"{ours}: {medians[ours]:.3f} is not below {theirs}: {medians[theirs]:.3f}")
    return failures


def show(ratios, seconds, yardstick):
    print(f"Python {platform.python_version()}, C loop {statistics.median(yardstick) * 1e6:.2f} us per launch\n")
    print(f"{'way to launch, 4 buffers':32}{'x C loop':>10}{'middle half':>18}{'us':>8}")
    for name, values in ratios.items():
        low, high = interval(values)
        median, own = statistics.median(values), statistics.median(seconds[name]) * 1e6
        print(f"{name:32}{median:10.3f}{f'{low:.3f} to {high:.3f}':>18}{own:8.2f}")


def describe(driver, device, medians, ratios, seconds, yardstick, failures):
    return {
        "device": device.name,
        "python": platform.python_version(),
        "bindings": driver.bindings_version(),
        "c_loop_s": statistics.median(yardstick),
        "ratios": medians,
        "quartiles": {name: interval(values) for name, values in ratios.items()},
        "seconds": {name: statistics.median(values) for name, values in seconds.items()},
        "failures": failures,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the figures to this file as JSON")
    options = parser.parse_args()
    driver = load_driver(Backend.CUDA, notify=lambda text: print(text, file=sys.stderr))
    with tempfile.TemporaryDirectory() as folder, Device(driver, 0) as device:
        device.activate()
        ours = Ours(device)
        modes = ours.modes()
        try:
            core = CudaCore(ours.name, ours.text)
            modes |= core.modes()
        except ImportError as error:
            core = None
            print(f"without cuda.core: {error}", file=sys.stderr)

        def drain():
            ours.stream.synchronize()
            if core is not None:
                core.stream.sync()

        gc.collect()
        gc.disable()
        waits = device.waits.stream
        ratios, seconds, yardstick = compare(ours.c_loop(build_c_loop(folder)), modes, drain)
        gc.enable()
        assert device.waits.stream == waits, "nothing here changes hands"
        medians = {name: statistics.median(values) for name, values in ratios.items()}
        failures = judge(medians)
        show(ratios, seconds, yardstick)
        if options.out:
            report = describe(driver, device, medians, ratios, seconds, yardstick, failures)
            options.out.write_text(json.dumps(report, indent=1) + "\n")
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
