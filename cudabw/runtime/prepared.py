"""Launches whose arguments were converted and packed once."""

from __future__ import annotations

import functools
from itertools import repeat
from typing import TYPE_CHECKING

from cudabw.errors import ClosedError
from cudabw.runtime.arguments import flatten
from cudabw.runtime.conversion import separate
from cudabw.runtime.launching import Launcher
from cudabw.runtime.ownership import guard, take, use_again
from cudabw.runtime.refusals import find_closed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from cudabw.runtime.signature import CValue
    from cudabw.runtime.stream import Stream


class PreparedLaunch(functools.partial[None]):
    """A launch to be repeated: its arguments were converted and packed once, and all of them are kept alive.

    Every launch takes ownership of the memory anew. That needs a look at the memory only when the epoch of the
    stream has changed since the last time; see :mod:`cudabw.runtime.ownership`. Memory of other devices, and arrays
    that name a stream, are looked at every time.

    One prepared launch belongs to one thread at a time; different ones may be used from different threads.

    It is a ``partial`` for the sake of its calls, as :class:`~cudabw.runtime.kernels.Kernel` is.

    Args:
        launcher: The kernel, its threads and its stream; used by nobody else, since the packed arguments stay in it.
        values: The converted arguments.
        arguments: What they were converted from.

    Attributes:
        launch: What calling the object does, and faster: for a function the interpreter does not leave its own loop.
        stream: Where it runs.
        holds_host: A launch returns before the kernel has run.
        repeatable: Whether a repetition does the same work is the kernel's business; nothing here changes.
    """

    launch: Callable[[], None]
    stream: Stream
    holds_host = False
    repeatable = True
    _bound: _Bound
    _forget: Callable[[], None]

    def __new__(cls, launcher: Launcher, values: Sequence[CValue], arguments: Sequence[object]) -> Self:
        """Bind the launch, which knows nothing of this object, so that it is freed as soon as nothing refers to it."""
        bound = _Bound(launcher, values, arguments)
        launch, forget = bound.functions()
        prepared = super().__new__(cls, launch)
        prepared.launch, prepared._forget, prepared._bound = launch, forget, bound
        prepared.stream = launcher.stream
        return prepared

    def submit(self, times: int = 1) -> None:
        """Launch a number of times, as a timed batch does; raises as a call does."""
        launch = self.launch
        for _ in repeat(None, times):
            launch()

    def rebind(self, position: int, value: object) -> None:
        """Convert one argument anew, for the launches that follow; those that are queued are not changed.

        Raises:
            IndexError: There is no such argument.
            TypeError: The value is of a wrong class or dtype.
            OverflowError: It is out of the type's range.
        """
        if self._bound.rebind(position, value):
            self._forget()

    def on(self, stream: Stream) -> PreparedLaunch:
        """The same launch on another stream, without converting again.

        Raises:
            ValueError: The stream belongs to another device.
        """
        same, bound = self.launcher, self._bound
        launcher = Launcher(same.function, same.conversion, same.configuration, stream)
        return PreparedLaunch(launcher, bound.values, bound.arguments)

    @property
    def launcher(self) -> Launcher:
        """The stages of this launch; its ``driver_call`` is the launch without any of ours."""
        return self._bound.launcher

    def __repr__(self) -> str:
        return f"<PreparedLaunch of {self.launcher.function.name}>"


class _Bound:
    """What a prepared launch is bound to."""

    __slots__ = ("_call", "_uses", "arguments", "launcher", "values")

    def __init__(self, launcher: Launcher, values: Sequence[CValue], arguments: Sequence[object]) -> None:
        self.launcher = launcher
        self.values = list(values)
        self.arguments = list(arguments)
        # Kept for what the operands in the function are addresses of.
        self._call = launcher.driver_call
        converted = separate(self.values)
        self._uses = converted[1]
        launcher.pack(converted)

    def functions(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """The launch, and what makes it look at the memory again.

        What they need is in the functions themselves, where it is read faster than from an object.
        """
        launcher, stream, lock = self.launcher, self.launcher.stream, self.launcher.stream.device.lock
        entry, operands, recover = launcher.entry, launcher.operands, launcher.recover
        # The epoch in which ownership was taken last, None to take it again; and whether there is any to take.
        epoch: object = None
        unowned = False

        def launch() -> None:
            """Take ownership and launch.

            Raises:
                ClosedError: A buffer, the stream or the module was closed.
                CudabwError: A buffer would have to wait during a capture, or cannot be reached from the device.
                LaunchError: The driver refused the launch.
            """
            nonlocal epoch, unowned
            if unowned and epoch is stream.epoch:
                # Nothing is handed over, so nothing has to be one step with it.
                status = entry(*operands)
                if status:
                    recover(status)
                return
            lock.acquire()
            # Neither a with statement nor kept methods of the lock, which take 70 and 10 ns longer on Python 3.12.
            try:
                if epoch is stream.epoch or take_again():
                    status = entry(*operands)
                    if status:
                        recover(status)
                    return
            finally:
                lock.release()
            epoch, unowned = self._launch_anew()

        def take_again() -> bool:
            nonlocal epoch, unowned
            if not self._take_again():
                return False
            epoch, unowned = stream.epoch, not self._uses
            return True

        def forget() -> None:
            nonlocal epoch
            epoch = None

        return launch, forget

    def _take_again(self) -> bool:
        """The usual case, under the device's own lock: take what the stream had last; whether it was that."""
        self.launcher.function.require_loaded()
        return use_again(self._uses, self.launcher.stream)

    def _launch_anew(self) -> tuple[object, bool]:
        """Take ownership and launch.

        Returns:
            The epoch in which it need not be taken again, None if it must be every time; and whether there is none.
        """
        launcher, stream, uses = self.launcher, self.launcher.stream, self._uses
        device = stream.device
        with guard(device, uses):
            try:
                take(uses, stream, device.waits, reaches=True)
            except ClosedError as error:
                raise find_closed(error, launcher.function.name, self.arguments) from error
            launcher.launch()
            # Only the locks of other devices would tell that their memory changed hands.
            lasting = all(use.repeatable and use.device in (device, None) for use in uses)
            return stream.epoch if lasting else None, not any(use.owned for use in uses)

    def rebind(self, position: int, value: object) -> bool:
        """Convert and pack one argument; whether other memory is reached now."""
        if not 0 <= position < len(self.values):
            name = self.launcher.function.name
            raise IndexError(f"there is no argument {position}: {name} takes {len(self.values)}")
        converted = self.launcher.conversion.one(position, value)
        self.launcher.pack_one(position, converted)
        previous, self.values[position] = self.values[position], converted
        self.arguments[position] = value
        if converted[2] is previous[2]:
            return False
        self._uses = flatten([memory for _, _, memory in self.values])
        return True
