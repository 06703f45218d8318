"""How a benchmark's end becomes results."""

import pytest

from cudabw.benchmarks.outcome import Outcome
from cudabw.errors import CudabwError, Interrupted
from cudabw.results.latency import SmallCopies


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
