"""Modules, functions and launches.

A launch copies its configuration and the bytes of its parameters before it returns, so that changing either
afterwards cannot reach work that is queued.
"""
# ruff: noqa: N802, N803 - functions and parameters are named as in the bindings

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from cuda.bindings import driver as cuda

from cudabw.driver.emulated.calls import Enumerator, Handle, HostPointer, Structure, Surface, entry, integer
from cudabw.driver.emulated.devices import MAX_BLOCK, MAX_GRID, MAX_SHARED_BYTES, MAX_THREADS
from cudabw.driver.emulated.kernels import DeviceView, Launch, find_kernel
from cudabw.driver.emulated.parameters import image_text, parameter_bytes
from cudabw.driver.emulated.ptx import Entry, parse
from cudabw.driver.emulated.refusals import (
    INVALID_HANDLE,
    INVALID_VALUE,
    LAUNCH_OUT_OF_RESOURCES,
    NOT_FOUND,
    NOT_SUPPORTED,
    Refusal,
)
from cudabw.driver.emulated.streams import Operation, Stream

if TYPE_CHECKING:
    from cudabw.driver.emulated.clock import Work

KernelParams: TypeAlias = Any
"""None, the address of an array of pointers, an object that holds one, or a tuple of values and types."""

Extent: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Module:
    """A loaded module: its entries by name, and the handle of its context."""

    context: int
    entries: dict[str, Entry]


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel of a loaded module."""

    context: int
    entry: Entry
    module: Module

    @property
    def max_threads(self) -> int:
        """Threads per block at most."""
        return min(self.entry.max_threads or MAX_THREADS, MAX_THREADS)


class Launches(Surface):
    """Driver functions about modules and launches."""

    @entry(values=1)
    def cuModuleLoadData(self, image: HostPointer) -> object:
        """Load PTX text."""
        module = Module(self._machine.context.handle, parse(image_text(image)))
        return cuda.CUmodule(self._machine.handles.add(module))

    @entry()
    def cuModuleUnload(self, hmod: Handle) -> None:
        """Forget a module and its functions; launches that are queued still run."""
        module = self._machine.handles.take(integer(hmod), Module)
        self._machine.handles.discard(lambda thing: isinstance(thing, Function) and thing.module is module)

    @entry(values=1)
    def cuModuleGetFunction(self, hmod: Handle, name: bytes) -> object:
        """A kernel by name."""
        module = self._machine.handles.find(integer(hmod), Module)
        found = module.entries.get(bytes(name).decode())
        if found is None:
            raise Refusal(NOT_FOUND)
        return cuda.CUfunction(self._machine.handles.add(Function(module.context, found, module)))

    @entry(values=1)
    def cuFuncGetAttribute(self, attrib: Enumerator, hfunc: Handle) -> int:
        """An attribute of a kernel; those that mean nothing here are 0."""
        function = self._machine.handles.find(integer(hfunc), Function)
        names = cuda.CUfunction_attribute
        values = {
            names.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK.value: function.max_threads,
            names.CU_FUNC_ATTRIBUTE_NUM_REGS.value: 32,
            names.CU_FUNC_ATTRIBUTE_PTX_VERSION.value: 50,
            names.CU_FUNC_ATTRIBUTE_BINARY_VERSION.value: 90,
            names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.value: MAX_SHARED_BYTES,
        }
        return values.get(integer(attrib), 0)

    @entry(values=2)
    def cuFuncGetParamInfo(self, func: Handle, paramIndex: int) -> tuple[int, int]:
        """Offset and size of a kernel's parameter, in bytes."""
        parameters = self._machine.handles.find(integer(func), Function).entry.parameters
        if integer(paramIndex) >= len(parameters):
            raise Refusal(INVALID_VALUE)
        parameter = parameters[integer(paramIndex)]
        return parameter.offset, parameter.size

    @entry()
    def cuLaunchKernel(
        self,
        f: Handle,
        gridDimX: int,
        gridDimY: int,
        gridDimZ: int,
        blockDimX: int,
        blockDimY: int,
        blockDimZ: int,
        sharedMemBytes: int,
        hStream: Handle,
        kernelParams: KernelParams,
        extra: object,
    ) -> None:
        """Queue a kernel."""
        grid = (integer(gridDimX), integer(gridDimY), integer(gridDimZ))
        block = (integer(blockDimX), integer(blockDimY), integer(blockDimZ))
        self._launch(f, grid, block, integer(sharedMemBytes), hStream, kernelParams, extra)

    @entry()
    def cuLaunchKernelEx(self, config: Structure, f: Handle, kernelParams: KernelParams, extra: object) -> None:
        """Queue a kernel; launch attributes have no effect."""
        if config is None:
            raise Refusal(INVALID_VALUE)
        grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
        block = (config.blockDimX, config.blockDimY, config.blockDimZ)
        self._launch(f, grid, block, config.sharedMemBytes, config.hStream, kernelParams, extra)

    def _launch(
        self,
        function_handle: Handle,
        grid: Extent,
        block: Extent,
        shared_bytes: int,
        stream_handle: Handle,
        kernel_params: KernelParams,
        extra: object,
    ) -> None:
        machine = self._machine
        function = machine.handles.find(integer(function_handle), Function)
        stream = machine.handles.find(integer(stream_handle), Stream)
        if function.context != stream.context:
            raise Refusal(INVALID_HANDLE)
        _check_extents(grid, block, shared_bytes, function)
        kernel = find_kernel(machine.kernels, function.entry.name)
        if kernel is None or extra not in (None, 0):
            raise Refusal(NOT_SUPPORTED)
        parameters = parameter_bytes(kernel_params, function.entry.parameters)
        launch = Launch(function.entry.name, grid, block, shared_bytes, parameters)
        peers = machine.find_context(function.context).peers

        def body(running: Stream) -> Work:
            view = DeviceView(machine.memory, machine.faults, running.device, peers)
            kernel(launch, view)
            return view.work

        if stream.capture is None:
            machine.clock.spend("launch")
        stream.submit(Operation(body))


def _check_extents(grid: Extent, block: Extent, shared_bytes: int, function: Function) -> None:
    extents, limits = (*grid, *block), (*MAX_GRID, *MAX_BLOCK)
    threads = math.prod(block)
    if any(not 1 <= extent <= limit for extent, limit in zip(extents, limits, strict=True)):
        raise Refusal(INVALID_VALUE)
    if threads > MAX_THREADS or shared_bytes > MAX_SHARED_BYTES:
        raise Refusal(INVALID_VALUE)
    if threads > function.max_threads:
        raise Refusal(LAUNCH_OUT_OF_RESOURCES)
