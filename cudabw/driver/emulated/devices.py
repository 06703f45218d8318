"""Initialisation, devices and contexts."""
# ruff: noqa: N802, N803 - functions and parameters are named as in the bindings

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver as cuda

from cudabw.driver.emulated.calls import Enumerator, Handle, Surface, entry, integer
from cudabw.driver.emulated.machine import Context, Needs
from cudabw.driver.emulated.refusals import (
    INVALID_CONTEXT,
    INVALID_DEVICE,
    INVALID_VALUE,
    PEER_ACCESS_ALREADY_ENABLED,
    PEER_ACCESS_UNSUPPORTED,
    Refusal,
)

NAME = "Emulated CUDA device"
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_THREADS = 1024
MAX_SHARED_BYTES = 48 * 1024
COMPUTE_CAPABILITY = (9, 0)

ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": MAX_THREADS,
    "MAX_BLOCK_DIM_X": MAX_BLOCK[0],
    "MAX_BLOCK_DIM_Y": MAX_BLOCK[1],
    "MAX_BLOCK_DIM_Z": MAX_BLOCK[2],
    "MAX_GRID_DIM_X": MAX_GRID[0],
    "MAX_GRID_DIM_Y": MAX_GRID[1],
    "MAX_GRID_DIM_Z": MAX_GRID[2],
    "MAX_SHARED_MEMORY_PER_BLOCK": MAX_SHARED_BYTES,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": MAX_SHARED_BYTES,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 64 * 1024,
    "TOTAL_CONSTANT_MEMORY": 64 * 1024,
    "WARP_SIZE": 32,
    "MAX_PITCH": 2**31 - 1,
    "MAX_REGISTERS_PER_BLOCK": 65536,
    "CLOCK_RATE": 1_000_000,
    "GPU_OVERLAP": 1,
    "MULTIPROCESSOR_COUNT": 16,
    "CAN_MAP_HOST_MEMORY": 1,
    "CONCURRENT_KERNELS": 1,
    "ECC_ENABLED": 1,
    "MEMORY_CLOCK_RATE": 1_000_000,
    "GLOBAL_MEMORY_BUS_WIDTH": 1024,
    "L2_CACHE_SIZE": 4 << 20,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "ASYNC_ENGINE_COUNT": 2,
    "UNIFIED_ADDRESSING": 1,
    "COMPUTE_CAPABILITY_MAJOR": COMPUTE_CAPABILITY[0],
    "COMPUTE_CAPABILITY_MINOR": COMPUTE_CAPABILITY[1],
    "STREAM_PRIORITIES_SUPPORTED": 1,
    "MANAGED_MEMORY": 1,
    "CONCURRENT_MANAGED_ACCESS": 1,
    "HOST_REGISTER_SUPPORTED": 1,
    "CAN_USE_STREAM_MEM_OPS_V1": 1,
    "CAN_USE_STREAM_MEM_OPS": 1,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 32,
    # A registered, mapped range has a device address of its own here.
    "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM": 0,
    "INTEGRATED": 0,
    "HOST_NUMA_ID": 0,
}


def attribute_values() -> dict[int, int]:
    """The attributes that are not zero, by the numbers of the installed bindings."""
    named = {member.name.removeprefix("CU_DEVICE_ATTRIBUTE_"): member.value for member in cuda.CUdevice_attribute}
    return {named[name]: value for name, value in ATTRIBUTES.items() if name in named}


class Devices(Surface):
    """Driver functions about devices and contexts."""

    @entry(needs=Needs.NOTHING)
    def cuInit(self, Flags: int) -> None:
        """Initialise; flags must be zero."""
        if integer(Flags):
            raise Refusal(INVALID_VALUE)
        self._machine.initialised = True

    @entry(values=1, needs=Needs.NOTHING)
    def cuDriverGetVersion(self) -> int:
        """The CUDA version of the installed bindings."""
        return int(cuda.CUDA_VERSION)

    @entry(values=1, needs=Needs.INITIALISATION)
    def cuDeviceGetCount(self) -> int:
        """How many devices there are."""
        return len(self._machine.devices)

    @entry(values=1, needs=Needs.INITIALISATION)
    def cuDeviceGet(self, ordinal: int) -> object:
        """A device by its ordinal."""
        return cuda.CUdevice(self._machine.find_device(ordinal).ordinal)

    @entry(values=1, needs=Needs.INITIALISATION)
    def cuDeviceGetName(self, length: int, dev: Handle) -> bytes:
        """The name, cut to ``length`` bytes with its terminator; what follows that is not meaningful."""
        self._machine.find_device(integer(dev))
        return _text(NAME, length)

    @entry(values=1, needs=Needs.INITIALISATION)
    def cuDeviceGetUuid(self, dev: Handle) -> object:
        """An identifier that differs from device to device."""
        device = self._machine.find_device(integer(dev))
        uuid = cuda.CUuuid()
        ctypes.memmove(int(uuid.getPtr()), b"cudabw-emulated" + bytes([device.ordinal]), 16)
        return uuid

    @entry(values=1, needs=Needs.INITIALISATION)
    def cuDeviceGetPCIBusId(self, length: int, dev: Handle) -> bytes:
        """``domain:bus:device.function``, as `cuDeviceGetName` cuts it."""
        device = self._machine.find_device(integer(dev))
        return _text(f"0000:{device.ordinal + 1:02X}:00.0", length)

    @entry(values=1, needs=Needs.INITIALISATION)
    def cuDeviceTotalMem(self, dev: Handle) -> int:
        """Bytes of memory."""
        self._machine.find_device(integer(dev))
        return self._machine.shape.memory

    @entry(values=1, needs=Needs.INITIALISATION)
    def cuDeviceGetAttribute(self, attrib: Enumerator, dev: Handle) -> int:
        """An attribute; those that mean nothing here are 0."""
        device = self._machine.find_device(integer(dev))
        number = int(attrib)
        if number == cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_PCI_BUS_ID.value:
            return device.ordinal + 1
        return attribute_values().get(number, 0)

    @entry(values=1, needs=Needs.INITIALISATION)
    def cuDeviceCanAccessPeer(self, dev: Handle, peerDev: Handle) -> int:
        """1 if two different devices can reach each other's memory."""
        device, peer = (self._machine.find_device(integer(handle)) for handle in (dev, peerDev))
        return int(self._machine.shape.peer_access and device is not peer)

    @entry(values=1, needs=Needs.INITIALISATION)
    def cuDevicePrimaryCtxRetain(self, dev: Handle) -> object:
        """The primary context."""
        return cuda.CUcontext(self._machine.retain(self._machine.find_device(integer(dev))).handle)

    @entry(needs=Needs.INITIALISATION)
    def cuDevicePrimaryCtxRelease(self, dev: Handle) -> None:
        """Give the primary context back; the last time destroys it with all it owns."""
        self._machine.release(self._machine.find_device(integer(dev)))

    @entry(needs=Needs.INITIALISATION)
    def cuCtxSetCurrent(self, ctx: Handle) -> None:
        """Replace the calling thread's current context; null removes it."""
        context = self._context_or_none(ctx)
        if self._machine.contexts:
            self._machine.contexts.pop()
        if context is not None:
            self._machine.contexts.append(context)

    @entry(values=1, needs=Needs.INITIALISATION)
    def cuCtxGetCurrent(self) -> object:
        """The calling thread's current context; null without one."""
        contexts = self._machine.contexts
        return cuda.CUcontext(contexts[-1].handle if contexts else 0)

    @entry(needs=Needs.INITIALISATION)
    def cuCtxPushCurrent(self, ctx: Handle) -> None:
        """Push a context onto the calling thread's stack."""
        self._machine.contexts.append(self._machine.find_context(integer(ctx)))

    @entry(values=1, needs=Needs.INITIALISATION)
    def cuCtxPopCurrent(self) -> object:
        """Pop the calling thread's current context."""
        if not self._machine.contexts:
            raise Refusal(INVALID_CONTEXT)
        return cuda.CUcontext(self._machine.contexts.pop().handle)

    @entry(values=1)
    def cuCtxGetDevice(self) -> object:
        """The device of the current context."""
        return cuda.CUdevice(self._machine.context.ordinal)

    @entry()
    def cuCtxSynchronize(self) -> None:
        """Wait for all work of the current context."""
        self._machine.refuse_while_capturing()
        self._machine.drain(self._machine.context)
        self._machine.context.health.surface()

    @entry()
    def cuCtxEnablePeerAccess(self, peerContext: Handle, Flags: int) -> None:
        """Let kernels of the current context reach the memory of another device."""
        context, peer = self._machine.context, self._machine.find_context(integer(peerContext))
        if integer(Flags):
            raise Refusal(INVALID_VALUE)
        if peer is context:
            raise Refusal(INVALID_DEVICE)
        if not self._machine.shape.peer_access:
            raise Refusal(PEER_ACCESS_UNSUPPORTED)
        with self._machine.lock:
            if peer.ordinal in context.peers:
                raise Refusal(PEER_ACCESS_ALREADY_ENABLED)
            context.peers |= {peer.ordinal}

    @entry(values=1, needs=Needs.NOTHING)
    def cuGetErrorName(self, error: Enumerator) -> bytes:
        """The name of a status."""
        return _status(error).encode()

    @entry(values=1, needs=Needs.NOTHING)
    def cuGetErrorString(self, error: Enumerator) -> bytes:
        """The name of a status as words."""
        return _status(error).removeprefix("CUDA_").removeprefix("ERROR_").lower().replace("_", " ").encode()

    def _context_or_none(self, handle: Handle) -> Context | None:
        return self._machine.find_context(integer(handle)) if integer(handle) else None


def _status(error: Any) -> str:  # noqa: ANN401 - an enumerator of the bindings
    try:
        return str(cuda.CUresult(int(error)).name)
    except ValueError as unknown:
        raise Refusal(INVALID_VALUE) from unknown


def _text(text: str, length: int) -> bytes:
    # The bindings return their whole buffer: the text, its terminator and whatever they had filled it with.
    return (text.encode()[: max(length - 1, 0)] + b"\0").ljust(length)[:length]
