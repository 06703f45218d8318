"""Launches whose arguments were converted and packed once."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from cudabw.errors import ClosedError
from cudabw.runtime.arguments import flatten
from cudabw.runtime.launching import Launcher, find_closed, separate
from cudabw.runtime.ownership import guard, take

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabw.runtime.launching import Arguments
    from cudabw.runtime.ownership import Use
    from cudabw.runtime.signature import CValue
    from cudabw.runtime.stream import Stream


class PreparedLaunch:
    """A launch to be repeated: its arguments were converted and packed once, and all of them are kept alive.

    Every launch takes ownership of the memory anew. That needs a look at the memory only when the epoch of the
    stream has changed since the last time; see :mod:`cudabw.runtime.ownership`. Memory of other devices, and arrays
    that name a stream, are looked at every time.

    One prepared launch belongs to one thread at a time; different ones may be used from different threads.

    Args:
        launcher: The kernel, its threads and its stream; used by nobody else, since the packed arguments stay in it.
        values: The converted arguments.
        arguments: What they were converted from.

    Attributes:
        stream: Where it runs.
        holds_host: A launch returns before the kernel has run.
        repeatable: Whether a repetition does the same work is the kernel's business; nothing here changes.
    """

    __slots__ = ("_arguments", "_call", "_epoch", "_launcher", "_lock", "_unowned", "_uses", "_values", "stream")
    holds_host = False
    repeatable = True

    def __init__(self, launcher: Launcher, values: Sequence[CValue], arguments: Sequence[object]) -> None:
        self._launcher = launcher
        self._call = launcher.driver_call
        self._values = list(values)
        self._arguments = list(arguments)
        self.stream = launcher.stream
        launcher.pack(self._look_at_all())

    def _look_at_all(self) -> Arguments:
        arguments = separate(self._values)
        self._uses: Sequence[Use] = flatten(arguments[1])
        self._lock = guard(self.stream.device, self._uses)
        # The epoch in which ownership was taken last; None to take it again.
        self._epoch: object = None
        self._unowned = False
        return arguments

    def launch(self) -> None:
        """Take ownership and launch: what calling the object does, and 0.1 us faster.

        The interpreter runs a method in its own loop, while it leaves the loop to call an object of a class.

        Raises:
            ClosedError: A buffer, the stream or the module was closed.
            CudabwError: A buffer would have to wait during a capture, or cannot be reached from the device.
            LaunchError: The driver refused the launch.
        """
        if self._unowned and self._epoch is self.stream.epoch:
            # Nothing is handed over, so nothing has to be one step with it.
            status = self._call()
            if status:
                self._launcher.recover(status)
            return
        lock = self._lock
        lock.acquire()
        # Not a with statement: on Python 3.12 it takes 70 ns longer.
        try:
            if self._epoch is not self.stream.epoch:
                self._take()
            status = self._call()
            if status:
                self._launcher.recover(status)
        finally:
            lock.release()

    __call__ = launch

    def submit(self, times: int = 1) -> None:
        """Launch a number of times, as a timed batch does; raises as a call does."""
        launch = self.launch
        for _ in repeat(None, times):
            launch()

    def _take(self) -> None:
        self._launcher.function.require_loaded()
        stream, device = self.stream, self.stream.device
        try:
            take(self._uses, stream, device.waits, reaches=True)
        except ClosedError as error:
            raise find_closed(error, self._launcher.function.name, self._arguments) from error
        # Only the locks of other devices would tell that their memory changed hands.
        lasting = all(use.repeatable and use.device in (device, None) for use in self._uses)
        self._unowned = not any(use.owned for use in self._uses)
        self._epoch = stream.epoch if lasting else None

    def rebind(self, position: int, value: object) -> None:
        """Convert one argument anew, for the launches that follow; those that are queued are not changed.

        Raises:
            IndexError: There is no such argument.
            TypeError: The value is of a wrong class or dtype.
            OverflowError: It is out of the type's range.
        """
        if not 0 <= position < len(self._values):
            raise IndexError(
                f"there is no argument {position}: {self._launcher.function.name} takes {len(self._values)}"
            )
        converted = self._launcher.convert_one(position, value)
        previous, self._values[position] = self._values[position], converted
        self._arguments[position] = value
        self._launcher.pack_one(position, converted)
        if converted[2] is not previous[2]:
            self._look_at_all()

    def on(self, stream: Stream) -> PreparedLaunch:
        """The same launch on another stream, without converting again.

        Raises:
            ValueError: The stream belongs to another device.
        """
        launcher = Launcher(self._launcher.function, self._launcher.types, self._launcher.configuration, stream)
        return PreparedLaunch(launcher, self._values, self._arguments)

    @property
    def launcher(self) -> Launcher:
        """The stages of this launch; its ``driver_call`` is the launch without any of ours."""
        return self._launcher
