"""How a benchmark's end becomes results."""

import pytest

from cudabw.benchmarks.outcome import Outcome, failure_of, require_alive
from cudabw.driver.emulated import Fault
from cudabw.errors import (
    ClosedError,
    CudabwError,
    DriverError,
    Interrupted,
    RefusedError,
    UnsupportedError,
    WrongDataError,
)
from cudabw.results.latency import SmallCopies
from cudabw.results.model import State


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
    ("outcome", "because"),
    [
        (Outcome(), None),
        (Outcome(interrupted=Interrupted(2)), "interrupted"),
        (Outcome(error=CudabwError("the device was lost", hint="look")), "the device was lost"),
        (Outcome(interrupted=Interrupted(15), error=CudabwError("lost")), "interrupted"),
    ],
)
def test_an_early_end_has_words(outcome, because):
    assert outcome.ended is (because is not None)
    assert outcome.ended_because == because


def test_outcomes_follow_one_another_in_order_and_end_as_the_last_did():
    error = CudabwError("lost")
    merged = Outcome(("a", "b"), 2).merged(Outcome(("c",), 3, error=error)).extended(["d"])
    assert (merged.cases, merged.trials_done, merged.error) == (("a", "b", "c", "d"), 5, error)


def test_what_plans_found_out_about_small_copies_is_kept_of_all_of_them():
    first, second = SmallCopies(("a",), ("b",)), SmallCopies(("c",), ("d",))
    both = Outcome(small_copies=first).merged(Outcome()).merged(Outcome(small_copies=second))
    assert both.small_copies == SmallCopies(("a", "c"), ("b", "d"))


def test_a_failure_on_a_device_that_lives_ends_nothing(device):
    require_alive(device, CudabwError("one copy failed"))


@pytest.mark.parametrize(
    ("hint", "said"), [("Look there.", "Look there."), ("", "The driver's log (dmesg) says more.")]
)
def test_a_failure_on_a_lost_device_ends_the_run_and_names_the_first_failure(make_device, hint, said):
    device = make_device(faults=[Fault(function="cuCtxSynchronize", status=719, nth=1)])
    first = CudabwError("the copy failed", hint=hint)
    with pytest.raises(CudabwError, match=r"^device 0 was lost: the copy failed$") as raised:
        require_alive(device, first)
    assert raised.value.hint == said
    assert raised.value.__cause__ is first
