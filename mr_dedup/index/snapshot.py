"""Snapshots: what an index holds at one moment, to be queried while it changes.

What is removed stays where it is, and is said to be dead from some change on; a snapshot is of the
changes up to a number. So to take one costs nothing, and nobody waits for anybody.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mr_dedup.index.memory_table import MemoryTable
from mr_dedup.index.protocol import Fingerprints, IndexMatches
from mr_dedup.index.rows import Near, Rows
from mr_dedup.index.segment import Segment

Hit = tuple[int, int, int, int, int]
"""Position of the query, distance, fingerprint, source (oldest first), rank or slot in it."""

Found = tuple[int, NDArray[np.int64], Fingerprints, NDArray[np.int64] | NDArray[np.uint64]]
"""What a source has near queries: its number; positions of these, fingerprints, ranks or slots."""

_ENOUGH_HITS = 1 << 16
_FEW_HITS, _FEW_A_QUERY = 1 << 10, 16
_POSITION = operator.itemgetter(0)


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
        self,
        fingerprints: Fingerprints,
        k: int | None = None,
        *,
        limit: int | None = None,
        most: int | None = None,
    ) -> IndexMatches:
        """Return matches as ``protocol.FingerprintIndex.query`` says.

        With ``most`` raises ValueError if there are more, of all queries together.
        """
        rows = Rows(limit, most)
        for position, documents in self.near(fingerprints, k):
            rows.take(position, documents)
        return rows.matches()

    def near(
        self, fingerprints: Fingerprints, k: int | None = None
    ) -> Iterator[tuple[int, Iterator[Near]]]:
        """Yield the positions of queries that have matches, and these, in the order of ``query``.

        A match is made when it is asked for. What is held is what was found for some of the
        queries: 65,536 a segment, or all of one query.
        """
        k = self.k if k is None else k
        refuse_others(fingerprints)
        if not 0 <= k <= self.k:
            raise ValueError(f"k must be from 0 to {self.k}, for which the index was made, not {k}")
        if not (fingerprints.flags.c_contiguous and fingerprints.flags.writeable):
            fingerprints = fingerprints.copy()  # what kernels are compiled for
        begin, size = 0, len(fingerprints)
        while begin < len(fingerprints):
            # of one query a slice costs a fiftieth
            queries = fingerprints[begin : begin + size] if begin else fingerprints
            found, size = self._found(queries, k)
            if found:
                for position, hits in _ordered(queries, found):
                    yield begin + position, self._documents(hits)
            begin += size
            # what is found for more is thrown away, so that to try all again would be quadratic
            size *= 2

    def _found(self, queries: Fingerprints, k: int) -> tuple[list[Found], int]:
        """Return what is near the first queries, by source, and how many queries these are."""
        found: list[Found] = []
        size = len(queries)
        for source, view in enumerate(self.views):
            probed, done = view.segment.probe(queries, k, _ENOUGH_HITS)
            if probed is not None:
                found.append((source, *probed))
            if done < len(queries):
                queries = queries[:done]
        if self.slots:
            scanned, done = self.memory.scan(queries, k, self.slots, self.sequence, _ENOUGH_HITS)
            if scanned is not None:
                positions, slots = scanned
                # the newest source is the last
                found.append((len(self.views), positions, self.memory.values[slots], slots))
            queries = queries[:done]
        if len(queries) < size:
            found = [_of_first(each, len(queries)) for each in found]
        return found, len(queries)

    def _documents(self, hits: Iterator[Hit]) -> Iterator[Near]:
        """Yield the documents that have the fingerprints of hits."""
        for _, distance, value, source, place in hits:
            if source == len(self.views):
                key = self.memory.keys[place]
                yield distance, value, key.decode() if isinstance(key, bytes) else _id(value)
                continue
            view = self.views[source]
            for document in view.segment.documents_of(place):
                if view.is_alive(document, self.sequence):
                    id = view.segment.id_of(document) if self.named else _id(value)
                    yield distance, value, id


def _of_first(found: Found, size: int) -> Found:
    """Return what was found for the first ``size`` queries."""
    source, positions, values, places = found
    count = int(positions.searchsorted(size))
    return source, positions[:count], values[:count], places[:count]


def _ordered(queries: Fingerprints, found: Sequence[Found]) -> Iterator[tuple[int, Iterator[Hit]]]:
    """Yield the positions of queries, ascending, each with its hits, nearest first."""
    count = sum([len(positions) for _, positions, _, _ in found])
    if count <= max(_FEW_HITS, _FEW_A_QUERY * len(queries)):
        hits = [
            (position, (query ^ value).bit_count(), value, source, place)
            for source, positions, values, places in found
            for position, query, value, place in zip(
                positions.tolist(), queries[positions].tolist(), values.tolist(), places.tolist(),
                strict=True,
            )
        ]  # fmt: skip
        hits.sort()
        yield from itertools.groupby(hits, key=_POSITION)
        return
    # a tuple takes ten times what a row of columns does, and most may be beyond a limit; sorted as
    # columns few take twice the time
    sources = np.repeat([each[0] for each in found], [len(each[1]) for each in found])
    positions = np.concatenate([each[1] for each in found])
    values = np.concatenate([each[2] for each in found])
    places = np.concatenate([each[3].astype(np.int64) for each in found])
    distances = np.bitwise_count(queries[positions] ^ values)
    # stable: sources come in their order, and in the memory table slots do
    order = np.lexsort((values, distances, positions))
    columns = (positions, distances, values, sources, places)
    starts = np.flatnonzero(np.diff(positions[order], prepend=-1))
    for start, of_query in zip(starts.tolist(), np.split(order, starts[1:]), strict=True):
        yield int(positions[order[start]]), _hits(columns, of_query)


def _hits(columns: Sequence[NDArray[Any]], order: NDArray[np.int64]) -> Iterator[Hit]:
    """Yield the rows of columns in an order, made when they are asked for."""
    for start in range(0, len(order), _FEW_HITS):
        chosen = order[start : start + _FEW_HITS]
        yield from zip(*(column[chosen].tolist() for column in columns), strict=True)


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
