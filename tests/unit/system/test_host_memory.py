from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.system.host_memory import HostMemory, host_memory

if TYPE_CHECKING:
    from pathlib import Path

GIB = 2**30
MIB = 2**20
V1_UNLIMITED = 9223372036854771712
MEMINFO = """\
MemTotal:       67108864 kB
MemFree:         4194304 kB
MemAvailable:   33554432 kB
HugePages_Total:       0
"""
SYSTEM = HostMemory(64 * GIB, 32 * GIB, "system memory 64 GiB")


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def v2(folder: str, limit: object, current: int, **statistics: int) -> dict[str, str]:
    stat = "".join(f"{name} {value}\n" for name, value in statistics.items())
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{current}\n",
        f"{folder}/memory.stat": stat,
    }


def v1(folder: str, limit: int, usage: int, **statistics: int) -> dict[str, str]:
    stat = "".join(f"{name} {value}\n" for name, value in statistics.items())
    return {
        f"{folder}/memory.limit_in_bytes": f"{limit}\n",
        f"{folder}/memory.usage_in_bytes": f"{usage}\n",
        f"{folder}/memory.stat": stat,
    }


def test_without_control_groups_the_system_is_the_bound(tmp_path: Path) -> None:
    assert host_memory(root=write(tmp_path, {"proc/meminfo": MEMINFO})) == SYSTEM


def test_an_old_kernel_without_an_estimate_gives_its_free_memory(tmp_path: Path) -> None:
    meminfo = "MemTotal: 67108864 kB\nMemFree: 4194304 kB\n"
    memory = host_memory(root=write(tmp_path, {"proc/meminfo": meminfo}))
    assert memory == HostMemory(64 * GIB, 4 * GIB, "system memory 64 GiB")


@pytest.mark.parametrize("meminfo", [None, "", "MemTotal: 1 kB\n", "MemAvailable: 1 kB\n", "MemTotal\nMemFree: x kB\n"])
def test_where_nothing_can_be_read_everything_is_none(tmp_path: Path, meminfo: str | None) -> None:
    root = tmp_path if meminfo is None else write(tmp_path, {"proc/meminfo": meminfo})
    assert host_memory(root=root) == HostMemory(None, None, None)


def test_a_v2_limit_counts_use_but_not_what_can_be_reclaimed(tmp_path: Path) -> None:
    group = v2(
        "sys/fs/cgroup/job", 4 * GIB, 3 * GIB, anon=GIB, inactive_file=GIB, slab_reclaimable=MIB, active_file=GIB // 2
    )
    root = write(tmp_path, {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/job\n", **group})
    assert host_memory(root=root) == HostMemory(4 * GIB, 2 * GIB + MIB, "cgroup limit 4 GiB")


def test_a_v2_group_without_a_limit_leaves_the_system(tmp_path: Path) -> None:
    group = v2("sys/fs/cgroup/job", "max", 60 * GIB)
    root = write(tmp_path, {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/job\n", **group})
    assert host_memory(root=root) == SYSTEM


def test_a_limit_above_what_the_system_has_left_does_not_matter(tmp_path: Path) -> None:
    group = v2("sys/fs/cgroup/job", 40 * GIB, GIB)
    root = write(tmp_path, {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/job\n", **group})
    assert host_memory(root=root) == HostMemory(40 * GIB, 32 * GIB, "system memory 64 GiB")


@pytest.mark.parametrize("tight", ["sys/fs/cgroup", "sys/fs/cgroup/a", "sys/fs/cgroup/a/b", "sys/fs/cgroup/a/b/c"])
def test_every_v2_group_up_to_the_mount_is_asked(tmp_path: Path, tight: str) -> None:
    files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/a/b/c\n"}
    for folder in ("sys/fs/cgroup", "sys/fs/cgroup/a", "sys/fs/cgroup/a/b", "sys/fs/cgroup/a/b/c"):
        files |= v2(folder, 8 * GIB, 0)
    files |= v2(tight, 2 * GIB, GIB)
    assert host_memory(root=write(tmp_path, files)) == HostMemory(2 * GIB, GIB, "cgroup limit 2 GiB")


def test_the_total_is_the_smallest_limit_although_another_is_tighter_now(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/a/b\n"}
    files |= v2("sys/fs/cgroup/a", 8 * GIB, 7 * GIB) | v2("sys/fs/cgroup/a/b", 4 * GIB, 0)
    assert host_memory(root=write(tmp_path, files)) == HostMemory(4 * GIB, GIB, "cgroup limit 8 GiB")


def test_groups_beside_our_own_are_not_asked(tmp_path: Path) -> None:
    files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/a\n"}
    files |= v2("sys/fs/cgroup/a", "max", 0) | v2("sys/fs/cgroup/b", GIB, 0) | v2("sys/fs/cgroup/a/below", GIB, 0)
    assert host_memory(root=write(tmp_path, files)) == SYSTEM


@pytest.mark.parametrize("path", ["/kubepods/pod1/container1", "/../other", "/", "", "/gone (deleted)"])
def test_in_a_namespace_the_mount_stands_for_a_path_that_is_not_there(tmp_path: Path, path: str) -> None:
    files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": f"0::{path}\n", **v2("sys/fs/cgroup", 2 * GIB, GIB)}
    files |= v2("sys/fs/other", MIB, 0)
    assert host_memory(root=write(tmp_path, files)) == HostMemory(2 * GIB, GIB, "cgroup limit 2 GiB")


def test_a_path_of_the_host_is_followed_as_far_as_the_container_shows_it(tmp_path: Path) -> None:
    files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/docker/1234/job\n"}
    files |= v2("sys/fs/cgroup", 8 * GIB, 0) | v2("sys/fs/cgroup/job", 2 * GIB, GIB)
    assert host_memory(root=write(tmp_path, files)) == HostMemory(2 * GIB, GIB, "cgroup limit 2 GiB")


def test_without_a_list_of_groups_the_mounts_are_asked(tmp_path: Path) -> None:
    files = {"proc/meminfo": MEMINFO, **v2("sys/fs/cgroup", 2 * GIB, GIB)}
    assert host_memory(root=write(tmp_path, files)) == HostMemory(2 * GIB, GIB, "cgroup limit 2 GiB")


def test_a_v1_limit_counts_use_but_not_the_inactive_files_of_the_whole_tree(tmp_path: Path) -> None:
    group = v1("sys/fs/cgroup/memory/job", 4 * GIB, 3 * GIB, inactive_file=MIB, total_inactive_file=GIB)
    listing = "5:cpu,cpuacct:/elsewhere\n4:hugetlb,memory:/job\n1:name=systemd:/init\n0::/\n"
    root = write(tmp_path, {"proc/meminfo": MEMINFO, "proc/self/cgroup": listing, **group})
    assert host_memory(root=root) == HostMemory(4 * GIB, 2 * GIB, "cgroup limit 4 GiB")


def test_the_number_that_v1_writes_for_unlimited_is_no_limit(tmp_path: Path) -> None:
    group = v1("sys/fs/cgroup/memory", V1_UNLIMITED, GIB)
    listing = {"proc/self/cgroup": "4:memory:/\n", **group}
    assert host_memory(root=write(tmp_path, listing)) == HostMemory(None, None, None)
    assert host_memory(root=write(tmp_path, {"proc/meminfo": MEMINFO})) == SYSTEM


@pytest.mark.parametrize("tight", ["sys/fs/cgroup/memory", "sys/fs/cgroup/memory/a", "sys/fs/cgroup/memory/a/b"])
def test_every_v1_group_up_to_the_mount_is_asked(tmp_path: Path, tight: str) -> None:
    files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "4:memory:/a/b\n"}
    for folder in ("sys/fs/cgroup/memory", "sys/fs/cgroup/memory/a", "sys/fs/cgroup/memory/a/b"):
        files |= v1(folder, V1_UNLIMITED, 0)
    files |= v1(tight, 2 * GIB, GIB)
    assert host_memory(root=write(tmp_path, files)) == HostMemory(2 * GIB, GIB, "cgroup limit 2 GiB")


def test_v1_in_a_namespace_uses_the_mount(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "4:memory:/docker/1234\n", **v1("sys/fs/cgroup/memory", 2 * GIB, GIB)}
    assert host_memory(root=write(tmp_path, files)) == HostMemory(2 * GIB, GIB, "cgroup limit 2 GiB")


def test_the_hybrid_layout_keeps_version_2_in_a_folder_of_its_own(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/job\n", **v2("sys/fs/cgroup/unified/job", 2 * GIB, GIB)}
    assert host_memory(root=write(tmp_path, files)) == HostMemory(2 * GIB, GIB, "cgroup limit 2 GiB")


def test_a_limit_alone_bounds_what_can_be_allocated(tmp_path: Path) -> None:
    assert host_memory(root=write(tmp_path, {"sys/fs/cgroup/memory.max": "1073741824\n"})) == HostMemory(
        GIB, GIB, "cgroup limit 1 GiB"
    )


@pytest.mark.parametrize(
    ("current", "reclaimable", "available"), [(GIB, 0, 0), (2 * GIB, 0, 0), (GIB, GIB, GIB), (GIB, 3 * GIB, GIB)]
)
def test_what_is_left_is_neither_negative_nor_above_the_limit(
    tmp_path: Path, current: int, reclaimable: int, available: int
) -> None:
    root = write(tmp_path, v2("sys/fs/cgroup", GIB, current, inactive_file=reclaimable))
    assert host_memory(root=root) == HostMemory(GIB, available, "cgroup limit 1 GiB")


def test_lines_that_name_no_group_of_ours_are_passed_over(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/job\n7::/other\n0:\nnonsense\n\n"}
    files |= v2("sys/fs/cgroup/job", 2 * GIB, GIB) | v2("sys/fs/cgroup/other", MIB, 0)
    assert host_memory(root=write(tmp_path, files)) == HostMemory(2 * GIB, GIB, "cgroup limit 2 GiB")


def test_files_that_hold_something_else_are_passed_over(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/job\n",
        "sys/fs/cgroup/job/memory.max": "a lot\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "-1\n",
    }
    assert host_memory(root=write(tmp_path, files)) == SYSTEM


@given(
    limit=st.integers(0, 2**60 - 1),
    current=st.integers(0, 2**60),
    inactive=st.integers(0, 2**40),
    slab=st.integers(0, 2**40),
)
def test_the_arithmetic_of_a_v2_group_holds_for_all_figures(
    tmp_path_factory: pytest.TempPathFactory, limit: int, current: int, inactive: int, slab: int
) -> None:
    group = v2("sys/fs/cgroup", limit, current, inactive_file=inactive, slab_reclaimable=slab)
    memory = host_memory(root=write(tmp_path_factory.mktemp("root"), group))
    assert memory.total_bytes == limit
    assert memory.available_bytes == min(limit, max(0, limit - current + inactive + slab))


any_text = st.text(st.characters(codec="utf-8"), max_size=80)


@given(
    meminfo=any_text,
    listing=any_text.map("0::/".__add__) | any_text,
    limit=any_text,
    stat=any_text,
)
def test_no_text_in_any_file_raises(
    tmp_path_factory: pytest.TempPathFactory, meminfo: str, listing: str, limit: str, stat: str
) -> None:
    files = {
        "proc/meminfo": meminfo,
        "proc/self/cgroup": listing,
        "sys/fs/cgroup/memory.max": limit,
        "sys/fs/cgroup/memory.stat": stat,
    }
    memory = host_memory(root=write(tmp_path_factory.mktemp("root"), files))
    assert (memory.available_bytes is None) == (memory.limit_source is None) == (memory.total_bytes is None)


def test_this_machine_says_how_much_it_has() -> None:
    memory = host_memory()
    assert memory.total_bytes is not None
    assert memory.available_bytes is not None
    assert memory.available_bytes > 0
