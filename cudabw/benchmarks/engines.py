"""The engines of one run: copiers that are made when a case first needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabw.benchmarks.bandwidth_plan import KERNEL, STAGED
from cudabw.copying.driver_copy import PreparedCopy
from cudabw.copying.kernel_copy import KernelCopier
from cudabw.copying.staged_copy import StagedCopier
from cudabw.copying.staging_calibration import SMALLEST_STAGED

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from typing import TypeAlias

    from cudabw.benchmarks.bandwidth_plan import BandwidthCase, Staging
    from cudabw.measuring.timing import Work
    from cudabw.runtime.buffer import Buffer
    from cudabw.runtime.device import Device
    from cudabw.runtime.stream import Stream

    Prepare: TypeAlias = Callable[[Buffer, Buffer, Stream], Work]


class Engines:
    """Prepares copies by any engine.

    Args:
        device: The device.
        staging: How the staged engine is to do its work.
        owned: Releases the copiers.
    """

    def __init__(self, device: Device, staging: Staging, owned: ExitStack) -> None:
        self._device = device
        self._staging = staging
        self._owned = owned
        self._kernel: KernelCopier | None = None
        self._staged: dict[int | str | None, StagedCopier] = {}

    def preparing(self, case: BandwidthCase) -> Prepare:
        """What makes a copy of the case from its destination, source and stream.

        Raises:
            DriverError: The driver cannot load the kernel.
        """
        if case.engine == KERNEL:
            return self._kernel_copier().prepare
        if case.engine == STAGED:
            return self._staged_copier(case.node).prepare
        return PreparedCopy

    def calibrate(self, case: BandwidthCase) -> None:
        """Find out how copies of the case are to be staged, if they are; its first copy would else wait for that.

        Raises:
            CudabwError: There is no memory to find out with, or the driver failed.
        """
        if case.engine == STAGED and case.size_bytes >= SMALLEST_STAGED:
            self._staged_copier(case.node).setting(case.direction)

    def _kernel_copier(self) -> KernelCopier:
        if self._kernel is None:
            self._kernel = self._owned.enter_context(KernelCopier(self._device))
        return self._kernel

    def _staged_copier(self, node: int | str | None) -> StagedCopier:
        # Its threads and slots stay on the node that they are started on.
        if node not in self._staged:
            copier = StagedCopier(self._device, threads=self._staging.threads, slot=self._staging.slot)
            self._staged[node] = self._owned.enter_context(copier)
        return self._staged[node]
