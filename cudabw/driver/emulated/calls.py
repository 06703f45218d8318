"""The surface: how a method becomes a driver function, and how the bindings read arguments."""

from __future__ import annotations

import ctypes
import functools
import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from cuda.bindings import driver as cuda

from cudabw.driver.emulated.machine import Machine, Needs
from cudabw.driver.emulated.refusals import Refusal

Handle: TypeAlias = Any
"""A handle object of the bindings, its integer value, or None for zero."""

HostPointer: TypeAlias = Any
"""An integer address, an object with the buffer protocol, or None for null."""

Enumerator: TypeAlias = Any
"""A member of one of the bindings' enumerations, or its integer value."""

Structure: TypeAlias = Any
"""One of the bindings' structures."""

Result: TypeAlias = tuple[Any, ...]
"""A ``CUresult``, followed by the function's values or as many Nones."""

SIZE_PARAMETERS = ("bytesize", "ByteCount", "count", "N")


class Surface:
    """Base of the parts of the emulated driver: each reaches the one machine behind them."""

    _machine: Machine


S = TypeVar("S", bound=Surface)
P = ParamSpec("P")


def entry(
    *, values: int = 0, needs: Needs = Needs.CONTEXT
) -> Callable[[Callable[Concatenate[S, P], object]], Callable[Concatenate[S, P], Result]]:
    """Make a method a driver function: it returns a status tuple instead of raising Refusal.

    Args:
        values: How many values follow the status; the method returns None, the value, or a tuple of them.
        needs: What is checked before it runs.
    """

    def decorate(method: Callable[Concatenate[S, P], object]) -> Callable[Concatenate[S, P], Result]:
        name: str = getattr(method, "__name__", "")
        size_of = _size_reader(method)

        @functools.wraps(method)
        def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Result:
            try:
                self._machine.enter(name, needs, size_of(args, kwargs))
                result = method(self, *args, **kwargs)
            except Refusal as refusal:
                # As in the real bindings, a status they do not know is a ValueError.
                return (cuda.CUresult(refusal.status), *(None,) * values)
            if values == 0:
                return (cuda.CUresult.CUDA_SUCCESS,)
            if values == 1:
                return (cuda.CUresult.CUDA_SUCCESS, result)
            assert isinstance(result, tuple)  # noqa: S101 - narrows for the type checker
            return (cuda.CUresult.CUDA_SUCCESS, *result)

        return call

    return decorate


def _size_reader(method: Callable[..., object]) -> Callable[[tuple[object, ...], dict[str, Any]], int]:
    """Reads the number of bytes (or elements) a call is about from its arguments; 0 for other calls."""
    parameters = list(inspect.signature(method).parameters)[1:]
    if "sizes" in parameters:
        position = parameters.index("sizes")
        return lambda args, kwargs: sum(_argument(args, kwargs, position, "sizes"))
    for name in SIZE_PARAMETERS:
        if name in parameters:
            position = parameters.index(name)
            return lambda args, kwargs: int(_argument(args, kwargs, position, name))
    return lambda _args, _kwargs: 0


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, name: str) -> Any:  # noqa: ANN401
    # A missing argument is left for the method itself to complain about.
    return args[position] if position < len(args) else kwargs.get(name, 0)


def integer(value: Handle) -> int:
    """The integer behind a handle object, enumerator, integer or None, with the bindings' exceptions.

    Raises:
        TypeError: It is none of these.
        OverflowError: It is negative.
    """
    if type(value) is int:
        number = value
    elif value is None:
        number = 0
    elif isinstance(value, (str, bytes, bytearray, float)):
        raise TypeError("an integer is required")
    else:
        number = int(value)
    if number < 0:
        raise OverflowError("can't convert negative value to an unsigned integer")
    return number


def host_address(value: HostPointer) -> int:
    """The address a host pointer argument means, as the bindings read it.

    Raises:
        TypeError: It is neither an integer, None nor an object with the buffer protocol.
    """
    # A NumPy integer has the buffer protocol too, but is meant as an address.
    if value is None or isinstance(value, Integral):
        return integer(value)
    try:
        view = memoryview(value)
    except TypeError:
        return integer(value)
    return _buffer_address(view)


def _buffer_address(view: memoryview) -> int:
    if view.readonly or not view.contiguous:
        # ctypes maps only writable memory; a NumPy array gives the address of any.
        import numpy as np

        return int(np.asarray(view).ctypes.data)
    return ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B") if view.nbytes else view))
