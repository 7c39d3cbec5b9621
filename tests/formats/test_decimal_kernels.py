"""Printed decimals against str."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mr_dedup.formats.decimal_kernels import signed_decimals
from tests.oracles import signed

EDGES = [0, 1, 9, 10, 99, 100, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 10**18, 10**19]
numbers = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from(EDGES))


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(numbers, st.sampled_from(b"\t\n:")), max_size=50))
def test_any_numbers_are_printed_as_str_prints_them(rows):
    values = np.array([value for value, _ in rows], dtype=np.uint64)
    separators = np.array([separator for _, separator in rows], dtype=np.uint8)
    expected = "".join(f"{signed(value)}{chr(separator)}" for value, separator in rows)
    assert signed_decimals(values, separators) == expected.encode()
