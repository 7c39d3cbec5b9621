"""Arrow tables in Parquet files of our own: whole in memory, with page checksums and metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mr_dedup.errors import FormatError

_METADATA_KEY = b"mr_dedup"


def read_table(
    path: Path, columns: Sequence[str] | None = None, dictionaries: Sequence[str] = ()
) -> pa.Table:
    """Return the rows of a Parquet file.

    pyarrow's own read_table imports pyarrow.dataset, 20 ms.

    Args:
        path: the file.
        columns: the columns to read; by default all.
        dictionaries: those of them to return as dictionary arrays.

    Raises:
        OSError: the file cannot be read.
        pa.ArrowException: it is damaged.
        KeyError: it lacks a column.
    """
    # None: no column is read as a dictionary; an empty list is refused
    read_dictionary = list(dictionaries) or None
    with pq.ParquetFile(
        path, read_dictionary=read_dictionary, page_checksum_verification=True
    ) as file:
        table = file.read(columns=None if columns is None else list(columns))
    for name in columns or ():
        if name not in table.column_names:
            raise KeyError(name)
    return table


def write_side_file(
    path: Path, columns: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
) -> None:
    """Write columns of equal length to a Parquet file with page checksums, for a task to read.

    Args:
        path: the file.
        columns: NumPy or Arrow arrays by name.
        metadata: anything that JSON can express, to be returned by ``read_side_file``.
    """
    table = pa.table(dict(columns)).replace_schema_metadata(
        {_METADATA_KEY: json.dumps(metadata or {})}
    )
    pq.write_table(table, path, use_dictionary=False, write_page_checksum=True)


def read_side_file(path: Path, columns: Sequence[str]) -> tuple[pa.Table, dict[str, Any]]:
    """Return columns and metadata of a file that ``write_side_file`` wrote.

    Raises FormatError where it cannot be read, is damaged, or lacks a column.

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels.parquet")
    ...     write_side_file(path, {"label": np.arange(3)}, {"chunks": [0, 2]})
    ...     table, metadata = read_side_file(path, ["label"])
    >>> table["label"].to_numpy(), metadata
    (array([0, 1, 2]), {'chunks': [0, 2]})
    """
    try:
        table = read_table(path, columns)
        metadata = json.loads((table.schema.metadata or {})[_METADATA_KEY])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise FormatError(
            path, None, f"not a side file with {', '.join(columns)}: {error}"
        ) from error
    return table, metadata


def divided(table: pa.Table, groups: NDArray[np.integer[Any]]) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each group, ascending, in their order.

    Args:
        table: n rows.
        groups: integers[n], the group of each row.

    >>> table = pa.table({"row": [0, 1, 2, 3]})
    >>> [(group, rows["row"].to_pylist()) for group, rows in divided(table, np.array([7, 2, 7, 2]))]
    [(2, [1, 3]), (7, [0, 2])]
    """
    order = np.argsort(groups, kind="stable")
    table, groups = table.take(pa.array(order)), groups[order]
    values, starts = np.unique(groups, return_index=True)
    for value, start, stop in zip(values.tolist(), starts, [*starts, groups.size][1:], strict=True):
        yield value, table.slice(start, stop - start)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return the values of a column as one array, without a copy if it has one chunk.

    That may be a slice of a longer array. ``combine_chunks`` always copies: 70 MB for the records
    of 200,000 short texts.
    """
    if column.num_chunks == 1:
        return column.chunk(0)
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
