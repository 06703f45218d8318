"""A kernel as the driver loaded it: what it needs, and the sizes of its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from cudabw.errors import ClosedError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabw.runtime.configuration import LaunchLimits
    from cudabw.runtime.device import Device
    from cudabw.runtime.launching import Launcher
    from cudabw.runtime.signature import CType


class Function:
    """A kernel as the driver loaded it.

    Attributes:
        device: Where it runs.
        name: In the PTX.
        handle: The driver's ``CUfunction``.
        limits: Of the device.
        parameter_sizes: In bytes; None where the driver cannot say.
        registers: Of a thread.
        shared_bytes: Static shared memory of a block, in bytes.
        max_threads: Threads of a block at most, given the registers that the kernel needs.
        launchers: Those in use.
    """

    def __init__(self, device: Device, name: str, handle: Any, limits: LaunchLimits) -> None:  # noqa: ANN401
        self.device = device
        self.name = name
        self.handle = handle
        self.limits = limits
        self.registers = self._attribute("NUM_REGS")
        self.shared_bytes = self._attribute("SHARED_SIZE_BYTES")
        self.max_threads = self._attribute("MAX_THREADS_PER_BLOCK")
        self.parameter_sizes = self._read_parameter_sizes()
        self.launchers: WeakSet[Launcher] = WeakSet()

    def _attribute(self, name: str) -> int:
        attribute = getattr(self.device.driver.api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(self.device.call("cuFuncGetAttribute", attribute, self.handle))

    def _read_parameter_sizes(self) -> tuple[int, ...] | None:
        sizes: list[int] = []
        try:
            # The driver tells how many there are by refusing the one behind the last.
            while (info := self.device.driver.attempt("cuFuncGetParamInfo", self.handle, len(sizes)))[0] == 0:
                sizes.append(int(info[1][1]))
        except UnsupportedError:  # drivers before CUDA 12.4
            return None
        return tuple(sizes)

    def require_loaded(self) -> None:
        """Do nothing if the module is there.

        Raises:
            ClosedError: The module was closed.
        """
        if self.handle is None:
            raise ClosedError(f"the module of {self.name} was closed")

    def check(self, types: Sequence[CType]) -> None:
        """Compare a signature with the sizes of the parameters.

        Raises:
            TypeError: A number or a size differs.
        """
        sizes = self.parameter_sizes
        if sizes is None:
            return
        if len(types) != len(sizes):
            raise TypeError(f"{self.name} takes {len(sizes)} arguments, and the signature has {len(types)}")
        for position, (ctype, size) in enumerate(zip(types, sizes, strict=True)):
            if ctype.size != size:
                raise TypeError(
                    f"argument {position} of {self.name}: {ctype} has {ctype.size} bytes, "
                    f"and the kernel's parameter has {size}"
                )

    def close(self) -> None:
        """Refuse later launches."""
        self.handle = None
        for launcher in list(self.launchers):
            launcher.close()
