"""Work is timed on CPUs at full speed, and again when its CPU slows down."""

from dataclasses import replace

import pytest

from cudabw.measuring.full_speed import MOST_REPEATS, SLOW, FullSpeed

FAST, HALF = 40e-6, 75e-6


class Machine:
    """CPUs of given speeds, one of which runs the only thread: its clock goes on with each reading."""

    def __init__(self, *probe_s, refused=()):
        self.probe_s = dict(enumerate(probe_s))
        self.refused = set(refused)
        self.held = self.all = frozenset(self.probe_s)
        self.time = 0.0
        self.trials_on = []

    def now(self):
        self.time += self.probe_s[min(self.held)]
        return self.time

    def allowed(self):
        return self.held

    def hold(self, cpus):
        if self.refused & set(cpus) and len(cpus) == 1:
            return False
        self.held = frozenset(cpus)
        return True

    def trial(self):
        self.trials_on.append(min(self.held) if len(self.held) == 1 else None)
        return len(self.trials_on)

    def full_speed(self):
        return FullSpeed(self.now, self)


def take(full_speed, *trials, **warm_up):
    with full_speed.held():
        return [full_speed.take(trial, **warm_up) for trial in trials]


def test_a_trial_is_taken_on_a_cpu_at_full_speed():
    machine = Machine(HALF, FAST, HALF, FAST)
    full_speed = machine.full_speed()
    assert take(full_speed, machine.trial, machine.trial) + take(full_speed, machine.trial) == [1, 2, 3]
    assert machine.trials_on == [1, 1, 1]
    found = full_speed.found()
    assert (found.cpus, found.usable, found.slow_at_first) == ((1,), 4, 2)
    assert (found.taken, found.repeated, found.kept) == (3, 0, 0)
    assert found.probe_s == pytest.approx(FAST)


def test_a_trial_is_repeated_elsewhere_when_its_cpu_slows_down():
    machine = Machine(FAST, FAST, FAST)

    def slow_down_once():
        if machine.trial() == 1:
            machine.probe_s[0] = HALF
        return len(machine.trials_on)

    full_speed = machine.full_speed()
    assert take(full_speed, slow_down_once, machine.trial) == [2, 3]
    assert machine.trials_on == [0, 1, 1]
    assert (full_speed.found().taken, full_speed.found().repeated, full_speed.found().kept) == (2, 1, 0)
    assert full_speed.found().cpus == (0, 1)


def test_what_has_moved_is_warmed_up_where_it_is_taken_again():
    machine = Machine(FAST, FAST, FAST)
    warmed_up_on = []

    def slow_down_once():
        if machine.trial() == 1:
            machine.probe_s[0] = HALF

    take(machine.full_speed(), slow_down_once, machine.trial, warm_up=lambda: warmed_up_on.append(min(machine.held)))
    assert warmed_up_on == [1]


def test_what_slows_down_again_and_again_is_kept_and_counted():
    machine = Machine(FAST)

    def always_slow_at_the_end():
        machine.probe_s[0] = HALF
        return machine.trial()

    full_speed = machine.full_speed()
    assert take(full_speed, always_slow_at_the_end) == [MOST_REPEATS + 1]
    assert (full_speed.found().taken, full_speed.found().repeated, full_speed.found().kept) == (1, MOST_REPEATS, 1)


@pytest.mark.parametrize(("share", "slow"), [(SLOW * 1.01, 1), (SLOW * 0.99, 0)])
def test_a_cpu_is_slow_from_a_share_of_full_speed_on(share, slow):
    machine = Machine(FAST, FAST, FAST, FAST * share)
    full_speed = machine.full_speed()
    take(full_speed, machine.trial)
    assert full_speed.found().slow_at_first == slow


def test_the_fastest_is_taken_where_none_is_at_full_speed_any_more():
    machine = Machine(FAST, FAST, FAST)
    full_speed = machine.full_speed()
    take(full_speed, machine.trial)
    machine.probe_s = {0: HALF, 1: 0.9 * HALF, 2: HALF}
    take(full_speed, machine.trial)
    assert machine.trials_on[1] == 1


def test_the_thread_may_run_afterwards_where_it_could_before_also_after_a_failure():
    machine = Machine(FAST, HALF)
    full_speed = machine.full_speed()
    take(full_speed, machine.trial)
    assert machine.held == machine.all

    def fail():
        assert machine.held != machine.all
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        take(full_speed, fail)
    assert machine.held == machine.all


def test_a_cpu_that_cannot_be_held_is_left_out():
    machine = Machine(FAST, FAST, refused={0})
    full_speed = machine.full_speed()
    take(full_speed, machine.trial)
    assert machine.trials_on == [1]
    assert full_speed.found().usable == 1


CANNOT_BE_HELD = Machine(FAST, FAST, refused={0, 1})
NO_TIME_PASSES = Machine(0.0, 0.0)


@pytest.mark.parametrize("machine", [CANNOT_BE_HELD, NO_TIME_PASSES], ids=["cannot be held", "no time passes"])
def test_nothing_is_held_where_it_cannot_be_or_no_time_passes(machine):
    full_speed = machine.full_speed()
    assert take(full_speed, machine.trial) == [1]
    assert machine.trials_on == [None]
    assert full_speed.found() is None


def test_full_speed_follows_the_cpu_and_its_median_is_told():
    machine = Machine(FAST)
    full_speed = machine.full_speed()
    take(full_speed, *[machine.trial] * 2000)
    machine.probe_s[0] = 1.1 * FAST
    take(full_speed, *[machine.trial] * 1500)
    assert full_speed.found().probe_s == pytest.approx(FAST)
    machine.probe_s[0] = 1.2 * FAST
    take(full_speed, machine.trial)
    assert full_speed.found().repeated == 0, "1.2 is within 1.15 times 1.1"


def test_of_very_many_cpus_an_even_choice_is_probed():
    machine = Machine(*[FAST] * 100)
    full_speed = machine.full_speed()
    take(full_speed, machine.trial)
    assert full_speed.found().usable == 25


def test_results_of_two_plans_are_added():
    first, second = Machine(HALF, FAST), Machine(FAST, FAST)
    for machine in (first, second):
        machine.full_speed_of_plan = machine.full_speed()
        take(machine.full_speed_of_plan, machine.trial)
    both = first.full_speed_of_plan.found() + second.full_speed_of_plan.found()
    assert (both.cpus, both.taken, both.slow_at_first) == ((0, 1), 2, 1)
    plan = first.full_speed_of_plan.found()
    sum_of_unequal = replace(plan, probe_s=40e-6, taken=1) + replace(plan, probe_s=60e-6, taken=3)
    assert sum_of_unequal.probe_s == pytest.approx(55e-6)
