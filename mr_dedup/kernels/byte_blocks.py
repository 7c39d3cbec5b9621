"""Blocks of bytes: compare 64 at once to a bit mask, copy 16 or 64 at once.

Nothing here checks an index: the caller pads arrays that are read or written past their end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mr_dedup.kernels.entry import intrinsic

_LLVM = "mr_dedup.kernels.llvm.byte_blocks"
BLOCK_BYTES = 64
"""Bytes compared by one call: a bit each of a uint64."""

COPY_BYTES = 16
"""Bytes copied by one call of :func:`copy_lower`; outputs carry this much padding."""


@intrinsic(_LLVM)
def below_mask(content: NDArray[np.uint8], start: np.uint64, bound: np.uint8) -> np.uint64:
    """Return a uint64 whose bit j is set if content[start + j] < bound, a uint8."""
    raise NotImplementedError


@intrinsic(_LLVM)
def equal_mask(content: NDArray[np.uint8], start: np.uint64, byte: np.uint8) -> np.uint64:
    """Return a uint64 whose bit j is set if content[start + j] == byte, a uint8."""
    raise NotImplementedError


@intrinsic(_LLVM)
def word_mask(content: NDArray[np.uint8], start: np.uint64) -> np.uint64:
    """Return a uint64 whose bit j is set if content[start + j] is an ASCII letter or digit."""
    raise NotImplementedError


@intrinsic(_LLVM)
def copy_block(
    content: NDArray[np.uint8], start: np.uint64, out: NDArray[np.uint8], begin: np.uint64
) -> None:
    """Copy BLOCK_BYTES bytes from content[start] to out[begin]."""
    raise NotImplementedError


@intrinsic(_LLVM)
def copy_lower(
    content: NDArray[np.uint8], start: np.uint64, out: NDArray[np.uint8], begin: np.uint64
) -> None:
    """Copy COPY_BYTES bytes from content[start] to out[begin], ASCII letters in lower case."""
    raise NotImplementedError


@intrinsic(_LLVM)
def copy_block_lower(
    content: NDArray[np.uint8], start: np.uint64, out: NDArray[np.uint8], begin: np.uint64
) -> None:
    """Copy BLOCK_BYTES bytes from content[start] to out[begin], ASCII letters in lower case."""
    raise NotImplementedError
