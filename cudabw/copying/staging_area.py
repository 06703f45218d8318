"""What the staged copies of one device share: how they are to be done, and the threads and slots that do them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from cudabw.copying.staging_calibration import (
    PROBE_BYTES,
    SLOTS,
    SMALLEST_STAGED,
    WORKERS,
    Calibration,
    Setting,
    usable_cpus,
)
from cudabw.copying.staging_programs import DIRECTIONS
from cudabw.copying.staging_slots import Crew
from cudabw.errors import ClosedError
from cudabw.runtime.memory import DeviceBuffer, PageableBuffer
from cudabw.runtime.ownership import guard, take

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cudabw.copying.staging_programs import Transfer
    from cudabw.runtime.device import Device
    from cudabw.runtime.ownership import Ownership
    from cudabw.runtime.stream import Stream


class StagingArea:
    """Settings, found out when they are first needed, and a crew, started with the first copy.

    Args:
        device: Where copies go to or come from.
        threads: How many copy, at most as many as this process may use CPUs; None to find out.
        slot: Bytes of a slot; None to find out.
        at_least: Copies of at least so many bytes are staged; None to find out.

    Raises:
        ValueError: A number is not positive.
    """

    def __init__(self, device: Device, *, threads: int | None, slot: int | None, at_least: int | None) -> None:
        for name, number in (("threads", threads), ("slot", slot), ("at_least", at_least)):
            if number is not None and number < 1:
                raise ValueError(f"{name} is at least 1, not {number}")
        cpus = usable_cpus()
        self.device = device
        self._workers = sorted({min(count, cpus) for count in ([threads] if threads else WORKERS)})
        self._slots = [slot] if slot else list(SLOTS)
        self._at_least = at_least
        self._settings: Mapping[str, Setting] = {}
        self._crew: Crew | None = None
        self._closed = False
        # Of one copy or calibration at a time. Taken before the device's lock, never after it.
        self._lock = threading.RLock()

    def setting(self, direction: str) -> Setting:
        """How copies of a direction, ``h2d`` or ``d2h``, are done; calibrates if that has not been done.

        Raises:
            ClosedError: The area was closed.
            RefusedError: There is no memory to find out with.
            DriverError: The driver failed.
        """
        with self._lock:
            self.require_open()
            if not self._settings:
                self._settings = self._given() or self._calibrate()
            return self._settings[direction]

    def setting_for(self, direction: str, nbytes: int) -> Setting | None:
        """As :meth:`setting`; None where the driver is to copy so many bytes."""
        smallest = SMALLEST_STAGED if self._at_least is None else self._at_least
        if nbytes < smallest:
            return None
        setting = self.setting(direction)
        return setting if setting.at_least is not None and nbytes >= setting.at_least else None

    def _given(self) -> Mapping[str, Setting]:
        """The settings; empty while anything is left to be found out."""
        if self._at_least is None or len(self._workers) > 1 or len(self._slots) > 1:
            return {}
        return dict.fromkeys(DIRECTIONS, Setting(self._workers[0], self._slots[0], at_least=self._at_least))

    def _calibrate(self) -> Mapping[str, Setting]:
        nbytes = min(PROBE_BYTES, max(SMALLEST_STAGED, self.device.free_bytes // 8))
        with (
            Crew(self.device, max(self._workers), max(self._slots)) as crew,
            self.device.stream() as stream,
            PageableBuffer(self.device, nbytes) as host,
            DeviceBuffer(self.device, nbytes) as memory,
        ):
            host.array()[:] = 1
            calibrations = {direction: Calibration(crew, stream, direction, host, memory) for direction in DIRECTIONS}
            return {
                direction: calibration.choose(self._workers, self._slots, self._at_least)
                for direction, calibration in calibrations.items()
            }

    def run(self, transfer: Transfer, owners: tuple[Ownership, ...], stream: Stream, times: int) -> None:
        """Take ownership, and do a transfer a number of times.

        Raises:
            ClosedError: The area, the stream or memory was closed.
            RefusedError: The system does not pin the slots.
            BaseException: The first error of a worker, or a signal's. Nothing is under way any more.
        """
        with self._lock:
            crew = self._ready_crew()
            # Held until the bytes are there, as for a pageable copy by the driver: nobody closes the memory meanwhile.
            with guard(self.device, owners):
                self.device.activate()
                take(owners, stream, self.device.waits)
                for _ in range(times):
                    crew.run(transfer, stream)

    def _ready_crew(self) -> Crew:
        self.require_open()
        if self._crew is None:
            settings = [self.setting(direction) for direction in DIRECTIONS]
            workers, slot = max(setting.threads for setting in settings), max(setting.slot for setting in settings)
            self._crew = Crew(self.device, workers, slot)
        return self._crew

    def require_open(self) -> None:
        """Do nothing unless it was closed.

        Raises:
            ClosedError: It was.
        """
        if self._closed:
            raise ClosedError("this copier was closed")

    def close(self) -> None:
        """Let the threads end and free the slots; closing again does nothing."""
        with self._lock:
            self._closed = True
            crew, self._crew = self._crew, None
            if crew is not None:
                crew.close()
