"""The measurements as plain Python calls."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import cudabw
from cudabw.benchmarks.bandwidth_plan import BandwidthPlan
from cudabw.benchmarks.latency_plan import LatencyPlan
from cudabw.benchmarks.launch_overhead import LaunchPlan, sets_for
from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.running import run_plans
from cudabw.errors import (
    CudabwError,
    DriverError,
    Interrupted,
    NoDriverError,
    RefusedError,
    UnsupportedError,
    UsageError,
    WrongDataError,
)
from cudabw.results.files import to_json
from cudabw.results.model import State
from cudabw.results.reading import read_json

SLOW_CLOCK = {"h2d": 1e6, "d2h": 1e6}  # a batch is then one copy
SMALL = {"kinds": ["pinned"], "sizes": [4096], "trials": 1, "backend": "emulated"}


@pytest.fixture
def emulate(monkeypatch):
    def describe(*faults, clock=SLOW_CLOCK):
        monkeypatch.setenv("CUDABW_EMULATED", json.dumps({"clock": clock, "faults": faults}))

    describe()
    return describe


@pytest.mark.usefixtures("emulate")
def test_memory_is_put_on_the_numa_node_that_is_asked_for(monkeypatch, two_nodes):
    monkeypatch.setattr("cudabw.benchmarks.running.Placement", lambda: two_nodes.placement)
    (case,) = cudabw.measure_bandwidth(**SMALL, directions=["h2d"], numa=np.int64(1)).cases
    assert (case.id, case.numa_node, case.pages_on) == ("bandwidth/pinned/driver/h2d/4096/node1", 1, {1: 1})


@pytest.mark.parametrize("numa", [-1, "both", 1.0, True, ""])
def test_what_is_no_numa_node_is_refused(numa):
    with pytest.raises(ValueError, match="is no NUMA node: it is a number, auto or all; for example 0"):
        cudabw.measure_bandwidth(**SMALL, numa=numa)


# empirical_bandwidth


@pytest.mark.parametrize("pinned", [False, True])
def test_the_one_line_gives_device_to_host_first_in_gb_per_s(emulate, pinned):
    emulate(clock={"h2d": 50e9, "d2h": 25e9})
    rates = cudabw.empirical_bandwidth(nbytes=4096, trials=2, pinned=pinned, backend="emulated")
    assert isinstance(rates, tuple)
    assert rates == pytest.approx((25.0, 50.0), rel=1e-6)


def test_the_one_line_measures_pageable_memory_unless_it_is_told_pinned(emulate):
    emulate(clock={"h2d/pageable": 1e9, "d2h/pageable": 2e9, "h2d/pinned": 3e9, "d2h/pinned": 4e9})
    measure = cudabw.empirical_bandwidth
    assert measure(nbytes=4096, trials=1, backend="emulated") == pytest.approx((2.0, 1.0), rel=1e-6)
    assert measure(nbytes=4096, trials=1, backend="emulated", pinned=True) == pytest.approx((4.0, 3.0), rel=1e-6)


@pytest.mark.usefixtures("no_driver")
def test_the_one_line_never_falls_back_to_the_emulated_device():
    with pytest.raises(NoDriverError, match=r"^No NVIDIA driver is installed") as raised:
        cudabw.empirical_bandwidth()
    assert "Install the NVIDIA driver" in raised.value.hint


def test_what_the_driver_said_comes_out_of_the_one_line_as_it_was(emulate):
    emulate({"function": "cuStreamCreate", "status": 700})
    with pytest.raises(DriverError) as raised:
        cudabw.empirical_bandwidth(nbytes=4096, backend="emulated")
    error = raised.value
    assert type(error) is DriverError
    assert (error.function, error.code, error.name) == ("cuStreamCreate", 700, "CUDA_ERROR_ILLEGAL_ADDRESS")
    assert error.hint


@pytest.mark.usefixtures("emulate")
def test_a_device_that_is_not_there_comes_out_of_the_one_line_as_a_usage_error():
    with pytest.raises(UsageError, match="there is no device 7: the driver sees device 0 only"):
        cudabw.empirical_bandwidth(nbytes=4096, device=7, backend="emulated")


@pytest.mark.parametrize(
    ("fault", "error", "text"),
    [
        ({"copy": "corrupt", "direction": "d2h"}, WrongDataError, "d2h/4096: the copy succeeded, but byte "),
        (
            {"function": "cuMemHostAlloc", "status": 2, "at_least_bytes": 4096},
            RefusedError,
            "4096 bytes of host pinned",
        ),
        ({"function": "cuMemcpyDtoHAsync", "status": 801}, UnsupportedError, "cuMemcpyDtoHAsync is not supported here"),
        ({"function": "cuMemcpyHtoDAsync", "status": 1}, CudabwError, "cuMemcpyHtoDAsync failed with "),
    ],
)
def test_a_figure_that_could_not_be_taken_is_an_error_of_its_own_class(emulate, fault, error, text):
    emulate(fault)
    with pytest.raises(CudabwError) as raised:
        cudabw.empirical_bandwidth(nbytes=4096, trials=1, pinned=True, backend="emulated")
    assert type(raised.value) is error
    assert text in str(raised.value)


@pytest.mark.usefixtures("emulate")
@pytest.mark.parametrize(("nbytes", "trials"), [(0, 1), (-1, 1), (4096, 0), (4096, -3)])
def test_the_one_line_refuses_numbers_that_cannot_be_meant(nbytes, trials):
    with pytest.raises(ValueError, match=r"sizes are positive|trials are at least"):
        cudabw.empirical_bandwidth(nbytes=nbytes, trials=trials, backend="emulated")


# measure_bandwidth


@pytest.fixture
def no_start(monkeypatch):
    monkeypatch.setattr("cudabw.benchmarks.session.load_driver", lambda *_, **__: pytest.fail("a driver was started"))


@pytest.mark.usefixtures("no_start")
def test_one_kind_without_a_sequence_around_it_is_refused_with_the_remedy():
    with pytest.raises(TypeError, match=r"^kinds are a sequence such as \['pinned'\], not 'pinned'"):
        cudabw.measure_bandwidth(kinds="pinned")


@pytest.mark.usefixtures("no_start")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kinds": ["pinned", "paged"]}, "unknown kind 'paged'"),
        ({"kinds": []}, "no kind given; choose from pageable, "),
        ({"directions": ["up"]}, "unknown direction 'up'"),
        ({"directions": ()}, "no direction given; choose from h2d, d2h"),
        ({"sizes": []}, "sizes are positive numbers of bytes"),
        ({"sizes": [4096, 0]}, "sizes are positive numbers of bytes"),
        ({"sizes": [-1]}, "sizes are positive numbers of bytes"),
        ({"trials": 0}, "trials are at least 1: 0"),
        ({"time_budget": 0}, "a time budget is above 0 seconds: 0"),
        ({"time_budget": -1.0}, "a time budget is above 0 seconds: -1.0"),
        ({"time_budget": float("nan")}, "a time budget is above 0 seconds: nan"),
        ({"engines": ["warp"]}, "unknown engine 'warp'"),
        ({"engines": []}, "no engine given; choose from driver, kernel, staged"),
        ({"engines": ["staged"]}, r"staged goes with none of the other choices: it copies pageable memory \(h2d"),
        ({"threads": 2}, "threads and slot are of the staged engine"),
        ({"engines": ["staged"], "kinds": ["pageable"], "threads": 0}, "threads are at least 1: 0"),
        ({"engines": ["staged"], "kinds": ["pageable"], "slot": 1}, "a slot has 64 KiB or more, not 1 B"),
        ({"backend": "gpu"}, "'gpu' is not a valid Backend"),
    ],
)
def test_an_argument_that_cannot_be_meant_is_refused_before_a_driver_is_started(arguments, text):
    with pytest.raises(ValueError, match=text):
        cudabw.measure_bandwidth(**SMALL | arguments)


@pytest.mark.usefixtures("no_start")
@pytest.mark.parametrize("arguments", [{"sizes": [4096.0]}, {"sizes": ["4KiB"]}, {"trials": 1.5}, {"trials": "3"}])
def test_a_number_that_is_not_whole_is_refused_before_a_driver_is_started(arguments):
    with pytest.raises(TypeError):
        cudabw.measure_bandwidth(**SMALL | arguments)


@pytest.mark.usefixtures("emulate")
def test_what_follows_from_the_cases_is_in_the_results():
    result = cudabw.measure_bandwidth(
        kinds=["pageable", "pinned"],
        sizes=[4096 << step for step in range(5)],
        trials=2,
        backend="emulated",
        setup_cost=True,
    )
    assert [(case.kind, case.size_bytes) for case in result.setup_cases] == [
        (kind, 4096 << step) for kind in ("pageable", "pinned") for step in range(5)
    ]
    assert len(result.bandwidth_cases) + len(result.setup_cases) == len(result.cases)
    assert [(fit.kind, fit.direction) for fit in result.fits] == [
        (kind, way) for kind in ("pageable", "pinned") for way in ("h2d", "d2h")
    ]
    assert {(one.kind, one.change) for one in result.break_even} == {("pinned", "allocate")}
    assert len(result.break_even) == 5 * 2


@pytest.mark.usefixtures("emulate")
def test_the_full_results_hold_every_case_once_in_the_order_given():
    result = cudabw.measure_bandwidth(
        kinds=["mapped", "pinned", "mapped"],
        directions=["d2h", "h2d", "d2h"],
        sizes=np.array([8192, 4096, 8192]),
        trials=2,
        backend="emulated",
    )
    assert [(case.kind, case.size_bytes, case.direction) for case in result.cases] == [
        (kind, size, way) for kind in ("mapped", "pinned") for size in (8192, 4096) for way in ("d2h", "h2d")
    ]
    assert {case.state for case in result.cases} == {State.OK}
    assert [len(case.trials) for case in result.cases] == [2] * 8
    json.loads(to_json(result))


@pytest.mark.usefixtures("emulate")
def test_engines_are_chosen_as_on_the_command_line():
    result = cudabw.measure_bandwidth(**SMALL | {"kinds": ["pageable", "pinned", "mapped"]}, engines=["kernel"])
    assert [(case.kind, case.engine, case.named) for case in result.cases] == [("mapped", "kernel", True)] * 2
    both = cudabw.measure_bandwidth(
        **SMALL | {"kinds": ["pageable", "pinned"]}, engines=("driver", "staged"), threads=1
    )
    assert [case.engine for case in both.cases] == ["driver", "driver", "staged", "staged", "driver", "driver"]


@pytest.mark.usefixtures("emulate")
def test_what_failed_is_in_the_full_results_and_not_raised():
    result = cudabw.measure_bandwidth(**SMALL, device=3)
    assert (result.error.type, result.error.exit_code, result.cases) == ("UsageError", 2, ())


@pytest.mark.usefixtures("emulate")
def test_an_observer_hears_of_progress_and_may_stop_the_run():
    heard = []

    def stop():
        if heard:
            raise Interrupted(2)

    observer = Observer(progress=lambda *step: heard.append(step), check_interrupt=stop)
    result = cudabw.measure_bandwidth(**SMALL, observer=observer)
    assert len(heard) == 1
    assert heard[0][:2] == (0, 2)
    assert (result.interrupted, result.error.exit_code) == (True, 130)
    assert {case.reason for case in result.cases} == {"interrupted"}


def test_an_interruption_leaves_a_result_with_the_reason_for_all_that_was_never_begun(emulate):  # noqa: ARG001
    def stop():
        raise Interrupted(2)

    one = {"trials": 1, "kinds": ("pinned",), "directions": ("h2d",)}
    plans = (
        BandwidthPlan(sizes=(4096,), setup_kinds=("pinned",), **one),
        LatencyPlan(sizes=(64,), copies=2, **one),
        LaunchPlan(sets_for(("buffer",), (1,)), trials=1),
    )
    result = run_plans(("run",), plans, backend="emulated", device=0, observer=Observer(check_interrupt=stop))
    assert Counter(case.benchmark for case in result.cases) == {
        "bandwidth": 1,
        "setup_cost": 1,
        "latency": 2,
        "small_copies": 4,
        "launch_overhead": 6,
    }
    assert {(case.state, case.reason) for case in result.cases} == {(State.FAILED, "interrupted")}


@pytest.mark.usefixtures("no_driver")
def test_the_full_results_of_a_fallback_say_that_the_device_is_emulated():
    notices = []
    result = cudabw.measure_bandwidth(**SMALL | {"backend": "auto"}, observer=Observer(notify=notices.append))
    assert result.device.emulated
    assert notices[-1].startswith("No NVIDIA driver is installed: using the emulated device")


def test_the_results_so_far_grow_trial_by_trial_over_all_plans(emulate):  # noqa: ARG001 - a quick clock
    copies = BandwidthPlan(kinds=("pinned",), directions=("h2d",), sizes=(4096,), trials=2)
    others = BandwidthPlan(kinds=("mapped",), directions=("h2d",), sizes=(4096,), trials=1)
    launches = LaunchPlan(sets_for(("buffer",), (1,)), trials=1)
    kept = []
    observer = Observer(keep=lambda so_far: kept.append(so_far()))
    result = run_plans(("run",), (copies, others, launches), backend="emulated", device=0, observer=observer)
    assert [run.finished for run in kept] == [None] * 4
    assert [[len(case.trials) for case in run.bandwidth_cases] for run in kept] == [[1], [2], [2, 1], [2, 1]]
    assert kept[0].cases[0].notes == ("1 of 2 trials: the run had not finished",)
    assert [run.launch_overhead is not None for run in kept] == [False, False, False, True]
    # When nothing is missing any more, only the end of the run is.
    assert replace(kept[-1], finished=result.finished) == result
    assert result.finished is not None


def test_a_case_without_a_trial_says_so_in_the_results_so_far(emulate):  # noqa: ARG001 - a quick clock
    plan = BandwidthPlan(kinds=("pinned",), directions=("h2d", "d2h"), sizes=(4096,), trials=1)
    kept = []
    run_plans(
        ("run",), (plan,), backend="emulated", device=0, observer=Observer(keep=lambda so_far: kept.append(so_far()))
    )
    assert {(case.state, case.reason) for case in kept[0].cases} == {
        (State.OK, None),
        (State.FAILED, "the run had not finished"),
    }
    assert read_json(to_json(kept[0]), "kept") == kept[0]
