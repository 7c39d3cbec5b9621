"""What several results know of how often each of their kept documents was found.

Each result has ``counts/``, the documents that its run dropped for each that it kept, and
``earlier_counts/``, those that it dropped for documents of earlier results. A document is
identified by the ``result_id`` of the result that kept it and its number there, so it does not
matter where results are, how they were chained, and how often one is named: each run is counted
once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mr_dedup.clusters.duplicate_counts import DuplicateCounts, summed
from mr_dedup.errors import MrDedupError
from mr_dedup.files.outputs import whole_file
from mr_dedup.pipeline.result_files import damage_reported
from mr_dedup.pipeline.results import EarlierResult

_BATCH_ROWS = 1 << 16


class KnownCounts:
    """The counts of the kept documents of ``results``, over all of these.

    In memory: of each result some 65,536 rows at a time.
    """

    def __init__(self, results: Sequence[EarlierResult]) -> None:
        self._results = {result.identifier: result for result in results}

    def of(self, result: EarlierResult) -> Iterator[DuplicateCounts]:
        """Yield the counts of the documents that one of the results kept, in order.

        Documents that its own run dropped are not counted if it is of an mr_dedup that did not
        count. Raises OSError and ArrowException where counts cannot be read.
        """
        others = [
            _Sorted(other.earlier_counts(result.identifier)) for other in self._results.values()
        ]
        start = 0
        for own in _own_counts(result):
            stop = start + len(own)
            found = [each.before(stop) for each in others]
            rows = [np.arange(start, stop), *(rows for rows, _ in found)]
            counts = DuplicateCounts.joined([own, *(counts for _, counts in found)])
            yield summed(np.concatenate(rows) - start, len(own), counts)
            start = stop


def _own_counts(result: EarlierResult) -> Iterator[DuplicateCounts]:
    if result.has_counts:
        yield from result.counts()
        return
    for start in range(0, result.documents, _BATCH_ROWS):
        yield DuplicateCounts.nothing(min(_BATCH_ROWS, result.documents - start))


class _Sorted:
    """Takes counts from batches whose rows ascend."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._tables = map(pa.Table.from_batches, ([batch] for batch in batches))
        self._rest: pa.Table | None = None

    def before(self, stop: int) -> tuple[np.typing.NDArray[np.int64], DuplicateCounts]:
        """Return the rows below ``stop`` that were not taken yet, and their counts."""
        rows, counts = [np.empty(0, np.int64)], []
        rest = [] if self._rest is None else [self._rest]
        self._rest = None
        for table in itertools.chain(rest, self._tables):
            here = table["row"].to_numpy()
            count = int(np.searchsorted(here, stop))
            rows.append(here[:count])
            counts.append(DuplicateCounts.read(table.slice(0, count)))
            if count < len(table):
                self._rest = table.slice(count)
                break
        return np.concatenate(rows), DuplicateCounts.joined(counts)


TOTALS = pa.schema(
    [
        pa.field("result", pa.large_string()),
        pa.field("row", pa.int64()),
        pa.field("id", pa.large_string()),
        pa.field("file", pa.large_string()),
        pa.field("duplicates_total", pa.int64()),
        pa.field("first_seen", pa.large_string()),
        pa.field("last_seen", pa.large_string()),
    ]
)
"""A row for each document that any of several results kept."""


def write_totals(path: Path, results: Sequence[EarlierResult], *, overwrite: bool) -> int:
    """Write the totals of all kept documents to a Parquet file; return how many these are.

    In memory: a million rows. Raises MrDedupError for a result whose run did not count, FormatError
    for damage, and as ``whole_file``.
    """
    for result in results:
        if not result.has_counts:
            raise MrDedupError(
                f"{result.name}: is of an mr_dedup that did not count duplicates; de-duplicate its "
                "documents again"
            )
    known = KnownCounts(results)
    documents = 0
    with (
        whole_file(path, overwrite) as file,
        pq.ParquetWriter(file, TOTALS, compression="zstd", write_page_checksum=True) as writer,
    ):
        for result in results:
            start = 0
            with damage_reported(result.name):
                for table in _totals(result, known):
                    rows = pa.array(np.arange(start, start + len(table)))
                    writer.write_table(table.set_column(1, TOTALS.field("row"), rows))
                    start += len(table)
            documents += start
    return documents


def _totals(result: EarlierResult, known: KnownCounts) -> Iterator[pa.Table]:
    """Yield the rows of one result, whose ``row`` is null."""
    named = result.named_documents()
    for counts in known.of(result):
        table, size = counts.table(), len(counts)
        parts = []
        while size:
            # batches of both may end at other rows
            part = next(named)
            parts.append(part.slice(0, size))
            if len(part) > size:
                named = itertools.chain([part.slice(size)], named)
            size -= len(parts[-1])
        if parts:
            names = pa.concat_tables(parts)
            columns = [
                pa.repeat(result.name, len(names)), pa.nulls(len(names), pa.int64()),
                *names.columns, *table.columns,
            ]  # fmt: skip
            yield pa.table(columns, names=TOTALS.names).cast(TOTALS)


def not_counted(results: Sequence[EarlierResult]) -> list[tuple[str, str, int]]:
    """Return the results for whose documents ``results`` dropped some, and that are not among them.

    Each as the name of one of ``results``, where the other is, and the number of such documents.
    """
    known = {result.identifier for result in results}
    return [
        (result.name, result.name_of_result(identifier), count)
        for result in results
        for identifier, count in result.results_counted().items()
        if identifier not in known
    ]
