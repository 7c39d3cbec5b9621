"""Sizes of rows: sums over their values, the same in any slice."""

import pyarrow as pa
import pytest

from mr_dedup.formats.row_sizes import row_bytes


def size_of(value):
    """The slow way: 8 bytes a value, also of what contains others, and the bytes of texts."""
    if isinstance(value, str | bytes):
        return 8 + len(value.encode() if isinstance(value, str) else value)
    if isinstance(value, list):
        return 8 + sum(map(size_of, value))
    if isinstance(value, dict):
        return 8 + sum(map(size_of, value.values()))
    return 8


COLUMNS = {
    "numbers": pa.array([1, None, 3, 4]),
    "texts": pa.array(["é", None, "", "four"]),
    "binary": pa.array([b"\xff", b"", None, b"abc"], pa.large_binary()),
    "dictionary": pa.array(["a", "bb", None, "a"]).dictionary_encode(),
    "lists": pa.array([["a", "bc"], None, [], ["def", None]]),
    "large": pa.array([[[1], [2, 3]], [], None, [[4]]], pa.large_list(pa.list_(pa.int8()))),
    "structs": pa.array([{"a": "x", "b": [1, 2]}, {"a": None, "b": []}, {"a": "", "b": None},
                         {"a": "abc", "b": [3]}]),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_sizes_equal_the_slow_way(name):
    table = pa.table({name: COLUMNS[name]})
    expected = [size_of(value) for value in COLUMNS[name].to_pylist()]
    assert row_bytes(table).tolist() == expected
    for start in range(5):
        for stop in range(start, 5):
            assert row_bytes(table.slice(start, stop - start)).tolist() == expected[start:stop]
    parts = pa.concat_tables([table.slice(0, 1), table.slice(1, 2), table.slice(3)])
    assert row_bytes(parts).tolist() == expected


def test_columns_are_added_up():
    table = pa.table(COLUMNS)
    expected = [sum(map(size_of, row.values())) for row in table.to_pylist()]
    assert row_bytes(table).tolist() == expected
    assert row_bytes(table.slice(0, 0)).tolist() == []
