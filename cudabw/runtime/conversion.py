"""The arguments of a kernel's calls, converted to the types of its signature and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from cudabw.errors import ClosedError, MemorySideError
from cudabw.runtime.arguments import convert, fit, flatten, stores_c_value
from cudabw.runtime.refusals import located, wrong_count
from cudabw.runtime.signature import POINTER, CType, CValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudabw.runtime.counters import ConversionCounter
    from cudabw.runtime.ownership import Use

Arguments: TypeAlias = "tuple[list[Any], list[Use]]"
"""The converted arguments of a launch, never changed: what ``struct`` packs, and the memory that the kernel reaches."""

# What conversion raises, and is said with the position of the argument.
CONVERSION_ERRORS = (MemorySideError, ClosedError, TypeError, ValueError, OverflowError)


def separate(values: Sequence[CValue]) -> Arguments:
    """Typed values as the arguments of a launch."""
    return [value for _, value, _ in values], flatten([memory for _, _, memory in values])


class Conversion:
    """From the arguments of calls to those of launches, for one signature.

    Args:
        kernel: The name, for errors.
        types: The signature.
        counter: Counts each argument that was converted.
    """

    __slots__ = ("_converters", "_counter", "_kernel", "_latest", "_only_pointers", "_stored", "types")

    def __init__(self, kernel: str, types: tuple[CType, ...], counter: ConversionCounter) -> None:
        self.types = types
        self._kernel = kernel
        self._counter = counter
        self._only_pointers = all(ctype is POINTER for ctype in types)
        # The converter of each class that was met: looking it up in the open hook costs more than converting.
        self._converters: dict[type, Callable[[Any], CValue]] = {}
        # The classes whose objects need not even be asked; see stores_c_value.
        self._stored: set[type] = set()
        # What the latest buffers gave where a call had nothing else, and what that became.
        self._latest: tuple[list[CValue] | None, Arguments] = (None, ([], []))

    def all(self, args: Sequence[object]) -> Arguments:
        """Convert the arguments of a call.

        Buffers that give what those of the call before gave become the same object again, so that a launcher knows
        that it has them packed.

        Raises:
            TypeError: There are too many or too few, or one is of a wrong class or dtype.
            OverflowError: One is out of its type's range.
            ClosedError: One is a buffer that was closed.
        """
        if not self._only_pointers:
            return self._one_by_one(args)
        stored = self._stored
        given = [argument._c_value for argument in args if type(argument) in stored]  # type: ignore[attr-defined] # noqa: SLF001
        count = len(args)
        latest, arguments = self._latest
        if given != latest or len(given) != count:
            if not len(given) == count == len(self.types):
                return self._one_by_one(args)
            arguments = [value for _, value, _ in given], [memory for _, _, memory in given if memory is not None]
            self._latest = given, arguments
        self._counter.arguments += count
        return arguments

    def _one_by_one(self, args: Sequence[object]) -> Arguments:
        converters, stored, types = self._converters, self._stored, self.types
        count = len(args)
        if count != len(types):
            raise wrong_count(self._kernel, len(types), count)
        values: list[Any] = []
        uses: list[Use] = []
        try:
            for argument in args:
                kind = type(argument)
                if kind in stored:
                    ctype, value, memory = argument._c_value  # type: ignore[attr-defined] # noqa: SLF001
                else:
                    ctype, value, memory = converters[kind](argument)
                expected = types[len(values)]
                if ctype is not expected:
                    _, value, memory = fit((ctype, value, memory), expected)
                values.append(value)
                if type(memory) is tuple:
                    uses += memory
                elif memory is not None:
                    uses.append(memory)
        except KeyError:
            if not self._learn(args):
                raise
            return self._one_by_one(args)
        except CONVERSION_ERRORS as error:
            raise located(error, self._kernel, len(values)) from error
        self._counter.arguments += count
        return values, uses

    def each(self, args: Sequence[object]) -> list[CValue]:
        """As :meth:`all`, as typed values: for a launch of which one may be replaced later."""
        if len(args) != len(self.types):
            raise wrong_count(self._kernel, len(self.types), len(args))
        values = [self._fitted(position, argument) for position, argument in enumerate(args)]
        self._counter.arguments += len(values)
        return values

    def one(self, position: int, argument: object) -> CValue:
        """As :meth:`each`, for one argument."""
        value = self._fitted(position, argument)
        self._counter.arguments += 1
        return value

    def _fitted(self, position: int, argument: object) -> CValue:
        kind = type(argument)
        if kind not in self._converters:
            self._learn([argument])
        try:
            return fit(self._converters[kind](argument), self.types[position])
        except CONVERSION_ERRORS as error:
            raise located(error, self._kernel, position) from error

    def _learn(self, args: Sequence[object]) -> bool:
        """Find the converters of classes that were not met before; whether there was one."""
        # Not a dict with __missing__: the interpreter has a faster way only for looking into a plain one.
        kinds = {type(argument) for argument in args} - self._converters.keys()
        for kind in kinds:
            self._converters[kind] = convert.dispatch(kind)
            if stores_c_value(kind):
                self._stored.add(kind)
        return bool(kinds)
