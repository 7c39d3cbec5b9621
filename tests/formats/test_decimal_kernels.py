"""Printed decimals against str."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.formats.decimal_kernels import signed_decimals
from tests.oracles import signed
from tests.strategies import FINGERPRINTS

DIGITS = [9, 10, 99, 100, 2**63 + 1, 10**18, 10**19]
numbers = FINGERPRINTS | st.sampled_from(DIGITS)


@given(st.lists(st.tuples(numbers, st.sampled_from(b"\t\n:")), max_size=50))
def test_any_numbers_are_printed_as_str_prints_them(rows):
    values = np.array([value for value, _ in rows], dtype=np.uint64)
    separators = np.array([separator for _, separator in rows], dtype=np.uint8)
    expected = "".join(f"{signed(value)}{chr(separator)}" for value, separator in rows)
    assert signed_decimals(values, separators) == expected.encode()
