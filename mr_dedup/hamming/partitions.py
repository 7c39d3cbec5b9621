"""A join of more fingerprints than one task holds: dealt to partitions, each joined by itself.

A partition is a table of a design and a range of its buckets. Fingerprints that agree in the
table's masked bits are in the same one, and a pair is kept by the first table in which it does: so
all partitions together find every pair exactly once, with no second pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from mr_dedup.formats.spill import Spill
from mr_dedup.hamming import kernels
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import BITS, Hashing, TableDesign
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.hamming.planner import (
    DEFAULT_MEMORY_BYTES,
    HELD_BYTES,
    Plan,
    plan,
    plan_self,
    spread_sample,
)
from mr_dedup.hamming.search import BATCH_SIZE, Tables, search
from mr_dedup.hamming.self_join import Buffer, Found, join_table, own_pairs, pairs_within

Fingerprints = NDArray[np.uint64]

_FINER_BITS = 4
"""Bits more than it takes to number the partitions: then they differ by a sixteenth at most."""

_SPLIT_BITS = 6
"""Bits by which a partition is split that does not fit: into 64 parts."""

_SLICE_BITS = 8
"""Bits by which a hot key's fingerprints are sliced, fewer slices where these are small."""


_CROWD = 1 << 12
"""Fingerprints of each of two corpora from which it pays to plan how to compare them."""


class Side(IntEnum):
    """The corpus that a fingerprint is of; of one corpus alone all are on the left."""

    LEFT = 0
    RIGHT = 1


Sided = tuple[Side, Fingerprints]


@dataclass(frozen=True)
class Partitioning:
    """How fingerprints are dealt to partitions: ``parts`` of them for each table of a design.

    All tasks of a join need the same. A partition's key is its table's number times ``parts`` and
    the number of its range. Raises ValueError for fewer parts than 1.
    """

    design: TableDesign
    order: BitOrder
    parts: int

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise ValueError(f"parts must be at least 1, not {self.parts}")

    def partition(self, fingerprints: Fingerprints) -> Iterator[tuple[int, Fingerprints]]:
        """Yield (key, fingerprints) for each partition that some of ``fingerprints`` belong to.

        ``fingerprints`` uint64[n] come out once for each table, their bits in the order. About 4
        ns a fingerprint and table, 16 bytes a fingerprint; what is yielded are parts of an array
        that stays as it is.
        """
        moved = self.order.apply(np.ascontiguousarray(fingerprints))
        for number in range(len(self.design.masks)):
            hashing = self.design.hashing(number, (self.parts - 1).bit_length() + _FINER_BITS)
            grouped, ends = _grouped(moved, hashing)
            firsts = np.arange(self.parts + 1, dtype=np.int64) * ends.size
            edges = np.append(np.uint64(0), ends)[-(-firsts // self.parts)].tolist()
            for part, (start, stop) in enumerate(itertools.pairwise(edges)):
                if start < stop:
                    yield number * self.parts + part, grouped[start:stop]

    @property
    def taken_bits(self) -> int:
        """How many leading bits of their buckets the fingerprints of a partition mostly share."""
        return self.parts.bit_length() - 1


class PartitionJoin:
    """Joins partitions, one after the other, each within ``memory_bytes``.

    A partition that does not fit goes to temporary files, split by more bits of its keys; one key
    that has too many still, by all bits, and every two parts of it are joined. ``splits`` and
    ``hot_keys`` count how often that was needed.
    """

    def __init__(
        self,
        partitioning: Partitioning,
        *,
        two_corpora: bool = False,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
    ) -> None:
        self.splits = 0
        self.hot_keys = 0
        self._partitioning = partitioning
        self._two_corpora = two_corpora
        self._memory_bytes = max(2 * HELD_BYTES, memory_bytes)
        self._limit = self._memory_bytes // HELD_BYTES
        self._buffer = Buffer()

    def join(self, key: int, batches: Iterable[Sided]) -> Iterator[Pairs]:
        """Yield the pairs that belong to partition ``key``, in no order, each once.

        ``batches`` are its fingerprints, each array with its side, as Partitioning.partition yields
        them, in any order, repeated or not. Of two corpora a pair has the left one's fingerprint
        first, and equal ones are a pair.
        """
        order = self._partitioning.order
        number = key // self._partitioning.parts
        for one, other in self._pairs(number, iter(batches), self._partitioning.taken_bits):
            one, other = order.undo(one), order.undo(other)
            yield Pairs(one, other) if self._two_corpora else Pairs.unordered(one, other)

    def _pairs(self, number: int, batches: Iterator[Sided], taken: int) -> Iterator[Found]:
        """Yield a table's pairs of fingerprints that share ``taken`` bits of their buckets."""
        held = _Held()
        for side, fingerprints in batches:
            held.add(side, fingerprints)
            if held.size > self._limit:
                held.collapse()
            if held.size > self._limit // 2 and held.is_collapsed:
                hot = _share(self._partitioning.design.masks[number], *held.arrays())
                everything = itertools.chain(held.drain(), batches)
                if hot:
                    yield from self._hot_pairs(number, everything)
                else:
                    yield from self._split_pairs(number, everything, taken)
                return
        held.collapse()
        if self._two_corpora:
            yield from self._held_pairs_of_two(number, *held.of_sides(), taken)
        else:
            yield from self._held_pairs(number, held.of_sides()[0], taken)

    def _held_pairs(self, number: int, held: Fingerprints, taken: int) -> Iterator[Found]:
        """Yield the pairs of one corpus's fingerprints in memory."""
        return join_table(
            lambda: [held], held.size, self._partitioning.design, number, self._memory_bytes // 4,
            self._buffer, taken,
        )  # fmt: skip

    def _held_pairs_of_two(
        self, number: int, left: Fingerprints, right: Fingerprints, taken: int
    ) -> Iterator[Found]:
        """Yield the pairs of two corpora's fingerprints in memory: the fewer are indexed."""
        design = self._partitioning.design
        if left.size == 0 or right.size == 0:
            return
        crowded = min(left.size, right.size) > _CROWD
        if crowded and _share(design.masks[number], left, right):
            # a table of one bucket has nothing to split it by
            yield from self._slices_pairs(number, left, right, self._plan_across(left, right))
            return
        one_table = _PartTable(design.name, design.k, (design.masks[number],), taken)
        fewer, more = (right, left) if right.size < left.size else (left, right)
        tables = Tables(fewer, one_table, BitOrder.natural(), self._memory_bytes)
        for probing, indexed in tables.probe(more):
            pair = (indexed, probing) if fewer is left else (probing, indexed)
            yield own_pairs(*pair, design, number)

    def _split_pairs(self, number: int, batches: Iterator[Sided], taken: int) -> Iterator[Found]:
        """Yield the pairs of more than fits, split by the bits that follow the ``taken`` ones."""
        self.splits += 1
        hashing = self._partitioning.design.hashing(number, BITS).digits(taken, _SPLIT_BITS)
        with Spill() as spill:
            _set_aside(batches, hashing, spill)
            for part in sorted({file // len(Side) for file in spill.rows}):
                sided = (
                    (side, rows[0]) for side in Side for rows in spill.read(part * len(Side) + side)
                )
                yield from self._pairs(number, sided, taken + _SPLIT_BITS)
                for side in Side:
                    spill.remove(part * len(Side) + side)

    def _hot_pairs(self, number: int, batches: Iterator[Sided]) -> Iterator[Found]:
        """Yield the pairs of more than fits, whose keys tell none apart: slice by slice.

        A fingerprint is in one slice, wherever and how often it came from. Slices are alike, so
        that one plan is good for all.
        """
        self.hot_keys += 1
        within = across = None
        with Spill() as spill:
            _set_aside(batches, TableDesign.choose(0, 1).hashing(0, _SLICE_BITS), spill)
            lefts = self._slices(spill, Side.LEFT)
            rights = self._slices(spill, Side.RIGHT)
            for position, files in enumerate(lefts):
                left = _loaded(spill, files)
                if not self._two_corpora:
                    within = within or self._plan_within(left)
                    yield from self._slice_pairs(number, left, within)
                    rights = lefts[position + 1 :]
                for others in rights:
                    right = _loaded(spill, others)
                    across = across or self._plan_across(left, right)
                    yield from self._slices_pairs(number, left, right, across)

    def _slices(self, spill: Spill, side: Side) -> list[list[int]]:
        """Return groups of a side's files that fit beside one another and their tables."""
        groups: list[list[int]] = []
        held = 0
        for file, rows in spill.rows.items():
            if file % len(Side) == side:
                if not groups or held + rows > self._limit // 2:
                    groups.append([])
                    held = 0
                groups[-1].append(file)
                held += rows
        return groups

    def _plan_within(self, held: Fingerprints) -> Plan:
        return plan_self(
            held.size, self._partitioning.design.k, memory_bytes=self._memory_bytes // 2,
            sample=spread_sample(held),
        )  # fmt: skip

    def _plan_across(self, left: Fingerprints, right: Fingerprints) -> Plan:
        return plan(
            left.size, right.size, self._partitioning.design.k,
            memory_bytes=self._memory_bytes // 2,
            corpus_sample=spread_sample(left), query_sample=spread_sample(right),
        )  # fmt: skip

    def _slice_pairs(self, number: int, held: Fingerprints, planned: Plan) -> Iterator[Found]:
        """Yield those pairs of a slice that belong to a table."""
        for pairs in pairs_within(held, planned):
            yield own_pairs(pairs.left, pairs.right, self._partitioning.design, number)

    def _slices_pairs(
        self, number: int, left: Fingerprints, right: Fingerprints, planned: Plan
    ) -> Iterator[Found]:
        """Yield those pairs of two slices that belong to a table."""
        starts = range(0, left.size, BATCH_SIZE)
        for matches in search(
            lambda: (left[start : start + BATCH_SIZE] for start in starts), right, planned
        ):
            yield own_pairs(matches.right, matches.left, self._partitioning.design, number)


class _Held:
    """The fingerprints of a partition that are in memory."""

    def __init__(self) -> None:
        self.size = 0
        self.is_collapsed = True
        self._arrays: dict[Side, list[Fingerprints]] = {side: [] for side in Side}

    def add(self, side: Side, fingerprints: Fingerprints) -> None:
        """Hold an array."""
        self._arrays[side].append(fingerprints)
        self.size += fingerprints.size
        self.is_collapsed = False

    def collapse(self) -> None:
        """Keep one of each."""
        for side, arrays in self._arrays.items():
            self._arrays[side] = [distinct(_joined(arrays))]
        self.size = sum(array.size for array in self.arrays())
        self.is_collapsed = True

    def of_sides(self) -> tuple[Fingerprints, Fingerprints]:
        """Return what is held of each side."""
        return _joined(self._arrays[Side.LEFT]), _joined(self._arrays[Side.RIGHT])

    def arrays(self) -> list[Fingerprints]:
        """Return all that is held."""
        return list(itertools.chain.from_iterable(self._arrays.values()))

    def drain(self) -> Iterator[Sided]:
        """Yield all that is held, and hold it no longer."""
        for side, arrays in self._arrays.items():
            while arrays:
                yield side, arrays.pop()


@dataclass(frozen=True)
class _PartTable(TableDesign):
    """One table of a design, for fingerprints that share the leading bits of their buckets."""

    taken: int = 0

    def hashing(self, table: int, directory_bits: int) -> Hashing:
        """Return how the table places a fingerprint, by the bits that follow."""
        left = max(1, self.key_widths[table] - self.taken)
        return super().hashing(table, BITS).digits(self.taken, min(directory_bits, left))


def _share(mask: int, *arrays: Fingerprints) -> bool:
    """Return whether all fingerprints of all arrays have the same masked bits."""
    filled = [array for array in arrays if array.size]
    first = filled[0][0]
    return not any(((array ^ first) & np.uint64(mask)).any() for array in filled)


def _set_aside(batches: Iterable[Sided], hashing: Hashing, spill: Spill) -> None:
    """Deal fingerprints to files: that of bucket b and side s has number 2 b + s."""
    for side, fingerprints in batches:
        grouped, ends = _grouped(fingerprints, hashing)
        for bucket, (start, stop) in enumerate(itertools.pairwise([0, *ends.tolist()])):
            if start < stop:
                spill.append(bucket * len(Side) + side, [grouped[start:stop]])


def _loaded(spill: Spill, files: Iterable[int]) -> Fingerprints:
    """Return the fingerprints of some files, each once."""
    return distinct(_joined([rows[0] for file in files for rows in spill.read(file)]))


def _grouped(
    fingerprints: Fingerprints, hashing: Hashing
) -> tuple[Fingerprints, NDArray[np.uint64]]:
    """Return a copy in the order of buckets, and where each bucket ends."""
    ends = np.empty((1 << hashing.bits) + 1, dtype=np.uint64)
    grouped = np.empty_like(fingerprints)
    kernels.partition(fingerprints, hashing, ends, grouped)
    return grouped, ends[:-1]


def _joined(arrays: list[Fingerprints]) -> Fingerprints:
    return np.concatenate([np.empty(0, dtype=np.uint64), *arrays])
