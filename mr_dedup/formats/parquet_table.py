"""Parquet files of our own, whole in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def read_table(
    path: Path, columns: Sequence[str] | None = None, dictionaries: Sequence[str] = ()
) -> pa.Table:
    """Return a file's rows: of these columns, else of all; ``dictionaries`` as such.

    pyarrow's own read_table imports its datasets, 20 ms. Raises OSError and ArrowException where
    the file cannot be read or its pages are not those of their checksums, KeyError for a column
    that it does not have.
    """
    # None: no column is taken as a dictionary; an empty list is refused
    read_dictionary = list(dictionaries) or None
    with pq.ParquetFile(
        path, read_dictionary=read_dictionary, page_checksum_verification=True
    ) as file:
        table = file.read(columns=None if columns is None else list(columns))
    for name in columns or ():
        if name not in table.column_names:
            raise KeyError(name)
    return table
