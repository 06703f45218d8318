"""A CUDA device: its identity, its context, its memory left, and what waits to be freed on it."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from cudabw.driver.identity import identify
from cudabw.errors import CudabwError, UsageError
from cudabw.runtime.counters import ConversionCounter, WaitCounters
from cudabw.runtime.ownership import Ownership, settle
from cudabw.runtime.resources import Closing
from cudabw.runtime.stream import NOT_READY, Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudabw.driver.calls import Driver


class Device(Closing):
    """One device of a driver, with its primary context.

    Every call made through a device makes its context current on the calling thread first,
    so a device may be used from any thread.

    Args:
        driver: The driver, already initialised.
        ordinal: The device's number among those the driver sees.

    Attributes:
        identity: Who it is, as the driver says.
        lock: Makes handing buffers over and submitting the work that uses them one step.
        waits: How many waits ownership has asked for.
        conversions: How many arguments were converted for launches here.
        streams: The device's streams that somebody holds.
        peers: The devices whose memory its kernels were given access to.
        page_locked_bytes: Host memory that is page-locked through this device at present.
        closed_gates: Gates that hold a stream of this device at present.

    Raises:
        UsageError: The driver sees no device of that number.
        DriverError: The context could not be created.
    """

    def __init__(self, driver: Driver, ordinal: int = 0) -> None:
        count = device_count(driver)
        if not 0 <= ordinal < count:
            raise UsageError(
                f"there is no device {ordinal}: {_describe_range(count)}",
                hint="`cudabw devices` lists them.",
            )
        self.driver = driver
        self.ordinal = ordinal
        self.identity = identify(driver, ordinal)
        self.handle: Any = driver.call("cuDeviceGet", ordinal)
        self.lock = threading.RLock()
        self.waits = WaitCounters()
        self.conversions = ConversionCounter()
        self.streams: WeakSet[Stream] = WeakSet()
        self.peers: WeakSet[Device] = WeakSet()
        self.page_locked_bytes = 0
        self.closed_gates = 0
        self._retired: deque[tuple[Ownership, Callable[[], None]]] = deque()
        self._default_stream: Stream | None = None
        self._context: Any = driver.call("cuDevicePrimaryCtxRetain", self.handle)

    @property
    def name(self) -> str:
        """The driver's name for the device."""
        return self.identity.name

    @property
    def uuid(self) -> str:
        """The device's UUID as ``nvidia-smi`` writes it, ``GPU-…``."""
        return self.identity.uuid

    @property
    def pci(self) -> str:
        """The PCI address, as in ``0000:3b:00.0``."""
        return self.identity.pci

    @property
    def memory_bytes(self) -> int:
        """All of the device's memory, in bytes."""
        return self.identity.memory_bytes

    @property
    def free_bytes(self) -> int:
        """Device memory not in use by any process, in bytes."""
        return int(self.call("cuMemGetInfo")[0])

    @property
    def integrated(self) -> bool:
        """Whether device and host share one memory, so that there is no link between them."""
        return self.identity.integrated

    @property
    def default_stream(self) -> Stream:
        """The stream of copies that name none; made on first use."""
        if self._default_stream is None:
            self._default_stream = Stream(self)
        return self._default_stream

    def stream(self) -> Stream:
        """A new stream."""
        return Stream(self)

    def attribute(self, name: str) -> int:
        """A device attribute by its name without ``CU_DEVICE_ATTRIBUTE_``."""
        key = getattr(self.driver.api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.driver.call("cuDeviceGetAttribute", key, self.handle))

    def activate(self) -> None:
        """Make the device's context current on this thread; hot paths do so once and then call the driver directly."""
        if self._context is None:
            raise CudabwError(f"device {self.ordinal} was closed")
        self.driver.call("cuCtxSetCurrent", self._context)

    def call(self, function: str, *args: object) -> Any:  # noqa: ANN401 - what the function returns
        """Call a driver function with the device's context current.

        Raises:
            DriverError: The driver answered with a failure.
            UnsupportedError: This driver or device cannot do it.
        """
        self.activate()
        return self.driver.call(function, *args)

    def poll(self, function: str, *args: object) -> bool:
        """Call a query function that answers done or not ready.

        Raises:
            DriverError: The driver answered anything else.
        """
        self.activate()
        status, _ = self.driver.attempt(function, *args)
        if status == NOT_READY:
            return False
        self.driver.check(function, status)
        return True

    def synchronize(self) -> None:
        """Hold the host until everything submitted to the device is done.

        Raises:
            CudabwError: A closed gate holds some of it, so that the host would wait for ever, or a stream of the
                device is being captured; the capture goes on.
        """
        if self.closed_gates:
            raise CudabwError("the host would wait for ever for work that a closed gate holds", hint="Open it.")
        streams = [stream for stream in self.streams if not stream.closed]
        for stream in streams:
            stream.require_not_capturing("the host cannot wait for its device")
        covered = [(stream, stream.mark()) for stream in streams]
        self.call("cuCtxSynchronize")
        for stream, submitted in covered:
            stream.completed = max(stream.completed, submitted)
        self.reap()

    def settle(self, ownership: Ownership) -> None:
        """Hold the host until the last use of an allocation is over."""
        settle(ownership, self.waits)

    def retire(self, ownership: Ownership, release: Callable[[], None]) -> None:
        """Take over memory that nothing refers to any more, to free it when its last use is over.

        Called by the garbage collector in the middle of anything, so it only takes a note: the driver's
        functions that free wait for all queued work, which may be held by a gate that this thread is to open.
        """
        self._retired.append((ownership, release))

    def reap(self) -> None:
        """Free what was retired and is no longer in use, unless a closed gate would hold the host."""
        for _ in range(len(self._retired)):
            if self.closed_gates:
                return
            try:
                ownership, release = self._retired.popleft()
            except IndexError:  # another thread was faster
                return
            if ownership.captured or (ownership.dirty and not _idle(ownership)):
                self._retired.append((ownership, release))
            else:
                self.release(release)

    def close(self) -> None:
        """Wait for the device, free what was retired, and let go of the context; closing again does nothing."""
        if self._context is None:
            return
        self.synchronize()
        if self._default_stream is not None:
            self._default_stream.close()
        while self._retired:
            self.release(self._retired.popleft()[1])
        for stream in list(self.streams):
            stream.abandon()
        self._context = None
        self.driver.call("cuDevicePrimaryCtxRelease", self.handle)

    @property
    def closed(self) -> bool:
        """Whether the device was closed."""
        return self._context is None

    def release(self, release: Callable[[], None]) -> None:
        """Free memory that is not in use, with the device's context current; nothing after the device was closed."""
        # Whoever drops a buffer may be using another context on this thread: leave that as it was.
        if self._context is None:
            return  # the context took all of its memory along
        self.driver.call("cuCtxPushCurrent", self._context)
        try:
            release()
        finally:
            self.driver.call("cuCtxPopCurrent")

    def __repr__(self) -> str:
        return f"<Device {self.ordinal}: {self.name}>"


def device_count(driver: Driver) -> int:
    """How many devices the driver sees."""
    return int(driver.call("cuDeviceGetCount"))


def _idle(ownership: Ownership) -> bool:
    return ownership.stream is not None and not ownership.stream.closed and ownership.stream.ready()


def _describe_range(count: int) -> str:
    return "the driver sees device 0 only" if count == 1 else f"the driver sees devices 0 to {count - 1}"
