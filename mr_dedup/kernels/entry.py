"""The decorators of kernels: functions in Python that are compiled before they are used.

``@entry`` marks what Python calls, ``@kernel`` what only other kernels call, ``@intrinsic`` what is
written in LLVM. Nothing of numba is imported: ``compiler.py`` translates them into a library of
machine code, ``library.py`` loads it, and an entry calls its function there.

The types of an entry's parameters are those of its annotations:

- ``NDArray[np.uint64]``, or ``Matrix[np.uint64]`` with two dimensions: a contiguous array;
- ``np.uint64``, ``np.int32``, ``int``, ``float``, ``bool``: a number, converted to that type;
- a NamedTuple or a tuple of such;
- ``NDArray[np.uint32 | np.uint64]`` or ``np.uint64 | None``: either, a function for each.

It returns None, a number, or a tuple of numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, overload

import numpy as np

from mr_dedup.kernels.library import Function, functions_of

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=np.generic)

Matrix = np.ndarray[tuple[int, int], np.dtype[T]]


class Intrinsic(NamedTuple):
    """Where the LLVM code of a function is: the name of a module that defines it."""

    module: str
    name: str


class Entry(Generic[P, R]):
    """A function of the compiled library; a call releases Python's lock.

    A call checks types, dimensions and contiguity, and costs 0.4 us for each array. No index is
    checked in the compiled code.

    Args:
        function: The function in Python. It is read by the compiler, and never run.

    Raises:
        TypeError: An argument is not of the annotated type, or an array is not contiguous.
        MemoryError: Scratch space could not be allocated.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    @functools.cached_property
    def _compiled(self) -> Function:
        return functions_of(self.function.__module__)[self.function.__name__]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the compiled function, by position."""
        if kwargs:
            raise TypeError(f"{self.function.__name__}: arguments have no names")
        result: R = self._compiled(args)
        return result

    def bind(self, *args: Any) -> Callable[..., R]:
        """Return a function of the arguments for which ``VARIES`` stands; the others are fixed.

        Fixed arrays are checked now, and must not be resized.
        """
        return self._compiled.bind(args)


ENTRIES: list[Entry[..., Any]] = []
"""All that were defined so far, for the compiler."""

KERNELS: dict[Callable[..., Any], dict[str, Any]] = {}
"""Functions that entries are made of, with numba's options for them."""

INTRINSICS: dict[Callable[..., Any], Intrinsic] = {}


@overload
def entry(function: Callable[P, R]) -> Entry[P, R]: ...


@overload
def entry(**options: Any) -> Callable[[Callable[P, R]], Entry[P, R]]: ...


def entry(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function for calls from Python and from kernels; ``options`` are numba's."""
    if function is None:
        return functools.partial(entry, **options)
    KERNELS[function] = options
    made = Entry(function)
    ENTRIES.append(made)
    return made


@overload
def kernel(function: F) -> F: ...


@overload
def kernel(**options: Any) -> Callable[[F], F]: ...


def kernel(function: Any = None, **options: Any) -> Any:
    """Compile a function for calls from kernels only; ``options`` are numba's."""
    if function is None:
        return functools.partial(kernel, **options)
    KERNELS[function] = options
    return function


def intrinsic(module: str) -> Callable[[F], F]:
    """Compile calls of a function as the LLVM code that ``module`` has under its name."""

    def declared(function: F) -> F:
        INTRINSICS[function] = Intrinsic(module, function.__name__)
        return function

    return declared
