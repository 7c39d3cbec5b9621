"""Pairs: which fingerprint is left, their order, their distances."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.hamming.pairs import Pairs
from tests.oracles import hamming, signed
from tests.strategies import FINGERPRINTS


def as_array(numbers):
    return np.array(numbers, dtype=np.uint64)


def as_list(pairs):
    return list(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))


@given(st.lists(st.lists(st.tuples(FINGERPRINTS, FINGERPRINTS), max_size=20), max_size=4))
def test_merged_pairs_ascend_as_signed_numbers_each_once(parts):
    given_pairs = [Pairs(as_array([a for a, _ in part]), as_array([b for _, b in part]))
                   for part in parts]  # fmt: skip
    expected = sorted(
        {pair for part in parts for pair in part}, key=lambda pair: tuple(map(signed, pair))
    )
    merged = Pairs.merged(given_pairs)
    assert as_list(merged) == expected
    assert len(merged) == len(expected)
    assert merged.distances.tolist() == [hamming(a, b) for a, b in expected]
    assert as_list(merged.between(1, 3)) == expected[1:3]


@given(st.lists(st.tuples(FINGERPRINTS, FINGERPRINTS), max_size=20))
def test_of_unordered_pairs_the_smaller_is_left(pairs):
    one, other = as_array([a for a, _ in pairs]), as_array([b for _, b in pairs])
    expected = [tuple(sorted(pair, key=signed)) for pair in pairs]
    assert as_list(Pairs.unordered(one, other)) == expected
