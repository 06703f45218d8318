"""Plans are measured one after the other, progress counts the trials of all, and what is finished is kept."""

import numpy as np

from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.outcome import Ending, Outcome, keep_nothing
from cudabw.benchmarks.taking import take_in_turn
from cudabw.errors import CudabwError
from cudabw.measuring.effort import Effort
from cudabw.measuring.sampling import Rounds

EFFORT = Effort(least=2, most=3, precision=0.01, budget_s=60.0, sure=2)


def measured(names, *, keep=keep_nothing, fails=()):
    """Plans of one case each, whose cases are their names: taken by as many trials as there may be."""
    progress = []
    observer = Observer(progress=lambda done, total, label: progress.append((done, total, label)))

    def measure(name, taking):
        def outcome(ending):
            error = CudabwError("lost") if name in fails else None
            return Outcome(cases=((name, ending.because),), trials_done=taking.taken, error=error)

        rounds = Rounds([name], EFFORT, np.random.default_rng(0), enough=lambda _: False)
        because = taking.take(rounds, EFFORT, str, lambda _: None, outcome)
        return outcome(Ending(because))

    found = take_in_turn(
        names,
        observer,
        keep,
        least=lambda _: EFFORT.least,
        measure=measure,
        skipped=lambda plans, because: [(name, because) for name in plans],
        warnings=("a warning",),
    )
    return found, progress


def test_progress_counts_on_over_plans_and_grows_by_the_trials_that_were_added():
    outcome, progress = measured(["a", "b"])
    assert outcome.trials_done == 6
    assert outcome.warnings == ("a warning",)
    a = [(0, 4, "a"), (1, 4, "a"), (2, 5, "a"), (3, 5, "")]
    assert progress == [*a, (3, 5, "b"), (4, 5, "b"), (5, 6, "b"), (6, 6, "")]


def test_what_is_kept_holds_the_plans_before():
    kept = []
    measured(["a", "b"], keep=lambda so_far: kept.append([name for name, _ in so_far().cases]))
    assert kept == [["a"]] * 3 + [["a", "b"]] * 3


def test_plans_after_one_that_ended_the_run_are_skipped_for_its_reason():
    outcome, progress = measured(["a", "b"], fails=("a",))
    assert outcome.cases == (("a", None), ("b", "lost"))
    assert [label for *_, label in progress] == ["a", "a", "a", ""]
