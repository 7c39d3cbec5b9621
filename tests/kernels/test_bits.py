"""One-instruction operations, against Python's integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mr_dedup.kernels.bits import byte_swapped, folded_product, population_count
from mr_dedup.kernels.bits import trailing_zeros as zeros_of
from mr_dedup.kernels.compiler import jit

U64 = st.integers(0, 2**64 - 1)


@jit
def trailing_zeros(number):
    return zeros_of(number)


@jit
def each(one, other):
    return (
        population_count(one),
        folded_product(one, other),
        byte_swapped(one),
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
