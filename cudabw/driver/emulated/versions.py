"""The functions whose surface differs between cuda-python 12 and 13."""
# ruff: noqa: N802, N803 - functions and parameters are named as in the bindings

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

from cudabw.driver.emulated.calls import Enumerator, Handle, Structure, entry, integer
from cudabw.driver.emulated.copies import EITHER, Copies, Transfer
from cudabw.driver.emulated.graphs import Graphs
from cudabw.driver.emulated.memory import Memory
from cudabw.driver.emulated.refusals import INVALID_DEVICE, INVALID_VALUE, Refusal
from cudabw.driver.emulated.streams import Stream

HOST_ORDINAL = -1
"""``CU_DEVICE_CPU``: how cuda-python 12 names the host as a place."""


class Shared(Memory, Copies, Graphs):
    """What both versions do, behind their different surfaces."""

    def _place(self, ordinal: int) -> int | None:
        """The ordinal of a device, or None for the host (-1)."""
        return None if ordinal == HOST_ORDINAL else self._machine.find_device(ordinal).ordinal

    def _location(self, location: Structure) -> int | None:
        """The ordinal of the device that a location means, or None for the host."""
        kinds = cuda.CUmemLocationType
        if location.type == kinds.CU_MEM_LOCATION_TYPE_DEVICE:
            return self._machine.find_device(location.id).ordinal
        hosts = (
            kinds.CU_MEM_LOCATION_TYPE_HOST,
            kinds.CU_MEM_LOCATION_TYPE_HOST_NUMA,
            kinds.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
        )
        if location.type not in hosts:
            raise Refusal(INVALID_DEVICE)
        return None

    def _advise(self, pointer: Handle, count: int, advice: Enumerator) -> None:
        """Advice has no effect on memory that is the host's anyway."""
        self._managed(integer(pointer), integer(count))
        if integer(advice) not in {member.value for member in cuda.CUmem_advise}:
            raise Refusal(INVALID_VALUE)

    def _copy_batch(
        self,
        destinations: Sequence[Handle],
        sources: Sequence[Handle],
        sizes: Sequence[int],
        count: int,
        attributes: Sequence[Structure],
        attribute_starts: Sequence[int],
        attribute_count: int,
        stream_handle: Handle,
    ) -> None:
        """Queue several copies as one operation; none is queued if one cannot be. Pageable memory holds the caller."""
        stream = self._machine.handles.find(integer(stream_handle), Stream)
        starts = list(attribute_starts)[:attribute_count]
        if count < 1 or not 1 <= attribute_count <= count or starts[0] != 0 or starts != sorted(set(starts)):
            raise Refusal(INVALID_VALUE)
        # When sources are read makes no difference here, but it must be said.
        if any(not int(attribute.srcAccessOrder) for attribute in attributes[:attribute_count]):
            raise Refusal(INVALID_VALUE)
        batch = list(zip(destinations, sources, sizes, strict=True))[:count]
        transfers = [
            Transfer(self._machine, integer(destination), EITHER, integer(source), EITHER, integer(size))
            for destination, source, size in batch
        ]
        self._submit_copies(stream, transfers)


class Bindings13(Shared):
    """The surface of cuda-python 13."""

    @entry()
    def cuMemPrefetchAsync(self, devPtr: Handle, count: int, location: Structure, flags: int, hStream: Handle) -> None:
        """Queue the move of managed memory to a location."""
        if integer(flags):
            raise Refusal(INVALID_VALUE)
        self._prefetch(devPtr, count, self._location(location), hStream)

    @entry()
    def cuMemAdvise(self, devPtr: Handle, count: int, advice: Enumerator, location: Structure) -> None:
        """Advise on managed memory; checked, without effect."""
        self._location(location)
        self._advise(devPtr, count, advice)

    @entry()
    def cuMemcpyBatchAsync(
        self,
        dsts: Sequence[Handle],
        srcs: Sequence[Handle],
        sizes: Sequence[int],
        count: int,
        attrs: Sequence[Structure],
        attrsIdxs: Sequence[int],
        numAttrs: int,
        hStream: Handle,
    ) -> None:
        """Queue several copies."""
        self._copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream)

    @entry(values=6)
    def cuStreamGetCaptureInfo(self, hStream: Handle) -> tuple[Any, ...]:
        """Status, number, graph, and the dependencies with their edges and count, which are not modelled."""
        return (*self._capture_info(hStream), [], [], 0)


class Bindings12(Shared):
    """The surface of cuda-python 12."""

    @entry()
    def cuMemPrefetchAsync(self, devPtr: Handle, count: int, dstDevice: Handle, hStream: Handle) -> None:
        """Queue the move of managed memory to a device, or to the host (-1)."""
        self._prefetch(devPtr, count, self._place(int(dstDevice)), hStream)

    @entry()
    def cuMemAdvise(self, devPtr: Handle, count: int, advice: Enumerator, device: Handle) -> None:
        """Advise on managed memory; checked, without effect."""
        self._place(int(device))
        self._advise(devPtr, count, advice)

    @entry(values=1)
    def cuMemcpyBatchAsync(
        self,
        dsts: Sequence[Handle],
        srcs: Sequence[Handle],
        sizes: Sequence[int],
        count: int,
        attrs: Sequence[Structure],
        attrsIdxs: Sequence[int],
        numAttrs: int,
        hStream: Handle,
    ) -> int:
        """Queue several copies; the index of a copy that fails is always 0 here."""
        self._copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream)
        return 0

    @entry(values=5)
    def cuStreamGetCaptureInfo(self, hStream: Handle) -> tuple[Any, ...]:
        """Status, number, graph, and the dependencies with their count, which are not modelled."""
        return (*self._capture_info(hStream), [], 0)


def _prefetch_takes_location() -> bool:
    return "location" in inspect.signature(cuda.cuMemPrefetchAsync).parameters


if TYPE_CHECKING:
    Versioned = Bindings13
else:
    Versioned = Bindings13 if _prefetch_takes_location() else Bindings12
