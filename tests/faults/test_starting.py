"""Whole processes that meet a driver library that is missing, broken, failing or hanging."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import cudabw

ROOT = Path(cudabw.__file__).parents[1]

# Prints how the start ended. A file named by MARKER is made by the fake driver's cuInit.
PROGRAM = """
import os, signal, sys

def no_process_after_init(event, _args):
    if event in ("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen", "os.system"):
        if os.path.exists(os.environ.get("MARKER", "")):
            print("PROCESS AFTER INIT:", event, flush=True)

sys.addaudithook(no_process_after_init)
from cudabw.driver.loader import Backend, load_driver
from cudabw.errors import CudabwError, Interrupted

caught = []
signal.signal(signal.SIGINT, lambda number, _frame: caught.append(number))

def check_interrupt():
    if caught:
        raise Interrupted(caught[0])

try:
    driver = load_driver(
        Backend(sys.argv[1]), notify=lambda text: print("notice:", text, flush=True), check_interrupt=check_interrupt
    )
    print("started:", "emulated" if driver.emulated else driver.path)
    print("count:", driver.call("cuDeviceGetCount"))
    driver.call("cuMemHostAlloc", 1, 0)
except CudabwError as error:
    print(f"{type(error).__name__}: {error}")
    print("hint:", error.hint)
    sys.exit(error.exit_code)
"""

FAKE_DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

int cuInit(unsigned flags) {
    const char *marker = getenv("MARKER");
    if (marker) fclose(fopen(marker, "w"));
    while (getenv("FAKE_HANG")) pause();
    return number("FAKE_INIT", 0);
}

int cuDriverGetVersion(int *version) { *version = number("FAKE_VERSION", 13000); return 0; }

int cuDeviceGetCount(int *count) { *count = number("FAKE_COUNT", 1); return 0; }

#ifndef WITHOUT_LAUNCH
static volatile int opened;

int openGate(void) { opened = 1; return 0; }

/* Holds the caller as a full queue behind a closed gate does. */
int cuLaunchKernelEx(const void *config, void *function, void **parameters, void **extra) {
    while (getenv("FAKE_GATE") && !opened) usleep(1000);
    return config == (void *)0x123456789a && function == (void *)0x2000000000 && parameters == (void *)0x30 && !extra;
}
#endif

#ifndef WITHOUT_LOOKUP
int cuGetProcAddress_v2(const char *name, void **entry, int version, unsigned long long flags, void *found) {
    *entry = NULL;
    if (number("FAKE_INIT", 0) == 34) return 34;  /* a stub's functions all do */
    if (!strcmp(name, "cuInit")) *entry = cuInit;
    if (!strcmp(name, "cuDriverGetVersion")) *entry = cuDriverGetVersion;
    if (!strcmp(name, "cuDeviceGetCount")) *entry = cuDeviceGetCount;
    return *entry ? 0 : 500;
}
#endif
"""


def environment(libraries, **settings):
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("CUDA", "LD_LIBRARY_PATH", "FAKE"))
    }
    paths = [str(ROOT), *settings.pop("pythonpath", [])]
    return inherited | {"LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": os.pathsep.join(paths)} | settings


def start(libraries, backend="auto", program=PROGRAM, **settings):
    return subprocess.run(
        [sys.executable, "-c", program, backend],
        env=environment(libraries, **settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def build(folder, *options):
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc to build a fake driver with")
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "fake.c"
    source.write_text(FAKE_DRIVER)
    subprocess.run(
        [compiler, "-w", "-shared", "-fPIC", *options, "-o", folder / "libcuda.so.1", source], check=True, timeout=120
    )
    return folder


@pytest.fixture(scope="module")
def fake_driver(tmp_path_factory):
    """A folder with a libcuda.so.1 that obeys FAKE_* variables."""
    return build(tmp_path_factory.mktemp("fake").resolve())


@pytest.mark.parametrize("backend", ["auto", "cuda"])
@pytest.mark.parametrize(
    ("content", "reason"), [("", "file too short"), ("not a library\n" * 99, "invalid ELF header")]
)
def test_a_file_that_is_no_library_is_named_and_nothing_stands_in_for_it(tmp_path, backend, content, reason):
    library = tmp_path / "libcuda.so.1"
    library.write_text(content)
    done = start(tmp_path, backend)
    assert done.stdout.splitlines()[0] == (
        f"NoDriverError: The CUDA driver library was found at {library} but not loadable: {reason}"
    )
    assert (done.returncode, done.stderr) == (5, "")


def test_a_working_driver_starts_and_a_function_it_lacks_is_unsupported(fake_driver):
    done = start(fake_driver)
    assert done.stdout.splitlines()[:3] == [
        f"started: {fake_driver}/libcuda.so.1",
        "count: 1",
        "UnsupportedError: cuMemHostAlloc does not exist in the installed driver; the driver supports CUDA 13.0",
    ]
    assert done.returncode == 4


def test_no_process_is_started_once_the_driver_is_initialised(fake_driver, tmp_path):
    marker = tmp_path / "initialised"
    done = start(fake_driver, MARKER=str(marker))
    assert marker.exists()
    assert "started:" in done.stdout
    assert "PROCESS AFTER INIT" not in done.stdout


@pytest.mark.parametrize(
    ("status", "name", "advice"),
    [
        (100, "CUDA_ERROR_NO_DEVICE", "nvidia-smi -L"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "The driver library is"),
        (999, "CUDA_ERROR_UNKNOWN", "dmesg"),
        (9999, "CUresult 9999", "Driver API reference"),
    ],
)
def test_a_driver_that_fails_to_start_ends_with_its_status_and_a_hint(fake_driver, status, name, advice):
    done = start(fake_driver, FAKE_INIT=str(status))
    first, hint = done.stdout.splitlines()
    assert first == f"NoDriverError: The CUDA driver did not start: cuInit failed with {name} ({status})"
    assert advice in hint
    assert (done.returncode, done.stderr) == (5, "")


def test_a_stub_is_recognised_by_its_status(fake_driver):
    done = start(fake_driver, FAKE_INIT="34")
    assert done.stdout.startswith(
        f"NoDriverError: No CUDA driver: a stub library was loaded from {fake_driver}/libcuda.so.1\n"
    )
    assert done.returncode == 5


def test_a_stub_is_recognised_by_its_folder(tmp_path):
    stubs = build(tmp_path / "lib64" / "stubs")
    done = start(stubs)
    assert done.stdout.startswith(f"NoDriverError: No CUDA driver: a stub library was loaded from {stubs}/libcuda.so.1")
    assert done.returncode == 5


def test_no_device_quotes_the_visible_devices(fake_driver):
    done = start(fake_driver, FAKE_COUNT="0", CUDA_VISIBLE_DEVICES="7,x ")
    assert done.stdout.startswith("NoDriverError: The CUDA driver shows no device\n")
    assert 'CUDA_VISIBLE_DEVICES="7,x "' in done.stdout
    assert done.returncode == 5


def test_fewer_devices_than_named_are_warned_about(fake_driver):
    done = start(fake_driver, CUDA_VISIBLE_DEVICES="0,7")
    assert done.stdout.startswith('notice: CUDA_VISIBLE_DEVICES="0,7" names 2 devices, but the driver shows 1')


def test_a_driver_from_before_cuda_12_is_too_old(tmp_path):
    done = start(build(tmp_path, "-DWITHOUT_LOOKUP"), FAKE_VERSION="11080")
    assert done.stdout.startswith("NoDriverError: The NVIDIA driver is too old: it supports CUDA 11.8; ")
    assert done.returncode == 5


def test_a_library_that_is_not_a_driver_is_refused(tmp_path):
    build(tmp_path, "-DcuInit=somethingElse")
    done = start(tmp_path)
    assert done.stdout.splitlines()[0].endswith(f"{tmp_path}/libcuda.so.1 but not loadable: undefined symbol: cuInit")
    assert done.returncode == 5


def test_a_hanging_driver_is_reported_and_a_signal_ends_the_program(fake_driver):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "cuda"],
        env=environment(fake_driver, FAKE_HANG="1"),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            notice = process.stdout.readline()
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert notice.startswith("notice: Starting the driver: cuInit has not returned for ")
    assert "Interrupted: interrupted" in rest
    assert process.returncode == 130


@pytest.mark.parametrize("backend", ["auto", "cuda", "emulated"])
def test_a_users_own_cuda_module_is_named_and_not_executed(tmp_path, backend):
    shadow = tmp_path / "cuda.py"
    shadow.write_text("print('EXECUTED')\n")
    done = start(tmp_path, backend, "print('BEGIN')\n" + PROGRAM, pythonpath=[str(tmp_path)])
    # What cuda-bindings 12 itself imports when the interpreter starts (by a .pth file) is before our time.
    ours = done.stdout.partition("BEGIN\n")[2]
    assert ours.startswith(f"NoDriverError: {shadow} stands in the way of NVIDIA's package of the same name\nhint: ")
    assert "EXECUTED" not in ours
    assert done.returncode == 5


LAUNCH = """
import ctypes, threading, time
from cudabw.driver.library import LoadedLibrary
bind = LoadedLibrary().launch_binder()
if bind is None:
    print("cannot be bound")
    raise SystemExit
def open_gate():
    time.sleep(0.05)
    ctypes.CDLL("libcuda.so.1").openGate()
threading.Thread(target=open_gate, daemon=True).start()
launch = bind(0x123456789A, 0x2000000000, 0x30)
print(launch(), launch(), bind(1, 2, 3)())
"""


def test_a_launch_bound_to_the_library_gets_its_arguments_and_lets_other_threads_run(fake_driver):
    assert start(fake_driver, program=LAUNCH, FAKE_GATE="1").stdout == "1 1 0\n"


def test_a_library_without_the_launch_function_leaves_it_to_the_bindings(tmp_path):
    assert start(build(tmp_path, "-DWITHOUT_LAUNCH"), program=LAUNCH).stdout == "cannot be bound\n"
