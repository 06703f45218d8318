"""What goes wrong in a trial, and what that means for its case, for the others and for the run."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudabw.errors import (
    CudabwError,
    DeviceLostError,
    DriverError,
    Interrupted,
    RefusedError,
    UnsupportedError,
    WrongDataError,
)
from cudabw.results.model import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudabw.measuring.judging import Judgement
    from cudabw.results.model import Clock
    from cudabw.runtime.device import Device

# Illegal address, launch timeout, destroyed context, assertion, the hardware's exceptions, launch failed, unknown.
_STICKY = frozenset({700, 702, 709, 710, *range(714, 720), 999})


@dataclass(slots=True)
class Failure:
    """What is known of the failure of a case, which has no further trial after it.

    Attributes:
        state: What it means; ``ok`` before any.
        reason: Of it.
        doubted: Whether it is the case's own, which puts the figures of its earlier trials in doubt.
    """

    state: State = State.OK
    reason: str | None = None
    doubted: bool = False

    @property
    def happened(self) -> bool:
        """Whether a trial has failed."""
        return self.state is not State.OK

    def fail(self, error: CudabwError) -> None:
        """A trial ended with this error."""
        self.state, self.reason = failure_of(error)
        self.doubted = self.state is State.WRONG_DATA

    def doubt(self) -> None:
        """The device survived the failure, so it was the case's own; memory refused later says nothing of a figure."""
        self.doubted = self.state in (State.WRONG_DATA, State.FAILED)

    def without_figure(self, ended_because: str | None) -> Judgement:
        """The state and the reason of the case if it has no figure.

        Args:
            ended_because: Why the run ended early, if it did: of a case that had no failure of its own.
        """
        return (self.state, self.reason) if self.happened else (State.FAILED, ended_because or "not measured")


@contextmanager
def failing(device: Device, *failures: Failure) -> Iterator[None]:
    """What goes wrong inside is the failure of these cases; the others go on unless the device was lost.

    Args:
        device: The device.
        failures: Of the cases; those that had one before keep it.

    Raises:
        DeviceLostError: It is lost.
        Interrupted: As inside.
    """
    try:
        yield
    except (Interrupted, DeviceLostError):
        raise
    except CudabwError as error:
        new = [failure for failure in failures if not failure.happened]
        for failure in new:
            failure.fail(error)
        require_alive(device, error)
        for failure in new:
            failure.doubt()


def require_time(seconds: float, clock: Clock, hint: str) -> None:
    """Refuse a sample of which no time passed.

    Raises:
        CudabwError: It has no figure; the hint says what to do.
    """
    if seconds <= 0:
        raise CudabwError(f"no time passed by the {clock} clock, so there is no figure", hint=hint)


def failure_of(error: CudabwError) -> tuple[State, str]:
    """The state and the reason of a case that an error ended."""
    reason = f"{error.message}. {error.hint}" if error.hint else error.message
    if isinstance(error, WrongDataError):
        return State.WRONG_DATA, reason
    if isinstance(error, UnsupportedError):
        return State.UNSUPPORTED, reason
    if isinstance(error, RefusedError):
        return State.REFUSED, reason
    return State.FAILED, reason


def require_alive(device: Device, error: CudabwError) -> None:
    """End the run if the device is lost: everything after would fail for the same reason.

    Args:
        device: The device.
        error: What failed on it.

    Raises:
        DeviceLostError: It is.
    """
    if not _ends_context(error):
        try:
            device.synchronize()
        except CudabwError:
            pass
        else:
            return
    raise DeviceLostError(
        f"device {device.ordinal} was lost: {error}",
        hint=error.hint or "The driver's log (dmesg) says more.",
    ) from error


def _ends_context(error: CudabwError) -> bool:
    """Whether the driver answers every later call of the process with the same failure."""
    return isinstance(error, DriverError) and error.code in _STICKY
