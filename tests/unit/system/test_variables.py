from __future__ import annotations

from pathlib import Path

import pytest

from cudabw.system.variables import distortions, mattering_variables, other_variables

INJECTED = "loads a profiler into this process, which adds to the time of every driver call and launch."
PER_THREAD = "changes what the default stream waits for, so copies and launches may overlap differently."

MATTERING = [
    "CUDA_API_PER_THREAD_DEFAULT_STREAM",
    "CUDA_CACHE_DISABLE",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_DISABLE_PERF_BOOST",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_INJECTION64_PATH",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
    "CUDA_MODULE_LOADING",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_CLIENT_PRIORITY",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM",
    "CUDA_SCALE_LAUNCH_QUEUES",
    "CUDA_VISIBLE_DEVICES",
    "GLIBC_TUNABLES",
    "LD_AUDIT",
    "LD_PRELOAD",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_VISIBLE_DEVICES",
    "NVTX_INJECTION64_PATH",
    "PYTHONDEVMODE",
    "PYTHONMALLOC",
    "PYTHONTRACEMALLOC",
    "PYTHON_GIL",
    "PYTHON_JIT",
]


@pytest.mark.parametrize("name", MATTERING)
@pytest.mark.parametrize("value", ["1", "0", ""])
def test_a_variable_that_matters_is_kept_as_it_was_set(name: str, value: str) -> None:
    assert mattering_variables({name: value, "PATH": "/bin"}) == {name: value}
    assert other_variables({name: value, "PATH": "/bin"}) == []


def test_of_any_other_variable_no_more_than_the_name_is_kept() -> None:
    environ = {"NVIDIA_SECRET": "s3cret", "CUDA_HOME": "/opt", "AWS_KEY": "k", "CUDA_VISIBLE_DEVICES": "0"}
    assert other_variables(environ) == ["CUDA_HOME", "NVIDIA_SECRET"]
    assert mattering_variables(environ) == {"CUDA_VISIBLE_DEVICES": "0"}


def test_every_variable_whose_value_is_kept_is_documented() -> None:
    documented = (Path(__file__).parents[3] / "docs" / "environment.md").read_text()
    assert [name for name in MATTERING if f"`{name}`" not in documented] == []


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "CUDA_LAUNCH_BLOCKING",
            "1",
            "CUDA_LAUNCH_BLOCKING=1 makes every launch wait for its kernel, so launch times include the kernel's own.",
        ),
        ("CUDA_INJECTION64_PATH", "/opt/nsys.so", f"CUDA_INJECTION64_PATH=/opt/nsys.so {INJECTED}"),
        ("NVTX_INJECTION64_PATH", "/opt/nvtx.so", f"NVTX_INJECTION64_PATH=/opt/nvtx.so {INJECTED}"),
        (
            "LD_PRELOAD",
            "libjemalloc.so",
            (
                "LD_PRELOAD=libjemalloc.so puts a library in front of this process's own, "
                "which may replace its allocations, copies and calls."
            ),
        ),
        ("CUDA_API_PER_THREAD_DEFAULT_STREAM", "1", f"CUDA_API_PER_THREAD_DEFAULT_STREAM=1 {PER_THREAD}"),
        (
            "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM",
            "1",
            f"CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM=1 {PER_THREAD}",
        ),
    ],
)
def test_each_distortion_is_one_sentence_and_zero_or_nothing_is_off(name: str, value: str, sentence: str) -> None:
    assert distortions({name: value}) == (sentence,)
    assert distortions({name: "0"}) == distortions({name: ""}) == distortions({name: " 0 "}) == ()


def test_several_distortions_are_named_in_a_fixed_order() -> None:
    found = distortions({"LD_PRELOAD": "a.so", "CUDA_LAUNCH_BLOCKING": "1", "CUDA_VISIBLE_DEVICES": "1"})
    assert [sentence.partition("=")[0] for sentence in found] == ["CUDA_LAUNCH_BLOCKING", "LD_PRELOAD"]


def test_a_clean_environment_distorts_nothing() -> None:
    assert distortions({"PATH": "/bin", "CUDA_MODULE_LOADING": "LAZY"}) == ()
