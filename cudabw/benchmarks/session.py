"""One run from driver to result: opens the device, lets a benchmark measure, describes the machine beside it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cudabw import __version__
from cudabw.benchmarks.observer import Observer
from cudabw.driver.loader import Backend, load_driver
from cudabw.driver.nvml import Nvml
from cudabw.errors import CudabwError, Interrupted
from cudabw.results.model import CaseResult, DeviceInfo, Link, RunError, RunResult
from cudabw.runtime.device import Device
from cudabw.runtime.resources import resources
from cudabw.system.environment import distortions, read_environment
from cudabw.system.link import LinkSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudabw.benchmarks.outcome import Outcome
    from cudabw.driver.calls import Driver


@dataclass(frozen=True, slots=True)
class Session:
    """What a benchmark is given: the device, someone to talk to, and the link to read while traffic runs."""

    device: Device
    observer: Observer
    sample_link: Callable[[], None]


def run_session(
    command: Sequence[str],
    benchmark: Callable[[Session], Outcome],
    *,
    backend: str = Backend.AUTO,
    ordinal: int = 0,
    observer: Observer = Observer(),  # noqa: B008 - frozen
    finish_case: Callable[[CaseResult, Link], CaseResult] = lambda case, _: case,
    on_error: Callable[[CudabwError], None] = lambda _: None,
) -> RunResult:
    """Run one benchmark on one device.

    A driver or device that fails is part of the result, not an exception: what was finished is kept.

    Args:
        command: What the user asked for, kept in the result.
        benchmark: Measures, given the session.
        backend: ``auto``, ``cuda`` or ``emulated``.
        ordinal: The device's number.
        observer: Hears of progress and notices, and may stop the run.
        finish_case: Adds to a case that moved bytes what only the link tells.
        on_error: Told what ended the run early, once all is released; may raise it.
    """
    result = RunResult(tuple(command), _utc_now(), __version__, warnings=distortions(os.environ))
    for warning in result.warnings:
        observer.notify(warning)
    ended_by: CudabwError | None = None
    try:
        with resources() as owned:
            driver = load_driver(Backend(backend), notify=observer.notify, check_interrupt=observer.check_interrupt)
            if driver.emulated:
                owned.callback(driver.api.close)
            result = replace(result, environment=_environment(driver))
            device = owned.enter_context(Device(driver, ordinal))
            result = replace(result, device=describe_device(device))
            result, ended_by = _measure(result, device, benchmark, observer, finish_case)
    except CudabwError as error:
        # A device that was lost while it was measured also fails to close; the first failure tells more.
        ended_by = ended_by or error
    if ended_by is None:
        return result
    on_error(ended_by)
    return replace(result, error=_run_error(ended_by), interrupted=isinstance(ended_by, Interrupted))


def _measure(
    result: RunResult,
    device: Device,
    benchmark: Callable[[Session], Outcome],
    observer: Observer,
    finish_case: Callable[[CaseResult, Link], CaseResult],
) -> tuple[RunResult, CudabwError | None]:
    """The result with its cases, and what ended the benchmark early."""
    with ExitStack() as owned:
        sampler = _link_sampler(device, owned)
        outcome = benchmark(Session(device, observer, sampler.sample))
        link = sampler.best()
    assert result.device is not None  # noqa: S101 - set by the caller; for the type checker
    measured = replace(
        result,
        device=replace(result.device, link=link),
        cases=tuple(finish_case(case, link) if isinstance(case, CaseResult) else case for case in outcome.cases),
        launch_overhead=outcome.launch_overhead,
        warnings=result.warnings + outcome.warnings,
    )
    return measured, outcome.interrupted or outcome.error


def describe_device(device: Device) -> DeviceInfo:
    """Name, addresses and memory of a device; its link is read only while traffic runs."""
    return DeviceInfo(
        ordinal=device.ordinal,
        name=device.name,
        uuid=device.uuid,
        pci=device.pci,
        emulated=device.driver.emulated,
        memory_bytes=device.memory_bytes,
    )


def _link_sampler(device: Device, owned: ExitStack) -> LinkSampler:
    if device.driver.emulated:
        return LinkSampler(None, None, integrated=True)
    nvml = Nvml.open()
    if nvml is not None:
        owned.callback(nvml.close)
    nvml_device = None if nvml is None else nvml.device(device.pci, device.uuid)
    return LinkSampler(device.pci, nvml_device, integrated=device.integrated)


def _environment(driver: Driver) -> dict[str, object]:
    version = driver.version()
    nvml = None if driver.emulated else Nvml.open()
    facts: dict[str, object] = {
        "cuda_driver": f"{version // 1000}.{version % 1000 // 10}",
        "cuda_bindings": driver.bindings_version(),
        "nvidia_driver": None if nvml is None else nvml.driver_version(),
    }
    if nvml is not None:
        nvml.close()
    return read_environment(facts, os.environ)


def _run_error(error: CudabwError) -> RunError:
    return RunError(type(error).__name__, error.message, error.hint, error.exit_code)


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
