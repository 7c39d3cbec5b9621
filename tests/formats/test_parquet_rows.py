"""Rows of Parquet files, whatever is decoded at a time."""

from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mr_dedup.formats import parquet_rows
from mr_dedup.formats.parquet_rows import open_parquet


def rows_of(path, columns, texts, size_bytes):
    """Return all rows as dictionaries, and the batches."""
    with open_parquet(Path(path), str(path)) as file:
        batches = [
            batch
            for group in range(len(file.group_rows))
            for batch in file.rows(group, columns, texts, size_bytes)
        ]
    return [row for batch in batches for row in batch.to_pylist()], batches


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0, 3, 200])), max_size=40),
    st.sampled_from([pa.string(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())]),
    st.sampled_from([1, 7, 50]),
    st.sampled_from([1, 2, 5, 100]),
    st.sampled_from([1, 300, 1 << 20]),
    st.sampled_from([1, 250, 1 << 20]),
    st.booleans(),
    st.booleans(),
)
def test_rows_are_the_same_however_many_are_decoded_at_a_time(
    tmp_path, values, kind, group_rows, few_rows, max_decoded, size_bytes, is_whole, are_texts
):
    texts = [str(value) * times for value, times in values]
    table = pa.table({"n": range(len(texts)), "text": pa.array(texts).cast(kind)})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=group_rows)
    columns = None if is_whole else ["text"]
    with (
        mock.patch.object(parquet_rows, "_FEW_ROWS", few_rows),
        mock.patch.object(parquet_rows, "_SOME_ROWS", few_rows + 1),
        mock.patch.object(parquet_rows, "_MAX_DECODED_BYTES", max_decoded),
    ):
        found, batches = rows_of(path, columns, ["text"] if are_texts else [], size_bytes)
    assert found == table.select(columns or table.column_names).to_pylist()
    assert all(len(batch) for batch in batches)
    if are_texts:
        assert all(len(batch) <= few_rows + 1 for batch in batches)
        for batch in batches:
            decoded = sum(len(row["text"]) for row in batch.to_pylist())
            assert decoded <= size_bytes or len(batch) == 1


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", None])
def test_texts_that_take_little_space_are_decoded_one_by_one_after_many_bytes(tmp_path, encoding):
    """Of 8 texts of 5 KB at a limit of 30 KB; each is stored once, or by its difference."""
    path = tmp_path / "a.parquet"
    how = {"use_dictionary": True}
    if encoding is not None:
        how = {"use_dictionary": False, "column_encoding": {"text": encoding}}
    texts = ["x" * 5000] * 100
    pq.write_table(pa.table({"text": texts}), path, **how)
    with mock.patch.object(parquet_rows, "_MAX_DECODED_BYTES", 30_000):
        found, batches = rows_of(path, ["text"], ["text"], 1 << 20)
    assert [row["text"] for row in found] == texts
    assert [len(batch) for batch in batches] == [8] + [1] * 92


def test_columns_without_texts_are_decoded_many_rows_at_a_time(tmp_path):
    pq.write_table(pa.table({"n": range(50_000)}), tmp_path / "a.parquet")
    found, batches = rows_of(tmp_path / "a.parquet", ["n"], [], 1 << 20)
    assert [row["n"] for row in found] == list(range(50_000))
    assert len(batches) == 4
