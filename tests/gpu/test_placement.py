"""Where the driver's host memory is on a real machine."""

import pytest

from cudabw import measure_bandwidth
from cudabw.results.model import State
from cudabw.system.numa import memory_nodes

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("kind", ["pageable", "pinned", "mapped", "write-combined", "registered"])
def test_host_memory_of_any_kind_is_where_it_was_asked_to_be(kind):
    run = measure_bandwidth(kinds=[kind], sizes=[4096, 16 << 20], trials=2, backend="cuda", numa="all")
    reasons = {case.reason for case in run.cases if case.state is not State.OK}
    if reasons:
        pytest.skip(f"this system binds no memory: {', '.join(sorted(reasons))}")
    assert {case.numa_node for case in run.cases} == set(memory_nodes())
    if all(not case.pages_on for case in run.cases):
        pytest.skip("this system does not say where pages are")
    assert {case.id: case.pages_on.keys() - {case.numa_node} for case in run.cases} == {
        case.id: set() for case in run.cases
    }


def test_the_device_is_at_a_node_that_has_memory():
    run = measure_bandwidth(kinds=["pinned"], sizes=[4096], trials=1, backend="cuda")
    if run.device.numa_node is None:
        pytest.skip("this system does not say which NUMA node the device is at")
    assert run.device.numa_node in memory_nodes()
