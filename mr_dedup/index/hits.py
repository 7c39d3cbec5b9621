"""The matches of each query, closest first, from hits: fingerprints within k bits of queries."""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.index.protocol import Fingerprints, IndexMatches
from mr_dedup.index.segment import BUFFERED_MATCHES

Hit = tuple[int, int, int, int, int]
"""Row of the query, distance, fingerprint, source (oldest first), rank or slot in the source."""

SourceHits = tuple[int, NDArray[np.int64], Fingerprints, NDArray[np.int64] | NDArray[np.uint64]]
"""The hits in one source, as columns: its number; rows of queries, fingerprints, ranks or slots."""

Neighbour = tuple[int, int, str]
"""A document within k bits of a query: distance, fingerprint, id."""

_ROW = operator.itemgetter(0)


class QueryBuffers(NamedTuple):
    """How much a query buffers; the same matches for any values of 1 and more.

    Args:
        hits: of a segment, after which its queries are processed before others are probed.
        tuples: hits that are sorted as tuples, not as columns, or converted to tuples at a time.
        tuples_a_query: the same, for each query of a call.
        matches: that a kernel's buffer has room for at first.
    """

    hits: int = 1 << 16
    tuples: int = 1 << 10
    tuples_a_query: int = 16
    matches: int = BUFFERED_MATCHES


QUERY_BUFFERS = QueryBuffers()


class MatchCollector:
    """Collects the matches of queries, row by row.

    Args:
        limit: the number of matches that are kept of each query, the first ones; all if None.
        max_matches: the number of matches of all queries together; any if None.

    Raises:
        ValueError: ``limit`` is less than 1.

    >>> collector = MatchCollector(limit=1, max_matches=None)
    >>> collector.take(4, iter([(0, 7, "a"), (1, 6, "b")]))
    (0, 7, 'a')
    >>> collector.matches().of(4)
    [Match(id='a', fingerprint=7, distance=0)]
    """

    def __init__(self, limit: int | None, max_matches: int | None) -> None:
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        # no index contains more documents, and islice takes no larger number
        self._limit = None if limit is None else min(limit, sys.maxsize)
        self._max_matches = max_matches
        self._queries: list[int] = []
        self._neighbours: list[Neighbour] = []

    def take(self, query: int, documents: Iterator[Neighbour]) -> Neighbour | None:
        """Add the first neighbours of a query; return the nearest, None if there are none.

        Raises ValueError if there are more than ``max_matches``; takes no more than it needs.
        """
        neighbours, stop, max_matches = self._neighbours, self._limit, self._max_matches
        before = len(neighbours)
        if max_matches is not None:
            room = max_matches + 1 - before
            stop = room if stop is None else min(stop, room)
        neighbours += documents if stop is None else itertools.islice(documents, stop)
        count = len(neighbours) - before
        if max_matches is not None and before + count > max_matches:
            raise ValueError(
                f"more than {max_matches:,} matches in one response; send fewer queries at once, "
                "or a smaller limit"
            )
        if not count:
            return None
        self._queries += [query] * count
        return neighbours[before]

    def matches(self) -> IndexMatches:
        """Return all matches as columns."""
        if not self._neighbours:
            return IndexMatches.none()
        distances, values, ids = zip(*self._neighbours, strict=True)
        return IndexMatches(
            np.array(self._queries, np.int64),
            ids,
            np.array(values, np.uint64),
            np.array(distances, np.uint8),
        )


def first_queries(hits: SourceHits, count: int) -> SourceHits:
    """Return the hits of the first ``count`` queries."""
    source, rows, values, ranks = hits
    stop = int(rows.searchsorted(count))
    return source, rows[:stop], values[:stop], ranks[:stop]


def by_query(
    queries: Fingerprints, found: Sequence[SourceHits], buffers: QueryBuffers
) -> Iterator[tuple[int, Iterator[Hit]]]:
    """Yield the rows of queries, ascending, each with its hits, nearest first."""
    count = sum([len(rows) for _, rows, _, _ in found])
    if count <= max(buffers.tuples, buffers.tuples_a_query * len(queries)):
        hits = [
            (row, (query ^ value).bit_count(), value, source, rank)
            for source, rows, values, ranks in found
            for row, query, value, rank in zip(
                rows.tolist(), queries[rows].tolist(), values.tolist(), ranks.tolist(), strict=True
            )
        ]
        hits.sort()
        yield from itertools.groupby(hits, key=_ROW)
        return
    # a tuple takes ten times the memory of a row of columns, and most may be beyond a limit; few
    # hits are sorted twice as fast as tuples
    sources = np.repeat([each[0] for each in found], [len(each[1]) for each in found])
    rows = np.concatenate([each[1] for each in found])
    values = np.concatenate([each[2] for each in found])
    ranks = np.concatenate([each[3].astype(np.int64) for each in found])
    distances = np.bitwise_count(queries[rows] ^ values)
    # stable: sources keep their order, and slots of the memory table do
    order = np.lexsort((values, distances, rows))
    columns = (rows, distances, values, sources, ranks)
    starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
    for start, of_query in zip(starts.tolist(), np.split(order, starts[1:]), strict=True):
        yield int(rows[order[start]]), _hits(columns, of_query, buffers.tuples)


def _hits(columns: Sequence[NDArray[Any]], order: NDArray[np.int64], size: int) -> Iterator[Hit]:
    """Yield the rows of columns in an order, ``size`` of them converted at a time."""
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        yield from zip(*(column[chosen].tolist() for column in columns), strict=True)
