"""What an index holds, and how it changes: the same for memory, for a writer and for readers.

Changes are additions and removals of whole batches, numbered. One thread makes them at a time; what
others see, ``current``, is replaced when a change is complete.
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
from mr_dedup.index.ids import Ids
from mr_dedup.index.memory_table import Key, MemoryTable
from mr_dedup.index.protocol import Checked, Fingerprints
from mr_dedup.index.rows import Near, Rows
from mr_dedup.index.segment import ABSENT
from mr_dedup.index.snapshot import Snapshot, View, refuse_others

_DISTANCE_AND_FINGERPRINT = operator.itemgetter(0, 1)


@dataclass(frozen=True)
class Batch:
    """Documents that are added together: no id twice; ``ids`` None where there are none."""

    fingerprints: Fingerprints
    ids: Ids | None

    @classmethod
    def of(
        cls, fingerprints: Fingerprints, ids: Sequence[str] | pa.Array | None, named: bool
    ) -> Batch:
        """Return documents, of those with one id the last, in their order; else each once.

        Raises ValueError for ids where there are to be none, or none where there have to be.
        """
        require_aligned(fingerprints, ids, named)
        return cls.of_columns(fingerprints, None if ids is None else Ids.of(ids))

    @classmethod
    def of_columns(cls, fingerprints: Fingerprints, ids: Ids | None) -> Batch:
        """Return documents as ``of``, of columns that are right."""
        if ids is None:
            # in any order: no two documents have one fingerprint
            return cls(distinct(fingerprints), None)
        last = last_of_each(ids)
        if len(last) == len(ids):
            return cls(np.array(fingerprints), ids)
        return cls(fingerprints[last], ids.take(last))

    def __len__(self) -> int:
        return len(self.fingerprints)

    def keys(self) -> Sequence[Key]:
        """Return what names each document."""
        return self.fingerprints.tolist() if self.ids is None else self.ids.encoded()

    def only(self, chosen: NDArray[np.bool_]) -> Batch:
        """Return some of the documents, bool[n]."""
        if chosen.all():
            return self
        ids = None if self.ids is None else self.ids.take(np.flatnonzero(chosen))
        return Batch(self.fingerprints[chosen], ids)


def require_aligned(
    fingerprints: Fingerprints, ids: Sequence[str] | pa.Array | None, named: bool
) -> None:
    """Raise ValueError unless there is an id for each fingerprint if ``named``, and none if not."""
    refuse_others(fingerprints)
    if (ids is not None) != named:
        raise ValueError("ids: this index is of documents " + ("with" if named else "without"))
    if ids is not None and len(ids) != len(fingerprints):
        raise ValueError(f"ids: {len(ids)} for {len(fingerprints)} fingerprints")


def last_of_each(ids: Ids) -> NDArray[np.int64]:
    """Return the place of the last of each id, ascending, int64[m]."""
    hashes = ids.hashes()
    # of one id in a tenth of the time of np.unique
    hashes.sort()
    if not (hashes[1:] == hashes[:-1]).any():
        return np.arange(len(hashes))
    last = {key: place for place, key in enumerate(ids.encoded())}
    return np.array(sorted(last.values()), np.int64)


@dataclass(frozen=True)
class Held:
    """Which keys are held, and where: in the memory table, or as documents of views."""

    keys: Sequence[Key]
    in_memory: NDArray[np.bool_]
    in_views: Sequence[NDArray[np.uint64]]

    @property
    def any(self) -> NDArray[np.bool_]:
        """Which are held, bool[n]."""
        held = self.in_memory.copy()
        for documents in self.in_views:
            held |= documents != ABSENT
        return held


class State:
    """The documents of an index as they are now. One thread at a time changes it."""

    def __init__(self, k: int, named: bool, views: Sequence[View] = ()) -> None:
        self._k, self._named = k, named
        self.memory = MemoryTable()
        self.views: tuple[View, ...] = tuple(views)
        self.sequence = 0
        self.documents = sum(view.segment.documents - view.dead_count for view in views)
        self.current = self._snapshot()

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            self._k, self._named, self.views, self.memory, self.memory.count, self.sequence,
            self.documents,
        )  # fmt: skip

    def replace(self, views: Sequence[View], *, sealed: bool, added: int = 0) -> None:
        """Go on with other views of the same documents, and of ``added`` more.

        With ``sealed`` those of the memory table are among them.
        """
        self.views = tuple(views)
        if sealed:
            self.memory = MemoryTable()
        self._done(added)

    def held(self, fingerprints: Fingerprints, ids: Ids | None, keys: Sequence[Key]) -> Held:
        """Return where documents are held, by their ids or else their fingerprints."""
        slots = self.memory.slots
        in_memory = np.zeros(len(keys), bool)
        if slots:
            in_memory[:] = [key in slots for key in keys]
        hashes = None if ids is None else ids.hashes()
        found = []
        for view in self.views:
            if ids is None or hashes is None:
                documents = view.segment.find_fingerprints(fingerprints)
            else:
                documents = view.segment.find_ids(ids, hashes)
            for place in np.flatnonzero(documents != ABSENT).tolist():
                if not view.is_alive(int(documents[place]), self.sequence):
                    documents[place] = ABSENT
            found.append(documents)
        return Held(keys, in_memory, found)

    def look_up(self, batch: Batch) -> Held:
        """Return where the documents of a batch are stored; FormatError if a segment is damaged."""
        return self.held(batch.fingerprints, batch.ids, batch.keys())

    def add(self, batch: Batch, held: Held) -> int:
        """Add documents; return how many keys were new.

        ``held`` is what ``look_up`` returned, with no change in between: segments are read there
        alone, so that what is added cannot fail for one that is damaged.
        """
        keys, old = held.keys, held.any
        if batch.ids is None:
            batch = batch.only(~old)
            keys = batch.keys()
        elif old.any():
            self._kill(held)
        self.memory.add(batch.fingerprints, keys)
        self._done(len(batch))
        return int((~old).sum())

    def remove(self, held: Held) -> NDArray[np.bool_]:
        """Remove documents that were looked up, as ``add``; return which were stored, bool[n]."""
        self._kill(held)
        self._done(0)
        return held.any

    def _kill(self, held: Held) -> None:
        sequence, killed = self.sequence + 1, 0
        for place in np.flatnonzero(held.in_memory).tolist():
            killed += self.memory.remove(held.keys[place], sequence)
        for view, documents in zip(self.views, held.in_views, strict=True):
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
    """Return the fingerprints that ids are where documents have none; ValueError for others."""
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
    most: int | None = None,
) -> Checked:
    """Say what ``check_and_add`` finds and adds, as if one document after another came.

    O(n²) comparisons among the n documents of the call, a nanosecond each. With ``most`` raises
    ValueError if there are more matches in all.
    """
    rows = Rows(limit, most)
    stored = snapshot.near(fingerprints, k)
    position, near = next(stored, (-1, iter(())))
    reach = snapshot.k if k is None else k
    added = np.zeros(len(fingerprints), bool)
    earlier: dict[str, int] = {}
    for place, value in enumerate(fingerprints):
        own = None if ids is None else ids[place]
        distances = np.bitwise_count(fingerprints[:place] ^ value)
        others = np.flatnonzero(added[:place] & (distances <= reach))
        documents: Iterator[Near] = iter(())
        if position == place:
            documents = _but(near, own, earlier)
        if len(others):
            came = _came(fingerprints, ids, others, distances, own, earlier)
            # at one distance and fingerprint what is held is older
            documents = heapq.merge(documents, came, key=_DISTANCE_AND_FINGERPRINT)
        nearest = rows.take(place, documents)
        if position == place:
            position, near = next(stored, (-1, iter(())))
        if not (only_new and nearest):
            held_before = ids is None and nearest is not None and nearest[0] == 0
            added[place] = not held_before
            if ids is not None:
                earlier[ids[place]] = place
    return Checked(rows.matches(), added)


def _but(near: Iterator[Near], own: str | None, replaced: Container[str]) -> Iterator[Near]:
    """Yield what is held without what a document, or one that came before it, replaces."""
    return (each for each in near if each[2] != own and each[2] not in replaced)


def _came(
    fingerprints: Fingerprints,
    ids: Sequence[str] | None,
    others: NDArray[np.int64],
    distances: NDArray[np.uint8],
    own: str | None,
    last: Mapping[str, int],
) -> Iterator[Near]:
    """Yield those of the call that are near one that comes after them, nearest first.

    Without those that others with their ids, of which ``last`` are the places, have replaced.
    """
    for other in others[np.lexsort((fingerprints[others], distances[others]))].tolist():
        number = int(fingerprints[other])
        if ids is None:
            yield int(distances[other]), number, _signed(number)
        elif ids[other] != own and last[ids[other]] == other:
            yield int(distances[other]), number, ids[other]


def _signed(value: int) -> str:
    return str(value - (1 << 64) if value >> 63 else value)
