"""Pinned slots, and the workers that move pieces through their own."""

from __future__ import annotations

import ctypes
import threading
import weakref
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING

from cudabw.copying.call_rows import NEVER, STATUS, Call, make_calls
from cudabw.copying.staging_jobs import DOWNLOAD, UPLOAD
from cudabw.copying.staging_stores import through_caches
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

_WAIT = "cuStreamSynchronize"
_FOLLOW = "cuStreamWaitEvent"

# One that the CPU is at and one that the device is at.
SLOTS_PER_WORKER = 2


class Slot:
    """Pinned memory that one piece at a time passes through, and a stream for its copies alone.

    Waiting for the stream is then waiting for the slot, without an event. What is done to a piece is one row of calls,
    of libcuda itself, because whoever started the copy holds the device's lock, which most other ways take.

    Args:
        memory: Its bytes.
        stream: As said.
        after: What the copies of every job come after.
    """

    def __init__(self, memory: PinnedBuffer, stream: Stream, after: Event) -> None:
        self._driver = driver = memory.device.driver
        self._address = int(memory.host_pointer)
        self._stream, self._after = stream.handle, after.handle
        self._calls = (Call * 4)()
        self._wait, self._copy, self._follow, self._queue = self._calls
        self._addresses = {name: driver.address_of(name) for name in (_WAIT, _FOLLOW, UPLOAD, DOWNLOAD)}
        self._wait.set(self._addresses[_WAIT], int(stream.handle))
        self._copy.set(0, 0, 0, 0, failure=NEVER)
        self._queue.set(0, 0, 0, 0, int(stream.handle))
        self._make_calls = make_calls()

    def serve(self, direction: str, copy_bytes: int, stop: int) -> None:
        """Get ready for the pieces of one job.

        Args:
            direction: The function that copies between the slot and the device.
            copy_bytes: The address of the function that copies between the slot and the host's memory.
            stop: The address of a word that ends all calls when it is not 0.
        """
        self._names = (_WAIT, "", _FOLLOW, direction)
        self._copy.function = copy_bytes
        self._follow.set(self._addresses[_FOLLOW], int(self._stream), int(self._after), 0)
        self._queue.function = self._addresses[direction]
        self._stop = stop

    def pass_up(self, device: int, host: int, nbytes: int) -> None:
        """Wait for the slot's last copy, fill it from the host's memory, and queue its copy to the device."""
        self._copy.arguments[:3] = self._address, host, nbytes
        self._queue.arguments[:3] = device, self._address, nbytes
        self._make(4)

    def empty(self, host: int, nbytes: int) -> None:
        """Wait for the slot's last copy, and empty it into the host's memory."""
        self._copy.arguments[:3] = host, self._address, nbytes
        self._make(2)

    def empty_and_fill(self, emptied: tuple[int, int], filled: tuple[int, int]) -> None:
        """As :meth:`empty`, and queue a copy from the device; both given by address and number of bytes."""
        self._copy.arguments[:3] = emptied[0], self._address, emptied[1]
        self._queue.arguments[:3] = self._address, *filled
        self._make(4)

    def _make(self, count: int) -> None:
        answer = self._make_calls(ctypes.addressof(self._calls), count, self._stop)
        if answer >> 32:
            self._driver.check(self._names[count - (answer & STATUS)], answer >> 32)
        # Once is enough, but a row has no gaps: from now on this moves nothing.
        self._follow.set(through_caches(), self._address, self._address, 0, failure=NEVER)

    def wait(self) -> None:
        """Hold the caller until the slot's last copy is over, whether or not its job was stopped."""
        self._driver.check(_WAIT, *self._driver.api.cuStreamSynchronize(self._stream))


def make_slots(device: Device, nbytes: int, after: Event, owned: ExitStack) -> list[Slot]:
    """The slots of one worker.

    Args:
        device: Where copies go to or come from.
        nbytes: Length of each.
        after: What the copies of every job come after.
        owned: Releases them.

    Raises:
        RefusedError: The system does not pin so much memory.
        DriverError: The driver failed.
    """
    # Counting pinned memory is not one step, and many workers do it at a time.
    with device.lock:
        memory = owned.enter_context(PinnedBuffer(device, SLOTS_PER_WORKER * nbytes))
    return [
        Slot(memory[start : start + nbytes], owned.enter_context(Stream(device)), after)
        for start in range(0, memory.nbytes, nbytes)
    ]


class Worker:
    """A thread that takes part in the jobs it is given, with slots of its own.

    Args:
        device: Where copies go to or come from.
        slot: Bytes of each slot.
        after: What the copies of every job come after.
        number: Names the thread.

    Attributes:
        jobs: Where it is given them; None lets it end.
        thread: As said.
    """

    def __init__(self, device: Device, slot: int, after: Event, number: int) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._ready: Future[tuple[list[Slot], ExitStack]] = Future()
        arguments = (device, slot, after, self.jobs, self._ready)
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
    after: Event,
    jobs: SimpleQueue[Job | None],
    ready: Future[tuple[list[Slot], ExitStack]],
) -> None:
    """What a worker does: get slots, which are then near the CPU that it runs on, and take part in jobs."""
    try:
        with resources() as owned:
            # This makes the device's context current here, for good.
            slots = make_slots(device, slot, after, owned)
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
            self.workers = [Worker(device, slot, self._after, number) for number in range(workers)]
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
        driver = self.device.driver
        driver.check("cuEventRecord", *driver.api.cuEventRecord(self._after.handle, stream.handle))
        try:
            for worker in workers:
                worker.jobs.put(job)
        except BaseException as error:  # noqa: BLE001 - a signal; raised below
            job.stop(error)
        job.wait()
        for slot in (slot for worker in workers for slot in worker.slots):
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
