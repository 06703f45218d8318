"""Pinned slots, and the workers that move pieces through their own."""

from __future__ import annotations

import ctypes
import threading
import weakref
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudabw.copying.call_rows import NEVER, STATUS, Semaphore, address_of, make_calls, row
from cudabw.copying.staging_programs import FUNCTIONS, WAIT, Places, cut, program, takers
from cudabw.errors import CudabwError, RefusedError
from cudabw.runtime.event import Event
from cudabw.runtime.memory import PinnedBuffer
from cudabw.runtime.resources import Closing, resources
from cudabw.runtime.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import ExitStack

    from cudabw.copying.call_rows import Calls
    from cudabw.copying.claims import Pieces
    from cudabw.copying.staging_programs import Program, Transfer
    from cudabw.runtime.device import Device

# One that the CPU is at and one that the device is at.
SLOTS_PER_WORKER = 2

# Following earlier work, filling each slot, using them in turn, emptying each.
_MOST_PARTS = 2 + 2 * SLOTS_PER_WORKER


class Slots:
    """The pinned slots of one worker, through each of which one piece at a time passes.

    Each has a stream for its copies alone. Waiting for the stream is then waiting for the slot, without an event.

    Args:
        device: Where copies go to or come from.
        nbytes: Length of each.
        owned: Releases them.

    Attributes:
        addresses: On the host.
        streams: As numbers.

    Raises:
        RefusedError: The system does not pin so much memory.
        DriverError: The driver failed.
    """

    def __init__(self, device: Device, nbytes: int, owned: ExitStack) -> None:
        # Counting pinned memory is not one step, and many workers do it at a time.
        with device.lock:
            memory = owned.enter_context(PinnedBuffer(device, SLOTS_PER_WORKER * nbytes))
        start = int(memory.host_pointer)
        self.addresses = [start + number * nbytes for number in range(SLOTS_PER_WORKER)]
        self.streams = [int(owned.enter_context(Stream(device)).handle) for _ in self.addresses]


class Post:
    """Where a worker is given its programs, one at a time, without the interpreter.

    Attributes:
        dismissed: Whether the worker is to end.
        go: Tells the worker that it has been given a program.
        done: Tells that it has been through with it; shared by all workers.
    """

    def __init__(self, done: Semaphore) -> None:
        self.dismissed = False
        self.go, self.done = Semaphore(), done
        self._make_calls = make_calls()
        self._stop = ctypes.c_uint32(0)
        parts: list[tuple[int, ...]] = [(address_of(self._make_calls),)] * _MOST_PARTS
        self._turn = row(self.go.wait, *parts, self.done.post)
        self._turn["failure"][1:] = NEVER

    def give(self, program: Program, stop: int) -> None:
        """Put a program here, to be gone through each time ``go`` is posted.

        Args:
            program: As said; kept alive by the caller.
            stop: The address of a word that ends it when it is not 0.
        """
        parts = [(calls.ctypes.data, len(calls), stop, again) for calls, again in program.parts]
        self._turn["arguments"][1:-1] = 0
        self._turn["arguments"][1 : 1 + len(parts)] = parts

    @property
    def answers(self) -> list[int]:
        """What became of each part of the program, as ``make_calls`` answers."""
        return [int(answer) for answer in self._turn["answer"][1:-1]]

    def serve(self) -> None:
        """Go through programs until dismissed."""
        while True:
            self._make_calls(self._turn.ctypes.data, len(self._turn), ctypes.addressof(self._stop), 1)
            # A signal has ended the waiting, or it was dismissed: which sets the word after the flag.
            self._stop.value = 0
            if self.dismissed:
                return

    def dismiss(self) -> None:
        """Let the worker end."""
        self.dismissed = True
        self._stop.value = 1
        function, address = self.go.post
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(function)(address)


class Worker:
    """A thread that goes through the programs it is given, with slots of its own.

    Args:
        device: Where copies go to or come from.
        slot: Bytes of each slot.
        number: Names the thread.
        done: Told of each program that the worker has been through with.

    Attributes:
        post: Where it is given them.
        thread: As said.
        slots: As said.
    """

    def __init__(self, device: Device, slot: int, number: int, done: Semaphore) -> None:
        self.post = Post(done)
        self._ready: Future[tuple[Slots, ExitStack]] = Future()
        arguments = (device, slot, self.post, self._ready)
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


def _serve(device: Device, slot: int, post: Post, ready: Future[tuple[Slots, ExitStack]]) -> None:
    """What a worker does: get slots, which are then near the CPU that it runs on, and go through programs."""
    try:
        with resources() as owned:
            # This makes the device's context current here, for good.
            slots = Slots(device, slot, owned)
            ready.set_result((slots, owned.pop_all()))
    except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for the slots
        ready.set_exception(error)
        return
    post.serve()


@dataclass(frozen=True, slots=True)
class _Order:
    """The calls of one copy.

    Attributes:
        transfer: The copy.
        pieces: Which the workers share.
        programs: What each worker does, as it has been given.
        meeting: Lets the workers begin, and waits until all are through.
        settling: Waits until nothing of any slot is under way.
    """

    transfer: Transfer
    pieces: Pieces
    programs: Sequence[Program]
    meeting: Calls
    settling: Calls


class Crew(Closing):
    """Workers that wait for copies to take part in.

    A crew that nobody refers to any more lets its threads end.

    Args:
        device: Where copies go to or come from.
        workers: How many.
        slot: Bytes of each slot.

    Raises:
        RefusedError: The system does not pin so much memory, or start so many threads; nothing is left behind.
        DriverError: The driver failed; nothing is left behind.
    """

    def __init__(self, device: Device, workers: int, slot: int) -> None:
        self.device = device
        self._functions = {name: device.driver.address_of(name) for name in FUNCTIONS}
        self._done = Semaphore()
        self._stop = ctypes.c_uint32(0)
        self._latest: _Order | None = None
        with resources() as owned:
            self._after = owned.enter_context(Event(device, timing=False))
            self.workers, missing = self._start(workers, slot)
            self._dismiss = weakref.finalize(self, _dismiss, [worker.post for worker in self.workers])
            refusals = [missing, *(worker.hand_over(owned) for worker in self.workers)]
            owned.callback(self._end_threads, self._dismiss, [worker.thread for worker in self.workers])
            for refusal in filter(None, refusals):
                raise refusal
            self._owned = owned.pop_all()

    def _start(self, count: int, slot: int) -> tuple[list[Worker], RefusedError | None]:
        """Start so many workers; returns those that could be, and why there are no more."""
        workers: list[Worker] = []
        for number in range(count):
            try:
                workers.append(Worker(self.device, slot, number, self._done))
            except RuntimeError:  # what threading makes of a limit on processes
                why = f"the system let this process start only {number} of {count} threads to stage copies"
                return workers, RefusedError(why, hint="Raise the limit on processes, or ask for fewer threads.")
        return workers, None

    def run(self, transfer: Transfer, stream: Stream) -> None:
        """Copy, after all work of a stream that has been queued so far, and hold the caller until it is done.

        The device's context is current on the calling thread.

        Raises:
            BaseException: The first error of any worker, or of a signal. All workers have stopped and the slots
                are ready for another copy.
        """
        order = self._order(transfer)
        order.pieces.put_back()
        self._stop.value = 0
        self.device.call("cuEventRecord", self._after.handle, stream.handle)
        errors = self._wait(order.meeting)
        if self._stop.value:
            for worker, program in zip(self.workers, order.programs, strict=False):
                for answer, (calls, _) in zip(worker.post.answers, program.parts, strict=False):
                    errors += self._errors(answer, calls)
        errors += self._make(order.settling)
        if errors:
            raise errors[0]

    def _order(self, transfer: Transfer) -> _Order:
        """Who makes which calls; kept for when the same copy is done again."""
        if self._latest is None or self._latest.transfer != transfer:
            # None while programs are being given: what a signal leaves half done is not taken for an order.
            self._latest = None
            self._latest = self._give(transfer)
        return self._latest

    def _give(self, transfer: Transfer) -> _Order:
        """Give those workers that take part their programs."""
        workers = self.workers[: takers(transfer)]
        pieces = cut(transfer, len(workers))
        after = int(self._after.handle)
        places = [Places(worker.slots.addresses, worker.slots.streams, after) for worker in workers]
        programs = [program(transfer, pieces, place, self._functions) for place in places]
        for worker, given in zip(workers, programs, strict=True):
            worker.post.give(given, ctypes.addressof(self._stop))
        return _Order(
            transfer,
            pieces,
            programs,
            row(*(worker.post.go.post for worker in workers), *[self._done.wait] * len(workers)),
            row(*((self._functions[WAIT], stream) for place in places for stream in place.streams)),
        )

    def _wait(self, meeting: Calls) -> list[BaseException]:
        """Let the workers begin, and wait until all are through; returns what signals raised meanwhile."""
        errors: list[BaseException] = []
        # What has not been made then looks like what a signal has ended, and is known even if that raises.
        meeting["answer"] = STATUS
        while True:
            # Of several signals the second may raise while what the first has raised is being noted. Nothing is
            # called there: after a call the interpreter would look for signals.
            try:
                while True:
                    try:
                        _meet(meeting)
                    except BaseException as error:  # noqa: BLE001 - raised when nobody touches the memory any more
                        self._stop.value = 1
                        errors = [*errors, error]
                    else:
                        return errors
            except BaseException as error:  # noqa: BLE001 - see above
                self._stop.value = 1
                errors = [*errors, error]

    def _make(self, calls: Calls) -> list[BaseException]:
        """Make all calls whatever becomes of each; returns the failures."""
        errors = []
        while len(calls):
            word = ctypes.c_uint32(0)
            answer = make_calls()(calls.ctypes.data, len(calls), ctypes.addressof(word), 0)
            errors += self._errors(answer, calls)
            calls = calls[len(calls) - (answer & STATUS) + 1 :] if answer else calls[:0]
        return errors

    def _errors(self, answer: int, calls: Calls) -> list[BaseException]:
        """The failure that an answer tells of, if it does."""
        status = answer >> 32
        if not status:
            return []
        failed = int(calls["function"][len(calls) - (answer & STATUS)])
        name = next(name for name, address in self._functions.items() if address == failed)
        try:
            self.device.driver.check(name, status)
        except CudabwError as error:
            return [error]
        return []

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


def _meet(meeting: Calls) -> None:
    """Make the calls that have not been made or that a signal has ended, until none is left."""
    while (left := meeting["answer"] & STATUS != 0).any():
        calls, word = meeting[int(left.argmax()) :], ctypes.c_uint32(0)
        make_calls()(calls.ctypes.data, len(calls), ctypes.addressof(word), 0)


def _dismiss(posts: Iterable[Post]) -> None:
    for post in posts:
        post.dismiss()
