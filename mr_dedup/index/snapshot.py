"""Snapshots: what an index holds at one moment, to be queried while it changes.

What is removed stays where it is, and is said to be dead from some change on; a snapshot is of the
changes up to a number. So to take one costs nothing, and nobody waits for anybody.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mr_dedup.index.memory_table import MemoryTable
from mr_dedup.index.protocol import Fingerprints, IndexMatches
from mr_dedup.index.segment import Segment

Hit = tuple[int, int, int, int, int]
"""Position of the query, distance, fingerprint, source (oldest first), rank or slot in it."""


@dataclass(frozen=True)
class View:
    """A segment, and which of its documents are dead.

    ``dead`` are those when the view was made, a bit each, ``dead_file`` the name of the file they
    are in, if they are; ``recent`` says of those that died since by which change.
    """

    segment: Segment
    dead: NDArray[np.uint8] | None = None
    dead_file: str | None = None
    recent: dict[int, int] = field(default_factory=dict)

    def is_alive(self, document: int, sequence: int) -> bool:
        """Return whether a document was held after a change."""
        if self.dead is not None and self.dead[document >> 3] >> (document & 7) & 1:
            return False
        died = self.recent.get(document)
        return died is None or died > sequence

    def alive(self, sequence: int) -> NDArray[np.bool_]:
        """Return which documents were held after a change, bool[documents]."""
        count = self.segment.documents
        if self.dead is None:
            alive = np.ones(count, bool)
        else:
            alive = np.unpackbits(self.dead, count=count, bitorder="little") == 0
        died = [document for document, at in list(self.recent.items()) if at <= sequence]
        alive[died] = False
        return alive

    @classmethod
    def of(cls, segment: Segment, alive: NDArray[np.bool_]) -> View:
        """Return the view of a segment of which so many documents, bool[documents], are held."""
        if alive.all():
            return cls(segment)
        return cls(segment, np.packbits(~alive, bitorder="little"))

    def settled(self) -> View:
        """Return the same with the recent dead among the others; itself if there are none."""
        if not self.recent:
            return self
        died = np.fromiter(self.recent, np.uint32, len(self.recent))
        dead = np.zeros(-(-self.segment.documents // 8), np.uint8)
        if self.dead is not None:
            dead[:] = self.dead
        np.bitwise_or.at(dead, died >> 3, np.left_shift(1, died & 7).astype(np.uint8))
        return View(self.segment, dead)

    @property
    def dead_count(self) -> int:
        """How many documents are dead."""
        before = 0 if self.dead is None else int(np.bitwise_count(self.dead).sum())
        return before + len(self.recent)


@dataclass(frozen=True)
class Snapshot:
    """What an index holds after a change; queried by any number of threads."""

    k: int
    named: bool
    views: tuple[View, ...]
    memory: MemoryTable
    slots: int
    sequence: int
    documents: int

    def __len__(self) -> int:
        return self.documents

    def query(
        self, fingerprints: Fingerprints, k: int | None = None, *, limit: int | None = None
    ) -> IndexMatches:
        """Return matches as ``protocol.FingerprintIndex.query`` says."""
        k = self.k if k is None else k
        refuse_others(fingerprints)
        if not 0 <= k <= self.k:
            raise ValueError(f"k must be from 0 to {self.k}, for which the index was made, not {k}")
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        if not (fingerprints.flags.c_contiguous and fingerprints.flags.writeable):
            fingerprints = fingerprints.copy()  # what kernels are compiled for
        hits = self._hits(fingerprints, k)
        if not hits:
            return IndexMatches.none()
        hits.sort()
        rows = []
        for _, of_query in itertools.groupby(hits, key=lambda hit: hit[0]):
            rows += list(itertools.islice(self._documents(of_query), limit))
        if not rows:
            return IndexMatches.none()
        queries, distances, values, ids = zip(*rows, strict=True)
        return IndexMatches(
            np.array(queries, np.int64),
            ids,
            np.array(values, np.uint64),
            np.array(distances, np.uint8),
        )

    def _hits(self, queries: Fingerprints, k: int) -> list[Hit]:
        hits: list[Hit] = []
        for source, view in enumerate(self.views):
            found = view.segment.probe(queries, k)
            if found is not None:
                self._collect(hits, queries, *found, source)
        scanned = self.memory.scan(queries, k, self.slots, self.sequence) if self.slots else None
        if scanned is not None:
            positions, slots = scanned
            self._collect(hits, queries, positions, self.memory.values[slots], slots, -1)
        return hits

    def _collect(
        self,
        hits: list[Hit],
        queries: Fingerprints,
        positions: NDArray[np.int64],
        values: Fingerprints,
        places: NDArray[np.int64] | NDArray[np.uint64],
        source: int,
    ) -> None:
        """Append what was found in a source, -1 being the memory table, which is the newest."""
        source = len(self.views) if source < 0 else source
        columns = (positions, queries[positions], values, places)
        hits += [
            (position, (query ^ value).bit_count(), value, source, place)
            for position, query, value, place in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]

    def _documents(self, hits: Iterator[Hit]) -> Iterator[tuple[int, int, int, str]]:
        """Yield the documents that have the fingerprints of hits: query, distance, value, id."""
        for query, distance, value, source, place in hits:
            if source == len(self.views):
                key = self.memory.keys[place]
                yield query, distance, value, key.decode() if isinstance(key, bytes) else _id(value)
                continue
            view = self.views[source]
            for document in view.segment.documents_of(place):
                if view.is_alive(document, self.sequence):
                    id = view.segment.id_of(document) if self.named else _id(value)
                    yield query, distance, value, id


def _id(value: int) -> str:
    """Return the id of a fingerprint that has none of its own."""
    return str(value - (1 << 64) if value >> 63 else value)


def refuse_others(fingerprints: Fingerprints) -> None:
    """Raise ValueError unless ``fingerprints`` is uint64[n]."""
    if (
        not isinstance(fingerprints, np.ndarray)
        or fingerprints.ndim != 1
        or fingerprints.dtype != np.uint64
    ):
        shown = getattr(fingerprints, "dtype", type(fingerprints).__name__)
        raise ValueError(f"fingerprints must be uint64[n], not {shown}")
