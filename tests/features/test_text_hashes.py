"""Which texts were seen before."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.features.text_hashes import SeenTexts, text_hashes


@given(
    st.lists(st.lists(st.integers(0, 30), max_size=10), max_size=12), st.sampled_from([1, 4, 64])
)
def test_texts_that_are_said_to_be_seen_were(calls, slots):
    seen, before = SeenTexts(slots), set()
    for numbers in calls:
        hashes = text_hashes(pa.array([f"text {n}" for n in numbers], pa.large_string()))
        known = seen.add(hashes)
        assert {n for n, is_known in zip(numbers, known, strict=True) if is_known} <= before
        before.update(numbers)


def test_texts_are_seen_again_while_there_is_room():
    hashes = text_hashes(pa.array([f"text {n}" for n in range(1000)], pa.large_string()))
    seen = SeenTexts(1 << 16)
    assert not seen.add(hashes).any()
    assert seen.add(hashes).mean() > 0.95
