"""What the user should do about a status of the CUDA driver.

:func:`hint_for` speaks about any call; :func:`startup_hint` about a driver that did not
start, for which it looks at device nodes and ``/proc`` through a :class:`SystemProbe`.
The meaning of each status is that of ``CUresult`` in NVIDIA's CUDA Driver API reference.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_LIBRARY = "libcuda.so.1"
_CONTROL_NODE = "/dev/nvidiactl"
_PROC = "/proc/driver/nvidia"
_WSL_NODE = "/dev/dxg"

# Where drivers put libcuda when neither LD_LIBRARY_PATH nor the loader's cache says: the loader's
# default directories, those of the two Debian architectures, and WSL's.
_KNOWN_DIRECTORIES = (
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/wsl/lib",
)

_HOST_MEMORY_FUNCTIONS = frozenset({"cuMemHostAlloc", "cuMemHostRegister"})

_HINTS: Mapping[int, str] = {
    1: "An argument is out of range for this device or driver, or memory was used after it was freed.",
    2: "Something else may hold the device's memory (see nvidia-smi); use smaller sizes.",
    3: "The driver is not initialised in this process: it was forked from one that had used CUDA. "
    "Spawn a new process instead.",
    4: "The driver is shutting down with the process; start the program again.",
    34: "A toolkit's stub library stands in for the driver. Take the stubs directory off LD_LIBRARY_PATH.",
    36: "The call needs a newer NVIDIA driver than the installed one; update the driver.",
    46: "The device is held by another process or not ready: look in nvidia-smi for a compute mode of "
    "Exclusive or Prohibited, and for other processes.",
    100: "The driver sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES.",
    101: "There is no device of that number; devices count from 0 among the visible ones.",
    102: "The device lacks a licence (vGPU); see nvidia-smi -q and the licence server.",
    200: "The kernel image is damaged or not meant for this driver; reinstall cudabw, then update the driver.",
    201: "No context is current on this thread, or it has been destroyed.",
    205: "The memory could not be mapped for the device; fewer or smaller mappings may fit.",
    208: "The memory is mapped already; unmap it first.",
    209: "The device is older than the kernels support (compute capability 5.0).",
    214: "The device has an uncorrectable ECC error: see nvidia-smi -q -d ECC. Reset the GPU, and replace it "
    "when the error returns.",
    217: "These two devices cannot reach each other's memory; see nvidia-smi topo -p2p r.",
    218: "The driver rejects the kernel's PTX; update the driver, or report this when it is recent.",
    220: "NVLink has an uncorrectable error: see nvidia-smi nvlink -e.",
    221: "The driver's PTX compiler (libnvidia-ptxjitcompiler.so.1) is missing; reinstall the driver, or give "
    "the container the compute capability.",
    222: "The kernel's PTX is newer than the driver; update the driver.",
    223: "Compiling PTX is switched off; unset CUDA_DISABLE_PTX_JIT.",
    226: "A GPU memory error was contained and ended this context; start again, and see dmesg for the Xid.",
    304: "The operating system refused: see dmesg, and check the limits on locked memory (ulimit -l) and mappings.",
    400: "A handle was closed, belongs to another context or is of another type.",
    401: "An object is not in a state that allows the call.",
    500: "The driver or the kernel image has nothing of that name.",
    600: "The work is still running; this is not a failure when asked whether it is done.",
    700: "A kernel or copy touched an address that is not the device's. The context is lost: start again.",
    701: "The launch needs more registers or shared memory than a block can have; use smaller blocks.",
    702: "A kernel ran longer than the display's watchdog allows. The context is lost: start again, on a GPU "
    "without a display.",
    704: "Access between these two devices is enabled already; it can be used as it is.",
    705: "Access between these two devices must be enabled before it is used or disabled.",
    709: "The context was destroyed or reset by other code in this process.",
    711: "The device can reach no more peers at once; measure fewer pairs.",
    712: "The range, or part of it, is already pinned or registered; unregister that first.",
    713: "The range was never registered, or not from this start address.",
    714: "The device reports a hardware stack error. The context is lost: start again.",
    715: "A kernel met an illegal instruction. The context is lost: start again, and see dmesg for the Xid.",
    716: "A kernel used a misaligned address. The context is lost: start again with aligned sizes and offsets.",
    719: "A kernel failed or the device was lost. The context is lost: see dmesg for the Xid, then start again.",
    800: "The operation is not permitted for this user, container or context.",
    801: "This device, driver or system does not offer it; other cases go on.",
    802: "The system is not ready: on machines with NVSwitch start the fabric manager "
    "(systemctl start nvidia-fabricmanager), in its version for this driver.",
    803: "The driver library and the kernel module must match. Reboot or reload the module after an update, "
    "and take any other libcuda (a toolkit's compat directory, a container image's own) off the loader's path.",
    804: "A forward-compatibility libcuda was loaded, which works on data-centre GPUs only; take its directory "
    "(in a container usually /usr/local/cuda/compat) off LD_LIBRARY_PATH.",
    805: "The MPS control daemon cannot be reached: start it with nvidia-cuda-mps-control -d, or unset "
    "CUDA_MPS_PIPE_DIRECTORY.",
    806: "The MPS server does not answer; restart it, and see its log.",
    807: "The MPS server is not ready yet; try again in some seconds.",
    808: "The MPS server has as many clients as it takes; end one.",
    809: "The MPS server has no connection left; end another client.",
    900: "The call is not allowed while its stream is being captured; end the capture first.",
    901: "The capture was spoiled by an earlier call; start a new one.",
    906: "The call would wait for the null stream while a stream is being captured.",
    908: "A capture must be ended on the thread that began it.",
    999: "The driver gives no reason: see dmesg for NVRM and Xid lines. Reloading nvidia_uvm or a reboot often helps.",
}

_PINNED_OUT_OF_MEMORY = (
    "Host pinned memory was refused, not device memory: RAM may be short, or pinning limited by ulimit -l (memlock), "
    "a container's memory limit, or WSL (about half the RAM). Use smaller sizes or raise the limit."
)
_BY_FUNCTION: Mapping[tuple[int, str], str] = {
    (1, "cuMemHostRegister"): "The range is empty, or not wholly mapped in this process.",
    (1, "cuMemFree"): "The address is not the start of a device allocation, or was freed already.",
    (1, "cuMemFreeHost"): "The address is not the start of a pinned allocation, or was freed already.",
    (2, "cuMemAllocManaged"): "Managed memory was refused: it needs host memory as well as device memory. "
    "Use smaller sizes.",
    **{(2, function): _PINNED_OUT_OF_MEMORY for function in _HOST_MEMORY_FUNCTIONS},
    **{
        (801, function): "This system does not offer this kind of host memory (confidential computing, a vGPU or "
        "an integrated GPU); other kinds go on."
        for function in _HOST_MEMORY_FUNCTIONS
    },
}
_COPY_OF_INVALID_RANGE = (
    "An address or size does not fit one allocation of the right side: it was freed, crosses the edge of a "
    "registered range, or is a host address where a device address belongs."
)
_AT_START: Mapping[int, str] = {
    2: "The driver could not get the memory it starts with: see free -m, and the container's memory limit.",
    100: "nvidia-smi -L must list a GPU; a container must be given one (docker run --gpus all), and a GPU in MIG mode "
    "needs an instance.",
    101: "A GPU that is not usable was named, or one has fallen off the bus: see nvidia-smi and dmesg.",
    801: "This driver cannot work on this system, as in a virtual machine without a vGPU driver; see dmesg.",
}
_UNNAMED = "There is no advice for this status; CUresult in NVIDIA's CUDA Driver API reference explains it."


def hint_for(code: int, function: str) -> str:
    """What the user should do about a failure status of one function, in one or two sentences."""
    if code == 1 and function.startswith("cuMemcpy"):
        return _COPY_OF_INVALID_RANGE
    return _BY_FUNCTION.get((code, function)) or _HINTS.get(code, _UNNAMED)


@dataclass(frozen=True, slots=True)
class SystemProbe:
    """What the system's files say about an NVIDIA driver.

    Attributes:
        root: Directory that all absolute paths are looked up under.
    """

    root: Path = Path("/")

    def driver_installed(self) -> bool:
        """Whether a kernel driver has left its traces: a control node, its ``/proc`` entry, or WSL's node."""
        return any(self._at(path).exists() for path in (_CONTROL_NODE, _PROC, _WSL_NODE))

    def find_library(self, environ: Mapping[str, str]) -> str | None:
        """The ``libcuda.so.1`` the loader meets first; a dangling link counts, as a driver that is broken."""
        for directory in (*_library_path(environ), *self._cached_directories(), *_KNOWN_DIRECTORIES):
            path = f"{directory.rstrip('/')}/{_LIBRARY}"
            if os.path.lexists(self._at(path)):
                return path
        return None

    def mapped_library(self) -> str | None:
        """The file this process has loaded as libcuda, links resolved; so it often carries its version."""
        paths = (line.split(maxsplit=5)[-1] for line in self._read("/proc/self/maps").splitlines())
        return next((path for path in paths if Path(path).name.startswith("libcuda.so")), None)

    def kernel_module_version(self) -> str | None:
        """The version of the loaded kernel module, as in ``580.95.05``."""
        match = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", self._read(f"{_PROC}/version"))
        return match[1] if match else None

    def nodes(self) -> list[str]:
        """The device nodes that the driver's library needs, whether they are there or not."""
        if self._at(_WSL_NODE).exists():
            return [_WSL_NODE]
        numbered = sorted(f"/dev/{path.name}" for path in self._at("/dev").glob("nvidia[0-9]*"))
        return [_CONTROL_NODE, "/dev/nvidia-uvm", *(numbered or ["/dev/nvidia0"])]

    def node_problems(self) -> list[str]:
        """What is wrong with each device node, as ``/dev/nvidiactl is missing``; empty when all can be opened."""
        return [problem for node in self.nodes() if (problem := self._node_problem(node))]

    def _node_problem(self, node: str) -> str | None:
        # Opened rather than looked at: a container's device rules do not show in the mode bits.
        try:
            os.close(os.open(self._at(node), os.O_RDWR | os.O_CLOEXEC))
        except FileNotFoundError:
            return f"{node} is missing"
        except OSError as error:
            return f"{node} cannot be opened ({error.strerror})"
        return None

    def _cached_directories(self) -> list[str]:
        # The cache is a table of offsets into zero-terminated paths. Looking for the path alone
        # spares running `ldconfig -p`.
        try:
            cache = self._at("/etc/ld.so.cache").read_bytes()
        except OSError:
            return []
        return [os.fsdecode(match) for match in re.findall(rb"(/[^\0]*)/libcuda\.so\.1\0", cache)]

    def _read(self, path: str) -> str:
        try:
            return self._at(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")


def _library_path(environ: Mapping[str, str]) -> list[str]:
    # As glibc reads it: separated by colons or semicolons, an empty member is the working directory.
    value = environ.get("LD_LIBRARY_PATH", "")
    return [str(Path(member).absolute()) for member in re.split("[:;]", value)] if value else []


def startup_hint(code: int, environ: Mapping[str, str], probe: SystemProbe) -> str:
    """What the user should do about a driver whose start ended with a status.

    Args:
        code: The status; 100 also for a driver that counts no device.
        environ: The environment the driver was started in.
        probe: Looked at for the statuses whose cause shows in device nodes and ``/proc``.
    """
    if code in (100, 101):
        return f"{_visible_devices(environ)}{_node_problems(probe)}{_AT_START[code]}"
    if code in (304, 999):
        return f"{_node_problems(probe) or 'All device nodes can be opened. '}{hint_for(code, 'cuInit')}"
    if code == 803:
        return f"{_versions_side_by_side(probe)} {_HINTS[code]}"
    return _AT_START.get(code) or hint_for(code, "cuInit")


def _visible_devices(environ: Mapping[str, str]) -> str:
    value = environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return ""
    return f'CUDA_VISIBLE_DEVICES="{value}" limits what the driver shows; unset it, or name a GPU of nvidia-smi -L. '


def _node_problems(probe: SystemProbe) -> str:
    problems = probe.node_problems()
    return f"{'; '.join(problems)}. " if problems else ""


def _versions_side_by_side(probe: SystemProbe) -> str:
    path = probe.mapped_library() or _LIBRARY
    match = re.search(r"libcuda\.so\.(\d+\.[\d.]+)$", path)
    library = match[1] if match else "of a version its file name does not tell"
    module = probe.kernel_module_version() or f"of a version {_PROC}/version does not tell"
    return f"The driver library is {library} ({path}), the kernel module is {module}."
