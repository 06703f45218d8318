"""What a device counts while it is used, to be reported beside every figure."""

from __future__ import annotations


class WaitCounters:
    """How many waits ownership has asked for, on the streams and of the host."""

    __slots__ = ("host", "stream")

    def __init__(self) -> None:
        self.stream = 0
        self.host = 0


class ConversionCounter:
    """How many arguments were converted from Python values to C values."""

    __slots__ = ("arguments",)

    def __init__(self) -> None:
        self.arguments = 0
