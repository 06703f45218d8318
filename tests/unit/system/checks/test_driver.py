"""The driver, the versions of its parts, NVML and the device nodes."""

import os
from types import SimpleNamespace

import pytest

from cudabw.errors import NoDriverError
from cudabw.system.checks.driver import DRIVER, NVML, VERSIONS
from cudabw.system.checks.nodes import NODES

LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.03"
MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Mon Jan  1 00:00:00 UTC 2026\n"


def driver(version=13000, path=LIBRARY):
    return SimpleNamespace(path=path, version=lambda: version)


@pytest.fixture(autouse=True)
def _bindings(monkeypatch):
    monkeypatch.setattr("cudabw.system.checks.driver.package_version", lambda _: "13.4.4")


def test_a_driver_that_started_is_named_with_its_file(look):
    assert look(DRIVER, driver=driver()) == [("ok", f"CUDA 13.0, {LIBRARY}", "")]


def test_a_driver_that_did_not_start_says_why_and_what_to_do(look):
    failure = NoDriverError("The CUDA driver did not start: cuInit failed", hint="Reboot.")
    assert look(DRIVER, failure=failure) == [("wrong", "The CUDA driver did not start: cuInit failed", "Reboot.")]


SAME = "kernel module 580.159.03, libcuda 580.159.03, NVML 580.159.03"


def versions(look, *, module="580.159.03", path=LIBRARY, nvml="13.580.159.03", cuda=13000, **files):
    told = {"proc/driver/nvidia/version": MODULE.format(module)} if module else {}
    answers = {"system_get_nvml_version": nvml} if nvml else {}
    (found,) = look(VERSIONS, told | files, driver=driver(cuda, path), nvml=answers)
    return found


def test_parts_of_one_version_are_well(look):
    assert versions(look) == ("ok", f"{SAME}; cuda-bindings 13.4.4", "")


def test_a_part_whose_version_is_not_told_is_no_mismatch(look):
    seen = "kernel module 580.159.03, libcuda unknown, NVML unknown; cuda-bindings 13.4.4"
    assert versions(look, path="/usr/lib/wsl/lib/libcuda.so.1.1", nvml=None) == ("ok", seen, "")


@pytest.mark.parametrize(
    ("changed", "seen"),
    [
        ({"module": "570.10"}, "kernel module 570.10, libcuda 580.159.03, NVML 580.159.03: they differ"),
        ({"nvml": "12.570.10"}, "kernel module 580.159.03, libcuda 580.159.03, NVML 570.10: they differ"),
    ],
)
def test_parts_of_different_versions_are_wrong(look, changed, seen):
    assert versions(look, **changed) == ("wrong", seen, "sudo reboot")


def test_in_a_container_a_mismatch_is_not_mended_by_a_reboot(look):
    verdict, _, fix = versions(look, module="570.10", **{".dockerenv": ""})
    assert (verdict, fix) == (
        "wrong",
        "Remove the libcuda that the container's image brings, so that the host's is used.",
    )


def test_a_forward_compatibility_library_is_meant_to_differ(look):
    path = "/usr/local/cuda/compat/libcuda.so.580.159.03"
    verdict, seen, fix = versions(look, module="535.10", path=path, nvml=None)
    assert verdict == "attention"
    assert seen.endswith(f"libcuda is a forward-compatibility library, {path}")
    assert fix == "Take its folder off LD_LIBRARY_PATH unless the newer CUDA is needed."


def test_bindings_for_a_newer_cuda_than_the_drivers_lack_functions(look):
    assert versions(look, cuda=12090) == (
        "attention",
        f"{SAME}; cuda-bindings 13.4.4; the driver is for CUDA 12.9, so newer functions are missing",
        "pip install 'cuda-python==12.*'",
    )


def test_where_no_driver_started_the_library_on_disk_is_compared(look, tmp_path):
    folder = tmp_path / "usr/lib64"
    folder.mkdir(parents=True)
    (folder / "libcuda.so.575.1").write_text("")
    (folder / "libcuda.so.1").symlink_to("libcuda.so.575.1")
    files = {"proc/driver/nvidia/version": MODULE.format("580.1")}
    (found,) = look(VERSIONS, files, failure=NoDriverError("no"))
    assert found == ("wrong", "kernel module 580.1, libcuda 575.1, NVML unknown: they differ", "sudo reboot")


def test_without_any_driver_no_version_is_told(look):
    seen = "no version of a driver is told; cuda-bindings 13.4.4"
    assert look(VERSIONS, failure=NoDriverError("no")) == [("unknown", seen, "")]


def test_nvml_that_starts_names_the_driver(look):
    assert look(NVML, nvml={"system_get_driver_version": "580.159.03"}) == [("ok", "NVIDIA driver 580.159.03", "")]


def test_nvml_that_does_not_start_leaves_things_unknown(look):
    fix = "nvidia-smi must work; a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility."
    assert look(NVML) == [("attention", "NVML does not start", fix)]


GOOD = {"dev/nvidiactl": "", "dev/nvidia-uvm": "", "dev/nvidia3": ""}


def test_nodes_that_can_be_opened_are_listed(look):
    assert look(NODES, GOOD) == [("ok", "/dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia3 can be opened", "")]
    assert look(NODES, {"dev/dxg": ""}) == [("ok", "/dev/dxg can be opened", "")]


def test_missing_nodes_are_made_by_the_kernel_module(look):
    seen = "/dev/nvidiactl is missing; /dev/nvidia-uvm is missing; /dev/nvidia0 is missing"
    assert look(NODES) == [("wrong", seen, "sudo modprobe nvidia && sudo nvidia-modprobe -c 0 -u")]


def test_a_container_is_given_its_nodes(look):
    ((verdict, _, fix),) = look(NODES, {".dockerenv": ""})
    assert (verdict, fix) == ("wrong", "docker run --gpus all IMAGE")


def test_nodes_that_may_not_be_opened_are_told_from_missing_ones(look, monkeypatch):
    def refuse(path, _flags):
        raise PermissionError(13, os.strerror(13), path)

    monkeypatch.setattr("cudabw.driver.hints.os.open", refuse)
    ((verdict, seen, fix),) = look(NODES, {"dev/dxg": ""})
    assert (verdict, seen) == ("wrong", "/dev/dxg cannot be opened (Permission denied)")
    assert fix == "ls -l /dev/nvidia* /dev/dxg; sudo usermod -aG video,render $USER"
