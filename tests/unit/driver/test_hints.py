from pathlib import Path

import pytest

from cudabw.driver.hints import SystemProbe, hint_for, startup_hint

ADVISED = [
    *(1, 2, 3, 34, 46, 100, 101, 200, 201, 209, 214, 218, 222, 304, 400, 700, 701, 704, 705, 712, 713, 719),
    *(800, 801, 802, 803, 804, 805, 900, 901, 999),
]
STARTING = [3, 46, 100, 101, 801, 802, 803, 804, 805, 999]


@pytest.fixture
def tree(tmp_path):
    """A system's files, as a function of paths and contents."""

    def build(files=(), **contents):
        for path in files:
            contents[path] = ""
        for path, text in contents.items():
            target = tmp_path / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return SystemProbe(tmp_path)

    return build


ALL_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0")
LOADED = "7f00-7f01 r-xp 00000000 08:01 42                         /usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05\n"
MODULE = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (dvs-builder)\n"
    "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2)\n"
)


def test_every_status_has_a_hint_of_its_own():
    hints = [hint_for(code, "cuFunction") for code in ADVISED]
    assert all(hints)
    assert len(set(hints)) == len(ADVISED)


def test_every_failure_to_start_has_a_hint_of_its_own(tree):
    hints = [startup_hint(code, {}, tree(ALL_NODES)) for code in STARTING]
    assert all(hints)
    assert len(set(hints)) == len(STARTING)


def test_an_unknown_status_is_said_to_be_unknown():
    assert "CUDA Driver API reference" in hint_for(9999, "cuInit")


@pytest.mark.parametrize("function", ["cuMemHostAlloc", "cuMemHostRegister"])
def test_memory_refused_for_pinning_is_host_memory_with_its_limits(function):
    hint = hint_for(2, function)
    assert "Host pinned memory was refused, not device memory" in hint
    assert all(word in hint for word in ("memlock", "WSL", "container"))


def test_memory_refused_on_the_device_points_at_the_device():
    assert "device's memory" in hint_for(2, "cuMemAlloc")
    assert "Managed memory" in hint_for(2, "cuMemAllocManaged")


def test_an_invalid_value_is_explained_by_the_function():
    functions = ["cuMemcpyHtoDAsync", "cuMemHostRegister", "cuMemFree", "cuMemFreeHost", "cuLaunchKernel"]
    assert len({hint_for(1, function) for function in functions}) == len(functions)
    assert hint_for(1, "cuMemcpyHtoDAsync") == hint_for(1, "cuMemcpyDtoH")


@pytest.mark.parametrize("value", ["", "7", "GPU-0 , x", "-1"])
def test_no_device_quotes_the_visible_devices_exactly(tree, value):
    hint = startup_hint(100, {"CUDA_VISIBLE_DEVICES": value}, tree(ALL_NODES))
    assert f'CUDA_VISIBLE_DEVICES="{value}" limits' in hint


def test_no_device_without_the_variable_does_not_mention_it(tree):
    assert "CUDA_VISIBLE_DEVICES" not in startup_hint(100, {}, tree(ALL_NODES))


@pytest.mark.parametrize(
    ("code", "word"), [(802, "fabric manager"), (804, "container"), (805, "MPS"), (46, "compute mode")]
)
def test_a_failure_to_start_names_its_cause(tree, code, word):
    assert word in startup_hint(code, {}, tree(ALL_NODES))


def test_a_mismatch_shows_both_versions_side_by_side(tree):
    probe = tree(**{"/proc/self/maps": LOADED, "/proc/driver/nvidia/version": MODULE})
    assert startup_hint(803, {}, probe).startswith(
        "The driver library is 580.95.05 (/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05), "
        "the kernel module is 580.82.07."
    )


def test_a_mismatch_says_what_it_cannot_tell(tree):
    hint = startup_hint(803, {}, tree())
    assert "the kernel module is of a version /proc/driver/nvidia/version does not tell" in hint


def test_the_closed_modules_version_line_is_read_too(tree):
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
    assert tree(**{"/proc/driver/nvidia/version": line}).kernel_module_version() == "535.104.05"


def test_an_unknown_error_names_the_nodes_that_are_missing_or_cannot_be_opened(tree, tmp_path):
    probe = tree(["/dev/nvidiactl"])
    (tmp_path / "dev/nvidia3").mkdir()  # opening a directory for writing fails, also for root
    assert startup_hint(999, {}, probe).startswith(
        "/dev/nvidia-uvm is missing; /dev/nvidia3 cannot be opened (Is a directory). "
    )


def test_an_unknown_error_with_all_nodes_in_order_says_so(tree):
    assert startup_hint(999, {}, tree(ALL_NODES)).startswith("All device nodes can be opened. ")


def test_under_wsl_its_own_node_is_looked_at(tree):
    assert tree(["/dev/dxg"]).node_problems() == []


@pytest.mark.parametrize("trace", ["/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg"])
def test_each_trace_of_a_kernel_driver_counts(tree, trace):
    assert tree([trace]).driver_installed()


def test_other_files_are_no_trace_of_a_driver(tree):
    assert not tree(["/dev/null", "/dev/nvidia-something"]).driver_installed()


def test_the_loaded_library_is_not_confused_with_the_runtime(tree):
    other = "7e00-7e01 r-xp 00000000 08:01 41    /opt/libcudart.so.12\n7e02-7e03 rw-p 00000000 00:00 0\n"
    assert tree(**{"/proc/self/maps": other}).mapped_library() is None
    both = tree(**{"/proc/self/maps": other + LOADED})
    assert both.mapped_library() == "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"


def test_the_librarys_own_path_comes_before_the_loaders_cache_and_the_known_directories(tree):
    probe = tree(["/usr/lib64/libcuda.so.1"])
    assert probe.find_library({}) == "/usr/lib64/libcuda.so.1"
    cache = "glibc-ld.so.cache1.1\0/opt/driver/libcuda.so.1\0/opt/driver/libcudart.so.12\0"
    probe = tree(["/opt/driver/libcuda.so.1"], **{"/etc/ld.so.cache": cache})
    assert probe.find_library({}) == "/opt/driver/libcuda.so.1"
    probe = tree(["/mine/libcuda.so.1"])
    assert probe.find_library({"LD_LIBRARY_PATH": "/nothing:/mine"}) == "/mine/libcuda.so.1"


def test_a_cache_entry_without_its_file_is_no_library(tree):
    assert tree(**{"/etc/ld.so.cache": "\0/opt/gone/libcuda.so.1\0"}).find_library({}) is None


def test_a_dangling_link_is_a_library_that_is_broken(tree, tmp_path):
    probe = tree(["/usr/lib64/other"])
    Path(tmp_path / "usr/lib64/libcuda.so.1").symlink_to("libcuda.so.535.54.03")
    assert probe.find_library({}) == "/usr/lib64/libcuda.so.1"
