"""Putting a thread and its memory on a node, and asking where they are."""

import errno
import mmap
import os
import threading

import numpy as np
import pytest

from cudabw.errors import CudabwError, RefusedError, UnsupportedError
from cudabw.runtime.acquiring import map_pages
from cudabw.system.numa import numa_nodes
from cudabw.system.numa_calls import BIND, LinuxCalls, Policy
from cudabw.system.placement import SAMPLED_PAGES, Placement

PAGE = mmap.PAGESIZE
EVERYWHERE = (Policy(), frozenset(range(8)))


def bound_to(*nodes):
    return Policy(BIND, frozenset(nodes))


def test_memory_and_thread_are_placed_and_put_back(two_nodes):
    with two_nodes.placement.placed_on(1):
        assert two_nodes.placed == (bound_to(1), {4, 5, 6, 7})
        assert two_nodes.placement.thread_node() == 1
    assert two_nodes.placed == EVERYWHERE


def test_a_policy_of_before_is_put_back_also_after_an_error(two_nodes):
    two_nodes.placed = before = (Policy(3, frozenset({0, 1})), frozenset({2, 5}))
    with pytest.raises(ZeroDivisionError), two_nodes.placement.placed_on(0):
        raise ZeroDivisionError
    assert two_nodes.history[1:3] == [(bound_to(0), {2}), (bound_to(0), {2, 5})]
    assert two_nodes.placed == before


def test_without_a_node_nothing_is_touched(two_nodes):
    two_nodes.refused = dict.fromkeys(["get_mempolicy", "set_mempolicy", "sched_setaffinity"], "EPERM")
    with two_nodes.placement.placed_on(None):
        pass
    assert two_nodes.history == []


def test_the_cpus_of_a_node_are_taken_although_the_process_was_given_others(two_nodes):
    two_nodes.placed = (Policy(), frozenset({0, 1}))
    with two_nodes.placement.placed_on(1):
        assert two_nodes.placed == (bound_to(1), {4, 5, 6, 7})
    assert two_nodes.placed == (Policy(), {0, 1})


@pytest.mark.parametrize("lacking", ["cpus", "permission"])
def test_where_the_thread_cannot_go_the_memory_is_bound_alone(two_nodes, lacking):
    if lacking == "cpus":
        two_nodes.add_node(1, "")
    else:
        two_nodes.refused = {"sched_setaffinity": "EINVAL"}
    with two_nodes.placement.placed_on(1):
        assert two_nodes.placed == (bound_to(1), EVERYWHERE[1])
        assert two_nodes.placement.thread_node() == 0
    assert two_nodes.placed == EVERYWHERE


@pytest.mark.parametrize(
    ("node", "message", "hint"),
    [
        (2, "NUMA node 2 has no memory", "Nodes with memory: 0, 1."),
        (7, "NUMA node 7 does not exist", "Nodes with memory: 0, 1."),
    ],
)
def test_a_node_that_is_not_there_is_unsupported(two_nodes, node, message, hint):
    with pytest.raises(UnsupportedError) as raised, two_nodes.placement.placed_on(node):
        pass
    assert (raised.value.message, raised.value.hint) == (message, hint)
    assert two_nodes.history == []


def test_a_system_that_tells_of_no_nodes_is_unsupported(tmp_path, two_nodes):
    placement = Placement(two_nodes, root=tmp_path / "empty")
    with pytest.raises(UnsupportedError, match="this system does not say which nodes it has"), placement.placed_on(0):
        pass


def test_a_node_that_the_cpuset_forbids_is_refused(two_nodes):
    two_nodes.write("proc/self/status", "Mems_allowed_list:\t0\n")
    with pytest.raises(RefusedError) as raised, two_nodes.placement.placed_on(1):
        pass
    assert raised.value.message == "this process may not use the memory of NUMA node 1: its cpuset allows 0"


@pytest.mark.parametrize("call", ["get_mempolicy", "set_mempolicy"])
@pytest.mark.parametrize(
    ("code", "error", "hint"),
    [
        (
            "EPERM",
            RefusedError,
            "In a container, allow it (docker run --security-opt seccomp=unconfined), or run outside.",
        ),
        ("ENOSYS", UnsupportedError, "This kernel has no memory policies, or none that this program knows."),
        ("EINVAL", RefusedError, ""),
    ],
)
def test_what_the_system_refuses_is_said_and_nothing_is_left_changed(two_nodes, call, code, error, hint):
    two_nodes.refused = {call: code}
    with pytest.raises(error) as raised, two_nodes.placement.placed_on(1):
        pytest.fail("it is not placed")
    assert raised.value.message == f"memory was not bound to NUMA node 1: {call} gave {code}"
    assert raised.value.hint == hint
    assert two_nodes.placed == EVERYWHERE


def test_a_thread_that_cannot_be_put_back_is_an_error_of_ours(two_nodes):
    with pytest.raises(CudabwError, match="could not be put back"), two_nodes.placement.placed_on(1):
        two_nodes.refused = {"set_mempolicy": "EPERM"}
    assert two_nodes.placed[1] == EVERYWHERE[1]


# Where pages are


def test_pages_are_counted_by_node(two_nodes):
    two_nodes.pages = lambda index: index % 2
    assert two_nodes.placement.pages_on([(0, 8 * PAGE), (64 * PAGE, 4 * PAGE)]) == {0: 6, 1: 6}


def test_large_memory_is_sampled_evenly_with_its_ends(two_nodes):
    asked = []
    two_nodes.page_nodes = lambda addresses: asked.extend(addresses) or [0] * len(addresses)
    assert two_nodes.placement.pages_on([(PAGE + 16, 630 * PAGE)]) == {0: SAMPLED_PAGES}
    assert asked == [PAGE + 10 * PAGE * step for step in range(SAMPLED_PAGES)]


def test_a_piece_within_a_page_is_one_page(two_nodes):
    assert two_nodes.placement.pages_on([(PAGE + 16, 5)]) == {0: 1}


def test_pages_of_which_nothing_is_known_are_not_counted(two_nodes):
    two_nodes.pages = lambda index: 1 if index == 0 else -errno.ENOENT
    assert two_nodes.placement.pages_on([(0, 3 * PAGE)]) == {1: 1}
    two_nodes.pages = lambda _: -errno.EFAULT
    assert two_nodes.placement.pages_on([(0, 3 * PAGE)]) is None


@pytest.mark.parametrize("code", ["EPERM", "ENOSYS"])
def test_where_the_system_does_not_say_it_is_unknown(two_nodes, code):
    two_nodes.refused = {"move_pages": code, "getcpu": code}
    assert two_nodes.placement.pages_on([(0, PAGE)]) is None
    assert two_nodes.placement.thread_node() is None


def test_no_memory_is_on_no_node(two_nodes):
    assert two_nodes.placement.pages_on([]) is None


# The running kernel


@pytest.fixture
def real():
    """The running kernel's calls, and a node that it has; skipped where it lets nothing be placed."""
    calls = LinuxCalls()
    try:
        calls.set_policy(calls.policy())
    except OSError as error:
        pytest.skip(f"this system has no memory policies: {error}")
    nodes = [node for node in numa_nodes() if node.has_memory and node.cpus & calls.cpus()]
    if not nodes:
        pytest.skip("this system tells of no NUMA nodes")
    return calls, nodes[0].number


def test_the_kernel_binds_and_puts_back(real):
    calls, node = real
    before = (calls.policy(), calls.cpus())
    with Placement().placed_on(node):
        assert calls.policy() == bound_to(node)
        assert calls.thread_node() == node
    assert (calls.policy(), calls.cpus()) == before


def test_a_thread_that_is_started_meanwhile_is_placed_too(real, tmp_path):
    calls, node = real
    cpu = max(calls.cpus())
    seen = []
    folder = tmp_path / "sys" / "devices" / "system" / "node"
    (folder / f"node{node}").mkdir(parents=True)
    (folder / "online").write_text(f"{node}\n")
    (folder / f"node{node}" / "cpulist").write_text(f"{cpu}\n")
    with Placement(root=tmp_path).placed_on(node):
        thread = threading.Thread(target=lambda: seen.append((calls.policy(), calls.cpus())))
        thread.start()
        thread.join()
    assert seen == [(bound_to(node), {cpu})]


def test_the_kernel_says_where_pages_are(real):
    calls, node = real
    with Placement().placed_on(node):
        array = np.frombuffer(map_pages(4 * PAGE), np.uint8)
        array[: 2 * PAGE] = 1
    try:
        found = calls.page_nodes([array.ctypes.data + PAGE * page for page in range(4)])
    except OSError as error:
        pytest.skip(f"this system does not say where pages are: {error}")
    assert found[:2] == [node, node]
    assert all(unknown < 0 for unknown in found[2:])
    assert Placement().pages_on([(array.ctypes.data, array.nbytes)]) == {node: 2}


def test_a_machine_whose_calls_are_not_known_has_none(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    placement = Placement()
    assert placement.thread_node() is None
    with pytest.raises(OSError, match=os.strerror(errno.ENOSYS)):
        LinuxCalls().policy()
