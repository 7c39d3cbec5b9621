"""The documents of an index and how they change: the same in memory, for a writer, for readers.

Changes are additions and removals of whole batches, numbered. One thread makes them at a time;
``current``, the snapshot that others query, is replaced when a change is complete.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.formats.text import parse_one
from mr_dedup.hamming.distinct import distinct
from mr_dedup.index.hits import QUERY_BUFFERS, MatchCollector, Neighbour, QueryBuffers
from mr_dedup.index.ids import Ids, require_sequence
from mr_dedup.index.memory_table import Key, MemoryTable
from mr_dedup.index.protocol import (
    CheckAndAddResult,
    Fingerprints,
    fingerprint_id,
    require_fingerprints,
)
from mr_dedup.index.segment import ABSENT
from mr_dedup.index.snapshot import SegmentView, Snapshot

_DISTANCE_AND_FINGERPRINT = operator.itemgetter(0, 1)


_NO_FINGERPRINTS = np.empty(0, np.uint64)


@dataclass(frozen=True)
class Batch:
    """Documents that are added or removed together, no key twice.

    Args:
        fingerprints: uint64[n]; none for removals by id.
        ids: n ids, None in an index without.
    """

    fingerprints: Fingerprints
    ids: Ids | None

    @classmethod
    def of(
        cls, fingerprints: Fingerprints, ids: Sequence[str] | pa.Array | None, named: bool
    ) -> Batch:
        """Return documents to add: the last one of each id, in their order; or each value once.

        Raises ValueError if there are ids and not ``named``, or no ids and ``named``.
        """
        require_fingerprints(fingerprints)
        require_ids(len(fingerprints), ids, named)
        return cls.of_columns(fingerprints, None if ids is None else Ids.of(ids))

    @classmethod
    def of_columns(cls, fingerprints: Fingerprints, ids: Ids | None) -> Batch:
        """Return documents as ``of``, without checks."""
        if ids is None:
            # in any order: no two documents have one fingerprint
            return cls(distinct(fingerprints), None)
        last = last_of_each(ids)
        if len(last) == len(ids):
            return cls(np.array(fingerprints), ids)
        return cls(fingerprints[last], ids.take(last))

    @classmethod
    def to_remove(cls, ids: Sequence[str], named: bool) -> Batch:
        """Return the documents that ``ids`` name; ValueError for what is not an id."""
        if named:
            return cls(_NO_FINGERPRINTS, Ids.of(ids))
        return cls(parsed_fingerprints(ids), None)

    def __len__(self) -> int:
        return len(self.fingerprints)

    def keys(self) -> Sequence[Key]:
        """Return the key of each document."""
        return self.fingerprints.tolist() if self.ids is None else self.ids.encoded()

    def only(self, chosen: NDArray[np.bool_]) -> Batch:
        """Return the documents that ``chosen`` bool[n] is true for."""
        if chosen.all():
            return self
        ids = None if self.ids is None else self.ids.take(np.flatnonzero(chosen))
        return Batch(self.fingerprints[chosen], ids)


def require_ids(count: int, ids: Sequence[str] | pa.Array | None, named: bool) -> None:
    """Raise ValueError unless there are ``count`` ids if ``named``, and none if not.

    Raises TypeError for one text instead of several.
    """
    if (ids is not None) != named:
        raise ValueError(
            "ids: needed, as documents of this index have ids"
            if named
            else "ids: not accepted, as documents of this index have none"
        )
    require_sequence("ids", ids, "id")
    if ids is not None and len(ids) != count:
        raise ValueError(f"ids: {len(ids)} for {count} documents")


def last_of_each(ids: Ids) -> NDArray[np.int64]:
    """Return the row of the last occurrence of each id, ascending, int64[m]."""
    hashes = ids.hashes()
    # for one id in a tenth of the time of np.unique
    hashes.sort()
    if not (hashes[1:] == hashes[:-1]).any():
        return np.arange(len(hashes))
    last = {key: row for row, key in enumerate(ids.encoded())}
    return np.array(sorted(last.values()), np.int64)


@dataclass(frozen=True)
class Located:
    """Where the documents of a batch are stored.

    Args:
        keys: n keys.
        in_memory: bool[n], which are in the memory table.
        in_views: for each view uint64[n], the document in its segment or ABSENT.
    """

    keys: Sequence[Key]
    in_memory: NDArray[np.bool_]
    in_views: Sequence[NDArray[np.uint64]]

    @property
    def stored(self) -> NDArray[np.bool_]:
        """Which documents are in the index, bool[n]."""
        stored = self.in_memory.copy()
        for documents in self.in_views:
            stored |= documents != ABSENT
        return stored


class State:
    """The documents of an index as they are now. One thread at a time changes it.

    Args:
        k: the largest distance of a query.
        named: whether documents have ids of their own.
        views: the segments, oldest first.
        buffers: how much a query buffers.
    """

    def __init__(
        self,
        k: int,
        named: bool,
        views: Sequence[SegmentView] = (),
        buffers: QueryBuffers = QUERY_BUFFERS,
    ) -> None:
        self._k, self._named, self._buffers = k, named, buffers
        self.memory = MemoryTable()
        self.views: tuple[SegmentView, ...] = tuple(views)
        self.sequence = 0
        self.documents = sum(view.segment.documents - view.dead_count for view in views)
        self.current = self._snapshot()

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            self._k, self._named, self.views, self.memory, self.memory.count, self.sequence,
            self.documents, self._buffers,
        )  # fmt: skip

    def replace(self, views: Sequence[SegmentView], *, sealed: bool, added: int = 0) -> None:
        """Replace the views by others of the same documents, and of ``added`` more.

        With ``sealed`` they contain the documents of the memory table, which is empty then.
        """
        self.views = tuple(views)
        if sealed:
            self.memory = MemoryTable()
        self._done(added)

    def look_up(self, batch: Batch, keys: Sequence[Key] | None = None) -> Located:
        """Return where the documents of a batch are stored.

        By their ids, or else their fingerprints. ``keys`` are those of the memory table, by default
        the batch's. Raises FormatError if a segment is damaged.
        """
        keys = batch.keys() if keys is None else keys
        slots = self.memory.slots
        in_memory = np.zeros(len(keys), bool)
        if slots:
            in_memory[:] = [key in slots for key in keys]
        ids = batch.ids
        hashes = None if ids is None else ids.hashes()
        found = []
        for view in self.views:
            if ids is None or hashes is None:
                documents = view.segment.find_fingerprints(batch.fingerprints)
            else:
                documents = view.segment.find_ids(ids, hashes)
            for row in np.flatnonzero(documents != ABSENT).tolist():
                if not view.is_alive(int(documents[row]), self.sequence):
                    documents[row] = ABSENT
            found.append(documents)
        return Located(keys, in_memory, found)

    def fingerprints(self, located: Located) -> list[int | None]:
        """Return the fingerprints of documents, None of those that are not stored."""
        found: list[int | None] = []
        for row, key in enumerate(located.keys):
            value = None
            if located.in_memory[row]:
                value = int(self.memory.values[self.memory.slots[key]])
            for view, documents in zip(self.views, located.in_views, strict=True):
                if documents[row] != ABSENT:
                    value = view.segment.fingerprint_of(int(documents[row]))
            found.append(value)
        return found

    def add(self, batch: Batch, located: Located) -> int:
        """Add documents; return how many were not in the index before.

        ``located`` is what ``look_up`` returned, with no change in between. Segments are read there
        alone, so that damage cannot stop an addition half-way.
        """
        keys, old = located.keys, located.stored
        if batch.ids is None:
            batch = batch.only(~old)
            keys = batch.keys()
        elif old.any():
            self._kill(located)
        self.memory.add(batch.fingerprints, keys)
        self._done(len(batch))
        return int((~old).sum())

    def remove(self, located: Located) -> NDArray[np.bool_]:
        """Remove documents that were looked up, as ``add``; return which were stored, bool[n]."""
        self._kill(located)
        self._done(0)
        return located.stored

    def _kill(self, located: Located) -> None:
        sequence, killed = self.sequence + 1, 0
        for row in np.flatnonzero(located.in_memory).tolist():
            killed += self.memory.remove(located.keys[row], sequence)
        for view, documents in zip(self.views, located.in_views, strict=True):
            dead = documents[documents != ABSENT].tolist()
            before = len(view.recent)
            view.recent.update(dict.fromkeys(dead, sequence))
            killed += len(view.recent) - before
        self.documents -= killed

    def _done(self, added: int) -> None:
        self.documents += added
        self.sequence += 1
        self.current = self._snapshot()


def parsed_fingerprints(ids: Sequence[str]) -> Fingerprints:
    """Return the fingerprints of ids in an index without ids, uint64[n].

    Raises TypeError for one text instead of several, ValueError for an id that is not a
    fingerprint.
    """
    require_sequence("ids", ids, "id")
    values = []
    for id in ids:
        try:
            values.append(parse_one(id.encode()))
        except (AttributeError, ValueError) as error:
            reason = f"ids: expected fingerprints, as this index has no ids, got {id!r}"
            raise ValueError(reason) from error
    return np.array(values, np.uint64)


def checked(
    snapshot: Snapshot,
    fingerprints: Fingerprints,
    ids: Sequence[str] | None,
    k: int | None,
    limit: int | None,
    only_new: bool,
    max_matches: int | None = None,
    match_same_id: bool = False,
) -> CheckAndAddResult:
    """Return the result of ``check_and_add``, as if one document came after another.

    O(n²) comparisons among the n documents of the call, a nanosecond each. Raises ValueError if
    there are more than ``max_matches`` in all.
    """
    collector = MatchCollector(limit, max_matches)
    stored = snapshot.neighbours(fingerprints, k)
    next_row, neighbours = next(stored, (-1, iter(())))
    reach = snapshot.k if k is None else k
    added = np.zeros(len(fingerprints), bool)
    rows_by_id: dict[str, int] = {}
    for row, value in enumerate(fingerprints):
        own = None if ids is None or match_same_id else ids[row]
        distances = np.bitwise_count(fingerprints[:row] ^ value)
        others = np.flatnonzero(added[:row] & (distances <= reach))
        documents: Iterator[Neighbour] = iter(())
        if next_row == row:
            documents = _not_replaced(neighbours, own, rows_by_id)
        if len(others):
            batch = _within_batch(fingerprints, ids, others, distances, own, rows_by_id)
            # at one distance and fingerprint the documents of the index are older
            documents = heapq.merge(documents, batch, key=_DISTANCE_AND_FINGERPRINT)
        nearest = collector.take(row, documents)
        if next_row == row:
            next_row, neighbours = next(stored, (-1, iter(())))
        if not (only_new and nearest):
            stored_before = ids is None and nearest is not None and nearest[0] == 0
            added[row] = not stored_before
            if ids is not None:
                rows_by_id[ids[row]] = row
    return CheckAndAddResult(collector.matches(), added)


def _not_replaced(
    neighbours: Iterator[Neighbour], own: str | None, replaced: Container[str]
) -> Iterator[Neighbour]:
    """Yield neighbours but for those that a document, or an earlier one, replaces."""
    return (each for each in neighbours if each[2] != own and each[2] not in replaced)


def _within_batch(
    fingerprints: Fingerprints,
    ids: Sequence[str] | None,
    others: NDArray[np.int64],
    distances: NDArray[np.uint8],
    own: str | None,
    rows_by_id: Mapping[str, int],
) -> Iterator[Neighbour]:
    """Yield the neighbours of a document among ``others`` of its call, nearest first.

    Without those that a later one of their id, at ``rows_by_id``, has replaced.
    """
    for other in others[np.lexsort((fingerprints[others], distances[others]))].tolist():
        number = int(fingerprints[other])
        if ids is None:
            yield int(distances[other]), number, fingerprint_id(number)
        elif ids[other] != own and rows_by_id[ids[other]] == other:
            yield int(distances[other]), number, ids[other]
