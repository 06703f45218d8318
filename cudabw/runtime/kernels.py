"""Modules and kernels: loaded from PTX, given a signature, and launched."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from cudabw.errors import ClosedError, CudabwError
from cudabw.runtime.arguments import convert, fit, natural_type
from cudabw.runtime.configuration import Configuration, Extent, LaunchLimits
from cudabw.runtime.conversion import CONVERSION_ERRORS, Conversion, separate
from cudabw.runtime.function import Function
from cudabw.runtime.launching import Launcher
from cudabw.runtime.prepared import PreparedLaunch
from cudabw.runtime.refusals import find_closed, located, wrong_count
from cudabw.runtime.resources import Closing
from cudabw.runtime.signature import CType, CValue, TypeSpecification, ctype_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from cudabw.runtime.device import Device
    from cudabw.runtime.stream import Stream

NOT_FOUND = 500  # CUDA_ERROR_NOT_FOUND

# Launchers that a kernel keeps for its next calls; a program that varies its grid without end starts over.
_MOST_LAUNCHERS = 64


class Module(Closing):
    """Kernels loaded from PTX.

    Args:
        device: Where they run.
        ptx: The text.

    Raises:
        DriverError: The driver cannot load it.
    """

    def __init__(self, device: Device, ptx: str | bytes) -> None:
        text = ptx.encode("ascii") if isinstance(ptx, str) else ptx
        self.device = device
        self._limits = LaunchLimits.of(device)
        self._functions: dict[str, Function] = {}
        # The driver reads up to a zero byte.
        self._handle: Any = device.call("cuModuleLoadData", text + b"\0")

    def kernel(self, name: str, signature: Sequence[TypeSpecification] | None = None) -> Kernel:
        """A kernel by name.

        Args:
            name: Its name in the PTX.
            signature: The C types of its parameters; None to take them from the arguments of each call. PTX carries
                sizes, not types: they are checked as far as that goes.

        Raises:
            CudabwError: The module has no such kernel.
            TypeError: The signature does not fit the kernel's parameters.
        """
        if self.closed:
            raise ClosedError("this module was closed")
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = Function(self.device, name, self._load(name), self._limits)
        return Kernel(function, None if signature is None else tuple(ctype_of(ctype) for ctype in signature))

    def _load(self, name: str) -> Any:  # noqa: ANN401 - the bindings' handle type
        self.device.activate()
        status, handle = self.device.driver.attempt("cuModuleGetFunction", self._handle, name.encode())
        if status == NOT_FOUND:
            raise CudabwError(f"the module has no kernel {name!r}", hint="Kernels of C++ have mangled names.")
        self.device.driver.check("cuModuleGetFunction", status)
        return handle

    @property
    def closed(self) -> bool:
        """Whether it was unloaded."""
        return self._handle is None or self.device.closed

    def close(self) -> None:
        """Wait for the device and unload the module; its kernels cannot be launched any more."""
        if self.closed:
            return
        self.device.synchronize()
        with self.device.lock:
            handle, self._handle = self._handle, None
            for function in self._functions.values():
                function.close()
            for stream in list(self.device.streams):
                stream.disturb()
            self.device.call("cuModuleUnload", handle)


class Kernel(functools.partial[None]):
    """A kernel, with or without a signature.

    It is a ``partial`` for the sake of its calls: an object of a class with ``__call__`` has the keywords of each call
    collected in a dictionary and taken out again, which since Python 3.12 a ``partial`` does not. That takes 0.2 us.

    Args:
        function: The loaded kernel.
        signature: The C types of its parameters; None to take them from the arguments of each call.

    Raises:
        TypeError: The signature does not fit the kernel's parameters.
    """

    _calls: _Calls

    def __new__(cls, function: Function, signature: tuple[CType, ...] | None) -> Self:
        """Bind the calls; they know nothing of the kernel, which is freed as soon as nothing refers to it."""
        calls = _Calls(function, signature)
        kernel = super().__new__(cls, calls.launch)
        kernel._calls = calls
        return kernel

    if TYPE_CHECKING:

        def __call__(  # noqa: D102 - documented by _Calls.launch, which it is
            self, *args: object, grid: Extent, block: Extent, stream: Stream | None = None, shared: int = 0
        ) -> None: ...

    @property
    def signature(self) -> tuple[CType, ...] | None:
        """The C types of its parameters; None where each call's arguments give them."""
        return self._calls.signature

    @property
    def name(self) -> str:
        """Its name in the PTX."""
        return self._calls.function.name

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return self._calls.function.registers

    @property
    def shared_bytes(self) -> int:
        """Static shared memory of a block, in bytes."""
        return self._calls.function.shared_bytes

    @property
    def max_threads(self) -> int:
        """Threads of a block at most, given the registers that the kernel needs."""
        return self._calls.function.max_threads

    @property
    def parameter_sizes(self) -> tuple[int, ...] | None:
        """The sizes of its parameters in bytes; None where the driver cannot say."""
        return self._calls.function.parameter_sizes

    def launcher(self, *, grid: Extent, block: Extent, stream: Stream | None = None, shared: int = 0) -> Launcher:
        """What a call with these threads on this stream uses; kept for the next call.

        Raises:
            TypeError: The kernel has no signature, or an extent is no number or tuple of numbers.
            ValueError: The stream belongs to another device, or an extent does not fit 32 bits.
        """
        return self._calls.launcher(grid=grid, block=block, stream=stream, shared=shared)

    def prepare(
        self, *args: object, grid: Extent, block: Extent, stream: Stream | None = None, shared: int = 0
    ) -> PreparedLaunch:
        """Convert and pack the arguments once, for many launches.

        Nothing is submitted and no ownership taken. Arguments and errors are those of a call.
        """
        types, values = self._calls.converted(args)
        launcher = self._calls.of(types).new_launcher(Configuration.of(grid, block, shared), stream)
        return PreparedLaunch(launcher, values, args)

    def specialise(self, *args: object) -> Kernel:
        """This kernel with its signature fixed by example arguments, which are converted for that.

        The same types give the same kernel again.

        Raises:
            TypeError: There are too many or too few arguments, or one is of a class that kernels do not take, or of
                another size than the parameter.
        """
        types, _ = self._calls.converted(args)
        return self if self.signature is not None else self._calls.specialised(types)

    def __repr__(self) -> str:
        return f"<Kernel {self.name}>"


class _Calls:
    """What the calls of a kernel need and keep."""

    def __init__(self, function: Function, signature: tuple[CType, ...] | None) -> None:
        if signature is not None:
            function.check(signature)
        self.function = function
        self.signature = signature
        self._conversion = Conversion(function.name, signature or (), function.device.conversions)
        self.launchers: dict[object, Launcher] = {}
        # What the latest call asked for, and its launcher: recognising the same objects is faster than looking for a
        # key that equals them. All of them were keys, so none of them can have changed.
        self._latest: tuple[Any, ...] = (object(), None, None, None, None)
        self._specialised: dict[tuple[CType, ...], Kernel] = {}

    def launch(self, *args: object, grid: Extent, block: Extent, stream: Stream | None = None, shared: int = 0) -> None:
        """Convert the arguments, take ownership of the memory they reach, and launch.

        Args:
            args: One for each parameter; see :func:`cudabw.runtime.arguments.convert`.
            grid: Blocks, in up to three dimensions.
            block: Threads of a block, in up to three dimensions.
            stream: Where it runs; the device's default stream when None.
            shared: Dynamic shared memory of a block, in bytes.

        Raises:
            TypeError: There are too many or too few arguments, or one is of a wrong class or dtype.
            OverflowError: An argument is out of its type's range.
            ClosedError: A buffer, the stream or the module was closed.
            CudabwError: A buffer would have to wait during a capture, or cannot be reached from the device.
            LaunchError: The driver refused the launch.
        """
        known_grid, known_block, known_stream, known_shared, launcher = self._latest
        if not (grid is known_grid and block is known_block and stream is known_stream and shared is known_shared):
            try:
                launcher = self.launchers[grid, block, stream, shared]
            except (KeyError, TypeError):
                # TypeError: an extent that is a list, say. Another signature has launchers of its own.
                types, values = self.converted(args)
                launcher = self.of(types).launcher(grid=grid, block=block, stream=stream, shared=shared)
                launcher.submit(separate(values))
                return
            self._latest = grid, block, stream, shared, launcher
        arguments = launcher.convert(args)
        try:
            launcher.submit(arguments)
        except ClosedError as error:
            raise find_closed(error, self.function.name, args) from error

    def launcher(self, *, grid: Extent, block: Extent, stream: Stream | None, shared: int) -> Launcher:
        """What a call with these threads on this stream uses; kept for the next call."""
        if self.signature is None:
            raise TypeError(f"{self.function.name} has no signature; specialise() gives it one")
        configuration = Configuration.of(grid, block, shared)
        # As a call looks it up: by what it was given, where that can be a key.
        key = (*(tuple(extent) if isinstance(extent, list) else extent for extent in (grid, block)), stream, shared)
        launcher = self.launchers.get(key)
        if launcher is None:
            if len(self.launchers) >= _MOST_LAUNCHERS:
                self.launchers.clear()
            launcher = self.launchers[key] = self.new_launcher(configuration, stream)
        return launcher

    def new_launcher(self, configuration: Configuration, stream: Stream | None) -> Launcher:
        """One that no later call shares."""
        return Launcher(self.function, self._conversion, configuration, stream or self.function.device.default_stream)

    def of(self, types: tuple[CType, ...]) -> _Calls:
        """Those with a signature: these, or where there is none those of the kernel with these types."""
        return self if self.signature is not None else self.specialised(types)._calls  # noqa: SLF001

    def specialised(self, types: tuple[CType, ...]) -> Kernel:
        """The kernel of this signature, always the same."""
        kernel = self._specialised.get(types)
        if kernel is None:
            kernel = self._specialised[types] = Kernel(self.function, types)
        return kernel

    def converted(self, args: Sequence[object]) -> tuple[tuple[CType, ...], list[CValue]]:
        """The arguments, converted once, and the signature: this kernel's, or the one they give."""
        self.function.require_loaded()
        if self.signature is not None:
            return self.signature, self._conversion.each(args)
        sizes = self.function.parameter_sizes
        if sizes is not None and len(args) != len(sizes):
            raise wrong_count(self.function.name, len(sizes), len(args))
        values = [self._example(position, argument) for position, argument in enumerate(args)]
        types = tuple(ctype for ctype, _, _ in values)
        self.function.check(types)
        self.function.device.conversions.arguments += len(values)
        return types, values

    def _example(self, position: int, argument: object) -> CValue:
        sizes = self.function.parameter_sizes
        try:
            value = convert(argument)
            return fit(value, natural_type(value, None if sizes is None else sizes[position]))
        except CONVERSION_ERRORS as error:
            raise located(error, self.function.name, position) from error
