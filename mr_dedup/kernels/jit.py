"""The decorator of kernels: functions that numba compiles once and keeps on disk."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, overload

import numba

from mr_dedup.kernels.cache import prepare_cache

Kernel = Callable[..., Any]


@overload
def kernel(function: Kernel) -> Kernel: ...


@overload
def kernel(**options: Any) -> Callable[[Kernel], Kernel]: ...


def kernel(function: Kernel | None = None, **options: Any) -> Any:
    """Compile a function when it is first called, without Python's lock; keep the code on disk.

    ``options`` are further ones of numba's ``njit``. The first kernel that is defined prepares the
    directory of compiled kernels.
    """
    _set_up_numba()
    compiled = numba.njit(cache=True, nogil=True, **options)
    return compiled if function is None else compiled(function)


@functools.cache
def _set_up_numba() -> None:
    folder = prepare_cache()
    if folder is not None:
        numba.config.CACHE_DIR = str(folder)
    # a root logger at DEBUG, as Scrapy's is, would write each bytecode of each compiled kernel
    logger = logging.getLogger("numba")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
