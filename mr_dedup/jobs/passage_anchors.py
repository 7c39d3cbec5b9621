"""The job of anchors: which anchors of windows several documents have.

A map task counts the documents of its chunk that have each anchor; a first reduce step adds the
counts up, a second one brings the anchors that are in enough documents together by chunk. What it
leaves is a shard for each chunk: the number of its documents, then the anchors, ascending.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from mr_dedup.formats.tables import divided
from mr_dedup.jobs.contract import Counters, Group, Keyed, Reduce, TaskInput
from mr_dedup.jobs.passage_job import (
    WITHOUT_GROUP,
    PassageJob,
    as_rows,
    by_partition,
    rows_of_chunk,
    size_of_chunk,
    starts_of_keys,
    to_chunks,
    without_sizes,
)
from mr_dedup.jobs.reading import NO_REJECTS, REJECT
from mr_dedup.passages.windows import CountTable

TOKENS = "tokens_read"
"""The counter of the tokens of all texts."""


class PassageAnchorsJob(PassageJob, frozen=True, kw_only=True):
    """See the module."""

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the anchors of a chunk by partition, and the number of its documents."""
        table = CountTable()
        with self.reading_batches(part, counters) as reading:
            chunk = reading.chunk.number
            for batch in reading.batches():
                groups = self.groups_of(batch)
                windows = self.windows_of(batch, groups)
                counters[TOKENS] += windows.tokens.hashes.size
                counters[WITHOUT_GROUP] += 0 if groups is None else groups.null_count
                windows.count_anchors(reading.documents - len(batch), table)
                if len(table) > self.max_entries:
                    yield from self._rows(table, chunk)
                    table = CountTable()
            yield from self._rows(table, chunk)
            rejects = next(reading.rejects(), NO_REJECTS)
            first = rejects[REJECT][0].as_py() if len(rejects) else None
            yield 0, size_of_chunk(chunk, reading.documents, first)

    def _rows(self, table: CountTable, chunk: int) -> Iterator[Keyed]:
        yield from by_partition(as_rows(table, chunk, ["one", "documents"]), self.partitions)

    def max_keys(self) -> Sequence[int | None]:
        """Return the number of keys of each reduce step."""
        return [self.partitions, None]

    def reduces(self) -> Sequence[Reduce]:
        """Return the steps by anchor and by chunk."""
        return [self.count, self.order]

    def count(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the anchors that are in enough documents, by groups of chunks."""
        for _, tables in groups:
            sizes, rows = without_sizes(tables)
            for chunk, size in sizes:
                yield self.group_of_chunk(chunk), size
            if rows is None:
                continue
            table, starts = starts_of_keys(rows)
            documents = table["documents"].to_numpy().astype(np.int64)
            totals = np.add.reduceat(documents, starts)
            counts = np.diff(np.append(starts, len(table)))
            kept = np.repeat(totals >= self.min_documents, counts)
            counters["anchors"] += starts.size
            counters["repeated_anchors"] += int(np.count_nonzero(totals >= self.min_documents))
            table = table.filter(pa.array(kept)).select(["chunk", "one"])
            chunks = table["chunk"].to_numpy().astype(np.int64)
            if len(table):
                yield from divided(table, chunks // self.chunks_per_group)

    def order(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the number of documents of each chunk, and its anchors."""
        for _, tables in groups:
            yield from to_chunks(tables)


def anchors_of_chunk(folder: str, chunk: int) -> tuple[int, CountTable | None]:
    """Return how many documents a chunk has, and its anchors that are in enough; None if none."""
    documents, rows = rows_of_chunk(folder, chunk)
    if rows is None:
        return documents, None
    return documents, CountTable.of(np.unique(rows["one"].to_numpy()))
