"""Which segments are merged: neighbours about as large, so that few remain."""

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.index.merging import MERGED, similar_in_size


def settled(sizes):
    """Merge as long as there is something to merge; return the sizes, and what was written."""
    sizes, written = list(sizes), 0
    while (chosen := similar_in_size(sizes)) is not None:
        assert len(chosen) == MERGED
        total = sum(sizes[chosen.start : chosen.stop])
        sizes[chosen.start : chosen.stop] = [total]
        written += total
    return sizes, written


def test_four_of_one_size_are_merged():
    assert similar_in_size([100_000] * 3) is None
    assert similar_in_size([100_000] * 4) == range(4)
    assert similar_in_size([10_000_000, *[100_000] * 4]) == range(1, 5)
    assert similar_in_size([]) is None


def test_small_ones_between_large_ones_go_with_them():
    assert similar_in_size([8_000_000, 20, 8_000_000, 8_000_000]) == range(4)


def test_of_many_seals_few_segments_remain():
    sizes, written = [], 0
    for _ in range(2000):
        sizes, more = settled([*sizes, 1 << 16])
        written += more
        assert len(sizes) <= 3 * (1 + math.log(2000, MERGED))
    assert sum(sizes) == 2000 << 16
    assert written <= sum(sizes) * math.log(2000, MERGED)


@given(st.lists(st.integers(0, 1 << 30), max_size=60))
def test_segments_of_any_sizes_come_to_few(documents):
    sizes, _ = settled(documents)
    assert sum(sizes) == sum(documents)
    assert similar_in_size(sizes) is None
    # three of each power of four from 2**14 to 2**36
    assert len(sizes) <= 3 * 13


def test_no_more_than_a_segment_holds():
    rng = random.Random(1)
    sizes, _ = settled([rng.randrange(1 << 31, 1 << 32) for _ in range(9)])
    assert len(sizes) == 9
