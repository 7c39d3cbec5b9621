"""Snapshots: the documents of an index at one moment, to be queried while the index changes.

Removed documents stay where they are, marked as dead from the change that removed them on; a
snapshot is of the changes up to a number. So taking one costs nothing and never waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mr_dedup.index.hits import (
    QUERY_BUFFERS,
    Hit,
    MatchCollector,
    Neighbour,
    QueryBuffers,
    SourceHits,
    by_query,
    first_queries,
)
from mr_dedup.index.memory_table import MemoryTable
from mr_dedup.index.protocol import (
    Fingerprints,
    IndexMatches,
    fingerprint_id,
    require_fingerprints,
)
from mr_dedup.index.segment import Segment


@dataclass(frozen=True)
class SegmentView:
    """A segment, and which of its documents are dead.

    Args:
        segment: the segment, whose file never changes.
        dead: uint8[documents / 8], a bit for each document that was dead when the view was made.
        dead_file: the name of the file of these bits, if they are on the disk.
        recent: the documents that died since, with the number of the change that removed them.
    """

    segment: Segment
    dead: NDArray[np.uint8] | None = None
    dead_file: str | None = None
    recent: dict[int, int] = field(default_factory=dict)

    def is_alive(self, document: int, sequence: int) -> bool:
        """Return whether a document was alive after change number ``sequence``."""
        if self.dead is not None and self.dead[document >> 3] >> (document & 7) & 1:
            return False
        died = self.recent.get(document)
        return died is None or died > sequence

    def alive(self, sequence: int) -> NDArray[np.bool_]:
        """Return which documents were alive after change ``sequence``, bool[documents]."""
        count = self.segment.documents
        if self.dead is None:
            alive = np.ones(count, bool)
        else:
            alive = np.unpackbits(self.dead, count=count, bitorder="little") == 0
        died = [document for document, at in list(self.recent.items()) if at <= sequence]
        alive[died] = False
        return alive

    @classmethod
    def of(cls, segment: Segment, alive: NDArray[np.bool_]) -> SegmentView:
        """Return the view of a segment whose living documents are ``alive`` bool[documents]."""
        if alive.all():
            return cls(segment)
        return cls(segment, np.packbits(~alive, bitorder="little"))

    def settled(self) -> SegmentView:
        """Return the view with ``recent`` merged into ``dead``; itself if there are none."""
        if not self.recent:
            return self
        died = np.fromiter(self.recent, np.uint32, len(self.recent))
        dead = np.zeros(-(-self.segment.documents // 8), np.uint8)
        if self.dead is not None:
            dead[:] = self.dead
        np.bitwise_or.at(dead, died >> 3, np.left_shift(1, died & 7).astype(np.uint8))
        return SegmentView(self.segment, dead)

    @property
    def dead_count(self) -> int:
        """The number of dead documents."""
        before = 0 if self.dead is None else int(np.bitwise_count(self.dead).sum())
        return before + len(self.recent)


@dataclass(frozen=True)
class Snapshot:
    """The documents of an index after a change; any number of threads may query them.

    Args:
        k: the largest distance of a query.
        named: whether documents have ids of their own.
        views: the segments, oldest first.
        memory: the memory table, of which the first ``slots`` slots belong to the snapshot.
        slots: as above.
        sequence: the number of the change.
        documents: the number of living documents.
        buffers: how much a query buffers.
    """

    k: int
    named: bool
    views: tuple[SegmentView, ...]
    memory: MemoryTable
    slots: int
    sequence: int
    documents: int
    buffers: QueryBuffers = QUERY_BUFFERS

    def __len__(self) -> int:
        return self.documents

    def query(
        self,
        fingerprints: Fingerprints,
        k: int | None = None,
        *,
        limit: int | None = None,
        max_matches: int | None = None,
    ) -> IndexMatches:
        """Return matches as ``HammingIndex.query``.

        Raises ValueError if there are more than ``max_matches``, of all queries together.
        """
        collector = MatchCollector(limit, max_matches)
        for row, documents in self.neighbours(fingerprints, k):
            collector.take(row, documents)
        return collector.matches()

    def neighbours(
        self, fingerprints: Fingerprints, k: int | None = None
    ) -> Iterator[tuple[int, Iterator[Neighbour]]]:
        """Yield the rows of queries that have matches, ascending, each with its neighbours.

        Neighbours are made as they are taken. In memory are the hits of some of the queries: up to
        ``buffers.hits`` a segment, or all of one query.
        """
        k = self.k if k is None else k
        require_fingerprints(fingerprints)
        if not 0 <= k <= self.k:
            raise ValueError(f"k must be from 0 to {self.k}, for which the index was made, not {k}")
        if not (fingerprints.flags.c_contiguous and fingerprints.flags.writeable):
            fingerprints = fingerprints.copy()  # kernels are compiled for such arrays alone
        begin, size = 0, len(fingerprints)
        while begin < len(fingerprints):
            # slicing would take 2 % of a query of one fingerprint
            queries = fingerprints[begin : begin + size] if begin else fingerprints
            found, size = self._found(queries, k)
            if found:
                for row, hits in by_query(queries, found, self.buffers):
                    yield begin + row, self._documents(hits)
            begin += size
            # hits of later queries are discarded: retrying all of them each time would be quadratic
            size *= 2

    def _found(self, queries: Fingerprints, k: int) -> tuple[list[SourceHits], int]:
        """Return the hits of the first queries, by source, and the number of these queries."""
        found: list[SourceHits] = []
        size, (stop_after, _, _, buffered) = len(queries), self.buffers
        for source, view in enumerate(self.views):
            probed, done = view.segment.probe(queries, k, stop_after, buffered)
            if probed is not None:
                found.append((source, *probed))
            if done < len(queries):
                queries = queries[:done]
        if self.slots:
            moment = self.slots, self.sequence
            scanned, done = self.memory.scan(queries, k, *moment, stop_after, buffered)
            if scanned is not None:
                rows, slots = scanned
                # the newest source is the last
                found.append((len(self.views), rows, self.memory.values[slots], slots))
            queries = queries[:done]
        if len(queries) < size:
            found = [first_queries(each, len(queries)) for each in found]
        return found, len(queries)

    def _documents(self, hits: Iterator[Hit]) -> Iterator[Neighbour]:
        """Yield the documents that have the fingerprints of hits, without the dead."""
        for _, distance, value, source, rank in hits:
            if source == len(self.views):
                key = self.memory.keys[rank]
                id = key.decode() if isinstance(key, bytes) else fingerprint_id(value)
                yield distance, value, id
                continue
            view = self.views[source]
            for document in view.segment.documents_of(rank):
                if view.is_alive(document, self.sequence):
                    id = view.segment.id_of(document) if self.named else fingerprint_id(value)
                    yield distance, value, id
