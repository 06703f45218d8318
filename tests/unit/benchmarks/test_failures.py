"""What an error in a trial means for its case, for the others and for the run."""

import pytest

from cudabw.benchmarks.failures import Failure, failing, failure_of, require_alive, require_time
from cudabw.driver.emulated import Fault
from cudabw.errors import (
    ClosedError,
    CudabwError,
    DeviceLostError,
    DriverError,
    Interrupted,
    RefusedError,
    UnsupportedError,
    WrongDataError,
)
from cudabw.results.model import Clock, State


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (WrongDataError("m"), State.WRONG_DATA),
        (UnsupportedError("m"), State.UNSUPPORTED),
        (RefusedError("m"), State.REFUSED),
        (CudabwError("m"), State.FAILED),
        (ClosedError("m"), State.FAILED),
    ],
)
def test_the_class_of_an_error_is_the_state_of_its_case(error, state):
    assert failure_of(error) == (state, "m")


def test_a_reason_holds_the_hint_too():
    error = DriverError("cuInit", 999, "CUDA_ERROR_UNKNOWN", hint="Look at dmesg.")
    assert failure_of(error) == (State.FAILED, "cuInit failed with CUDA_ERROR_UNKNOWN (999). Look at dmesg.")


@pytest.mark.parametrize(
    ("error", "state", "doubted"),
    [
        (CudabwError("m"), State.FAILED, True),
        (WrongDataError("m"), State.WRONG_DATA, True),
        (RefusedError("m"), State.REFUSED, False),
        (UnsupportedError("m"), State.UNSUPPORTED, False),
    ],
)
def test_a_failure_of_its_own_puts_a_case_in_doubt_and_memory_that_is_refused_does_not(device, error, state, doubted):
    failure = Failure()
    with failing(device, failure):
        raise error
    assert failure == Failure(state, "m", doubted)
    assert failure.happened
    assert failure.without_figure("interrupted") == (state, "m")


def test_cases_that_failed_before_keep_their_own_failure(device):
    before, now = Failure(State.REFUSED, "no room"), Failure()
    with failing(device, before, now):
        raise CudabwError("m")
    assert (before, now) == (Failure(State.REFUSED, "no room"), Failure(State.FAILED, "m", doubted=True))


@pytest.mark.parametrize(
    ("error", "doubted"), [(CudabwError("the copy failed"), False), (WrongDataError("other bytes"), True)]
)
def test_a_lost_device_says_nothing_of_earlier_figures_but_wrong_data_does(make_device, error, doubted):
    device, failure = make_device(faults=[Fault(function="cuCtxSynchronize", status=719, nth=1)]), Failure()
    with pytest.raises(DeviceLostError), failing(device, failure):
        raise error
    assert (failure.reason, failure.doubted) == (error.message, doubted)


@pytest.mark.parametrize("error", [Interrupted(2), DeviceLostError("device 0 was lost")])
def test_what_ends_the_run_is_no_failure_of_a_case(device, error):
    failure = Failure()
    with pytest.raises(type(error)) as raised, failing(device, failure):
        raise error
    assert raised.value is error
    assert failure == Failure()


@pytest.mark.parametrize(("ended_because", "reason"), [("interrupted", "interrupted"), (None, "not measured")])
def test_a_case_without_a_failure_lacks_its_figure_for_what_ended_the_run(ended_because, reason):
    assert not Failure().happened
    assert Failure().without_figure(ended_because) == (State.FAILED, reason)


@pytest.mark.parametrize("seconds", [0.0, -1e-9])
def test_a_sample_of_no_time_is_refused_with_the_clock_that_saw_none(seconds):
    require_time(1e-12, Clock.EVENT, "Do more.")
    with pytest.raises(CudabwError, match=r"^no time passed by the event clock, so there is no figure$") as raised:
        require_time(seconds, Clock.EVENT, "Do more.")
    assert raised.value.hint == "Do more."


def test_a_failure_on_a_device_that_lives_ends_nothing(device):
    require_alive(device, CudabwError("one copy failed"))


@pytest.mark.parametrize(
    ("hint", "said"), [("Look there.", "Look there."), ("", "The driver's log (dmesg) says more.")]
)
def test_a_failure_on_a_lost_device_ends_the_run_and_names_the_first_failure(make_device, hint, said):
    device = make_device(faults=[Fault(function="cuCtxSynchronize", status=719, nth=1)])
    first = CudabwError("the copy failed", hint=hint)
    with pytest.raises(DeviceLostError, match=r"^device 0 was lost: the copy failed$") as raised:
        require_alive(device, first)
    assert raised.value.hint == said
    assert raised.value.__cause__ is first
