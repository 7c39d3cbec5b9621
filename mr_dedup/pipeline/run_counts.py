"""The counts of all documents of a run, earlier ones first, and the tables with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.duplicate_counts import DuplicateCounts, count_duplicates
from mr_dedup.formats.count_tables import COUNTED, COUNTS, EARLIER_COUNTS, EARLIER_REPEATED
from mr_dedup.formats.parts import ParquetParts
from mr_dedup.pipeline.document_rows import Locations, Rows
from mr_dedup.pipeline.known_counts import KnownCounts
from mr_dedup.pipeline.results import EarlierResult


@dataclass(frozen=True)
class RunCounts:
    """The counts of n documents; 24 bytes each, and each distinct value that was seen.

    Attributes:
        duplicates: int64[n], the documents that this run drops for each.
        total: Of the kept document of each, over all results.
        first: The number of the first document of this run.
    """

    duplicates: NDArray[np.int64]
    total: DuplicateCounts
    first: int

    @classmethod
    def of(
        cls,
        rows: Rows,
        kept_rows: NDArray[np.int64],
        results: Sequence[EarlierResult],
        seen: str | None,
    ) -> RunCounts:
        """Return the counts, given the number of the kept document of each; its own of a kept one.

        ``seen`` is the field of rows by which documents are seen.
        """
        known = KnownCounts(results)
        parts = [part for result in results for part in known.of(result)]
        if seen is None:
            parts.append(DuplicateCounts.nothing(kept_rows.size - rows.earlier))
        else:
            for batch in rows.batches([seen]):
                values = batch.column(0)
                parts.append(DuplicateCounts.of(np.zeros(len(batch), np.int64), values, values))
        duplicates, total = count_duplicates(kept_rows, DuplicateCounts.joined(parts))
        return cls(duplicates, total, rows.earlier)

    def columns(self, these: slice) -> list[pa.Array]:
        """Return the columns COUNTED of some documents."""
        return [
            pa.array(self.duplicates[these]),
            pa.array(self.total.duplicates[these]),
            self.total.first_seen[these].cast(pa.large_string()),
            self.total.last_seen[these].cast(pa.large_string()),
        ]

    def table(self) -> pa.Table:
        """Return the columns COUNTED of the documents of this run."""
        return pa.table(self.columns(slice(self.first, None)), names=list(COUNTED))

    def write(self, folder: Path, kept: NDArray[np.bool_], part_rows: int) -> list[str]:
        """Write the counts of the documents of this run that are ``kept`` bool[n] as parts.

        Returns their names.
        """
        numbers = np.flatnonzero(kept[self.first :]) + self.first
        total = self.total.take(numbers)
        counts = DuplicateCounts(self.duplicates[numbers], total.first_seen, total.last_seen)
        with ParquetParts(folder, COUNTS, part_rows=part_rows) as parts:
            parts.write_table(counts.table())
        return parts.names

    def write_earlier(
        self,
        folder: Path,
        rows: Rows,
        results: Sequence[EarlierResult],
        locations_of: Callable[[NDArray[np.int64]], Locations],
        part_rows: int,
    ) -> list[str]:
        """Write what is dropped for documents of earlier results as parts; return their names."""
        with ParquetParts(
            folder, EARLIER_COUNTS, part_rows=part_rows, use_dictionary=EARLIER_REPEATED
        ) as parts:
            for result, first, numbers in self._counted(results):
                ids = rows.ids_of(numbers)
                files, positions = locations_of(numbers)
                counted = [column.take(pa.array(numbers)) for column in self.columns(slice(None))]
                columns = [
                    pa.repeat(result.identifier, len(ids)),
                    pa.array(numbers - first),
                    ids,
                    files,
                    positions,
                    *counted,
                ]
                table = pa.table(columns, names=EARLIER_COUNTS.names)
                parts.write_table(table.cast(EARLIER_COUNTS))
        return parts.names

    def _counted(
        self, results: Sequence[EarlierResult]
    ) -> Iterator[tuple[EarlierResult, int, NDArray[np.int64]]]:
        """Yield each result, the number of its first document, and of those with duplicates."""
        first = 0
        for result in results:
            stop = first + result.documents
            numbers = np.flatnonzero(self.duplicates[first:stop]) + first
            if numbers.size:
                yield result, first, numbers
            first = stop
