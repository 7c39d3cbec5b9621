"""Columns of Arrow tables as one array."""

from __future__ import annotations

import pyarrow as pa


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column's values as one array: where it is one already, that one, not a copy.

    Which may be a slice of a longer one. ``combine_chunks`` copies that too: of the records of
    200,000 short texts that are kept 70 MB.
    """
    if column.num_chunks == 1:
        return column.chunk(0)
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
