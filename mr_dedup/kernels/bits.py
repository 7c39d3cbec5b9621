"""Operations on unsigned integers that are one instruction and have no name in numba."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from mr_dedup.kernels.entry import intrinsic

_LLVM = "mr_dedup.kernels.llvm.bits"

N = TypeVar("N", np.uint32, np.uint64)


@intrinsic(_LLVM)
def population_count(number: np.uint64) -> np.uint64:
    """Return how many bits of a uint64 are set, uint64."""
    raise NotImplementedError


@intrinsic(_LLVM)
def trailing_zeros(number: N) -> N:
    """Return the index of the lowest set bit of a uint32 or uint64, in its type.

    32 or 64 if the number is 0.
    """
    raise NotImplementedError


@intrinsic(_LLVM)
def folded_product(one: np.uint64, other: np.uint64) -> np.uint64:
    """Return the XOR of the two halves of the 128-bit product of two uint64."""
    raise NotImplementedError


@intrinsic(_LLVM)
def byte_swapped(number: np.uint64) -> np.uint64:
    """Return a uint64 with its bytes in the opposite order."""
    raise NotImplementedError
