"""Merging in bounded memory."""

from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.jobs.merging import merged_in_turn


@given(st.lists(st.sets(st.integers(0, 40), max_size=9)), st.integers(1, 30))
def test_all_is_merged_and_little_buffered(items, limit):
    largest = 0

    def merge(buffered):
        nonlocal largest
        largest = max(largest, sum(map(len, buffered)))
        return set().union(*buffered)

    assert merged_in_turn(items, merge, limit) == set().union(*items)
    # 41 are distinct, and an item has up to 9
    assert largest <= max(limit, 2 * 41) + 9
