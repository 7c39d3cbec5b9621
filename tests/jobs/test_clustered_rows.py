"""What the resolve job reads about documents in clusters: by chunk, and whole or not at all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import FormatError
from mr_dedup.jobs.clustered_rows import ClusteredRows


def made(numbers, ranges):
    count = len(numbers)
    values = np.arange(count, dtype=np.uint64)
    return ClusteredRows(
        np.array(numbers, np.int64),
        values,
        values + np.uint64(1 << 63),
        np.arange(count),
        ranges=ranges,
    )


@given(st.sets(st.integers(0, 40)), st.lists(st.integers(0, 9), max_size=6))
def test_each_chunk_has_its_own(numbers, sizes):
    ends = np.cumsum([0, *sizes]).tolist()
    ranges = {10 * n: (ends[n], ends[n + 1]) for n in range(len(sizes))}
    ordered = sorted(number for number in numbers if number < ends[-1])
    rows = made(ordered, ranges)
    found = []
    for chunk, (start, stop) in ranges.items():
        of_chunk, count = rows.of(chunk)
        assert count == stop - start
        assert of_chunk.fingerprints.tolist() == [
            place for place, number in enumerate(ordered) if start <= number < stop
        ]
        found += (of_chunk.numbers + start).tolist()
    assert found == ordered
    of_none, count = rows.of(7)
    assert (of_none.numbers.size, count) == (0, 0)


def test_what_is_written_is_read(tmp_path):
    rows = made([0, 3, 4], {0: (0, 2), 5: (2, 9)})
    rows.write(tmp_path / "rows.parquet")
    read = ClusteredRows.read(tmp_path / "rows.parquet")
    assert read.ranges == rows.ranges
    for name in ("numbers", "fingerprints", "labels", "lengths"):
        assert getattr(read, name).tolist() == getattr(rows, name).tolist()
        assert getattr(read, name).dtype == getattr(rows, name).dtype


def test_damage_is_told(tmp_path):
    path = tmp_path / "rows.parquet"
    made(range(1000), {0: (0, 1000)}).write(path)
    content = bytearray(path.read_bytes())
    # not the first four bytes, which nobody reads
    for place in (500, 5000, len(content) - 5):
        damaged = content.copy()
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"rows\.parquet: not a side file with numbers"):
            ClusteredRows.read(path)
    path.write_bytes(b"")
    with pytest.raises(FormatError, match="not a side file"):
        ClusteredRows.read(path)
