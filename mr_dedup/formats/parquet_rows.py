"""Read rows of Parquet files as Arrow batches: by row group, in bounded memory, up to damage.

Of the footer only row groups are looked up: pyarrow aborts the process when a column chunk is
looked up whose metadata is damaged.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mr_dedup.errors import FormatError
from mr_dedup.files.io_errors import reading
from mr_dedup.storage.ranges import RangeSource

_BUFFER_BYTES = 1 << 20
_MAX_ROWS = 1 << 14

_FEW_ROWS = 8
_SOME_ROWS = 256
"""Rows with texts that are decoded at a time: a text may be stored once for all of them.

Some if dictionaries are read as such, since each batch gets all of them, or all columns.
"""

_MAX_DECODED_BYTES = 64 << 20
"""If so many rows take more, rows are decoded one by one from there on."""


class ParquetRows:
    """An open Parquet file; damage raises FormatError with its name."""

    def __init__(self, source: pa.NativeFile, name: str) -> None:
        self._name = name
        with _decoding(name):
            self._file = pq.ParquetFile(
                source, buffer_size=_BUFFER_BYTES, page_checksum_verification=True
            )
            self.schema: pa.Schema = self._file.schema_arrow
            self.columns: list[str] = self.schema.names
        metadata = self._file.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        self.group_rows: list[int] = [group.num_rows for group in groups]
        self.group_bytes: list[int] = [group.total_byte_size for group in groups]

    def rows(
        self, group: int, columns: Sequence[str] | None, texts: Sequence[str], size_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group, at most about ``size_bytes`` at a time.

        Args:
            group: the number of the row group.
            columns: the columns to read; None for all.
            texts: those of them that contain texts, which may be stored once for many rows: 8 rows
                are decoded at a time, or 256 of all columns or with columns that are
                dictionaries; once they took more than 64 MB, without the latter, single rows.
            size_bytes: the size of batches.

        Raises:
            FormatError: these columns are damaged; all rows before the damage are yielded first.
        """
        total = self.group_rows[group]
        at_once = max(1, size_bytes * total // max(1, self.group_bytes[group]))
        has_dictionaries = self._has_dictionaries(columns)
        if texts:
            is_costly = columns is None or has_dictionaries
            at_once = min(at_once, _SOME_ROWS if is_costly else _FEW_ROWS)
        taken = 0
        for batch in self._up_to_damage(group, min(at_once, _MAX_ROWS), columns):
            missing = total - taken
            taken += min(missing, len(batch))
            batch = batch if len(batch) <= missing else batch[:missing]
            if texts and (has_dictionaries or batch.nbytes > size_bytes):
                yield from _pieces(batch, texts, size_bytes)
            else:
                yield batch
        if taken != total:
            reason = f"row group {group} has {taken} rows, expected {total}"
            raise FormatError(self._name, None, reason)

    def _has_dictionaries(self, columns: Sequence[str] | None) -> bool:
        read = (field for field in self.schema if columns is None or field.name in columns)
        return any(pa.types.is_dictionary(field.type) for field in read)

    def count_rows(self, group: int, columns: Sequence[str]) -> int:
        """Return how many rows of ``columns`` of a row group can be read before damage."""
        rows = 0
        with contextlib.suppress(FormatError):
            for batch in self._batches(group, 1, columns):
                rows += len(batch)
        return rows

    def _up_to_damage(
        self, group: int, at_once: int, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        taken = 0
        # with dictionaries single rows are slow: each comes with all of them
        max_bytes = math.inf if self._has_dictionaries(columns) else _MAX_DECODED_BYTES
        try:
            for batch in self._batches(group, at_once, columns):
                taken += len(batch)
                yield batch
                if len(batch) > 1 and batch.nbytes > max_bytes:
                    break
            else:
                return
        except FormatError:
            # rows are decoded in batches: read one by one up to the damage
            pass
        for row, batch in enumerate(self._batches(group, 1, columns)):
            if row >= taken:
                yield batch

    def _batches(
        self, group: int, rows: int, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        has_dictionaries = self._has_dictionaries(columns)
        with _decoding(self._name):
            batches = self._file.iter_batches(rows, [group], columns=columns, use_threads=False)
            for batch in batches:
                for column in batch if has_dictionaries else ():
                    if pa.types.is_dictionary(column.type):
                        # the decoder does not check the bounds of indices; this does
                        pa.DictionaryArray.from_arrays(column.indices, column.dictionary)
                yield batch


@contextlib.contextmanager
def open_parquet(path: Path | RangeSource, name: str) -> Iterator[ParquetRows]:
    """Open a Parquet file; MrDedupError if it cannot be read, FormatError if it is damaged."""
    with reading(name):
        # not Arrow's own file: it needs a name in UTF-8, and is no faster
        file = path.open("rb", buffering=0)
    with file, pa.PythonFile(file, mode="r") as source:
        yield ParquetRows(source, name)


@contextlib.contextmanager
def _decoding(name: str) -> Iterator[None]:
    """Turn errors of decoding into a FormatError of one line."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise FormatError(name, None, f"the Parquet data is damaged: {reason}") from error


def is_string(kind: pa.DataType) -> bool:
    """Return whether values of a type are strings."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of a type are strings or bytes."""
    types = pa.types
    is_binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(is_binary or is_string(kind))


def _pieces(
    batch: pa.RecordBatch, texts: Sequence[str], size_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield slices of ``batch`` whose ``texts`` have ``size_bytes`` when they are decoded."""
    import pyarrow.compute as pc

    sizes = np.zeros(len(batch), dtype=np.int64)
    for name in texts:
        column = batch.column(name)
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary).take(column.indices)
        else:
            lengths = pc.binary_length(column)
        sizes += lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = sizes.cumsum()
    start = 0
    while start < len(batch):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(ends.searchsorted(before + size_bytes, side="right")))
        yield batch.slice(start, stop - start)
        start = stop
