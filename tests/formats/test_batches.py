"""Arrays of other lengths have the same elements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.formats.batches import regrouped


@given(st.lists(st.integers(0, 7), max_size=12), st.integers(1, 9))
def test_arrays_have_the_length_and_the_elements(lengths, length):
    values = np.arange(sum(lengths), dtype=np.uint64)
    batches = np.split(values, np.cumsum(lengths)[:-1]) if lengths else []
    found = list(regrouped(batches, length))
    assert [value for batch in found for value in batch.tolist()] == values.tolist()
    assert all(len(batch) == length for batch in found[:-1])
    assert all(0 < len(batch) <= length and batch.dtype == np.uint64 for batch in found)
    # new arrays: what was passed may be read-only
    assert all(batch.flags.writeable and not np.shares_memory(batch, values) for batch in found)


def test_no_more_is_read_than_is_needed():
    def batches():
        yield np.arange(5)
        pytest.fail("read too far")

    assert next(regrouped(batches(), 3)).tolist() == [0, 1, 2]
