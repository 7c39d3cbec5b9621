"""The decorator of kernels: functions that numba compiles once and keeps on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from numba import njit

Kernel = Callable[..., Any]


@overload
def kernel(function: Kernel) -> Kernel: ...


@overload
def kernel(**options: Any) -> Callable[[Kernel], Kernel]: ...


def kernel(function: Kernel | None = None, **options: Any) -> Any:
    """Compile a function when it is first called, without Python's lock; keep the code on disk.

    ``options`` are further ones of numba's ``njit``.
    """
    compiled = njit(cache=True, nogil=True, **options)
    return compiled if function is None else compiled(function)
