"""One run from driver to result: opens the device, lets a benchmark measure, describes the machine beside it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from cudabw import __version__
from cudabw.benchmarks.link_under_load import link_under_load
from cudabw.benchmarks.observer import Observer
from cudabw.driver.calls import format_version
from cudabw.driver.hints import SystemProbe
from cudabw.driver.identity import identify
from cudabw.driver.loader import Backend, load_driver
from cudabw.driver.nvml import Nvml, in_nvml
from cudabw.errors import CudabwError, Interrupted
from cudabw.measuring.slowdown import no_slowdowns
from cudabw.results.model import CaseResult, DeviceInfo, Link, RunError, RunResult
from cudabw.runtime.device import Device, device_count
from cudabw.runtime.resources import resources
from cudabw.system.environment import read_environment
from cudabw.system.gpu import read_gpu, with_gpu_after
from cudabw.system.inventory import describe
from cudabw.system.link import LinkSampler, link_reader
from cudabw.system.numa import gpu_node
from cudabw.system.variables import distortions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from cudabw.benchmarks.outcome import Keep, Outcome
    from cudabw.driver.calls import Driver
    from cudabw.driver.nvml import NvmlDevice
    from cudabw.measuring.slowdown import Slowdowns
    from cudabw.system.link import LinkReader


@dataclass(frozen=True, slots=True)
class Session:
    """What a benchmark is given.

    Attributes:
        device: What to measure.
        observer: Someone to talk to.
        sample_link: Reads the link; to be called while traffic runs.
        slowdowns: Says what slows the device down; to be asked while traffic runs.
        keep: To be called after each trial.
        device_node: The NUMA node that the device is at; None where that is not known.
    """

    device: Device
    observer: Observer
    sample_link: Callable[[], None]
    slowdowns: Slowdowns
    keep: Keep
    device_node: int | None = None


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
    result = RunResult(tuple(command), utc_now(), __version__, warnings=distortions(os.environ))
    for warning in result.warnings:
        observer.notify(warning)
    ended_by: CudabwError | None = None
    try:
        with resources() as owned:
            driver = load_driver(Backend(backend), notify=observer.notify, check_interrupt=observer.check_interrupt)
            if driver.emulated:
                owned.callback(driver.api.close)
            nvml = _open_nvml(driver, owned)
            result = replace(result, environment=_environment(driver, nvml, ordinal))
            device = owned.enter_context(Device(driver, ordinal))
            result = replace(result, device=describe_device(device))
            reader = _link_reader(device, nvml)
            result, ended_by = _measure(result, device, reader, observer, benchmark, finish_case)
    except CudabwError as error:
        # A device that was lost while it was measured also fails to close; the first failure tells more.
        ended_by = ended_by or error
    result = replace(result, finished=utc_now())
    if ended_by is None:
        return result
    on_error(ended_by)
    return replace(result, error=_run_error(ended_by), interrupted=isinstance(ended_by, Interrupted))


def _measure(
    result: RunResult,
    device: Device,
    reader: LinkReader,
    observer: Observer,
    benchmark: Callable[[Session], Outcome],
    finish_case: Callable[[CaseResult, Link], CaseResult],
) -> tuple[RunResult, CudabwError | None]:
    """The result with its cases, and what ended the benchmark early."""
    sampler = LinkSampler(reader)
    node = gpu_node(reader.pci, reader.nvml, root=reader.root)
    described = replace(describe_device(device), max_link=reader.read_max(), numa_node=node)

    def measured(outcome: Outcome) -> RunResult:
        link = sampler.best()
        return _with_outcome(replace(result, device=replace(described, link=link)), outcome, link, finish_case)

    def keep(so_far: Callable[[], Outcome]) -> None:
        observer.keep(lambda: measured(so_far()))

    outcome = benchmark(
        Session(device, observer, sampler.sample, _slowdowns(device, reader.nvml), keep, described.numa_node)
    )
    if not outcome.ended:
        _require_reading(device, reader, sampler)
    return _at_its_end(measured(outcome), sampler.best(), reader, observer), outcome.interrupted or outcome.error


def _require_reading(device: Device, reader: LinkReader, sampler: LinkSampler) -> None:
    """Read the link under copies made for that alone, where nothing measured has let it be read meanwhile."""
    if sampler.best().source is not None or reader.read().source is None:
        return
    with suppress(CudabwError):  # no figure is lost, only what it could be compared with
        sampler.add(link_under_load(device.driver, device.ordinal, reader))


def _with_outcome(
    result: RunResult, outcome: Outcome, link: Link, finish_case: Callable[[CaseResult, Link], CaseResult]
) -> RunResult:
    return replace(
        result,
        cases=tuple(finish_case(case, link) if isinstance(case, CaseResult) else case for case in outcome.cases),
        launch_overhead=outcome.launch_overhead,
        small_copies=outcome.small_copies,
        cpu_speed=outcome.cpu_speed,
        warnings=result.warnings + outcome.warnings,
    )


def _at_its_end(result: RunResult, link: Link, reader: LinkReader, observer: Observer) -> RunResult:
    """The result with what can be said only when the last batch is over."""
    result = replace(result, environment=with_gpu_after(result.environment, reader.nvml))
    shortfall = reader.shortfall(link)
    if shortfall is None:
        return result
    observer.notify(shortfall)
    return replace(result, warnings=(*result.warnings, shortfall))


def describe_device(device: Device) -> DeviceInfo:
    """Name, addresses and memory of a device; its link is read only while traffic runs."""
    return describe(device.identity, emulated=device.driver.emulated)


def _open_nvml(driver: Driver, owned: ExitStack) -> Nvml | None:
    nvml = None if driver.emulated else Nvml.open()
    if nvml is not None:
        owned.callback(nvml.close)
    return nvml


def _link_reader(device: Device, nvml: Nvml | None) -> LinkReader:
    return link_reader(device.identity, in_nvml(nvml, device.identity), emulated=device.driver.emulated)


def _slowdowns(device: Device, nvml: NvmlDevice | None) -> Slowdowns:
    """Who says what slows the device down."""
    if device.driver.emulated:
        return cast("Slowdowns", device.driver.api.throttled_by)
    return no_slowdowns if nvml is None else nvml.throttled_by


def _environment(driver: Driver, nvml: Nvml | None, ordinal: int) -> dict[str, object]:
    facts: dict[str, object] = {
        "nvidia_driver": None if nvml is None else nvml.driver_version(),
        "cuda_driver": format_version(driver.version()),
        "cuda_bindings": driver.bindings_version(),
        "kernel_module": SystemProbe().kernel_module_version(),
        "libcuda": driver.path,
        "nvml": None if nvml is None else nvml.library_version(),
    }
    return read_environment(facts, os.environ, gpu=_gpu(driver, nvml, ordinal))


def _gpu(driver: Driver, nvml: Nvml | None, ordinal: int) -> dict[str, object] | None:
    if driver.emulated or not 0 <= ordinal < device_count(driver):
        return None
    identity = identify(driver, ordinal)
    return read_gpu(nvml, in_nvml(nvml, identity), identity.pci)


def _run_error(error: CudabwError) -> RunError:
    return RunError(type(error).__name__, error.message, error.hint, error.exit_code)


def utc_now() -> str:
    """The time as results hold it: ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
