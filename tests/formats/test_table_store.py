"""Tables between steps, in memory or not."""

import resource

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.table_store import TableStore


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 9), max_size=4)), max_size=20),
    st.sampled_from([0, 1, 64, 200, 1 << 20]),
)
def test_tables_come_back_by_key_in_order(added, memory_bytes):
    with TableStore(memory_bytes) as store:
        for key, numbers in added:
            store.add(key, pa.table({"n": pa.array(numbers, pa.int64())}))
        expected = {key: [n for k, n in added if k == key] for key, _ in added}
        assert store.sorted_keys() == sorted(expected)
        found = {
            key: [table["n"].to_pylist() for table in store.take(key)] for key in sorted(expected)
        }
        assert found == expected
        assert store.sorted_keys() == []
        size_bytes = 8 * sum(len(numbers) for _, numbers in added)
        assert (store.spilled_bytes > 0) == (size_bytes > memory_bytes)


def test_slices_are_counted_as_what_they_show():
    table = pa.table({"n": pa.array(range(1000), pa.int64())})
    with TableStore(1000) as store:
        for start in range(100):
            store.add(0, table.slice(start, 1))
        assert store.spilled_bytes == 0
        assert [t["n"][0].as_py() for t in store.take(0)] == list(range(100))


def test_a_file_that_is_cut_is_noticed(tmp_path):
    with TableStore(0, tmp_path) as store:
        store.add(0, pa.table({"n": [1, 2, 3]}))
        store._file.truncate(10)
        with pytest.raises(MrDedupError, match="cut short"):
            list(store.take(0))


def test_a_file_that_cannot_be_written_is_an_error_that_names_the_folder(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with TableStore(0, tmp_path) as store, pytest.raises(MrDedupError) as error:
            store.add(0, pa.table({"n": range(10_000)}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(error.value) == f"temporary files in {tmp_path}: cannot be written: File too large"
