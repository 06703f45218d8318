"""How deep the launch queue is, on the emulated device, which has one of 1020 places."""

import pytest

from cudabw.errors import CudabwError
from cudabw.measuring.queue_depth import detect_queue_depth, most_in_a_burst
from cudabw.results.launch_sets import QueueDepth
from cudabw.runtime.kernels import Module
from cudabw.runtime.ptx import null_kernel


@pytest.fixture
def launch(device, stream):
    name, text = null_kernel([])
    with Module(device, text) as module:
        prepared = module.kernel(name, []).prepare(grid=1, block=1, stream=stream)
        prepared()
        stream.synchronize()
        yield prepared


def test_the_depth_is_what_is_pending_when_a_launch_holds_the_host(stream, gate, launch):
    # The gate's own wait takes a place as well.
    assert detect_queue_depth(stream, gate, launch) == QueueDepth(1019, 1020)
    assert stream.ready()


def test_the_search_ends_where_it_is_told_to(stream, gate, launch):
    assert detect_queue_depth(stream, gate, launch, most=50) == QueueDepth(None, 50)
    assert stream.ready()


def test_a_launch_that_fails_leaves_the_gate_open(stream, gate):
    def fail():
        raise CudabwError("no")

    with pytest.raises(CudabwError, match="no"):
        detect_queue_depth(stream, gate, fail)
    stream.synchronize()
    assert (stream.gates, stream.device.closed_gates) == (set(), 0)


def test_the_gate_can_be_closed_again(stream, gate, launch):
    for _ in range(2):
        assert detect_queue_depth(stream, gate, launch, most=5).tried == 5


@pytest.mark.parametrize(
    ("depth", "most"),
    [
        (QueueDepth(1020, 1021), 509),
        (QueueDepth(1019, 1020), 509),
        (QueueDepth(None, 2048), 1023),
        (QueueDepth(None, 0), 127),
        (QueueDepth(2, 3), 1),
    ],
)
def test_bursts_stay_below_half_of_what_is_known_to_fit(depth, most):
    assert most_in_a_burst(depth) == most
