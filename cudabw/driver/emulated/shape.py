"""What the emulated machine is made of."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_MEMORY = 2 << 30


@dataclass(frozen=True, slots=True)
class Shape:
    """The devices of an emulated machine.

    Attributes:
        devices: How many there are.
        memory: Bytes of memory of each.
        peer_access: Whether the devices can reach each other's memory.

    Raises:
        ValueError: A number is out of range.
    """

    devices: int = 1
    memory: int = DEFAULT_MEMORY
    peer_access: bool = False

    def __post_init__(self) -> None:
        # No device at all is a machine worth emulating: it must end as an error, not as a fallback.
        if not 0 <= self.devices <= 64:
            raise ValueError(f"devices must be 0 to 64, not {self.devices}")
        if not 1 <= self.memory <= 1 << 43:
            raise ValueError(f"memory must be 1 byte to 8 TiB, not {self.memory}")
