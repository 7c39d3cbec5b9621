"""Which documents are in clusters, by their places: what the resolve job is told of each chunk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.formats.tables import read_table

_RANGES_KEY = b"mr_dedup.ranges"


@dataclass(frozen=True)
class ClusteredRows:
    """Documents of clusters: n of them, ``numbers`` int64[n] their places among all, ascending.

    Aligned with these ``fingerprints`` and ``labels``, uint64[n], of their clusters, and
    ``lengths`` int64[n] of their texts in bytes. ``ranges`` are where the documents of each chunk
    start and stop.
    """

    numbers: NDArray[np.int64]
    fingerprints: NDArray[np.uint64]
    labels: NDArray[np.uint64]
    lengths: NDArray[np.int64]
    ranges: dict[int, tuple[int, int]]

    def of(self, chunk: int) -> tuple[ClusteredRows, int]:
        """Return those of a chunk, numbered from its first document, and how many this has."""
        start, stop = self.ranges.get(chunk, (0, 0))
        rows = self.between(start, stop)
        return rows, stop - start

    def take(self, order: NDArray[np.int64]) -> ClusteredRows:
        """Return those at the places ``order``, in that order."""
        return ClusteredRows(
            self.numbers[order],
            self.fingerprints[order],
            self.labels[order],
            self.lengths[order],
            {},
        )

    def between(self, start: int, stop: int) -> ClusteredRows:
        """Return those whose numbers are from ``start`` to ``stop``, numbered from ``start``."""
        these = slice(*np.searchsorted(self.numbers, [start, stop]).tolist())
        return ClusteredRows(
            self.numbers[these] - start,
            self.fingerprints[these],
            self.labels[these],
            self.lengths[these],
            {},
        )

    @classmethod
    def read(cls, path: Path) -> ClusteredRows:
        """Return what ``write`` wrote; raises FormatError where it is damaged."""
        try:
            table = read_table(path)
            ranges = json.loads(table.schema.metadata[_RANGES_KEY])
            numbers, fingerprints, labels, lengths = (table[name].to_numpy() for name in _COLUMNS)
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise FormatError(path, None, f"does not say what is in clusters: {error}") from error
        known = {int(chunk): tuple(range) for chunk, range in ranges.items()}
        return cls(numbers, fingerprints, labels, lengths, known)

    def write(self, path: Path) -> None:
        """Write them to ``path``, Parquet with checksums."""
        table = pa.table({name: getattr(self, name) for name in _COLUMNS})
        table = table.replace_schema_metadata({_RANGES_KEY: json.dumps(self.ranges)})
        pq.write_table(table, path, write_page_checksum=True, use_dictionary=False)


_COLUMNS = ("numbers", "fingerprints", "labels", "lengths")
