"""Pinned slots, and the workers that move pieces through their own."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from cudabw.errors import CudabwError
from cudabw.runtime.event import Event
from cudabw.runtime.memory import PinnedBuffer
from cudabw.runtime.resources import resources
from cudabw.runtime.stream import Stream

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
    """Pinned memory that one piece at a time passes through, and a stream for its copies alone.

    Waiting for the stream is then waiting for the slot, without an event: each call that is saved is one less wait for
    the interpreter's lock. The driver is called directly, because whoever started the copy holds the device's lock,
    which most other ways take.

    Args:
        memory: Its bytes.
        stream: As said.

    Attributes:
        address: On the host.
    """

    def __init__(self, memory: PinnedBuffer, stream: Stream) -> None:
        driver = memory.device.driver
        self.address = int(memory.host_pointer)
        self._check = driver.check
        self._api = driver.api
        self._stream = stream.handle

    def follow(self, event: Event) -> None:
        """Let the slot's copies come after an event."""
        self._require("cuStreamWaitEvent", self._api.cuStreamWaitEvent(self._stream, event.handle, 0))

    def wait(self) -> None:
        """Hold the caller until the slot's last copy is over."""
        self._require("cuStreamSynchronize", self._api.cuStreamSynchronize(self._stream))

    def empty_into(self, device_address: int, nbytes: int) -> None:
        """Queue a copy from the slot."""
        to = self._api.CUdeviceptr(device_address)
        self._require("cuMemcpyHtoDAsync", self._api.cuMemcpyHtoDAsync(to, self.address, nbytes, self._stream))

    def fill_from(self, device_address: int, nbytes: int) -> None:
        """Queue a copy into the slot."""
        frm = self._api.CUdeviceptr(device_address)
        self._require("cuMemcpyDtoHAsync", self._api.cuMemcpyDtoHAsync(self.address, frm, nbytes, self._stream))

    def _require(self, function: str, answer: tuple[Any]) -> None:
        if answer[0]:
            self._check(function, answer[0])


def make_slots(device: Device, nbytes: int, owned: ExitStack) -> list[Slot]:
    """The slots of one worker.

    Args:
        device: Where copies go to or come from.
        nbytes: Length of each.
        owned: Releases them.

    Raises:
        RefusedError: The system does not pin so much memory.
        DriverError: The driver failed.
    """
    # Counting pinned memory is not one step, and many workers do it at a time.
    with device.lock:
        memory = owned.enter_context(PinnedBuffer(device, SLOTS_PER_WORKER * nbytes))
    return [
        Slot(memory[start : start + nbytes], owned.enter_context(Stream(device)))
        for start in range(0, memory.nbytes, nbytes)
    ]


class Worker:
    """A thread that takes part in the jobs it is given, with slots of its own.

    Args:
        device: Where copies go to or come from.
        slot: Bytes of each slot.
        number: Names the thread.

    Attributes:
        jobs: Where it is given them; None lets it end.
        thread: As said.
    """

    def __init__(self, device: Device, slot: int, number: int) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._ready: Future[tuple[list[Slot], ExitStack]] = Future()
        arguments = (device, slot, self.jobs, self._ready)
        # A program that forgets to close must still be able to end.
        self.thread = threading.Thread(target=_serve, args=arguments, name=f"cudabw-staging-{number}", daemon=True)
        self.thread.start()

    def hand_over(self, owned: ExitStack) -> Exception | None:
        """Wait for the slots, and let them be released by ``owned``; returns why there are none."""
        try:
            self.slots, mine = self._ready.result()
        except Exception as error:  # noqa: BLE001 - raised when all workers have been asked
            return error
        owned.push(mine)
        return None


def _serve(
    device: Device,
    slot: int,
    jobs: SimpleQueue[Job | None],
    ready: Future[tuple[list[Slot], ExitStack]],
) -> None:
    """What a worker does: get slots, which are then near the CPU that it runs on, and take part in jobs."""
    try:
        with resources() as owned:
            # This makes the device's context current here, for good.
            slots = make_slots(device, slot, owned)
            ready.set_result((slots, owned.pop_all()))
    except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for the slots
        ready.set_exception(error)
        return
    while (job := jobs.get()) is not None:
        job.work(slots)
        # What the job holds is not to be kept until the next one.
        del job


class Crew:
    """Workers that wait for copies to take part in.

    A crew that nobody refers to any more lets its threads end.

    Args:
        device: Where copies go to or come from.
        workers: How many.
        slot: Bytes of each slot.

    Raises:
        RefusedError: The system does not pin so much memory; nothing is left behind.
        DriverError: The driver failed; nothing is left behind.
    """

    def __init__(self, device: Device, workers: int, slot: int) -> None:
        self.device = device
        with resources() as owned:
            self._after = owned.enter_context(Event(device, timing=False))
            self.workers = [Worker(device, slot, number) for number in range(workers)]
            self._dismiss = weakref.finalize(self, _dismiss, [worker.jobs for worker in self.workers])
            refusals = [worker.hand_over(owned) for worker in self.workers]
            owned.callback(self._end_threads, self._dismiss, [worker.thread for worker in self.workers])
            for refusal in filter(None, refusals):
                raise refusal
            self._owned = owned.pop_all()

    def run(self, job: Job, stream: Stream) -> None:
        """Do a job, after all work of a stream that has been queued so far, and hold the caller until it is done.

        The device's context is current on the calling thread.

        Raises:
            BaseException: The first error of any worker, or of a signal. All workers have stopped and the slots
                are ready for another job.
        """
        workers = self.workers[: min(job.transfer.workers, len(job.transfer.pieces))]
        slots = [slot for worker in workers for slot in worker.slots]
        driver = self.device.driver
        driver.check("cuEventRecord", *driver.api.cuEventRecord(self._after.handle, stream.handle))
        # Here rather than in the workers, which would queue for the interpreter's lock.
        for slot in slots:
            slot.follow(self._after)
        try:
            for worker in workers:
                worker.jobs.put(job)
        except BaseException as error:  # noqa: BLE001 - a signal; raised below
            job.stop(error)
        job.wait()
        for slot in slots:
            try:
                slot.wait()
            except CudabwError as error:
                job.errors.append(error)
        if job.errors:
            raise job.errors[0]

    def close(self) -> None:
        """Let the threads end and free the slots; closing again does nothing."""
        if self.device.closed:  # which took slots and streams along
            self._owned.pop_all()
            self._end_threads(self._dismiss, [worker.thread for worker in self.workers])
        self._owned.close()

    @staticmethod
    def _end_threads(dismiss: Callable[[], object], threads: Iterable[threading.Thread]) -> None:
        dismiss()
        for thread in threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _dismiss(queues: Iterable[SimpleQueue[Job | None]]) -> None:
    for jobs in queues:
        jobs.put(None)
