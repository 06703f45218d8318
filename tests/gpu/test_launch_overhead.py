"""Launches on a real GPU: what must hold of the figures whatever the machine."""

import pytest

import cudabw
from cudabw.results.launch import ARG_TYPES, Mode, Verdict
from cudabw.results.model import State

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def run():
    """The default run."""
    result = cudabw.measure_launch_overhead(backend="cuda")
    assert result.error is None
    return result


def case(run, args, mode, arg_type="buffer"):
    (found,) = (one for one in run.launch_cases if (one.arg_type, one.args, one.mode) == (arg_type, args, mode))
    return found


def test_every_case_is_measured_with_the_counts_of_its_mode(run):
    # How precise the figures are is a matter of the machine.
    assert {one.id: one.reason for one in run.launch_cases if not one.state.measured} == {}


@pytest.mark.parametrize("args", [4, 16])
def test_converting_costs_more_than_preparing_and_converting_twice_costs_more_still(run, args):
    assert case(run, args, Mode.CONVERTED).difference.over is Mode.PREPARED
    assert case(run, args, Mode.CONVERTED).difference.verdict is Verdict.MORE
    assert case(run, args, Mode.SPECIALISED).difference.over is Mode.CONVERTED
    assert case(run, args, Mode.SPECIALISED).difference.verdict is Verdict.MORE


def test_one_more_buffer_costs_something(run):
    (slope,) = (one for one in run.launch_overhead.slopes if one.arg_type == "buffer")
    assert slope.verdict is Verdict.MORE


def test_the_row_without_arguments_is_blind(run):
    assert {one.id: one.blind for one in run.launch_overhead.sets if not one.args} == {"launch_overhead/none/0": True}


def test_stages_add_up_to_the_whole(run):
    assert [one.id for one in run.launch_overhead.sets if not one.stages.adds_up] == []


def test_the_queue_s_end_is_found_and_bursts_stay_below_half_of_it(run):
    assert run.launch_overhead.queue.launches > 2 * run.launch_overhead.launches_per_burst
    assert [one.id for one in run.launch_cases if any("back-pressure" in note for note in one.notes)] == []


def test_the_device_s_time_is_taken_behind_a_gate(run):
    assert {one.device_gated for one in run.launch_overhead.sets} == {True}


@pytest.mark.parametrize("arg_type", ARG_TYPES)
def test_every_kind_of_argument_launches(arg_type):
    result = cudabw.measure_launch_overhead(args=[1, 5], arg_types=[arg_type], backend="cuda", trials=1)
    assert {one.state for one in result.launch_cases} == {State.OK}


def test_the_most_arguments_launch():
    result = cudabw.measure_launch_overhead(args=[256], arg_types=["struct"], backend="cuda", trials=1)
    assert {one.state for one in result.launch_cases} == {State.OK}
