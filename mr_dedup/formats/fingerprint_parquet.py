"""Fingerprints in Parquet: one row per document, with its id, fingerprint and length.

Any Parquet file with a column of fingerprints is read. A document whose fingerprint is null is
compared with nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.files.outputs import whole_file
from mr_dedup.formats.parquet_rows import ParquetRows, open_parquet
from mr_dedup.formats.parts import PART_ROWS, ParquetParts
from mr_dedup.formats.tables import one_array
from mr_dedup.formats.value_text import value_texts

ID, FINGERPRINT, LENGTH = "id", "fingerprint", "length"
"""The columns: text; two's complement, int64; the bytes of the document's text in UTF-8, int64."""

FEATURES_KEY = "mr_dedup.features"
"""The key of the metadata that state the features of the fingerprints."""

_GROUP_ROWS = 1 << 17
_GROUP_BYTES = 64 << 20

_BATCH_BYTES = 1 << 24
"""The size of batches of rows with ids."""

_SHOWN_COLUMNS = 5


def table_schema(features: str, fields: Sequence[str] = ()) -> pa.Schema:
    """Return the columns and the metadata of a file of documents with ``fields``.

    Raises ValueError for a field that is repeated or has the name of another column.
    """
    names = [ID, FINGERPRINT, LENGTH, *fields]
    if len(set(names)) != len(names):
        raise ValueError(
            f"fields: expected distinct names other than {ID}, {FINGERPRINT} and {LENGTH}, "
            f"got {list(fields)}"
        )
    columns = [
        pa.field(ID, pa.large_string(), nullable=False),
        pa.field(FINGERPRINT, pa.int64()),
        pa.field(LENGTH, pa.int64(), nullable=False),
        *(pa.field(name, pa.large_string()) for name in fields),
    ]
    return pa.schema(columns, metadata={FEATURES_KEY: features})


class TableWriter:
    """Writes the rows of a file that ``create_table`` opened, or of parts.

    In memory: a row group, 131,072 rows or 64 MB. How rows are divided among calls of ``write``
    makes no difference to the file, unless row groups end by their size.
    """

    def __init__(self, file: pq.ParquetWriter | ParquetParts, schema: pa.Schema) -> None:
        self.rows = 0
        self._file = file
        self._schema = schema
        self._fields = schema.names[schema.get_field_index(LENGTH) + 1 :]
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0

    def write(
        self,
        ids: pa.LargeStringArray,
        fingerprints: NDArray[np.uint64],
        has_fingerprint: NDArray[np.bool_],
        lengths: NDArray[np.int64],
        fields: pa.Table | None = None,
    ) -> None:
        """Append n documents.

        Args:
            ids: large_string[n], none null.
            fingerprints: uint64[n].
            has_fingerprint: bool[n]; other fingerprints are written as null.
            lengths: int64[n], the bytes of the texts.
            fields: a table of the large_string columns of the file, None if there are none.

        Raises:
            ValueError: another type or length.
        """
        if ids.type != pa.large_string() or ids.null_count:
            raise ValueError(
                f"ids: expected large_string, none null, got {ids.type}, {ids.null_count} null"
            )
        for name, array, dtype in (
            ("fingerprints", fingerprints, np.uint64),
            ("has_fingerprint", has_fingerprint, np.bool_),
            ("lengths", lengths, np.int64),
        ):
            if array.dtype != dtype or array.shape != (len(ids),):
                raise ValueError(
                    f"{name}: expected {np.dtype(dtype)}[{len(ids)}], "
                    f"got {array.dtype}{list(array.shape)}"
                )
        columns = [
            ids,
            pa.array(fingerprints.view(np.int64), mask=~has_fingerprint),
            pa.array(lengths),
        ]
        columns += self._field_columns(fields, len(ids))
        self._add(pa.Table.from_arrays(columns, schema=self._schema))

    def finish(self) -> None:
        """Write the rows that are still buffered; not to be called twice."""
        if self._pending_rows:
            self._write_group(self._pending_rows)

    def _field_columns(self, fields: pa.Table | None, count: int) -> list[pa.ChunkedArray]:
        """Return the columns of ``fields``; ValueError unless they are those of the file."""
        if fields is None and not self._fields:
            return []
        found = [] if fields is None else [(field.name, field.type) for field in fields.schema]
        if found != [(name, pa.large_string()) for name in self._fields]:
            raise ValueError(f"fields: expected large_string {self._fields}, got {found}")
        assert fields is not None
        if len(fields) != count:
            raise ValueError(f"fields: expected {count} rows, got {len(fields)}")
        return list(fields.columns)

    def _add(self, rows: pa.Table) -> None:
        self.rows += len(rows)
        self._pending.append(rows)
        self._pending_rows += len(rows)
        self._pending_bytes += rows.nbytes
        while self._pending_rows >= _GROUP_ROWS:
            self._write_group(_GROUP_ROWS)
        if self._pending_bytes >= _GROUP_BYTES:
            self._write_group(self._pending_rows)

    def _write_group(self, rows: int) -> None:
        pending = pa.concat_tables(self._pending)
        # concatenated, because pages end where chunks do; compression costs far more
        self._file.write_table(pending[:rows].combine_chunks(), row_group_size=rows)
        rest = pending[rows:]
        self._pending, self._pending_rows, self._pending_bytes = [rest], len(rest), rest.nbytes


@contextlib.contextmanager
def create_table(
    path: str | os.PathLike[str],
    features: str,
    fields: Sequence[str] = (),
    overwrite: bool = False,
) -> Iterator[TableWriter]:
    """Yield a writer of a file that is complete or absent when the block ends.

    Equal rows make equal bytes with one version of pyarrow. A row takes about 80 ns with an id of
    8 bytes, 210 with one of 61.

    Args:
        path: the file.
        features: what the fingerprints are made from, ``str(FeatureOptions)``.
        fields: names of further columns.
        overwrite: whether to replace an existing file.

    Raises:
        ValueError: as ``table_schema``.
        MrDedupError: as ``outputs.whole_file``.
    """
    schema = table_schema(features, fields)
    with (
        whole_file(Path(path), overwrite) as file,
        pq.ParquetWriter(file, schema, **_settings(schema)) as parquet,
    ):
        writer = TableWriter(parquet, schema)
        yield writer
        writer.finish()


@contextlib.contextmanager
def create_table_parts(
    folder: Path,
    features: str,
    fields: Sequence[str] = (),
    part_rows: int = PART_ROWS,
    first: int = 0,
) -> Iterator[tuple[TableWriter, ParquetParts]]:
    """Yield a writer of a dataset of such files in ``folder``, and its parts.

    Args:
        folder: the directory; an earlier dataset there is replaced.
        features, fields: as of ``create_table``.
        part_rows: the rows of a file.
        first: the number of the first file.

    Raises:
        ValueError: as ``table_schema``.
        MrDedupError: as ``outputs.whole_file``.
    """
    schema = table_schema(features, fields)
    settings = _settings(schema)
    with ParquetParts(folder, schema, part_rows=part_rows, first=first, **settings) as parts:
        writer = TableWriter(parts, schema)
        yield writer, parts
        writer.finish()


def _settings(schema: pa.Schema) -> dict[str, Any]:
    """Return the settings of Parquet's writer for a table of fingerprints.

    Fingerprints are noise, and lengths small enough once they are packed. For ids zstd at level 1:
    snappy takes 0.7 to 1.1 of the time, and files 1.2 to 1.6 times as large; level 3 takes 1.4 to
    2.3 times as long, dictionaries 1.1 to 2.5 times, and neither makes them smaller.
    """
    compressed = [name for name in schema.names if name not in (FINGERPRINT, LENGTH)]
    return {
        "compression": dict.fromkeys(schema.names, "none") | dict.fromkeys(compressed, "zstd"),
        "compression_level": dict.fromkeys(compressed, 1),
        "use_dictionary": False,
        "column_encoding": {LENGTH: "DELTA_BINARY_PACKED"},
        "write_statistics": False,
        "write_page_checksum": True,
    }


class TableReader:
    """The fingerprints of an open Parquet file, in the order of its rows.

    ``row_count`` counts all rows, also those without a fingerprint. ``features`` is what the
    metadata state, or None.
    """

    def __init__(self, file: ParquetRows, path: str | os.PathLike[str]) -> None:
        """Check the columns; FormatError unless one is ``fingerprint``, int64 or uint64."""
        self._file = file
        self._path = path
        if FINGERPRINT not in file.columns:
            shown = ", ".join(map(repr, file.columns[:_SHOWN_COLUMNS])) or "none"
            more = ", …" if len(file.columns) > _SHOWN_COLUMNS else ""
            self._refuse(f"has no column {FINGERPRINT!r}; its columns are {shown}{more}")
        if self._type_of(FINGERPRINT) not in (pa.int64(), pa.uint64()):
            found = self._type_of(FINGERPRINT)
            self._refuse(f"its column {FINGERPRINT!r} is of type {found}, not int64 or uint64")
        self.row_count = sum(file.group_rows)
        metadata = file.schema.metadata or {}
        features = metadata.get(FEATURES_KEY.encode())
        self.features = None if features is None else features.decode(errors="backslashreplace")

    def batches(self, start: int = 0, stop: int | None = None) -> Iterator[NDArray[np.uint64]]:
        """Yield the fingerprints of rows ``start`` to ``stop`` (a slice of the file).

        Each array is uint64, read-only, and of some thousand fingerprints. Reads the row groups
        that these rows are in, up to the last of them. Raises FormatError where they are damaged.
        """
        # not by bytes: the size of a row includes columns that are not read
        for rows in self._rows([FINGERPRINT], start, stop, sys.maxsize):
            found = rows.column(FINGERPRINT).drop_null()
            if len(found):
                yield _unsigned(found)

    def identified(self) -> Iterator[tuple[NDArray[np.uint64], pa.LargeStringArray]]:
        """Yield the fingerprints as ``batches`` does, and their ids, null where there is none.

        Ids are the column ``id``, as ``value_texts`` has them.
        """
        columns = [FINGERPRINT]
        if ID in self._file.columns:
            self._type_of(ID)
            columns.append(ID)
        for rows in self._rows(columns, 0, None, _BATCH_BYTES):
            found = rows.column(FINGERPRINT)
            ids = _texts(rows.column(ID)) if ID in columns else _no_ids(len(rows))
            if found.null_count:
                ids = ids.filter(found.is_valid())
                found = found.drop_null()
            if len(found):
                yield _unsigned(found), ids

    def _rows(
        self, columns: Sequence[str], start: int, stop: int | None, size_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, some at a time."""
        stop = self.row_count if stop is None else stop
        row = 0
        for group, count in enumerate(self._file.group_rows):
            if row >= stop:
                return
            if row + count <= start:
                row += count
                continue
            for rows in self._file.rows(group, columns, [], size_bytes):
                yield rows[max(start - row, 0) : max(stop - row, 0)]
                row += len(rows)
                if row >= stop:
                    return

    def _type_of(self, column: str) -> pa.DataType:
        """Return the type of a column; FormatError if several have its name."""
        count = self._file.columns.count(column)
        if count > 1:
            self._refuse(f"has {count} columns {column!r}")
        return self._file.schema.field(column).type

    def _refuse(self, reason: str) -> NoReturn:
        raise FormatError(self._path, None, reason)


@contextlib.contextmanager
def open_table(path: str | os.PathLike[str]) -> Iterator[TableReader]:
    """Open a Parquet file; yield a reader that lasts as long as the block.

    Raises FormatError as TableReader does, and if it is not Parquet or its footer is damaged;
    MrDedupError if it cannot be opened.
    """
    with open_parquet(Path(path), str(path)) as file:
        yield TableReader(file, path)


def _unsigned(column: pa.Array) -> NDArray[np.uint64]:
    fingerprints: NDArray[np.uint64] = column.to_numpy().view(np.uint64)
    return fingerprints


def _no_ids(count: int) -> pa.LargeStringArray:
    return pa.nulls(count, pa.large_string())


def _texts(ids: pa.Array) -> pa.LargeStringArray:
    return one_array(value_texts(pa.chunked_array([ids])))
