"""One run from driver to result."""

import json
import re
from types import SimpleNamespace

import pytest

import cudabw
from cudabw.benchmarks.link_under_load import link_under_load
from cudabw.benchmarks.observer import Observer
from cudabw.benchmarks.outcome import Outcome
from cudabw.benchmarks.session import _gpu, describe_device, run_session
from cudabw.driver.nvml import NvmlDevice
from cudabw.errors import CudabwError, DriverError, Interrupted
from cudabw.results.model import CaseResult, Link, State
from cudabw.system.gpu import read_gpu
from cudabw.system.link import LinkReader

CASE = CaseResult("id", "bandwidth", "pinned", "driver", "h2d", 1, State.REFUSED, "no room")


@pytest.fixture
def emulate(monkeypatch):
    def describe(**settings):
        monkeypatch.setenv("CUDABW_EMULATED", json.dumps(settings))

    describe()
    return describe


@pytest.fixture
def session(emulate):  # noqa: ARG001 - it must come first
    """Runs a session on the emulated device whose benchmark gives an outcome, or raises it."""

    def run(outcome=None, seen=None, **settings):
        def benchmark(session):
            if seen is not None:
                seen.append(session)
            if isinstance(outcome, Exception):
                raise outcome
            if callable(outcome):
                return outcome(session)
            return outcome or Outcome()

        return run_session(("bandwidth",), benchmark, backend="emulated", **settings)

    return run


def test_a_result_says_what_ran_where_and_when(session):
    result = session(Outcome((CASE,)))
    assert (result.command, result.tool_version) == (("bandwidth",), cudabw.__version__)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", result.started)
    assert (result.cases, result.error, result.interrupted) == ((CASE,), None, False)
    assert result.device.emulated is True
    assert result.device.link == Link()
    assert result.environment["software"]["cuda_bindings"].split(".")[0] in ("12", "13")


def test_a_benchmark_is_given_the_device_that_was_asked_for_and_whom_to_talk_to(session, emulate):
    emulate(devices=3)
    seen, observer = [], Observer()
    result = session(seen=seen, ordinal=2, observer=observer)
    assert result.device.ordinal == 2
    assert seen[0].device.ordinal == 2
    assert seen[0].observer is observer
    seen[0].sample_link()


def test_a_device_is_described_by_what_the_driver_says(make_device):
    device = make_device()
    described = describe_device(device)
    assert (described.ordinal, described.name, described.uuid) == (0, device.name, device.uuid)
    assert (described.pci, described.memory_bytes, described.emulated) == (device.pci, device.memory_bytes, True)


def test_each_case_is_finished_with_the_link(session):
    finished = []

    def finish(case, link):
        finished.append((case, link))
        return case

    session(Outcome((CASE,)), finish_case=finish)
    assert finished == [(CASE, Link())]


def test_what_ended_the_benchmark_is_the_error_of_the_run_beside_its_cases(session):
    error = DriverError("cuMemAlloc", 700, "CUDA_ERROR_ILLEGAL_ADDRESS", hint="look")
    result = session(Outcome((CASE,), error=error))
    assert result.cases == (CASE,)
    assert result.interrupted is False
    assert (result.error.type, result.error.message) == ("DriverError", error.message)
    assert (result.error.hint, result.error.exit_code) == ("look", 1)


@pytest.mark.parametrize(("number", "code"), [(2, 130), (15, 143)])
def test_an_interrupted_benchmark_is_an_interrupted_run(session, number, code):
    result = session(Outcome((CASE,), interrupted=Interrupted(number)))
    assert (result.interrupted, result.error.type, result.error.exit_code) == (True, "Interrupted", code)
    assert result.cases == (CASE,)


def test_an_error_that_the_benchmark_lets_through_is_part_of_the_result(session):
    result = session(CudabwError("it broke"))
    assert (result.error.message, result.cases) == ("it broke", ())
    assert result.device is not None


def test_any_other_exception_is_a_bug_and_comes_through_with_all_released(session):
    seen = []
    with pytest.raises(ZeroDivisionError):
        session(ZeroDivisionError(), seen=seen)
    assert seen[0].device.closed


@pytest.mark.parametrize("outcome", [Outcome(error=CudabwError("lost")), CudabwError("lost")])
def test_who_wants_to_know_of_an_error_is_told_it_once_when_all_is_released(session, outcome):
    seen, told = [], []
    session(outcome, seen=seen, on_error=lambda error: told.append((error.message, seen[0].device.closed)))
    assert told == [("lost", True)]


def test_the_error_itself_can_be_raised(session):
    def raise_it(error):
        raise error

    lost = DriverError("cuMemAlloc", 700, "CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(DriverError) as raised:
        session(Outcome(error=lost), on_error=raise_it)
    assert raised.value is lost


def test_nobody_is_told_of_an_error_where_there_is_none(session):
    assert session(on_error=pytest.fail).error is None


def test_a_lost_device_that_cannot_be_closed_either_keeps_its_first_error_and_its_cases(session, emulate):
    emulate(faults=[{"function": "cuDevicePrimaryCtxRelease", "status": 719}])
    result = session(Outcome((CASE,), error=CudabwError("the first failure")))
    assert (result.error.message, result.cases) == ("the first failure", (CASE,))


def test_a_device_that_cannot_be_closed_is_an_error_that_keeps_the_cases(session, emulate):
    emulate(faults=[{"function": "cuDevicePrimaryCtxRelease", "status": 719}])
    result = session(Outcome((CASE,)))
    assert "cuDevicePrimaryCtxRelease failed" in result.error.message
    assert result.cases == (CASE,)


def test_a_device_that_is_not_there_is_a_usage_error_and_nothing_is_measured(session):
    seen = []
    result = session(seen=seen, ordinal=1)
    assert (result.error.type, result.error.exit_code, result.device, seen) == ("UsageError", 2, None, [])


def test_a_driver_that_does_not_start_is_a_result_without_a_device(session, emulate):
    emulate(faults=[{"function": "cuInit", "status": 999}])
    result = session()
    assert (result.error.type, result.error.exit_code, result.device) == ("NoDriverError", 5, None)


def test_a_signal_while_the_driver_starts_is_an_interrupted_run(session, emulate):
    emulate(faults=[{"function": "cuInit", "hang": True}])

    def interrupt():
        raise Interrupted(15)

    result = session(observer=Observer(check_interrupt=interrupt))
    assert (result.interrupted, result.error.exit_code, result.cases) == (True, 143, ())


def test_what_distorts_figures_is_kept_and_said_before_measuring(session, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    said = []
    result = session(observer=Observer(notify=said.append))
    assert [warning.partition(" ")[0] for warning in result.warnings] == ["CUDA_LAUNCH_BLOCKING=1"]
    assert said == list(result.warnings)


def test_a_backend_that_does_not_exist_is_the_callers_mistake():
    with pytest.raises(ValueError, match="'gpu' is not a valid Backend"):
        run_session((), lambda _: Outcome(), backend="gpu")


@pytest.mark.usefixtures("emulate")
def test_a_link_that_fell_short_under_load_is_said_and_kept_in_the_warnings(monkeypatch):
    answers = {
        "device_get_curr_pcie_link_generation": 5,
        "device_get_curr_pcie_link_width": 8,
        "device_get_max_pcie_link_generation": 5,
        "device_get_max_pcie_link_width": 16,
    }
    functions = {name: lambda _, value=value: value for name, value in answers.items()}
    reader = LinkReader("0000:17:00.0", NvmlDevice(SimpleNamespace(**functions), 1))
    monkeypatch.setattr("cudabw.benchmarks.session.link_reader", lambda *_, **__: reader)
    said = []

    def benchmark(session):
        session.sample_link()
        return Outcome((CASE,), warnings=("first",))

    result = run_session((), benchmark, backend="emulated", observer=Observer(notify=said.append))
    assert result.warnings[0] == "first"
    assert result.warnings[1].startswith("The PCIe link of 0000:17:00.0 ran at Gen5 x8 under load, below the Gen5 x16")
    assert said == [result.warnings[1]]
    assert (result.device.link.width, result.device.max_link.width) == (8, 16)


def waking_link(monkeypatch, **answers):
    """A link that is awake while the session's own copies run, and else at rest."""
    copying = []

    def generation(_handle):
        return 5 if copying else 1

    def copy_once(_driver, _ordinal, reader):
        copying.append(True)
        link = reader.read()
        copying.clear()
        woken.append(link)
        return link

    woken = []
    functions = {
        "device_get_curr_pcie_link_generation": generation,
        "device_get_curr_pcie_link_width": lambda _: 16,
        "device_get_max_pcie_link_generation": lambda _: 5,
        "device_get_max_pcie_link_width": lambda _: 16,
    }
    reader = LinkReader("0000:17:00.0", NvmlDevice(SimpleNamespace(**functions | answers), 1))
    monkeypatch.setattr("cudabw.benchmarks.session.link_reader", lambda *_, **__: reader)
    monkeypatch.setattr("cudabw.benchmarks.session.link_under_load", copy_once)
    return woken


def test_what_never_let_the_link_be_read_has_it_read_under_copies_of_its_own(session, monkeypatch):
    woken = waking_link(monkeypatch)
    shown = []
    result = session(Outcome((CASE,)), finish_case=lambda case, link: shown.append(link) or case)
    assert result.device.link == Link(5, 16, pytest.approx(63.0e9, rel=1e-3), "nvml")
    assert (len(woken), shown, result.warnings) == (1, [result.device.link], ())


def test_a_link_that_was_read_meanwhile_needs_no_copies_of_its_own(session, monkeypatch):
    woken = waking_link(monkeypatch, device_get_curr_pcie_link_generation=lambda _: 5)

    def benchmark(session):
        session.sample_link()
        return Outcome((CASE,))

    assert session(benchmark).device.link.generation == 5
    assert woken == []


@pytest.mark.parametrize(
    ("outcome", "answers"),
    [
        (Outcome(error=CudabwError("lost")), {}),
        (Outcome(interrupted=Interrupted(2)), {}),
        (Outcome((CASE,)), {"device_get_curr_pcie_link_width": lambda _: 0}),
    ],
)
def test_no_copies_are_made_for_a_link_after_a_failure_or_where_nothing_tells_it(
    session, monkeypatch, outcome, answers
):
    woken = waking_link(monkeypatch, **answers)
    assert session(outcome).device.link == Link()
    assert woken == []


def test_a_link_that_cannot_be_woken_is_null_and_fails_nothing(session, monkeypatch, emulate):
    waking_link(monkeypatch)
    monkeypatch.setattr("cudabw.benchmarks.session.link_under_load", link_under_load)
    emulate(faults=[{"function": "cuMemHostAlloc", "status": 2, "at_least_bytes": 1 << 20}])
    result = session(Outcome((CASE,)))
    assert (result.device.link, result.error, result.cases) == (Link(), None, (CASE,))


@pytest.mark.usefixtures("emulate")
def test_the_clocks_of_a_gpu_are_read_before_its_context_is_made_and_again_when_the_run_ends(monkeypatch):
    clocks = iter([0x1, 0x40])
    nvml = NvmlDevice(SimpleNamespace(device_get_current_clocks_event_reasons=lambda _: next(clocks)), 1)
    monkeypatch.setattr("cudabw.benchmarks.session._gpu", lambda *_: read_gpu(None, nvml, None))
    monkeypatch.setattr("cudabw.benchmarks.session.link_reader", lambda *_, **__: LinkReader(None, nvml))
    gpu = run_session((), lambda _: Outcome(), backend="emulated").environment["gpu"]
    assert (gpu["before"]["reasons"], gpu["before"]["throttled"]) == (["gpu_idle"], False)
    assert (gpu["after"]["reasons"], gpu["after"]["throttled"]) == (["hw_thermal_slowdown"], True)


def test_the_emulated_device_has_no_state_of_a_gpu(session):
    assert session().environment["gpu"] is None


@pytest.mark.parametrize("ordinal", [1, -1])
def test_of_a_gpu_that_is_not_there_nothing_is_read(make_device, ordinal):
    driver = make_device().driver
    driver.emulated = False
    assert _gpu(driver, None, ordinal) is None
    assert _gpu(driver, None, 0)["other_processes"] is None


def test_a_benchmark_can_ask_what_slows_the_emulated_device_down(session, emulate):
    emulate(faults=[{"throttle": "hw_slowdown", "nth": 2}])
    asked = []

    def ask(given):
        asked.extend(given.slowdowns() for _ in range(3))
        return Outcome((CASE,))

    session(ask)
    assert asked == [(), ("hw_slowdown",), ()]
