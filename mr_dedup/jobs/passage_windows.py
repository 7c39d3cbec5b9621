"""The job of windows: which windows several documents have, in how many, and where first.

A map task counts the documents of its chunk that have each window whose anchor is in enough
documents; a first reduce step adds the counts up, a second one brings the windows that are in
enough documents together by chunk. What it leaves is a shard for each chunk: the number of its
documents, then its windows, ``one`` and ``two``, the ``documents`` that have each, and ``row`` and
``start`` of its first occurrence of all, NOT_HERE in other chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from mr_dedup.formats.tables import divided
from mr_dedup.jobs.contract import Counters, Group, Keyed, Reduce, TaskInput
from mr_dedup.jobs.passage_anchors import anchors_of_chunk
from mr_dedup.jobs.passage_job import (
    PassageJob,
    as_rows,
    by_partition,
    require_unchanged,
    rows_of_chunk,
    size_of_chunk,
    starts_of_keys,
    to_chunks,
    without_sizes,
)
from mr_dedup.passages.windows import CountTable

NOT_HERE = np.uint32(0xFFFFFFFF)

_MAX_COUNT = 0xFFFFFFFF


class PassageWindowsJob(PassageJob, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        anchors: The directory of the shards of anchors.
    """

    anchors: str

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the windows of a chunk by partition, and the number of its documents."""
        table = CountTable()
        candidates = []
        with self.reading_batches(part, counters) as reading:
            chunk = reading.chunk.number
            documents, anchors = anchors_of_chunk(self.anchors, chunk)
            if anchors is not None:
                for batch in reading.batches():
                    windows = self.windows_of(batch, self.groups_of(batch))
                    count = windows.keep_anchors(anchors)
                    candidates.append(windows.has_windows())
                    windows.count_windows(reading.documents - len(batch), count, table)
                    if len(table) > self.max_entries:
                        yield from self._rows(table, chunk)
                        table = CountTable()
                require_unchanged(part, reading.documents, documents)
            yield from self._rows(table, chunk)
            known = np.concatenate([np.empty(0, bool), *candidates])
            yield 0, size_of_chunk(chunk, documents, candidates=known)

    def _rows(self, table: CountTable, chunk: int) -> Iterator[Keyed]:
        names = ["one", "two", "documents", "row", "start"]
        yield from by_partition(as_rows(table, chunk, names), self.partitions)

    def max_keys(self) -> Sequence[int | None]:
        """Return the number of keys of each reduce step."""
        return [self.partitions, None]

    def reduces(self) -> Sequence[Reduce]:
        """Return the steps by window and by chunk."""
        return [self.count, self.order]

    def count(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the windows that are in enough documents, by groups of chunks."""
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
            is_first = np.zeros(len(table), bool)
            is_first[starts] = True
            chunks = table["chunk"].to_numpy().astype(np.int64)
            # a chunk that sent a key several times needs it once
            is_new = is_first.copy()
            is_new[1:] |= chunks[1:] != chunks[:-1]
            kept = np.repeat(totals >= self.min_documents, counts)
            counters["windows"] += starts.size
            counters["repeated_windows"] += int(np.count_nonzero(totals >= self.min_documents))
            columns = {
                "chunk": table["chunk"],
                "one": table["one"],
                "two": table["two"],
                "documents": np.repeat(np.minimum(totals, _MAX_COUNT), counts).astype(np.uint32),
                "row": np.where(is_first, table["row"].to_numpy(), NOT_HERE),
                "start": np.where(is_first, table["start"].to_numpy(), NOT_HERE),
            }
            chosen = kept & is_new
            if chosen.any():
                found = pa.table(columns).filter(pa.array(chosen))
                yield from divided(found, chunks[chosen] // self.chunks_per_group)

    def order(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the number of documents of each chunk, and its windows."""
        for _, tables in groups:
            yield from to_chunks(tables)


def windows_of_chunk(folder: str, chunk: int) -> tuple[int, CountTable | None]:
    """Return how many documents a chunk has, and its windows that are in enough documents."""
    documents, rows = rows_of_chunk(folder, chunk)
    if rows is None:
        return documents, None
    names = ("one", "two", "documents", "row", "start")
    return documents, CountTable.of(*(rows[name].to_numpy() for name in names))
