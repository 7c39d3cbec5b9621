"""Loads and prefetches at any offset of an array.

Nothing here checks an index: the caller pads arrays that are read past their end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mr_dedup.kernels.entry import intrinsic

_LLVM = "mr_dedup.kernels.llvm.memory"


@intrinsic(_LLVM)
def load64(content: NDArray[np.uint8], start: np.uint64) -> np.uint64:
    """Return content[start : start + 8] as a little-endian uint64; ``content`` uint8[n]."""
    raise NotImplementedError


@intrinsic(_LLVM)
def load32(content: NDArray[np.uint8], start: np.uint64) -> np.uint64:
    """Return content[start : start + 4] as a little-endian number, uint64; ``content`` uint8[n]."""
    raise NotImplementedError


@intrinsic(_LLVM)
def prefetch(array: NDArray[Any], index: np.uint64) -> None:
    """Fetch the cache line of array[index], to be written soon.

    An index past the array is allowed.
    """
    raise NotImplementedError
