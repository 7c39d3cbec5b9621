"""A partitioned join of fingerprints that one task has no memory for.

A partition is a range of buckets of one table of a design. Fingerprints that agree in the masked
bits of the table are in one partition, and a pair is reported by the first table in whose masked
bits it agrees: so all partitions together find every pair exactly once, without a second pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from mr_dedup.files.spill import Spill
from mr_dedup.hamming import kernels
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import BITS, Hashing, TableDesign
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.hamming.planner import (
    BUFFERED_BYTES,
    DEFAULT_MEMORY_BYTES,
    Plan,
    plan,
    plan_self,
    spread_sample,
)
from mr_dedup.hamming.search import BATCH_SIZE, Tables, search
from mr_dedup.hamming.self_join import Buffer, Found, join_table, own_pairs, pairs_within

Fingerprints = NDArray[np.uint64]

_FINER_BITS = 4
"""Extra bits of a partition number, so that sizes of partitions differ by a sixteenth at most."""

_SPLIT_BITS = 6
"""Bits by which a partition that does not fit is split: into 64 parts."""

_SLICE_BITS = 8
"""Hash bits by which the fingerprints of an oversized key are cut into slices; small slices are
merged."""


_MIN_PLANNED = 1 << 12
"""Fingerprints of the smaller of two corpora from which planning the comparison pays."""


class Side(IntEnum):
    """The corpus that a fingerprint is of; of one corpus alone all are on the left."""

    LEFT = 0
    RIGHT = 1


Sided = tuple[Side, Fingerprints]


@dataclass(frozen=True)
class Partitioning:
    """How fingerprints are partitioned: into ``parts`` ranges of each table of a design.

    All tasks of a join need the same. The key of a partition is the number of its table times
    ``parts``, plus that of its range. Raises ValueError for fewer parts than 1.
    """

    design: TableDesign
    order: BitOrder
    parts: int

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise ValueError(f"parts must be at least 1, not {self.parts}")

    def partition(self, fingerprints: Fingerprints) -> Iterator[tuple[int, Fingerprints]]:
        """Yield (key, fingerprints) for each partition with any of ``fingerprints`` uint64[n].

        Each fingerprint is in one partition a table, its bits permuted. About 4 ns a fingerprint
        and table, 16 bytes a fingerprint. Yields views of arrays that are not changed later.
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
        """The number of leading bits of buckets that most fingerprints of a partition share."""
        return self.parts.bit_length() - 1


class PartitionJoin:
    """Joins partitions, one after the other, each within ``memory_bytes``.

    A partition that does not fit is spilled to temporary files, split by more bits of its keys; the
    fingerprints of an oversized key by a hash of all bits, and every two slices are joined.
    ``splits`` and ``oversized_keys`` count both.
    """

    def __init__(
        self,
        partitioning: Partitioning,
        *,
        two_corpora: bool = False,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
    ) -> None:
        self.splits = 0
        self.oversized_keys = 0
        self._partitioning = partitioning
        self._two_corpora = two_corpora
        self._memory_bytes = max(2 * BUFFERED_BYTES, memory_bytes)
        self._limit = self._memory_bytes // BUFFERED_BYTES
        self._buffer = Buffer()

    def join(self, key: int, batches: Iterable[Sided]) -> Iterator[Pairs]:
        """Yield the pairs of partition ``key``, each once, in any order.

        ``batches`` are its fingerprints as Partitioning.partition yields them, each array with its
        side, in any order; they may repeat. Of two corpora the left fingerprint is first, and equal
        ones are a pair.
        """
        order = self._partitioning.order
        number = key // self._partitioning.parts
        for one, other in self._pairs(number, iter(batches), self._partitioning.taken_bits):
            one, other = order.undo(one), order.undo(other)
            yield Pairs(one, other) if self._two_corpora else Pairs.unordered(one, other)

    def _pairs(self, number: int, batches: Iterator[Sided], taken: int) -> Iterator[Found]:
        """Yield the pairs of fingerprints that share ``taken`` leading bits of their buckets."""
        buffered = _Buffered()
        for side, fingerprints in batches:
            buffered.add(side, fingerprints)
            if buffered.size > self._limit:
                buffered.collapse()
            if buffered.size > self._limit // 2 and buffered.is_collapsed:
                hot = _share(self._partitioning.design.masks[number], *buffered.arrays())
                everything = itertools.chain(buffered.drain(), batches)
                if hot:
                    yield from self._oversized_pairs(number, everything)
                else:
                    yield from self._split_pairs(number, everything, taken)
                return
        buffered.collapse()
        if self._two_corpora:
            yield from self._buffered_pairs_of_two(number, *buffered.of_sides(), taken)
        else:
            yield from self._buffered_pairs(number, buffered.of_sides()[0], taken)

    def _buffered_pairs(self, number: int, buffered: Fingerprints, taken: int) -> Iterator[Found]:
        """Yield the pairs of one corpus's fingerprints in memory."""
        return join_table(
            lambda: [buffered], buffered.size, self._partitioning.design, number,
            self._memory_bytes // 4, self._buffer, taken,
        )  # fmt: skip

    def _buffered_pairs_of_two(
        self, number: int, left: Fingerprints, right: Fingerprints, taken: int
    ) -> Iterator[Found]:
        """Yield the pairs of two corpora's fingerprints in memory: the fewer are indexed."""
        design = self._partitioning.design
        if left.size == 0 or right.size == 0:
            return
        is_large = min(left.size, right.size) > _MIN_PLANNED
        if is_large and _share(design.masks[number], left, right):
            # all are in one bucket of this table
            yield from self._slices_pairs(number, left, right, self._plan_across(left, right))
            return
        one_table = _PartTable(design.name, design.k, (design.masks[number],), taken)
        fewer, more = (right, left) if right.size < left.size else (left, right)
        tables = Tables(fewer, one_table, BitOrder.natural(), self._memory_bytes)
        for probing, indexed in tables.probe(more):
            pair = (indexed, probing) if fewer is left else (probing, indexed)
            yield own_pairs(*pair, design, number)

    def _split_pairs(self, number: int, batches: Iterator[Sided], taken: int) -> Iterator[Found]:
        """Yield the pairs of a partition that does not fit, split by bits after ``taken`` ones."""
        self.splits += 1
        hashing = self._partitioning.design.hashing(number, BITS).digits(taken, _SPLIT_BITS)
        with Spill() as spill:
            _scatter(batches, hashing, spill)
            for part in sorted({file // len(Side) for file in spill.rows}):
                sided = (
                    (side, rows[0]) for side in Side for rows in spill.read(part * len(Side) + side)
                )
                yield from self._pairs(number, sided, taken + _SPLIT_BITS)
                for side in Side:
                    spill.remove(part * len(Side) + side)

    def _oversized_pairs(self, number: int, batches: Iterator[Sided]) -> Iterator[Found]:
        """Yield the pairs of fingerprints with one key that do not fit, slice by slice.

        Equal fingerprints are in one slice. Slices have the same distribution, so one plan is good
        for all.
        """
        self.oversized_keys += 1
        within = across = None
        with Spill() as spill:
            _scatter(batches, TableDesign.choose(0, 1).hashing(0, _SLICE_BITS), spill)
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
        """Return groups of a side's files; two groups and their tables fit the memory."""
        groups: list[list[int]] = []
        buffered = 0
        for file, rows in spill.rows.items():
            if file % len(Side) == side:
                if not groups or buffered + rows > self._limit // 2:
                    groups.append([])
                    buffered = 0
                groups[-1].append(file)
                buffered += rows
        return groups

    def _plan_within(self, buffered: Fingerprints) -> Plan:
        return plan_self(
            buffered.size, self._partitioning.design.k, memory_bytes=self._memory_bytes // 2,
            sample=spread_sample(buffered),
        )  # fmt: skip

    def _plan_across(self, left: Fingerprints, right: Fingerprints) -> Plan:
        return plan(
            left.size, right.size, self._partitioning.design.k,
            memory_bytes=self._memory_bytes // 2,
            corpus_sample=spread_sample(left), query_sample=spread_sample(right),
        )  # fmt: skip

    def _slice_pairs(self, number: int, buffered: Fingerprints, planned: Plan) -> Iterator[Found]:
        """Yield those pairs of a slice that belong to a table."""
        for pairs in pairs_within(buffered, planned):
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


class _Buffered:
    """The fingerprints of a partition that are in memory."""

    def __init__(self) -> None:
        self.size = 0
        self.is_collapsed = True
        self._arrays: dict[Side, list[Fingerprints]] = {side: [] for side in Side}

    def add(self, side: Side, fingerprints: Fingerprints) -> None:
        """Add an array."""
        self._arrays[side].append(fingerprints)
        self.size += fingerprints.size
        self.is_collapsed = False

    def collapse(self) -> None:
        """Remove repeated fingerprints."""
        for side, arrays in self._arrays.items():
            self._arrays[side] = [distinct(_joined(arrays))]
        self.size = sum(array.size for array in self.arrays())
        self.is_collapsed = True

    def of_sides(self) -> tuple[Fingerprints, Fingerprints]:
        """Return the fingerprints of each side."""
        return _joined(self._arrays[Side.LEFT]), _joined(self._arrays[Side.RIGHT])

    def arrays(self) -> list[Fingerprints]:
        """Return all arrays."""
        return list(itertools.chain.from_iterable(self._arrays.values()))

    def drain(self) -> Iterator[Sided]:
        """Yield and remove all arrays."""
        for side, arrays in self._arrays.items():
            while arrays:
                yield side, arrays.pop()


@dataclass(frozen=True)
class _PartTable(TableDesign):
    """One table of a design, for fingerprints that share the leading bits of their buckets."""

    taken: int = 0

    def hashing(self, table: int, directory_bits: int) -> Hashing:
        """Return the hashing of a fingerprint to a bucket, by the bits after ``taken`` ones."""
        left = max(1, self.key_widths[table] - self.taken)
        return super().hashing(table, BITS).digits(self.taken, min(directory_bits, left))


def _share(mask: int, *arrays: Fingerprints) -> bool:
    """Return whether all fingerprints of all arrays have the same masked bits."""
    filled = [array for array in arrays if array.size]
    first = filled[0][0]
    return not any(((array ^ first) & np.uint64(mask)).any() for array in filled)


def _scatter(batches: Iterable[Sided], hashing: Hashing, spill: Spill) -> None:
    """Scatter fingerprints to files: that of bucket b and side s has number 2 b + s."""
    for side, fingerprints in batches:
        grouped, ends = _grouped(fingerprints, hashing)
        for bucket, (start, stop) in enumerate(itertools.pairwise([0, *ends.tolist()])):
            if start < stop:
                spill.append(bucket * len(Side) + side, [grouped[start:stop]])


def _loaded(spill: Spill, files: Iterable[int]) -> Fingerprints:
    """Return the distinct fingerprints of files."""
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
