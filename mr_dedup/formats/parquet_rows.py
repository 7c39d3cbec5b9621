"""Rows of Parquet files as Arrow has them: damage told, memory bounded, row groups on demand.

The footer is asked about row groups only: pyarrow ends the process where it is asked about the
columns of one and what is said of them is damaged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mr_dedup.errors import FormatError
from mr_dedup.formats.io_errors import reading

_BUFFER_BYTES = 1 << 20
_MOST_ROWS = 1 << 14

_FEW_ROWS = 16
"""Rows decoded at a time where the text of one may be stored as a part of many."""


class ParquetRows:
    """An open Parquet file; what is wrong with it is told in FormatErrors that name it."""

    def __init__(self, source: pa.NativeFile, name: str) -> None:
        self._source = source
        self._name = name
        self._file = self._opened([])
        with _decoding(name):
            self.schema: pa.Schema = self._file.schema_arrow
            self.columns: list[str] = self.schema.names
        metadata = self._file.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        self.group_rows: list[int] = [group.num_rows for group in groups]
        self.group_bytes: list[int] = [group.total_byte_size for group in groups]

    def rows(
        self, group: int, columns: Sequence[str] | None, repeated: Sequence[str], size_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group, some of about ``size_bytes`` at a time.

        Of all columns if None. The columns ``repeated``, of text, come as dictionaries, with as
        few rows at a time as have that size once they are multiplied; or as they are, some at a
        time, where their encoding cannot be had so. Raises FormatError where the data of these
        columns is damaged, after all rows before it, however many are decoded at a time.
        """
        total = self.group_rows[group]
        at_once = min(_MOST_ROWS, max(1, size_bytes * total // max(1, self.group_bytes[group])))
        taken = 0
        for batch in self._up_to_damage(group, at_once, columns, repeated):
            for piece in _pieces(batch[: total - taken], repeated, size_bytes):
                taken += len(piece)
                yield piece
        if taken != total:
            reason = f"row group {group} has {taken} rows, expected {total}"
            raise FormatError(self._name, None, reason)

    def count_rows(self, group: int, columns: Sequence[str]) -> int:
        """Return how many rows of a row group can be read of ``columns``, those before damage."""
        rows = 0
        with contextlib.suppress(FormatError):
            for batch in self._batches(self._file, group, 1, columns):
                rows += len(batch)
        return rows

    def _up_to_damage(
        self, group: int, at_once: int, columns: Sequence[str] | None, repeated: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        taken = 0
        try:
            for batch in self._some_as_dictionaries(group, at_once, columns, repeated):
                taken += len(batch)
                yield batch
            return
        except FormatError:
            # what is decoded at a time depends on the columns, and on how they are read
            pass
        for row, batch in enumerate(self._batches(self._file, group, 1, columns)):
            if row >= taken:
                yield batch

    def _some_as_dictionaries(
        self, group: int, at_once: int, columns: Sequence[str] | None, repeated: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        taken = 0
        if repeated:
            try:
                for batch in self._batches(self._opened(repeated), group, at_once, columns):
                    taken += len(batch)
                    yield batch
                return
            except FormatError:
                # texts stored by their differences cannot be had so; damage will come up again
                at_once = min(at_once, _FEW_ROWS)
        for batch in self._batches(self._file, group, at_once, columns):
            known = min(taken, len(batch))
            taken -= known
            if known < len(batch):
                yield batch.slice(known)

    def _opened(self, repeated: Sequence[str]) -> pq.ParquetFile:
        with _decoding(self._name):
            return pq.ParquetFile(
                self._source,
                read_dictionary=list(repeated),
                buffer_size=_BUFFER_BYTES,
                page_checksum_verification=True,
            )

    def _batches(
        self, file: pq.ParquetFile, group: int, rows: int, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        batches = file.iter_batches(rows, [group], columns=columns, use_threads=False)
        while True:
            with _decoding(self._name):
                batch = next(batches, None)
                for column in batch or ():
                    if pa.types.is_dictionary(column.type):
                        # the decoder takes indices as they come; this looks at their bounds
                        pa.DictionaryArray.from_arrays(column.indices, column.dictionary)
            if batch is None:
                return
            yield batch


@contextlib.contextmanager
def open_parquet(path: Path, name: str) -> Iterator[ParquetRows]:
    """Yield an open file; raise MrDedupError if it cannot be, FormatError if it is damaged."""
    with reading(name):
        # not Arrow's own: that takes no name that is not UTF-8, and is no faster
        file = path.open("rb", buffering=0)
    with file, pa.PythonFile(file, mode="r") as source:
        yield ParquetRows(source, name)


@contextlib.contextmanager
def _decoding(name: str) -> Iterator[None]:
    """Turn Arrow's errors into a FormatError of one line."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise FormatError(name, None, f"the Parquet data is damaged: {reason}") from error


def _pieces(
    batch: pa.RecordBatch, texts: Sequence[str], size_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield slices of ``batch`` whose ``texts``, once they are multiplied, have ``size_bytes``."""
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
