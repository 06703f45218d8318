"""The ways to launch one null kernel with one set of arguments, and the stages of a launch."""

from __future__ import annotations

from itertools import cycle, islice, repeat
from typing import TYPE_CHECKING

from cudabw.results.launch import Mode
from cudabw.runtime.kernels import Module
from cudabw.runtime.ptx import null_kernel

if TYPE_CHECKING:
    from contextlib import ExitStack

    from cudabw.benchmarks.launch_arguments import ArgumentSet
    from cudabw.measuring.bursts import Repeat
    from cudabw.runtime.device import Device
    from cudabw.runtime.prepared import PreparedLaunch
    from cudabw.runtime.stream import Stream

GRID, BLOCK = 1, 32


class NullLaunches:
    """A freshly loaded null kernel, launched once, with fresh arguments.

    Args:
        device: Where it runs.
        stream: The same.
        arguments: What it takes.
        owned: Releases the module and the arguments.

    Attributes:
        module_load_s: Seconds that loading the module took.
        first_launch_s: Seconds of the first launch's call.
        prepared: The launch with everything done before.

    Raises:
        CudabwError: The module could not be loaded, memory was refused, or the launch failed.
    """

    def __init__(self, device: Device, stream: Stream, arguments: ArgumentSet, owned: ExitStack) -> None:
        self._stream = stream
        self._values = arguments.values(device, owned)
        # Two values in turn for the first argument, so that each binding is a change.
        self._turns = cycle((self._values[0], arguments.spare(device, owned)) if arguments.count else ())
        name, text = null_kernel(arguments.signature)
        now = device.driver.now
        start = now()
        module = owned.enter_context(Module(device, text))
        self._open_kernel = module.kernel(name)
        self.module_load_s = now() - start
        self._kernel = module.kernel(name, arguments.signature)
        start = now()
        self._launch_converted(1)
        self.first_launch_s = now() - start
        stream.synchronize()
        self.prepared = self.prepare()
        # Of its own, so that binding anew changes nothing for the others.
        self._rebound = self.prepare()
        self._launcher = self.prepare().launcher
        self._arguments = values, uses = self._launcher.convert(self._values)
        # Equal ones in turn, since a launcher does not pack again what it packed last.
        self._equal = cycle((self._arguments, (values.copy(), uses)))

    def prepare(self) -> PreparedLaunch:
        """Prepare one more launch with the same arguments."""
        return self._kernel.prepare(*self._values, grid=GRID, block=BLOCK, stream=self._stream)

    def modes(self) -> dict[Mode, Repeat]:
        """Launches in each mode; without arguments there is none to bind anew."""
        ways: dict[Mode, Repeat] = {
            Mode.BARE: self._launch_bare,
            Mode.PREPARED: self.prepared.submit,
            Mode.PACKED: self._launch_packed,
            Mode.CONVERTED: self._launch_converted,
            Mode.SPECIALISED: self._launch_specialised,
        }
        return {**ways, Mode.REBOUND: self._launch_rebound} if self._values else ways

    def stages(self) -> dict[str, Repeat]:
        """A call in ``converted`` mode stage after stage: each of these goes one stage further than the one before.

        A stage alone in a loop is faster than it ever is between the others, so each is what it adds to those
        before it. The names are those of the times in results.
        """
        return {
            "direct_s": self._launch_directly,
            "through_convert_s": self._convert,
            "through_ownership_s": self._convert_own,
            "through_pack_s": self._convert_own_pack,
            "through_driver_s": self._convert_own_pack_launch,
        }

    # In each of these the loop is all that is added: a call of another function would be a part of the time.

    def _launch_bare(self, times: int) -> None:
        call = self._launcher.driver_call
        for _ in repeat(None, times):
            call()

    def _launch_packed(self, times: int) -> None:
        launcher = self._launcher
        for arguments in islice(self._equal, times):
            launcher.submit(arguments)

    def _launch_converted(self, times: int) -> None:
        kernel, values, stream = self._kernel, self._values, self._stream
        for _ in repeat(None, times):
            kernel(*values, grid=GRID, block=BLOCK, stream=stream)

    def _launch_specialised(self, times: int) -> None:
        kernel, values, stream = self._open_kernel, self._values, self._stream
        for _ in repeat(None, times):
            kernel.specialise(*values)(*values, grid=GRID, block=BLOCK, stream=stream)

    def _launch_rebound(self, times: int) -> None:
        prepared = self._rebound
        for value in islice(self._turns, times):
            prepared.rebind(0, value)
            prepared()

    def _launch_directly(self, times: int) -> None:
        launcher, values = self._launcher, self._values
        for _ in repeat(None, times):
            launcher.submit(launcher.convert(values))

    def _convert(self, times: int) -> None:
        launcher, values = self._launcher, self._values
        for _ in repeat(None, times):
            launcher.convert(values)

    def _convert_own(self, times: int) -> None:
        launcher, values = self._launcher, self._values
        for _ in repeat(None, times):
            launcher.own(launcher.convert(values))

    def _convert_own_pack(self, times: int) -> None:
        launcher, values = self._launcher, self._values
        for _ in repeat(None, times):
            arguments = launcher.convert(values)
            launcher.own(arguments)
            launcher.pack(arguments)

    def _convert_own_pack_launch(self, times: int) -> None:
        launcher, values = self._launcher, self._values
        for _ in repeat(None, times):
            arguments = launcher.convert(values)
            launcher.own(arguments)
            launcher.pack(arguments)
            launcher.launch()
