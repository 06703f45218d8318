"""Launches in their stages: convert the arguments, take ownership, pack, and call the driver.

Parameters are passed to ``cuLaunchKernelEx`` as the address of a kept array of pointers into a kept block of bytes,
with a kept configuration: so all that the call takes is bound once, and a launch only writes into the block.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import TYPE_CHECKING, Any

from cudabw.errors import DriverError
from cudabw.runtime.ownership import guard, take, use_again
from cudabw.runtime.refusals import LaunchError, circumstances
from cudabw.runtime.signature import layout, offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudabw.runtime.configuration import Configuration
    from cudabw.runtime.conversion import Arguments, Conversion
    from cudabw.runtime.function import Function
    from cudabw.runtime.ownership import Use
    from cudabw.runtime.signature import CValue
    from cudabw.runtime.stream import Stream

# How the driver refuses a launch from a thread that has no context, or another device's, before anything is queued.
_WRONG_CONTEXT = frozenset({201, 400, 709})


class Launcher:
    """A kernel with its signature, threads and stream: all of a launch but its arguments.

    A call of the kernel is ``launcher.submit(launcher.convert(args))``. Its stages can be called alone, to be timed:
    ``convert``, :meth:`own`, :meth:`pack` and :meth:`launch`.

    Args:
        function: The loaded kernel.
        conversion: Of the arguments to the types of its signature.
        configuration: Blocks and threads.
        stream: Where it runs.

    Attributes:
        convert: Converts the arguments of a call; see :meth:`cudabw.runtime.conversion.Conversion.all`.
        driver_call: The bare call to the driver with what was packed last; takes nothing and returns the status.
        entry, operands: The same in two parts. ``entry(*operands)`` is faster, because ``driver_call`` makes the tuple
            anew each time; but only that keeps alive what the operands are addresses of.

    Raises:
        ClosedError: The module or the stream was closed.
        ValueError: The stream belongs to another device.
    """

    def __init__(
        self, function: Function, conversion: Conversion, configuration: Configuration, stream: Stream
    ) -> None:
        function.require_loaded()
        stream.require_open()
        if stream.device is not function.device:
            raise ValueError(
                f"{function.name} is loaded on device {function.device.ordinal}, and the stream is one of device "
                f"{stream.device.ordinal}"
            )
        self.function = function
        self.conversion = conversion
        self.convert = conversion.all
        self.configuration = configuration
        self.stream = stream
        self._device = stream.device
        self._lock = stream.device.lock
        # The values that lie in the block: these very ones, since equal ones may differ in bytes, as 0.0 and -0.0 do.
        self._packed: list[Any] | None = None
        # What a launch took last, and the epoch of the stream for which that lasts; None to take it again.
        self._taken: list[Use] = []
        self._epoch: object = None
        self._offsets = offsets(conversion.types)
        code, size = layout(conversion.types)
        self._block = bytearray(size)
        self._write = functools.partial(struct.Struct(f"<{code}").pack_into, self._block, 0)
        self._use(self._bind_driver_call())
        function.launchers.add(self)

    def _use(self, driver_call: functools.partial[int]) -> None:
        self.driver_call = driver_call
        self.entry: Callable[..., int] = driver_call.func
        self.operands = driver_call.args

    def _bind_driver_call(self) -> functools.partial[int]:
        pointers, address = _pointers_into(self._block, self._offsets)
        config = self.configuration.for_driver(self.stream)
        call = self._device.driver.bind_launch(config, self.function.handle, address)
        # An address keeps nothing alive, and the call may outlive the launcher.
        call.__dict__["pointers"] = pointers
        return call

    def submit(self, arguments: Arguments) -> None:
        """Take ownership of what converted arguments reach, pack them, and call the driver.

        Raises:
            ClosedError: Some of the memory, the stream or the module was closed.
            CudabwError: Some of the memory would have to wait during a capture, or cannot be reached from the device.
            LaunchError: The driver refused the launch.
        """
        values, uses = arguments
        lock = self._lock
        lock.acquire()
        # Not a with statement, which takes twice as long.
        try:
            if (self._epoch is self.stream.epoch and uses == self._taken) or self._take_again(uses):
                if values is not self._packed:
                    self.pack(arguments)
                status = self.entry(*self.operands)
                if status:
                    self.recover(status)
                return
        finally:
            lock.release()
        self._submit_anew(arguments)

    def _submit_anew(self, arguments: Arguments) -> None:
        uses = arguments[1]
        with guard(self._device, uses):
            self._take(uses)
            self.pack(arguments)
            self.launch()

    def _take_again(self, uses: list[Use]) -> bool:
        """The usual case of :meth:`_take`, under the device's own lock; whether it was that."""
        if not use_again(uses, self.stream):
            return False
        self._taken, self._epoch = uses, self.stream.epoch
        return True

    def _take(self, uses: list[Use]) -> None:
        stream, device = self.stream, self._device
        take(uses, stream, device.waits, reaches=True)
        # As for prepared launches, see there; but what a foreign array is wrapped in is new at each conversion.
        lasting = stream.runs_in is stream.epoch and all(use.device is device for use in uses)
        self._taken, self._epoch = (uses, stream.epoch) if lasting else ([], None)

    def own(self, arguments: Arguments) -> None:
        """Take ownership of what converted arguments reach, as a launch does first."""
        uses = arguments[1]
        lock = self._lock
        lock.acquire()
        try:
            if (self._epoch is self.stream.epoch and uses == self._taken) or self._take_again(uses):
                return
        finally:
            lock.release()
        with guard(self._device, uses):
            self._take(uses)

    def pack(self, arguments: Arguments) -> None:
        """Write converted arguments where the driver reads them, unless they were the last that were written."""
        values = arguments[0]
        if values is not self._packed:
            # Whatever is refused in the middle leaves nothing that could be launched.
            self._packed = None
            self._write(*values)
            self._packed = values

    def pack_one(self, position: int, value: CValue) -> None:
        """As :meth:`pack`, for one argument."""
        ctype, content, _ = value
        packed = struct.pack(f"<{ctype.code}", content)
        self._packed = None
        start = self._offsets[position]
        self._block[start : start + ctype.size] = packed

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
            asked = circumstances(self.function, self.configuration, self.conversion.types, len(self._block))
            raise LaunchError(self.function.name, error, asked) from error

    def close(self) -> None:
        """Refuse later launches, because the module is going to be unloaded."""
        self._use(functools.partial(self._refuse))

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
