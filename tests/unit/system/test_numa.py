"""The nodes that sysfs shows, and the one that a GPU is at."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.driver.nvml import NvmlDevice
from cudabw.system.numa import NumaNode, allowed_nodes, gpu_node, memory_nodes, numa_nodes
from cudabw.system.pseudofiles import parse_number_list

PCI = "0000:17:00.0"
NODES = "sys/devices/system/node"


def nvml_with(affinity):
    """A device in NVML that answers what its nearest nodes are, or raises it."""
    asked = []

    def device_get_memory_affinity(*arguments):
        asked.append(arguments)
        if isinstance(affinity, Exception):
            raise affinity
        return affinity

    return NvmlDevice(SimpleNamespace(device_get_memory_affinity=device_get_memory_affinity), 7), asked


def test_nodes_are_listed_with_cpus_and_memory(two_nodes):
    assert numa_nodes(root=two_nodes.root) == (
        NumaNode(0, frozenset({0, 1, 2, 3}), True, 1 << 40),
        NumaNode(1, frozenset({4, 5, 6, 7}), True, 1 << 40),
        NumaNode(2, frozenset(), False, 0),
    )
    assert memory_nodes(root=two_nodes.root) == (0, 1)


def test_nodes_need_not_follow_each_other(two_nodes):
    two_nodes.write(f"{NODES}/online", "0,8\n")
    two_nodes.write(f"{NODES}/has_memory", "0,8\n")
    two_nodes.add_node(8, "4-5,7")
    assert memory_nodes(root=two_nodes.root) == (0, 8)
    assert numa_nodes(root=two_nodes.root)[1].cpus == {4, 5, 7}


def test_older_kernels_say_which_nodes_have_normal_memory(two_nodes):
    (two_nodes.root / NODES / "has_memory").unlink()
    two_nodes.write(f"{NODES}/has_normal_memory", "1\n")
    assert memory_nodes(root=two_nodes.root) == (1,)


def test_where_no_file_says_which_nodes_have_memory_all_are_taken_to_have_some(two_nodes):
    (two_nodes.root / NODES / "has_memory").unlink()
    assert memory_nodes(root=two_nodes.root) == (0, 1, 2)


def test_what_the_kernel_gives_back_under_pressure_is_available_too(two_nodes):
    two_nodes.write(
        f"{NODES}/node0/meminfo",
        "Node 0 MemTotal:  900 kB\nNode 0 MemFree:  100 kB\nNode 0 Inactive(file):  20 kB\n"
        "Node 0 Inactive(anon):  400 kB\nNode 0 SReclaimable:  3 kB\n",
    )
    assert numa_nodes(root=two_nodes.root)[0].available_bytes == 123 * 1024


def test_a_node_without_files_is_there_all_the_same(two_nodes):
    for name in ("cpulist", "meminfo"):
        (two_nodes.root / NODES / "node1" / name).unlink()
    assert numa_nodes(root=two_nodes.root)[1] == NumaNode(1, frozenset(), True, None)


def test_a_system_that_tells_of_no_nodes_has_none(tmp_path):
    assert numa_nodes(root=tmp_path) == memory_nodes(root=tmp_path) == ()
    assert allowed_nodes(root=tmp_path) is None


def test_the_nodes_that_a_cpuset_allows_are_read(tmp_path):
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "status").write_text("Name:\tpython\nMems_allowed:\t3\nMems_allowed_list:\t0-1\n")
    assert allowed_nodes(root=tmp_path) == {0, 1}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0\n", {0}),
        ("0-3,8\n", {0, 1, 2, 3, 8}),
        ("\n", set()),
        (None, None),
        ("3-1\n", None),
        ("0-\n", None),
        ("-1\n", None),
        ("0-99999999999\n", None),
        ("zero\n", None),
    ],
)
def test_the_kernels_lists_of_numbers_are_read(text, numbers):
    assert parse_number_list(text) == numbers


@given(st.sets(st.integers(0, 1023)))
def test_any_list_of_single_numbers_is_read_back(numbers):
    assert parse_number_list(",".join(map(str, sorted(numbers)))) == numbers


@given(st.text(max_size=30))
def test_no_text_makes_reading_a_list_raise(text):
    parse_number_list(text)


# The node of a GPU


def test_sysfs_is_asked_for_the_node_of_a_gpu_before_nvml(two_nodes):
    two_nodes.write(f"sys/bus/pci/devices/{PCI}/numa_node", "1\n")
    nvml, asked = nvml_with([1])
    assert gpu_node("00000000:17:00.0", nvml, root=two_nodes.root) == 1
    assert asked == []


@pytest.mark.parametrize("file", ["-1\n", None])
@pytest.mark.parametrize(
    ("affinity", "node"), [([0b10], 1), ([0, 0b100], 66), ([0b11], None), ([0], None), (RuntimeError(), None)]
)
def test_nvml_is_asked_where_sysfs_does_not_know_and_only_one_node_is_an_answer(two_nodes, file, affinity, node):
    if file is not None:
        two_nodes.write(f"sys/bus/pci/devices/{PCI}/numa_node", file)
    nvml, asked = nvml_with(affinity)
    assert gpu_node(PCI, nvml, root=two_nodes.root) == node
    assert asked == [(7, 16, 0)]


@pytest.mark.parametrize("pci", [None, "nonsense", PCI])
def test_without_sysfs_and_nvml_the_node_is_unknown(tmp_path, pci):
    assert gpu_node(pci, None, root=tmp_path) is None
