"""Handles: numbers that stand for streams, events, modules and the like."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, TypeVar

from cudabw.driver.emulated.refusals import INVALID_HANDLE, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Handles:
    """What each handle stands for; no two things of any type ever share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Far from zero and from small numbers: no stream is mistaken for the null stream or an ordinal.
        self._next = itertools.count(0x10000, 0x10)
        self._things: dict[int, object] = {}

    def reserve(self) -> int:
        """A handle for a thing that needs to know it; `enter` it next."""
        return next(self._next)

    def enter(self, handle: int, thing: object) -> None:
        """Let a reserved handle stand for something."""
        with self._lock:
            self._things[handle] = thing

    def add(self, thing: object) -> int:
        """Give something a handle."""
        handle = self.reserve()
        self.enter(handle, thing)
        return handle

    def find(self, handle: int, kind: type[T], status: int = INVALID_HANDLE) -> T:
        """What a handle stands for. Raises Refusal (400 unless given) for another type, or an unknown one."""
        thing = self._things.get(handle)
        if not isinstance(thing, kind):
            raise Refusal(status)
        return thing

    def take(self, handle: int, kind: type[T]) -> T:
        """As `find`, and the handle is unknown from here on."""
        with self._lock:
            thing = self.find(handle, kind)
            del self._things[handle]
        return thing

    def discard(self, unwanted: Callable[[object], bool]) -> None:
        """Forget the handles of all things that are unwanted."""
        with self._lock:
            self._things = {handle: thing for handle, thing in self._things.items() if not unwanted(thing)}
