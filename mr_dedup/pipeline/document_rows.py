"""The rows of all documents, earlier ones first, which the stages share as Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mr_dedup.jobs.resolve import EARLIER


def rows_schema(fields: Sequence[str]) -> pa.Schema:
    """Return the columns of rows that have ``fields`` as well."""
    return pa.schema(
        [
            pa.field("chunk", pa.int64()),
            pa.field("id", pa.large_string()),
            pa.field("fingerprint", pa.int64()),
            pa.field("length", pa.int64()),
            pa.field("file", pa.large_string()),
            pa.field("position", pa.int64()),
            *(pa.field(name, pa.large_string()) for name in fields),
        ]
    )


class Locations(NamedTuple):
    """The files of n documents, dictionary-encoded, and their positions in these, int64."""

    files: pa.DictionaryArray
    positions: pa.Int64Array

    @classmethod
    def joined(cls, parts: Sequence[Locations]) -> Locations:
        """Return the locations of all documents of ``parts``, in order."""
        none = cls(pa.array([], _FILES), pa.array([], pa.int64()))
        files, positions = zip(none, *parts, strict=True)
        unified = pa.chunked_array(files, _FILES).unify_dictionaries()
        return cls(pa.concat_arrays(unified.chunks), pa.concat_arrays(positions))


_FILES = pa.dictionary(pa.int32(), pa.large_string())


@dataclass(frozen=True)
class Rows:
    """The n documents of a run, in order; the number of a document is its row.

    The first ones, those of chunk EARLIER, are documents that earlier runs kept. 17 bytes a
    document in memory; ids are read when they are needed.

    Attributes:
        fingerprints: uint64[n]; undefined without ``has_fingerprint`` bool[n].
        lengths: int64[n], of the texts in bytes.
        ranges: The first row of each chunk, and the one after its last.
    """

    path: Path
    fingerprints: NDArray[np.uint64]
    has_fingerprint: NDArray[np.bool_]
    lengths: NDArray[np.int64]
    ranges: dict[int, tuple[int, int]]

    @classmethod
    def read(cls, path: Path) -> Rows:
        """Return the rows in ``path``, chunk by chunk, ascending."""
        size = pq.read_metadata(path).num_rows
        fingerprints, lengths = np.empty(size, np.uint64), np.empty(size, np.int64)
        has_fingerprint = np.empty(size, np.bool_)
        ranges: dict[int, tuple[int, int]] = {}
        start = 0
        for batch in row_batches(path, ["chunk", "fingerprint", "length"]):
            these = slice(start, start + len(batch))
            chunks, values, sizes = batch.columns
            fingerprints[these] = values.fill_null(0).to_numpy().view(np.uint64)
            has_fingerprint[these] = values.is_valid().to_numpy(zero_copy_only=False)
            lengths[these] = sizes.to_numpy()
            numbers, counts = np.unique(chunks.to_numpy(), return_counts=True)
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
                ranges[number] = ranges.get(number, (start,))[0], start + count
                start += count
        return cls(path, fingerprints, has_fingerprint, lengths, ranges)

    def without_values(self) -> Rows:
        """Return the rows without fingerprints and lengths, 1 byte a document."""
        return replace(
            self, fingerprints=self.fingerprints[:0].copy(), lengths=self.lengths[:0].copy()
        )

    @property
    def earlier(self) -> int:
        """The number of documents that earlier runs kept."""
        return self.ranges.get(EARLIER, (0, 0))[1]

    @property
    def new_ranges(self) -> dict[int, tuple[int, int]]:
        """The ranges of the chunks of this run among its documents."""
        first = self.earlier
        return {
            chunk: (start - first, stop - first)
            for chunk, (start, stop) in self.ranges.items()
            if chunk != EARLIER
        }

    def numbers_of(self, table: pa.Table) -> NDArray[np.int64]:
        """Return the numbers of the documents of the resolve job, given as chunk and row."""
        starts = {chunk: start for chunk, (start, _) in self.ranges.items()}
        chunks, inverse = np.unique(table["chunk"].to_numpy(), return_inverse=True)
        first = np.array([starts[chunk] for chunk in chunks.tolist()], np.int64)
        numbers: NDArray[np.int64] = first[inverse] + table["row"].to_numpy()
        return numbers

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield ``columns`` of the documents of this run, in order."""
        return row_batches(self.path, columns, self.earlier)

    def locations_of(self, numbers: NDArray[np.int64]) -> Locations:
        """Return the locations of documents of this run, by their numbers, strictly ascending.

        In memory: 12 bytes for each of them, and the names of files.
        """
        found = self._taken(["file", "position"], numbers)
        return Locations.joined(
            [Locations(file.dictionary_encode(), position) for file, position in found]
        )

    def ids_of(self, numbers: NDArray[np.int64]) -> pa.LargeStringArray:
        """Return the ids of some documents by their numbers, which are strictly ascending."""
        found = [ids for (ids,) in self._taken(["id"], numbers)]
        return pa.concat_arrays([pa.array([], pa.large_string()), *found])

    def _taken(
        self, columns: Sequence[str], numbers: NDArray[np.int64]
    ) -> Iterator[Sequence[pa.Array]]:
        """Yield columns of the documents ``numbers``, which are strictly ascending, in parts."""
        start = 0
        for batch in row_batches(self.path, columns):
            stop = start + len(batch)
            these = numbers[slice(*numbers.searchsorted([start, stop]))]
            if these.size:
                yield batch.take(pa.array(these - start)).columns
            start = stop


def row_batches(
    path: Path, columns: Sequence[str], start: int = 0, rows_at_once: int = 1 << 16
) -> Iterator[pa.RecordBatch]:
    """Yield ``columns`` of rows in a Parquet file, in order, from number ``start`` on.

    In memory: ``rows_at_once``. Raises OSError and ArrowException where the file cannot be read.
    """
    to_skip = start
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for batch in file.iter_batches(rows_at_once, columns=list(columns)):
            new = batch.slice(min(to_skip, len(batch)))
            to_skip -= len(batch) - len(new)
            if len(new):
                yield new
