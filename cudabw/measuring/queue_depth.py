"""How many launches the driver queues before a further one holds the host: detected, not assumed.

Launches are queued behind a closed gate, where none of them can end. The one that does not fit holds its thread, so a
second thread watches; when nothing was queued for a while it opens the gate. That needs bindings that let
other threads run while a launch holds its own, as cuda-bindings do from 12.9 on.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from cudabw.results.launch_sets import QueueDepth

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudabw.runtime.gate import Gate
    from cudabw.runtime.stream import Stream

# Twice what an H200 queues (1020; design, section 4).
MOST_TRIED = 2048
# A thread that is merely not given a processor comes back sooner. If it does not, the depth is found too small,
# which makes bursts shorter and nothing else.
STALL_SECONDS = 0.2
# Where nothing can be detected: a quarter of what an H200 queues.
ASSUMED = 255


class _Probe:
    """What the two threads share."""

    def __init__(self) -> None:
        self.launched = 0
        self.full_at: int | None = None
        self.over = threading.Event()


def detect_queue_depth(
    stream: Stream,
    gate: Gate,
    launch: Callable[[], object],
    *,
    most: int = MOST_TRIED,
    stall_s: float = STALL_SECONDS,
) -> QueueDepth:
    """Queue launches on a stream until one holds the host, or ``most`` of them did not.

    Args:
        stream: With nothing queued on it.
        gate: Open; it is open again afterwards.
        launch: Queues one kernel, which was launched before: loading it behind a gate would hold the host for ever.
        most: Where to stop.
        stall_s: Real seconds without any launch after which the queue counts as full.

    Raises:
        CudabwError: A launch failed.
    """
    probe = _Probe()
    gate.close_on(stream)
    watcher = threading.Thread(target=_watch, args=(probe, gate, stall_s), name="cudabw-queue-depth", daemon=True)
    watcher.start()
    try:
        while probe.full_at is None and probe.launched < most:
            launch()
            probe.launched += 1
    finally:
        probe.over.set()
        watcher.join()
        gate.open()
    stream.synchronize()
    return QueueDepth(probe.full_at, probe.launched)


def _watch(probe: _Probe, gate: Gate, stall_s: float) -> None:
    seen = -1
    while not probe.over.wait(stall_s):
        if probe.launched == seen:
            probe.full_at = seen
            gate.open()
            return
        seen = probe.launched


def most_in_a_burst(depth: QueueDepth) -> int:
    """The most launches that stay below half the queue."""
    known = (depth.tried or ASSUMED) if depth.launches is None else depth.launches
    return max(1, (known - 1) // 2)
