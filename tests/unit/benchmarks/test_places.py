"""Cases on NUMA nodes: put there, asked where they are, and never said to be where they are not."""

import ctypes
import os
from functools import partial

import pytest

from cudabw.benchmarks import engines
from cudabw.benchmarks.bandwidth import run_bandwidth
from cudabw.benchmarks.bandwidth_plan import KINDS, BandwidthPlan, Staging
from cudabw.benchmarks.places import Places, on_nodes, whereabouts
from cudabw.copying.staged_copy import StagedCopier
from cudabw.copying.staging_slots import Crew
from cudabw.driver.emulated import EmulatedDriver, Fault, ModelledClock
from cudabw.results.model import State, Trial
from cudabw.system.numa_calls import BIND, LinuxCalls, Policy
from cudabw.system.placement import Placement

MIB = 1 << 20


@pytest.fixture
def modelled(make_device):
    """A device on a clock so slow that a batch is one copy."""

    def make(*faults):
        return make_device(faults=faults, clock=ModelledClock({"h2d": 1e6, "d2h": 1e6, "d2d": 1e6}))

    return make


def plan(*kinds, numa=None, **settings):
    wanted = BandwidthPlan(kinds or ("pinned",), **{"sizes": (4096,), "trials": 1, "directions": ("h2d",)} | settings)
    return on_nodes(wanted, numa) if isinstance(numa, int | str) else wanted


def measured(device, machine, *plans, device_node=None):
    return run_bandwidth(device, plans, places=Places(machine.placement, device_node)).cases


# What is asked for


def test_a_number_or_the_devices_node_is_one_and_named(two_nodes):
    for asked in (1, "auto"):
        wanted = on_nodes(plan(), asked, root=two_nodes.root)
        assert (wanted.nodes, wanted.nodes_named) == ((asked,), True)


def test_all_nodes_are_those_with_memory_and_none_of_them_is_named(two_nodes, tmp_path):
    wanted = on_nodes(plan(), "all", root=two_nodes.root)
    assert (wanted.nodes, wanted.nodes_named) == ((0, 1), False)
    assert on_nodes(plan(), "all", root=tmp_path / "empty").nodes == ("all",)


def test_without_a_wish_a_plan_stays_as_it_is():
    assert on_nodes(plan(), None) == plan()


# Placing


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_on_each_node_is_measured_there_and_everything_is_put_back(modelled, two_nodes, kind):
    before = two_nodes.placed
    cases = measured(modelled(), two_nodes, plan(kind, nodes=(0, 1), trials=2))
    assert [(case.state, case.numa_node, case.id.rpartition("/")[2]) for case in cases] == [
        (State.OK, 0, "node0"),
        (State.OK, 1, "node1"),
    ]
    for case in cases:
        assert [(trial.pages_on, trial.thread_node) for trial in case.trials] == [
            ({str(case.numa_node): 1}, case.numa_node)
        ] * 2
        assert (case.notes, case.pages_on) == ((), {case.numa_node: 2})
    assert two_nodes.placed == before
    assert len(two_nodes.history) == 4 * 4


def test_memory_is_allocated_and_touched_while_it_is_bound(modelled, two_nodes, monkeypatch):
    seen = []

    def spy(name):
        original = getattr(EmulatedDriver, name)

        def call(self, *arguments, **named):
            seen.append((name, two_nodes.placed[0]))
            return original(self, *arguments, **named)

        monkeypatch.setattr(EmulatedDriver, name, call)

    spy("cuMemHostAlloc")
    spy("cuMemHostRegister")
    monkeypatch.setattr("cudabw.benchmarks.transfers.touch", lambda _: seen.append(("touch", two_nodes.placed[0])))
    measured(modelled(), two_nodes, plan("pinned", "registered", numa=1))
    # What is not bound is the word of the gate.
    bound = sorted(name for name, policy in seen if policy == Policy(BIND, frozenset({1})))
    assert bound == ["cuMemHostAlloc", "cuMemHostRegister", "touch", "touch", "touch"]


def test_both_directions_at_once_look_at_the_memory_of_both(modelled, two_nodes):
    cases = measured(modelled(), two_nodes, plan(directions=("bidirectional",), numa=1))
    assert {(case.numa_node, case.trials[0].pages_on["1"]) for case in cases} == {(1, 2)}


def test_without_a_node_nothing_is_moved_and_where_things_were_is_kept(modelled, two_nodes):
    two_nodes.pages = lambda _: 1
    (case,) = measured(modelled(), two_nodes, plan())
    assert two_nodes.history == []
    assert (case.id, case.numa_node) == ("bandwidth/pinned/driver/h2d/4096", None)
    assert (case.trials[0].pages_on, case.trials[0].thread_node, case.notes) == ({"1": 1}, 0, ())


def test_device_memory_is_on_no_node(modelled, two_nodes):
    (case,) = measured(modelled(), two_nodes, plan(directions=("d2d",)))
    assert (case.trials[0].pages_on, case.numa_node) == (None, None)


def test_auto_is_the_devices_node(modelled, two_nodes):
    (case,) = measured(modelled(), two_nodes, plan(numa="auto"), device_node=1)
    assert (case.id, case.numa_node) == ("bandwidth/pinned/driver/h2d/4096/node-auto", 1)
    assert case.trials[0].pages_on == {"1": 1}


def test_a_node_that_fails_is_put_back_too(modelled, two_nodes):
    before = two_nodes.placed
    (case,) = measured(modelled(Fault(copy="corrupt")), two_nodes, plan(numa=1))
    assert (case.state, case.numa_node) == (State.WRONG_DATA, 1)
    assert two_nodes.placed == before


# What cannot be had


@pytest.mark.parametrize(
    ("numa", "state", "reason"),
    [
        (
            "auto",
            State.UNSUPPORTED,
            "no NUMA node is known for the device. Name a node (--numa 0, in a suite numa = 0), or measure all.",
        ),
        (7, State.UNSUPPORTED, "NUMA node 7 does not exist. Nodes with memory: 0, 1."),
        (2, State.UNSUPPORTED, "NUMA node 2 has no memory. Nodes with memory: 0, 1."),
    ],
)
def test_a_node_that_cannot_be_had_is_a_named_case_without_a_figure(modelled, two_nodes, numa, state, reason):
    cases = measured(modelled(), two_nodes, plan(numa=numa, directions=("h2d", "d2d")), plan("mapped"))
    assert [(case.state, case.reason, case.named) for case in cases] == [
        (state, reason, True),
        (State.OK, None, True),
        (State.OK, None, False),
    ]


def test_a_system_that_tells_of_no_nodes_has_no_row_for_each(modelled, two_nodes):
    (case,) = measured(modelled(), two_nodes, plan(nodes=("all",)))
    assert (case.id, case.state) == ("bandwidth/pinned/driver/h2d/4096/node-all", State.UNSUPPORTED)
    assert case.reason == "the NUMA nodes are not known: this system does not say which it has"
    assert case.named is False


@pytest.mark.parametrize(("code", "state"), [("EPERM", State.REFUSED), ("ENOSYS", State.UNSUPPORTED)])
def test_memory_that_the_system_does_not_bind_is_never_measured_as_if_it_were(modelled, two_nodes, code, state):
    two_nodes.refused = {"set_mempolicy": code}
    (case,) = measured(modelled(), two_nodes, plan(numa=1))
    assert (case.state, case.named, case.trials) == (state, True, ())
    assert case.reason.startswith(f"memory was not bound to NUMA node 1: set_mempolicy gave {code}. ")


def test_a_kind_that_another_reason_refuses_is_not_named_by_a_node_that_could_be_had(modelled, two_nodes):
    device = modelled(Fault(function="cuMemHostRegister", status=801))
    cases = measured(device, two_nodes, plan("registered", "pinned", numa=1))
    assert [(case.state, case.named) for case in cases] == [(State.UNSUPPORTED, False), (State.OK, False)]


def test_a_case_that_had_no_turn_still_says_which_node_was_asked_for(modelled, two_nodes):
    device = modelled(Fault(function="cuMemHostAlloc", status=719, at_least_bytes=4096))
    first, second = measured(device, two_nodes, plan(nodes=(0, 1)))
    assert [(case.state, case.numa_node) for case in (first, second)] == [(State.FAILED, 0), (State.FAILED, 1)]
    assert second.reason.startswith("device 0 was lost: ") or first.reason.startswith("device 0 was lost: ")


# What is said of where things were


def test_memory_that_is_elsewhere_says_so(modelled, two_nodes):
    two_nodes.pages = lambda index: 0 if index < 16 else 1
    (case,) = measured(modelled(), two_nodes, plan(numa=1, sizes=(MIB,)))
    assert case.notes == ("asked for NUMA node 1, but of 64 pages looked at 16 on node 0",)
    assert case.trials[0].pages_on == {"0": 16, "1": 48}


@pytest.mark.parametrize("code", ["EPERM", "ENOSYS"])
def test_memory_that_may_be_anywhere_says_so(modelled, two_nodes, code):
    two_nodes.refused = {"move_pages": code, "getcpu": code}
    (case,) = measured(modelled(), two_nodes, plan(numa=1))
    assert case.notes == ("asked for NUMA node 1; where the memory was is unknown: the system does not say",)
    assert (case.trials[0].pages_on, case.trials[0].thread_node) == (None, None)


def test_a_thread_that_is_elsewhere_says_so(modelled, two_nodes):
    two_nodes.add_node(1, "")
    (case,) = measured(modelled(), two_nodes, plan(numa=1))
    assert case.notes == ("the thread ran on NUMA node 0",)


def test_all_trials_are_summed_up():
    trials = [
        Trial(1, (1.0,), 0.0, pages_on=pages, thread_node=node)
        for pages, node in (({"1": 2}, 1), ({"0": 1, "2": 3}, 0), (None, 2))
    ]
    assert list(whereabouts(1, trials)) == [
        "asked for NUMA node 1, but of 6 pages looked at 1 on node 0, 3 on node 2",
        "the thread ran on NUMA node 0, 2",
    ]
    assert list(whereabouts(None, trials)) == []


# Staged copies


def test_staged_copies_have_threads_of_their_own_on_each_node(modelled, two_nodes, monkeypatch):
    started = []

    def crew(*arguments):
        started.append(two_nodes.placed[0])
        return Crew(*arguments)

    monkeypatch.setattr("cudabw.copying.staging_area.Crew", crew)
    monkeypatch.setattr(engines, "StagedCopier", partial(StagedCopier, at_least=MIB))
    wanted = plan(
        "pageable", nodes=(0, 1), sizes=(MIB,), trials=3, engines=("staged",), staging=Staging(threads=1, slot=1 << 16)
    )
    cases = measured(modelled(), two_nodes, wanted)
    assert {case.state for case in cases} == {State.OK}
    assert sorted(policy.nodes for policy in started) == [{0}, {1}]


def test_the_running_kernel_lets_staging_threads_inherit_node_and_cpus(make_device, tmp_path):
    calls = LinuxCalls()
    try:
        calls.set_policy(calls.policy())
    except OSError as error:
        pytest.skip(f"this system has no memory policies: {error}")
    cpu = max(os.sched_getaffinity(0))
    node = calls.thread_node()
    folder = tmp_path / "sys" / "devices" / "system" / "node"
    (folder / f"node{node}").mkdir(parents=True)
    (folder / "online").write_text(f"{node}\n")
    (folder / f"node{node}" / "cpulist").write_text(f"{cpu}\n")
    device = make_device()
    with Placement(root=tmp_path).placed_on(node):
        crew = Crew(device, 2, 1 << 16)
    try:
        assert {frozenset(os.sched_getaffinity(worker.thread.native_id)) for worker in crew.workers} == {
            frozenset({cpu})
        }
        slots = [(address, 1 << 16) for worker in crew.workers for address in worker.slots.addresses]
        for address, nbytes in slots:
            ctypes.memset(address, 1, nbytes)
        assert Placement().pages_on(slots) in ({node: 64}, None)
    finally:
        crew.close()
