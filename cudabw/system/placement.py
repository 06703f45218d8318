"""Put a thread and its memory on a NUMA node, and ask the system where memory and thread really are."""

from __future__ import annotations

import errno
import mmap
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from cudabw.errors import CudabwError, RefusedError, UnsupportedError
from cudabw.system.numa import NumaNode, allowed_nodes, numa_nodes
from cudabw.system.numa_calls import BIND, LinuxCalls, Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cudabw.system.numa_calls import NumaCalls

Before = TypeVar("Before")

SAMPLED_PAGES: Final = 64
"""Of each piece of memory: enough to see memory that is spread, and asked for within microseconds."""


class Placement:
    """Places the calling thread, and finds out where things are.

    Args:
        calls: The system's calls; None for those of the running kernel.
        root: Where ``/sys`` and ``/proc`` are found.
    """

    def __init__(self, calls: NumaCalls | None = None, *, root: Path = Path("/")) -> None:
        self._calls: NumaCalls = LinuxCalls() if calls is None else calls
        self._root = root

    def node(self, number: int) -> NumaNode:
        """The node of a number, whose memory this process may use.

        Raises:
            UnsupportedError: There is no such node, or it has no memory.
            RefusedError: Its memory is not allowed to this process.
        """
        nodes = {node.number: node for node in numa_nodes(root=self._root)}
        if not nodes:
            raise UnsupportedError(f"NUMA node {number} is not known: this system does not say which nodes it has")
        having = _listed(node.number for node in nodes.values() if node.has_memory)
        if number not in nodes or not nodes[number].has_memory:
            lack = "has no memory" if number in nodes else "does not exist"
            raise UnsupportedError(f"NUMA node {number} {lack}", hint=f"Nodes with memory: {having}.")
        allowed = allowed_nodes(root=self._root)
        if allowed is not None and number not in allowed:
            raise RefusedError(
                f"this process may not use the memory of NUMA node {number}: its cpuset allows {_listed(allowed)}"
            )
        return nodes[number]

    @contextmanager
    def placed_on(self, number: int | None) -> Iterator[None]:
        """Bind this thread's fresh memory to a node and move the thread to its CPUs; put both back afterwards.

        Threads that are started meanwhile stay placed. The thread stays where it is if it may not run on any CPU
        of the node, or the node has none.

        Args:
            number: The node; None changes nothing.

        Raises:
            UnsupportedError: There is no such node, it has no memory, or this system binds none.
            RefusedError: The system does not let this process use it.
        """
        if number is None:
            yield
            return
        node = self.node(number)
        with ExitStack() as back:
            try:
                self._bind(node, back)
            except OSError as error:
                raise _refusal(number, error) from error
            yield

    def _bind(self, node: NumaNode, back: ExitStack) -> None:
        policy, cpus = self._calls.policy(), self._calls.cpus()
        self._calls.set_policy(Policy(BIND, frozenset({node.number})))
        back.callback(_put_back, self._calls.set_policy, policy)
        # Those that somebody chose for this process are kept to, as far as they are the node's.
        wanted = node.cpus & cpus or node.cpus
        if wanted:
            with suppress(OSError):  # where thread and memory are is asked and said in any case
                self._calls.set_cpus(wanted)
                back.callback(_put_back, self._calls.set_cpus, cpus)

    def thread_node(self) -> int | None:
        """The node that this thread runs on at the moment; None where the system does not say. Never raises."""
        try:
            return self._calls.thread_node()
        except OSError:
            return None

    def pages_on(self, pieces: Iterable[tuple[int, int]]) -> dict[int, int] | None:
        """How many of a sample of pages lie on each node. Never raises.

        Args:
            pieces: Address and length in bytes of each piece of memory.

        Returns:
            Numbers of pages by node, by increasing node; None where the system does not say of any.
        """
        pages = [page for address, nbytes in pieces for page in _sample(address, nbytes)]
        if not pages:
            return None
        try:
            nodes = self._calls.page_nodes(pages)
        except OSError:
            return None
        return dict(sorted(Counter(node for node in nodes if node >= 0).items())) or None


def _sample(address: int, nbytes: int) -> list[int]:
    """The addresses of some pages, evenly spread, the first and the last among them."""
    first, last = address // mmap.PAGESIZE, (address + nbytes - 1) // mmap.PAGESIZE
    steps = min(SAMPLED_PAGES - 1, last - first)
    return [mmap.PAGESIZE * (first + (last - first) * step // max(1, steps)) for step in range(steps + 1)]


def _put_back(change: Callable[[Before], None], before: Before) -> None:
    try:
        change(before)
    except OSError as error:
        raise CudabwError(f"the thread was moved to a NUMA node and could not be put back: {error}") from error


def _refusal(number: int, error: OSError) -> CudabwError:
    code = errno.errorcode.get(error.errno or 0, str(error.errno))
    what = f"memory was not bound to NUMA node {number}: {error.filename} gave {code}"
    if error.errno == errno.ENOSYS:
        return UnsupportedError(what, hint="This kernel has no memory policies, or none that this program knows.")
    if error.errno in (errno.EPERM, errno.EACCES):
        return RefusedError(
            what, hint="In a container, allow it (docker run --security-opt seccomp=unconfined), or run outside."
        )
    return RefusedError(what)


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(str(number) for number in sorted(numbers)) or "none"
