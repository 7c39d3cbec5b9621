"""The size of each row of a table, by its values alone: the same in whatever batches it arrives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.formats.parquet_rows import is_text

_VALUE_BYTES = 8

VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
"""Types of views of text, of which Arrow computes little, and those of the same values."""


def row_bytes(table: pa.Table) -> NDArray[np.int64]:
    """Return about how many bytes each row has, int64[n]: 8 a value, and those of its texts.

    >>> row_bytes(pa.table({"n": [1, 2], "words": [["one", "two"], None]})).tolist()
    [38, 16]
    """
    sizes = np.zeros(len(table), np.int64)
    for column in table.columns:
        # there are no lists of extension types to flatten in Arrow
        chunks = column.cast(storage_type(column.type)).chunks
        sizes += np.concatenate([np.empty(0, np.int64), *map(_value_bytes, chunks)])
    return sizes


def storage_type(kind: pa.DataType) -> pa.DataType:
    """Return a type without extension types and views of text, also inside."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if types.is_struct(kind):
        return pa.struct([each.with_type(storage_type(each.type)) for each in kind])
    if types.is_map(kind):
        return pa.map_(storage_type(kind.key_type), storage_type(kind.item_type))
    if types.is_list(kind):
        return pa.list_(storage_type(kind.value_type))
    if types.is_large_list(kind):
        return pa.large_list(storage_type(kind.value_type))
    return VIEWS.get(kind, kind)


def _value_bytes(values: pa.Array) -> NDArray[np.int64]:
    """Return the bytes of each value of an array, int64[n]."""
    kind = values.type
    sizes = np.full(len(values), _VALUE_BYTES, np.int64)
    if pa.types.is_dictionary(kind):
        return _value_bytes(values.dictionary_decode())
    if is_text(kind):
        return sizes + _numbers(pc.binary_length(values))
    if pa.types.is_struct(kind):
        for member in values.flatten():
            sizes += _VALUE_BYTES if pa.types.is_null(member.type) else _value_bytes(member)
    elif pa.types.is_map(kind):
        # of null items there may be too few, see below
        items = [] if pa.types.is_null(kind.item_type) else [values.items]
        for inside in (values.keys, *items):
            sizes += _value_bytes(pa.ListArray.from_arrays(values.offsets, inside)) - _VALUE_BYTES
    elif (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and kind.value_type == pa.null():
        # whose items Arrow forgets when it takes some of the lists
        sizes += _VALUE_BYTES * _numbers(pc.list_value_length(values))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inside = np.append(0, np.cumsum(_value_bytes(values.flatten())))
        ends = np.cumsum(_numbers(pc.list_value_length(values)))
        sizes += inside[ends] - inside[np.append(0, ends[:-1])[: len(ends)]]
    return sizes


def _numbers(lengths: pa.Array) -> NDArray[np.int64]:
    """Return lengths as int64[n], 0 for null."""
    numbers: NDArray[np.int64] = lengths.fill_null(0).to_numpy().astype(np.int64)
    return numbers
