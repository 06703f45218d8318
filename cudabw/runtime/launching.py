"""Launches in their stages: convert the arguments, take ownership, pack, and call the driver.

Parameters are passed to ``cuLaunchKernelEx`` as the address of a kept array of pointers into a kept block of bytes,
with a kept configuration: so all that the call takes is bound once, and a launch only writes into the block.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import TYPE_CHECKING, Any, TypeAlias

from cudabw.errors import ClosedError, CudabwError, DriverError, MemorySideError
from cudabw.runtime.arguments import convert, fit, flatten, stores_c_value
from cudabw.runtime.buffer import Buffer
from cudabw.runtime.ownership import guard, take, use_again
from cudabw.runtime.signature import CType, CValue, layout, offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudabw.runtime.configuration import Configuration
    from cudabw.runtime.function import Function
    from cudabw.runtime.ownership import Use
    from cudabw.runtime.stream import Stream

Memories: TypeAlias = "list[Use | tuple[Use, ...] | None]"
"""What memory each argument lets the kernel reach."""

Arguments: TypeAlias = "tuple[list[Any], Memories]"
"""The converted arguments of a launch, never changed: what ``struct`` packs for each, and the memory it reaches."""


def separate(values: Sequence[CValue]) -> Arguments:
    """Typed values as the arguments of a launch."""
    return [value for _, value, _ in values], [memory for _, _, memory in values]


# What conversion raises, and is said with the position of the argument.
CONVERSION_ERRORS = (MemorySideError, ClosedError, TypeError, ValueError, OverflowError)

# How the driver refuses a launch from a thread that has no context, or another device's, before anything is queued.
_WRONG_CONTEXT = frozenset({201, 400, 709})


class LaunchError(DriverError):
    """The driver refused a launch; the message has what was asked for and the limits."""

    def __init__(self, kernel: str, error: DriverError, circumstances: str) -> None:
        super().__init__(error.function, error.code, error.name, hint=error.hint)
        self.message = f"launching {kernel} failed with {error.name} ({error.code}): {circumstances}"
        self.args = (self.message,)


class Launcher:
    """A kernel with its signature, threads and stream: all of a launch but its arguments.

    Calling it does what the stages do one after the other. Each can be called alone, to be timed: :meth:`convert`,
    :meth:`own`, :meth:`pack` and :meth:`launch`.

    Args:
        function: The loaded kernel.
        types: Its signature.
        configuration: Blocks and threads.
        stream: Where it runs.

    Attributes:
        driver_call: The bare call to the driver with what was packed last; takes nothing and returns the status.

    Raises:
        ClosedError: The module or the stream was closed.
        ValueError: The stream belongs to another device.
    """

    def __init__(
        self, function: Function, types: tuple[CType, ...], configuration: Configuration, stream: Stream
    ) -> None:
        function.require_loaded()
        stream.require_open()
        if stream.device is not function.device:
            raise ValueError(
                f"{function.name} is loaded on device {function.device.ordinal}, and the stream is one of device "
                f"{stream.device.ordinal}"
            )
        self.function = function
        self.types = types
        self.configuration = configuration
        self.stream = stream
        self._device = stream.device
        self._lock = stream.device.lock
        self._conversions = stream.device.conversions
        # The converter of each class that was met: looking it up in the open hook costs more than converting.
        self._converters: dict[type, Callable[[Any], CValue]] = {}
        # The classes whose objects need not even be asked; see stores_c_value.
        self._stored: set[type] = set()
        # What a launch took last, and the epoch of the stream for which that lasts; None to take it again.
        self._taken: Memories = []
        self._epoch: object = None
        self._offsets = offsets(types)
        code, size = layout(types)
        self._block = bytearray(size)
        self._write = functools.partial(struct.Struct(f"<{code}").pack_into, self._block, 0)
        self.driver_call: Callable[[], int] = self._bind_driver_call()
        function.launchers.add(self)

    def _bind_driver_call(self) -> functools.partial[int]:
        pointers, address = _pointers_into(self._block, self._offsets)
        config = self.configuration.for_driver(self.stream)
        call = self._device.driver.bind_launch(config, self.function.handle, address)
        # An address keeps nothing alive, and the call may outlive the launcher.
        call.__dict__["pointers"] = pointers
        return call

    def __call__(self, *args: object) -> None:
        """Convert the arguments and launch.

        Raises:
            TypeError: There are too many or too few arguments, or one is of a wrong class or dtype.
            OverflowError: An argument is out of its type's range.
            ClosedError: A buffer, the stream or the module was closed.
            CudabwError: A buffer would have to wait during a capture, or cannot be reached from the device.
            LaunchError: The driver refused the launch.
        """
        self.launch_with(args)

    def launch_with(self, args: Sequence[object]) -> None:
        """As a call. :meth:`convert` and :meth:`submit` in one: calling them takes 0.08 of the 1.2 us of all that."""
        converters, stored, types = self._converters, self._stored, self.types
        count = len(args)
        if count != len(types):
            raise wrong_count(self.function.name, len(types), count)
        values: list[Any] = [None] * count
        memories: Memories = values.copy()
        position = 0
        try:
            for argument in args:
                kind = type(argument)
                if kind in stored:
                    ctype, values[position], memories[position] = argument._c_value  # type: ignore[attr-defined] # noqa: SLF001
                else:
                    ctype, values[position], memories[position] = converters[kind](argument)
                if ctype is not types[position]:
                    converted = ctype, values[position], memories[position]
                    _, values[position], memories[position] = fit(converted, types[position])
                position += 1
        except KeyError:
            if not self._learn(args):
                raise
            return self.launch_with(args)
        except CONVERSION_ERRORS as error:
            raise located(error, self.function.name, position) from error
        self._conversions.arguments += count
        lock = self._lock
        lock.acquire()
        try:
            if (self._epoch is self.stream.epoch and memories == self._taken) or self._take_again(memories):
                self._write(*values)
                status = self.driver_call()
                if status:
                    self.recover(status)
                return None
        finally:
            lock.release()
        try:
            return self._submit_anew((values, memories))
        except ClosedError as error:
            raise find_closed(error, self.function.name, args) from error

    def submit(self, arguments: Arguments) -> None:
        """Launch with arguments that were converted before: take ownership, pack, call the driver."""
        values, memories = arguments
        lock = self._lock
        lock.acquire()
        # Not a with statement, which takes twice as long.
        try:
            if (self._epoch is self.stream.epoch and memories == self._taken) or self._take_again(memories):
                self._write(*values)
                status = self.driver_call()
                if status:
                    self.recover(status)
                return
        finally:
            lock.release()
        self._submit_anew(arguments)

    def _submit_anew(self, arguments: Arguments) -> None:
        _, memories = arguments
        uses = flatten(memories)
        with guard(self._device, uses):
            self._take(memories, uses)
            self.pack(arguments)
            self.launch()

    def _take_again(self, memories: Memories) -> bool:
        """The usual case of :meth:`_take`, under the device's own lock; whether it was that."""
        if not use_again(flatten(memories), self.stream):
            return False
        self._taken, self._epoch = memories, self.stream.epoch
        return True

    def _take(self, memories: Memories, uses: Sequence[Use]) -> None:
        stream, device = self.stream, self._device
        take(uses, stream, device.waits, reaches=True)
        # As for prepared launches, see there; but what a foreign array is wrapped in is new at each conversion.
        lasting = stream.runs_in is stream.epoch and all(use.device is device for use in uses)
        self._taken, self._epoch = (memories, stream.epoch) if lasting else ([], None)

    def convert(self, args: Sequence[object]) -> Arguments:
        """Convert arguments to the types of the signature; counts each of them."""
        converters, stored, types = self._converters, self._stored, self.types
        count = len(args)
        if count != len(types):
            raise wrong_count(self.function.name, len(types), count)
        values: list[Any] = [None] * count
        memories: Memories = values.copy()
        position = 0
        # Typed values are taken apart as they come, into lists that have their length: appending takes half as long
        # again, a list of typed values would only be gone through again, and enumerate makes a tuple for each.
        try:
            for argument in args:
                kind = type(argument)
                if kind in stored:
                    ctype, values[position], memories[position] = argument._c_value  # type: ignore[attr-defined] # noqa: SLF001
                else:
                    ctype, values[position], memories[position] = converters[kind](argument)
                if ctype is not types[position]:
                    converted = ctype, values[position], memories[position]
                    _, values[position], memories[position] = fit(converted, types[position])
                position += 1
        except KeyError:
            if not self._learn(args):
                raise
            return self.convert(args)
        except CONVERSION_ERRORS as error:
            raise located(error, self.function.name, position) from error
        self._conversions.arguments += count
        return values, memories

    def _learn(self, args: Sequence[object]) -> bool:
        """Find the converters of classes that were not met before; whether there was one."""
        # Not a dict with __missing__: the interpreter has a faster way only for looking into a plain one.
        kinds = {type(argument) for argument in args} - self._converters.keys()
        for kind in kinds:
            self._converters[kind] = convert.dispatch(kind)
            if stores_c_value(kind):
                self._stored.add(kind)
        return bool(kinds)

    def convert_one(self, position: int, argument: object) -> CValue:
        """Convert one argument to the type of the signature; counts it."""
        try:
            value = fit(convert(argument), self.types[position])
        except CONVERSION_ERRORS as error:
            raise located(error, self.function.name, position) from error
        self._device.conversions.arguments += 1
        return value

    def own(self, arguments: Arguments) -> None:
        """Take ownership of what converted arguments reach, as a launch does first."""
        _, memories = arguments
        lock = self._lock
        lock.acquire()
        try:
            if (self._epoch is self.stream.epoch and memories == self._taken) or self._take_again(memories):
                return
        finally:
            lock.release()
        uses = flatten(memories)
        with guard(self._device, uses):
            self._take(memories, uses)

    def pack(self, arguments: Arguments) -> None:
        """Write converted arguments where the driver reads them."""
        self._write(*arguments[0])

    def pack_one(self, position: int, value: CValue) -> None:
        """As :meth:`pack`, for one argument."""
        struct.pack_into(f"<{value[0].code}", self._block, self._offsets[position], value[1])

    def launch(self) -> None:
        """Call the driver with what was packed last.

        Raises:
            LaunchError: The driver refused the launch.
        """
        status = self.driver_call()
        if status:
            self.recover(status)

    def recover(self, status: int) -> None:
        """Launch again where the thread only lacked the device's context.

        Making the context current before every launch would cost as much as the rest of ours.

        Raises:
            LaunchError: The driver refused the launch for another reason, or again.
        """
        if status in _WRONG_CONTEXT:
            self._device.activate()
            status = self.driver_call()
        try:
            self._device.driver.check("cuLaunchKernelEx", status)
        except DriverError as error:
            raise LaunchError(self.function.name, error, self._circumstances()) from error

    def _circumstances(self) -> str:
        asked, function = self.configuration, self.function
        x, y, z = asked.block
        return (
            f"grid {asked.grid}, at most {function.limits.grid}; block {asked.block}, at most {function.limits.block}, "
            f"{x * y * z} threads, at most {function.max_threads} with this kernel's {function.registers} registers a "
            f"thread; {asked.shared_bytes} bytes of dynamic and {function.shared_bytes} of static shared memory, "
            f"at most {function.limits.shared_bytes} together; {len(self._block)} bytes of parameters in "
            f"{len(self.types)} arguments"
        )

    def close(self) -> None:
        """Refuse later launches, because the module is going to be unloaded."""
        self.driver_call = self._refuse

    def _refuse(self) -> int:
        self.function.require_loaded()
        return 0


def _pointers_into(block: bytearray, positions: Sequence[int]) -> tuple[Any, int]:
    """An array of pointers to these positions of a block, and the array's address; 0 without positions."""
    if not positions:
        return None, 0
    # The exported buffer also keeps the block from being resized.
    start = ctypes.c_char.from_buffer(block)
    pointers = (ctypes.c_void_p * len(positions))(*(ctypes.addressof(start) + position for position in positions))
    return (start, pointers), ctypes.addressof(pointers)


def wrong_count(kernel: str, expected: int, given: int) -> TypeError:
    """A kernel takes ``expected`` arguments."""
    return TypeError(f"{kernel} takes {expected} argument{'s' * (expected != 1)}, and {given} were given")


def find_closed(error: Exception, kernel: str, args: Sequence[object]) -> Exception:
    """An error about closed memory, saying which argument it was."""
    for position, argument in enumerate(args):
        if isinstance(argument, Buffer):
            try:
                argument.require_open()
            except ClosedError as closed:
                return located(closed, kernel, position)
    return error


def located(error: Exception, kernel: str, position: int) -> Exception:
    """The same error, saying which argument of which kernel it is about."""
    message = f"argument {position} of {kernel}: {error}"
    if isinstance(error, CudabwError):
        return type(error)(message, hint=error.hint)
    return type(error)(message)
