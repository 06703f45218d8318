"""What disturbs short calls in this process."""

import gc
import sys
import threading

import pytest

from cudabw.measuring.quiet import collector_off, describe_collector, disturbances


@pytest.fixture(autouse=True)
def collector_as_before():
    was_on = gc.isenabled()
    yield
    (gc.enable if was_on else gc.disable)()


@pytest.fixture
def running_thread():
    """Starts a thread of a name that waits until the test is over."""
    over, threads = threading.Event(), []

    def start(name):
        threads.append(threading.Thread(target=over.wait, name=name))
        threads[-1].start()

    yield start
    over.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_off_and_afterwards_as_it_was(was_on):
    (gc.enable if was_on else gc.disable)()
    with collector_off():
        assert not gc.isenabled()
    assert gc.isenabled() is was_on


def test_the_collector_is_as_it_was_after_a_failure():
    gc.enable()
    with pytest.raises(ZeroDivisionError), collector_off():
        1 / 0  # noqa: B018
    assert gc.isenabled()


def test_the_results_tell_what_the_collector_did():
    gc.enable()
    assert describe_collector() == "off while timing"
    gc.disable()
    assert describe_collector() == "off while timing, as before"


def test_other_threads_are_named_and_ours_are_not(running_thread):
    before = disturbances()
    running_thread("cudabw-signals")
    running_thread("emulated stream")
    assert disturbances() == before
    running_thread("loader 7")
    (found,) = (one for one in disturbances() if one not in before)
    assert found.startswith("Other Python threads are running (")
    assert "loader 7" in found


def test_a_profiler_of_python_is_named():
    before = sys.getprofile()
    sys.setprofile(lambda *_: None)
    try:
        found = disturbances()
    finally:
        sys.setprofile(before)
    assert any("tracer or profiler is active" in one for one in found)
