"""One-instruction operations, against Python's integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from mr_dedup.kernels import bits

U64 = st.integers(0, 2**64 - 1)


@njit
def trailing_zeros(number):
    return bits.trailing_zeros(number)


@njit
def each(one, other):
    return (
        bits.population_count(one),
        bits.folded_product(one, other),
        bits.byte_swapped(one),
    )


@pytest.mark.parametrize(("kind", "width"), [(np.uint32, 32), (np.uint64, 64)])
def test_trailing_zeros_is_the_index_of_the_lowest_set_bit(kind, width):
    for index in range(width):
        for above in 0, 1 << (width - 1), (1 << width) - 1:
            number = (above >> index << index | 1 << index) & ((1 << width) - 1)
            assert trailing_zeros(kind(number)) == index
    assert trailing_zeros(kind(0)) == width


@settings(deadline=None)
@given(U64, U64)
def test_operations_are_those_of_unbounded_integers(one, other):
    product = one * other
    high, low = product >> 64, product & (2**64 - 1)
    swapped = int.from_bytes(one.to_bytes(8, "little"), "big")
    assert each(np.uint64(one), np.uint64(other)) == (one.bit_count(), high ^ low, swapped)
