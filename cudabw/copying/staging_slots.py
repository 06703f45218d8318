"""Pinned slots, and the workers that move pieces through their own."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from cudabw.errors import CudabwError
from cudabw.runtime.memory import PinnedBuffer
from cudabw.runtime.resources import resources
from cudabw.runtime.stream import Event, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import ExitStack
    from types import TracebackType
    from typing import Self

    from cudabw.copying.staging_jobs import Job
    from cudabw.runtime.device import Device

# One that the CPU is at and one that the device is at.
SLOTS_PER_WORKER = 2


class Slot:
    """Pinned memory that one piece at a time passes through.

    Workers call the driver directly, with the context that :meth:`Bay.enter` made current: whoever started the
    copy holds the device's lock, which most other ways take.

    Args:
        memory: Its bytes.
        stream: Of the worker that it belongs to.
        event: Marks the end of the slot's last copy.

    Attributes:
        address: On the host.
    """

    def __init__(self, memory: PinnedBuffer, stream: Stream, event: Event) -> None:
        driver = memory.device.driver
        self.address = int(memory.host_pointer)
        self._check = driver.check
        self._api = driver.api
        self._stream = stream.handle
        self._event = event.handle

    def wait(self) -> None:
        """Hold the worker until the slot's last copy is over."""
        self._require("cuEventSynchronize", self._api.cuEventSynchronize(self._event))

    def empty_into(self, device_address: int, nbytes: int) -> None:
        """Queue a copy from the slot."""
        to = self._api.CUdeviceptr(device_address)
        self._require("cuMemcpyHtoDAsync", self._api.cuMemcpyHtoDAsync(to, self.address, nbytes, self._stream))
        self._require("cuEventRecord", self._api.cuEventRecord(self._event, self._stream))

    def fill_from(self, device_address: int, nbytes: int) -> None:
        """Queue a copy into the slot."""
        frm = self._api.CUdeviceptr(device_address)
        self._require("cuMemcpyDtoHAsync", self._api.cuMemcpyDtoHAsync(self.address, frm, nbytes, self._stream))
        self._require("cuEventRecord", self._api.cuEventRecord(self._event, self._stream))

    def _require(self, function: str, answer: tuple[Any]) -> None:
        if answer[0]:
            self._check(function, answer[0])


class Bay:
    """What one worker owns: a stream, and slots with an event each.

    Args:
        device: Where copies go to or come from.
        nbytes: Length of a slot.
        owned: Releases it all.

    Raises:
        RefusedError: The system does not pin so much memory.
        DriverError: The driver failed.
    """

    def __init__(self, device: Device, nbytes: int, owned: ExitStack) -> None:
        self._device = device
        self.stream = owned.enter_context(Stream(device))
        # Counting pinned memory is not one step, and many workers do it at a time.
        with device.lock:
            memory = owned.enter_context(PinnedBuffer(device, SLOTS_PER_WORKER * nbytes))
        self.slots = tuple(
            Slot(memory[start : start + nbytes], self.stream, owned.enter_context(Event(device, timing=False)))
            for start in range(0, memory.nbytes, nbytes)
        )

    def enter(self, after: Event) -> None:
        """Let this thread use the slots, in copies that wait for an event."""
        self._device.activate()
        driver = self._device.driver
        driver.check("cuStreamWaitEvent", *driver.api.cuStreamWaitEvent(self.stream.handle, after.handle, 0))

    def drain(self) -> None:
        """Hold the caller until nothing uses the slots."""
        driver = self._device.driver
        driver.check("cuStreamSynchronize", *driver.api.cuStreamSynchronize(self.stream.handle))


_Ticket: TypeAlias = "tuple[Job, Event] | None"


class Crew:
    """Worker threads that wait for copies to take part in, each with slots of its own.

    A crew that nobody refers to any more lets its threads end.

    Args:
        device: Where copies go to or come from.
        workers: How many threads.
        slot: Bytes of each slot.

    Raises:
        RefusedError: The system does not pin so much memory; nothing is left behind.
        DriverError: The driver failed; nothing is left behind.
    """

    def __init__(self, device: Device, workers: int, slot: int) -> None:
        self.device = device
        self.workers = workers
        self.slot = slot
        self._tickets: SimpleQueue[_Ticket] = SimpleQueue()
        self._dismiss = weakref.finalize(self, _dismiss, self._tickets, workers)
        with resources() as owned:
            self._after = owned.enter_context(Event(device, timing=False))
            ready: list[Future[ExitStack]] = [Future() for _ in range(workers)]
            self._threads = [self._start(future, number) for number, future in enumerate(ready)]
            wait(ready)
            for future in ready:
                if future.exception() is None:
                    owned.push(future.result())
            owned.callback(_end, self._dismiss, self._threads)
            for future in ready:
                future.result()
            self._owned = owned.pop_all()

    def _start(self, ready: Future[ExitStack], number: int) -> threading.Thread:
        arguments = (self.device, self.slot, self._tickets, ready)
        # A program that forgets to close must still be able to end.
        thread = threading.Thread(target=_serve, args=arguments, name=f"cudabw-staging-{number}", daemon=True)
        thread.start()
        return thread

    def run(self, job: Job, stream: Stream) -> None:
        """Do a job, after all work of a stream that has been queued so far, and hold the caller until it is done.

        The device's context is current on the calling thread.

        Raises:
            BaseException: The first error of any worker, or of a signal. All workers have stopped and the slots
                are ready for another job.
        """
        driver = self.device.driver
        driver.check("cuEventRecord", *driver.api.cuEventRecord(self._after.handle, stream.handle))
        try:
            for _ in range(min(self.workers, job.transfer.workers)):
                self._tickets.put((job, self._after))
        except BaseException as error:  # noqa: BLE001 - a signal; raised below
            job.stop(error)
        job.wait()
        for bay in job.bays:
            try:
                bay.drain()
            except CudabwError as error:
                job.errors.append(error)
        if job.errors:
            raise job.errors[0]

    def close(self) -> None:
        """Let the threads end and free the slots; closing again does nothing."""
        if self.device.closed:  # which took slots, streams and events along
            self._owned.pop_all()
            _end(self._dismiss, self._threads)
        self._owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _serve(device: Device, slot: int, tickets: SimpleQueue[_Ticket], ready: Future[ExitStack]) -> None:
    """What a worker does: get slots, which are then near the CPU that it runs on, and take part in jobs."""
    try:
        with resources() as owned:
            bay = Bay(device, slot, owned)
            ready.set_result(owned.pop_all())
    except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for the slots
        ready.set_exception(error)
        return
    while (ticket := tickets.get()) is not None:
        job, after = ticket
        job.work(bay, after)
        # What the job holds is not to be kept until the next one.
        del job, ticket


def _end(dismiss: Callable[[], object], threads: Iterable[threading.Thread]) -> None:
    dismiss()
    for thread in threads:
        thread.join()


def _dismiss(tickets: SimpleQueue[_Ticket], workers: int) -> None:
    for _ in range(workers):
        tickets.put(None)
