"""Trials in which the GPU was slowed down: a few are taken again, the others are counted."""

from cudabw.measuring.slowdown import MOST_REPEATS, SlowTrials


def test_undisturbed_trials_are_kept_and_nothing_is_said():
    slow = SlowTrials()
    assert not slow.repeats(())
    assert (slow.throttled(3), list(slow.notes())) == (None, [])


def test_a_slow_trial_is_repeated_and_both_causes_are_named_once():
    slow = SlowTrials()
    assert slow.repeats(("hw_slowdown",))
    assert list(slow.notes()) == ["1 trial was repeated, because the GPU was slowed down (hw_slowdown)"]
    assert slow.repeats(("sw_thermal_slowdown", "hw_slowdown"))
    assert slow.throttled(3) is None
    assert list(slow.notes()) == [
        "2 trials were repeated, because the GPU was slowed down (hw_slowdown, sw_thermal_slowdown)"
    ]


def test_what_stays_slow_is_kept_after_a_few_repetitions():
    slow = SlowTrials()
    assert [slow.repeats(("hw_slowdown",)) for _ in range(MOST_REPEATS + 2)] == [True] * MOST_REPEATS + [False] * 2
    assert slow.throttled(5) == "the GPU was slowed down in 2 of 5 trials, also when repeated (hw_slowdown)"
