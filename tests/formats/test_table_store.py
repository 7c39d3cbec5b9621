"""Tables between steps, in memory or not."""

import os
import resource
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mr_dedup.errors import MrDedupError
from mr_dedup.formats import table_store
from mr_dedup.formats.table_store import TableStore


def numbers_table(numbers):
    return pa.table({"n": pa.array(numbers, pa.int64())})


def names_table(numbers):
    """Of a chunk each number, and dictionaries that differ."""
    names = [pa.array([f"name {n}"]).dictionary_encode() for n in numbers]
    kind = pa.dictionary(pa.int32(), pa.string())
    return pa.table({"s": pa.chunked_array(names, kind)}, metadata={"kind": "names"})


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from([numbers_table, names_table]),
            st.lists(st.integers(0, 9), max_size=4),
        ),
        max_size=20,
    ),
    st.sampled_from([0, 1, 64, 200, 1 << 20]),
    st.sampled_from([1, 60, 1 << 20]),
    st.sampled_from([1, 2, 50]),
)
def test_tables_come_back_by_key_in_order(added, memory_bytes, stream_bytes, max_files):
    with (
        mock.patch.object(table_store, "_STREAM_BYTES", stream_bytes),
        mock.patch.object(table_store, "_MAX_FILES", max_files),
        TableStore(memory_bytes) as store,
    ):
        tables = [(key, make(numbers)) for key, make, numbers in added]
        for key, table in tables:
            store.add(key, table)
        expected = {key: [table for k, table in tables if k == key] for key, _ in tables}
        assert store.sorted_keys() == sorted(expected)
        for read in (store.read, store.take):
            for key, given_tables in expected.items():
                found = list(read(key))
                assert len(found) == len(given_tables)
                for table, given_table in zip(found, given_tables, strict=True):
                    assert table.equals(given_table)
                    assert table.schema.equals(given_table.schema, check_metadata=True)
        assert store.sorted_keys() == []
        size_bytes = sum(table.nbytes for _, table in tables)
        assert store.size_bytes == size_bytes
        assert (store.spilled_bytes > 0) == (size_bytes > memory_bytes)


def test_what_is_discarded_makes_room(tmp_path):
    table = numbers_table(range(100))
    with TableStore(1000, tmp_path) as store:
        store.add(0, table)
        store.discard(0)
        store.discard(7)
        store.add(1, table)
        assert store.bytes_in_memory == table.nbytes
        assert store.sorted_keys() == [1]
        list(store.take(1))
        store.add(2, table)
        assert store.spilled_bytes == 0


def test_files_are_removed_as_their_tables_are_taken(tmp_path):
    def sizes():
        files = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
        links = [(f, os.readlink(f)) for f in files if f.is_symlink()]  # noqa: PTH115
        return [f.stat().st_size for f, target in links if target.startswith(str(tmp_path))]

    with TableStore(10_000, tmp_path) as store:
        for key in range(40):
            store.add(key, numbers_table(range(1000)))
        before = sum(sizes())
        assert before > 38 * 8000
        for key in range(20):
            list(store.take(key))
        assert before / 3 < sum(sizes()) < before * 2 / 3
        for key in range(20, 40):
            store.discard(key)
        assert sizes() == []


def test_slices_are_counted_as_what_they_show():
    table = pa.table({"n": pa.array(range(1000), pa.int64())})
    with TableStore(1000) as store:
        for start in range(100):
            store.add(0, table.slice(start, 1))
        assert store.spilled_bytes == 0
        assert [t["n"][0].as_py() for t in store.take(0)] == list(range(100))


def test_what_came_first_is_written_first_and_a_quarter_at_a_time():
    table = numbers_table(range(1000))
    with TableStore(10 * table.nbytes) as store:
        for number in range(10):
            store.add(number % 3, table)
        assert store.spilled_bytes == 0
        store.add(9, table)
        # down to three quarters
        assert store.spilled_bytes == 4 * table.nbytes
        assert store.bytes_in_memory == 7 * table.nbytes
        assert [len(store._tables[key]) for key in (0, 1, 2, 9)] == [3, 3, 3, 1]
        for _ in range(2):
            store.add(9, table)
        assert store.spilled_bytes == 4 * table.nbytes
        # what was taken needs not be written
        list(store.take(0))
        assert store.bytes_in_memory == 7 * table.nbytes
        for _ in range(4):
            store.add(8, table)
        assert store.spilled_bytes == 8 * table.nbytes
        for key, count in ((1, 3), (2, 3), (9, 3), (8, 4)):
            assert [each.equals(table) for each in store.take(key)] == [True] * count
        assert store.bytes_in_memory == 0


def test_memory_of_slices_is_free_after_they_were_written():
    before = pa.total_allocated_bytes()
    with TableStore(1 << 20) as store:
        for number in range(10):
            table = pa.concat_tables([numbers_table(range(50_000))] * 2).combine_chunks()
            for key in range(50):
                store.add(key, table.slice(2000 * key, 2000))
            del table
            assert pa.total_allocated_bytes() - before < 4 << 20, number


def test_a_file_that_is_cut_is_noticed(tmp_path):
    with TableStore(0, tmp_path) as store:
        store.add(0, pa.table({"n": [1, 2, 3]}))
        store._files[0]._file.truncate(10)
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
