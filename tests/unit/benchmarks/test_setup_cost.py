"""What it costs to have memory ready, on a device whose clock charges for pinning alone."""

import pytest

from cudabw.benchmarks import setup_cost
from cudabw.benchmarks.bandwidth_plan import KINDS, BandwidthPlan
from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.setup_cost import Setup, SetupPlan, run_setup_cost, setup_plans, skipped_setups
from cudabw.driver.emulated import Fault, ModelledClock, Shape
from cudabw.errors import Interrupted
from cudabw.measuring.effort import Effort, Level
from cudabw.results.model import State

MIB = 1 << 20
PIN, UNPIN = MIB / 2e-3, MIB / 0.5e-3


@pytest.fixture
def modelled(make_device):
    def make(*faults):
        return make_device(faults=faults, clock=ModelledClock({"pin": PIN, "unpin": UNPIN}))

    return make


def plan(*kinds, sizes=(MIB,), trials=2, budget_s=None, **settings):
    effort = Effort(least=trials, most=trials, precision=None, budget_s=budget_s, sure=1)
    return SetupPlan(tuple(Setup(kind, size) for kind in kinds for size in sizes), effort, **settings)


@pytest.mark.parametrize("kind", ["pinned", "mapped", "write-combined"])
def test_memory_that_is_pinned_when_allocated_is_unpinned_when_freed(modelled, kind):
    (case,) = run_setup_cost(modelled(), [plan(kind)]).cases
    assert (case.id, case.state, case.size_bytes) == (f"setup-cost/{kind}/{MIB}", State.OK, MIB)
    medians = [case.allocate_s.median, case.touch_s.median, case.free_s.median, case.total_s.median]
    assert medians == pytest.approx([2e-3, 0, 0.5e-3, 2.5e-3])
    assert (case.register_s, case.unregister_s, case.registration_s) == (None, None, None)


def test_memory_that_is_there_is_pinned_and_unpinned_in_steps_of_their_own(modelled):
    (case,) = run_setup_cost(modelled(), [plan("registered")]).cases
    steps = (case.allocate_s, case.touch_s, case.register_s, case.unregister_s, case.registration_s, case.free_s)
    assert [step.median for step in steps] == pytest.approx([0, 0, 2e-3, 0.5e-3, 2.5e-3, 0])
    assert case.total_s.median == pytest.approx(2.5e-3)


@pytest.mark.parametrize("kind", ["pageable", "managed"])
def test_memory_that_is_not_pinned_is_charged_for_nothing(modelled, kind):
    (case,) = run_setup_cost(modelled(), [plan(kind)]).cases
    assert (case.state, case.total_s.median, case.register_s) == (State.OK, 0, None)


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_takes_real_time_on_a_real_clock_and_each_trial_has_fresh_memory(device, kind):
    (case,) = run_setup_cost(device, [plan(kind, trials=3)]).cases
    assert len(case.trials) == 3
    for trial in case.trials:
        steps = [trial.allocate_s, trial.touch_s, trial.free_s]
        steps += [trial.register_s, trial.unregister_s] if kind == "registered" else []
        assert all(step > 0 for step in steps)
        assert trial.total_s == pytest.approx(sum(steps))
    assert case.total_s.low < case.total_s.median < case.total_s.high


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_behind(device, kind):
    run_setup_cost(device, [plan(kind, trials=1)])
    assert device.page_locked_bytes == 0
    assert not device._retired


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_run_in_their_order_and_none_waits_for_work_of_the_device(modelled, kind, monkeypatch):
    device = modelled()
    called = []
    for function in (
        "cuMemHostAlloc",
        "cuMemFreeHost",
        "cuMemHostRegister",
        "cuMemHostUnregister",
        "cuMemAllocManaged",
    ):
        real = getattr(device.driver.api, function)
        monkeypatch.setattr(
            device.driver.api, function, lambda *given, f=function, real=real: (called.append(f), real(*given))[1]
        )
    monkeypatch.setattr("cudabw.benchmarks.setup_cost.touch", lambda _: called.append("touch"))
    monkeypatch.setattr(device, "synchronize", lambda: called.append("wait"))
    run_setup_cost(device, [plan(kind, trials=1)])
    assert called == {
        "pageable": ["wait", "wait", "touch", "wait"],
        "registered": [*("wait", "wait", "touch", "wait", "cuMemHostRegister", "wait", "cuMemHostUnregister", "wait")],
        "managed": ["wait", "cuMemAllocManaged", "wait", "touch", "wait"],
    }.get(kind, ["wait", "cuMemHostAlloc", "wait", "touch", "wait", "cuMemFreeHost"])


def test_rounds_are_shuffled_and_progress_counts_all_trials(modelled):
    heard = []
    wanted = plan("pageable", "pinned", "registered", trials=3)
    outcome = run_setup_cost(modelled(), [wanted], Observer(progress=lambda *step: heard.append(step)))
    assert [step[:2] for step in heard] == [(done, 9) for done in range(10)]
    rounds = [[label for *_, label in heard[start : start + 3]] for start in (0, 3, 6)]
    assert all(sorted(order) == sorted(setup.label for setup in wanted.setups) for order in rounds)
    assert outcome.trials_done == 9


def test_the_results_so_far_are_kept_after_each_trial(modelled):
    kept = []
    run_setup_cost(
        modelled(), [plan("pinned", trials=2), plan("mapped", trials=1)], keep=lambda so_far: kept.append(so_far())
    )
    assert [[(case.kind, case.state, len(case.trials)) for case in outcome.cases] for outcome in kept] == [
        [("pinned", State.OK, 1)],
        [("pinned", State.OK, 2)],
        [("pinned", State.OK, 2), ("mapped", State.OK, 1)],
    ]
    assert kept[0].cases[0].notes == ("1 of 2 trials: the run had not finished",)


# What goes wrong


@pytest.mark.parametrize(
    ("kind", "function", "status", "state"),
    [
        ("pinned", "cuMemHostAlloc", 2, State.REFUSED),
        ("registered", "cuMemHostRegister", 801, State.UNSUPPORTED),
        ("registered", "cuMemHostUnregister", 1, State.FAILED),
        ("managed", "cuMemAllocManaged", 2, State.REFUSED),
        ("mapped", "cuMemFreeHost", 1, State.FAILED),
    ],
)
def test_a_step_that_fails_is_said_in_its_case_and_the_others_are_measured(modelled, kind, function, status, state):
    device = modelled(Fault(function=function, status=status))
    failed, other = run_setup_cost(device, [plan(kind, "pageable")]).cases
    assert (failed.state, failed.total_s) == (state, None)
    assert function in failed.reason
    assert other.state is State.OK


def test_memory_that_is_refused_later_leaves_the_trials_before(modelled):
    device = modelled(Fault(function="cuMemHostAlloc", status=2, nth=2))
    (case,) = run_setup_cost(device, [plan("pinned", trials=3)]).cases
    assert (case.state, len(case.trials)) == (State.OK, 1)
    assert case.notes[0].startswith("1 of 3 trials: 1048576 bytes of host pinned memory were refused")


def test_a_failure_puts_the_trials_before_in_doubt(modelled):
    device = modelled(Fault(function="cuMemHostAlloc", status=1, nth=2))
    (case,) = run_setup_cost(device, [plan("pinned", trials=3)]).cases
    assert (case.state, case.total_s, len(case.trials)) == (State.FAILED, None, 1)


def test_a_failure_is_not_hidden_by_the_end_of_the_time(modelled):
    device = modelled(Fault(function="cuMemHostAlloc", status=1, nth=2))
    effort = Effort(least=9, most=9, precision=None, budget_s=1e-9, sure=2)
    both = SetupPlan((Setup("pinned", MIB), Setup("pageable", MIB)), effort)
    failed, other = run_setup_cost(device, [both]).cases
    assert (failed.state, failed.total_s, failed.notes, len(failed.trials)) == (State.FAILED, None, (), 1)
    assert failed.reason.startswith("cuMemHostAlloc failed with CUDA_ERROR_INVALID_VALUE (1)")
    assert (other.state, other.notes) == (State.OK, ("2 of 9 trials: time budget of 1e-09 s",))


def test_a_failure_is_not_hidden_by_an_interruption(modelled):
    device = modelled(Fault(function="cuMemHostAlloc", status=1, nth=2))
    left = iter(range(3))

    def check():
        if next(left, None) is None:
            raise Interrupted(2)

    outcome = run_setup_cost(device, [plan("pinned", trials=9)], Observer(check_interrupt=check))
    (case,) = outcome.cases
    assert outcome.interrupted is not None
    assert (case.state, case.total_s, len(case.trials)) == (State.FAILED, None, 1)
    assert case.reason.startswith("cuMemHostAlloc failed")


def test_the_results_so_far_do_not_hide_a_failure_either(modelled):
    kept = []
    device = modelled(Fault(function="cuMemHostAlloc", status=1, nth=2))
    run_setup_cost(device, [plan("pinned", trials=2)], keep=lambda so_far: kept.append(so_far()))
    assert [outcome.cases[0].state for outcome in kept] == [State.OK, State.FAILED]


def test_a_context_that_is_lost_ends_the_run_and_keeps_what_was_finished(modelled):
    device = modelled(Fault(function="cuMemHostRegister", status=719))
    first, lost, never = run_setup_cost(
        device, [plan("pinned", trials=1), plan("registered", trials=1), plan("mapped", trials=1)]
    ).cases
    assert first.state is State.OK
    assert (lost.state, never.state) == (State.FAILED, State.FAILED)
    assert "device 0 was lost" in never.reason


def test_an_interruption_between_trials_keeps_what_was_finished(modelled):
    left = iter(range(1))

    def check():
        if next(left, None) is None:
            raise Interrupted(2)

    outcome = run_setup_cost(modelled(), [plan("pinned", "mapped")], Observer(check_interrupt=check))
    assert outcome.interrupted is not None
    assert sorted((case.state, case.notes, case.reason) for case in outcome.cases) == [
        (State.FAILED, (), "interrupted"),
        (State.OK, ("1 of 2 trials: interrupted",), None),
    ]


def test_after_the_time_budget_no_further_round_begins(modelled):
    cases = run_setup_cost(modelled(), [plan("pinned", "mapped", trials=5, budget_s=1e-9)]).cases
    assert [case.notes for case in cases] == [("1 of 5 trials: time budget of 1e-09 s",)] * 2


def test_what_does_not_fit_is_refused_with_the_numbers(modelled, monkeypatch):
    monkeypatch.setattr("cudabw.benchmarks.space.HOST_RESERVE_BYTES", 1 << 60)
    (case,) = run_setup_cost(modelled(), [plan("pinned")]).cases
    assert case.state is State.REFUSED
    assert case.reason.startswith("pinned needs 1 MiB of host memory, and 0 B can be used")


@pytest.mark.parametrize("kind", KINDS)
def test_only_memory_that_is_taken_has_to_be_there(make_device, monkeypatch, kind):
    asked = []
    monkeypatch.setattr(setup_cost, "require_room", lambda _, kind, **room: asked.append((kind, room)))
    device = make_device(shape=Shape(memory=8 * MIB))
    (case,) = run_setup_cost(device, [plan(kind, sizes=(16 * MIB,), trials=1)]).cases
    assert case.state is State.OK
    # Some devices hold managed memory.
    on_device = 16 * MIB if kind == "managed" else 0
    assert asked == [(kind, {"on_host": 16 * MIB, "on_device": on_device})]


def test_memory_of_the_host_may_be_larger_than_the_device(make_device):
    device = make_device(shape=Shape(memory=8 * MIB))
    host, managed = run_setup_cost(device, [plan("pageable", "managed", sizes=(16 * MIB,), trials=1)]).cases
    assert (host.state, managed.state) == (State.OK, State.REFUSED)
    assert managed.reason.startswith("managed needs 16 MiB of device memory, and 8 MiB is free on device 0")


# What is asked for


def test_plans_of_copies_ask_for_their_kinds_and_sizes_once():
    two = ("pageable", "pinned")
    first = BandwidthPlan(two, sizes=(1, 2), named=frozenset({"pinned"}), setup_kinds=two)
    silent = BandwidthPlan(("managed",))
    second = BandwidthPlan((), sizes=(2,), trials=7, time_budget_s=3.0, seed=5, setup_kinds=("pinned", "mapped"))
    one, none, other = setup_plans([first, silent, second])
    assert [(setup.kind, setup.size_bytes, setup.named) for setup in one.setups] == [
        ("pageable", 1, False),
        ("pageable", 2, False),
        ("pinned", 1, True),
        ("pinned", 2, True),
    ]
    assert none.setups == ()
    effort = Effort(least=7, most=7, precision=None, budget_s=3.0, sure=1)
    assert other == SetupPlan((Setup("mapped", 2),), effort, seed=5)


@pytest.mark.parametrize("level", list(Level))
def test_as_many_trials_are_taken_as_copies_get_at_least(level):
    copies = BandwidthPlan(("pinned",), sizes=(1,), level=level, setup_kinds=("pinned",))
    (found,) = setup_plans([copies])
    assert (found.effort.least, found.effort.most, found.effort.precision) == (copies.effort.least,) * 2 + (None,)
    assert (found.effort.budget_s, found.effort.sure) == (copies.effort.budget_s, copies.effort.sure)


def test_plans_that_were_never_begun_fail_for_the_reason_that_ended_the_run():
    (case,) = skipped_setups([plan("pinned")], "device 0 was lost")
    assert (case.state, case.reason, case.named) == (State.FAILED, "device 0 was lost", False)
