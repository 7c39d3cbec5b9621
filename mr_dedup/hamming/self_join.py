"""All pairs of fingerprints of one corpus within k bits, each pair once.

For each table of a design the fingerprints are partitioned by the leading bits of their buckets
into parts that fit the second-level cache, and the members of a bucket are compared with one
another there. Each part's table is discarded after the part, so a join takes little memory beside
its fingerprints. A pair belongs to the first table whose masked bits it shares: no repeats, no
second pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mr_dedup.hamming import kernels, self_join_kernels
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import BITS, Hashing, TableDesign
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.hamming.planner import (
    DEFAULT_MEMORY_BYTES,
    SAMPLE_SIZE,
    WHOLE_FROM,
    Plan,
    directory_bits_for,
    plan_self,
    spread_sample,
)

Fingerprints = NDArray[np.uint64]
Found = tuple[Fingerprints, Fingerprints]
Batches = Callable[[], Iterable[Fingerprints]]

_PART_SIZE = 1 << 14
"""Fingerprints a part should have: with its table, 256 KB."""

_MAX_PART_BITS = 10
"""More parts are slower to scatter to: 2**8 1.4 ns a fingerprint, 2**10 1.9, 2**12 2.4."""

_CANDIDATES = 1 << 16
"""Candidates verified at a time: 1 MB."""

_OVERSIZED_BUCKET = 1 << 14
"""Fingerprints from which a bucket may get tables of its own.

To compare all of them takes 2 ms, to plan and to join them otherwise 1.
"""

_OVERSIZED_RATIO = 4
"""Times the mean size of buckets, by the width of their key, from which one is oversized."""

_MEMBERS_A_SAMPLE = 16
"""Members of an oversized bucket for each that is sampled."""

_PERMUTED_AT_ONCE = 1 << 20
"""Fingerprints whose bits are permuted at a time, where there is no room to permute all."""


def self_join(
    fingerprints: Fingerprints,
    k: int,
    *,
    design: str | None = None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> Pairs:
    """Return every pair of different ``fingerprints``, distinct uint64[n], within ``k`` bits.

    Each pair once, the smaller left, ascending by left, then right, all as signed numbers.
    ``design`` names one of designs_for(k). ``memory_bytes`` bounds the memory of the join beside
    the fingerprints and the result. Repeated fingerprints cost time, and change nothing. Raises
    ValueError for an array of another type and as planner.plan_self does, MrDedupError where the
    work explodes. Exact: no pair is missed, none is extra. About 8 ns a fingerprint and table.
    """
    if fingerprints.ndim != 1 or fingerprints.dtype != np.uint64:
        raise ValueError(
            f"fingerprints must be uint64[n], not {fingerprints.dtype}{list(fingerprints.shape)}"
        )
    planned = plan_self(
        fingerprints.size, k, design=design, memory_bytes=memory_bytes,
        sample=spread_sample(fingerprints),
    )  # fmt: skip
    planned.refuse_explosion()
    return Pairs.merged(list(pairs_within(fingerprints, planned)))


def pairs_within(fingerprints: Fingerprints, planned: Plan) -> Iterator[Pairs]:
    """Yield all pairs of distinct ``fingerprints`` uint64[n] as ``planned``, in parts."""
    for one, other in _join(np.ascontiguousarray(fingerprints), planned):
        yield Pairs.unordered(one, other)


def _join(fingerprints: Fingerprints, planned: Plan) -> Iterator[Found]:
    """Yield all pairs as planned, in no order, as two aligned arrays."""
    order, design = planned.chosen.order, planned.chosen.design
    size = fingerprints.size
    whole = order.apply(fingerprints) if planned.chosen.slices == 1 else None

    def batches() -> Iterator[Fingerprints]:
        if whole is not None:
            yield whole
            return
        for start in range(0, size, _PERMUTED_AT_ONCE):
            yield order.apply(fingerprints[start : start + _PERMUTED_AT_ONCE])

    buffer = Buffer()
    for number in range(len(design.masks)):
        memory_bytes = planned.chosen.memory_bytes
        for one, other in join_table(batches, size, design, number, memory_bytes, buffer):
            yield order.undo(one), order.undo(other)


class Buffer:
    """A reusable buffer: the page faults of new memory cost as much as filling it."""

    def __init__(self) -> None:
        self._array = np.empty(0, dtype=np.uint64)

    def of(self, size: int) -> Fingerprints:
        """Return uint64[size], the same memory each time if it is large enough."""
        if self._array.size < size:
            del self._array  # before another is made
            self._array = np.empty(size, dtype=np.uint64)
        return self._array[:size]


def join_table(
    batches: Batches,
    size: int,
    design: TableDesign,
    number: int,
    memory_bytes: int,
    buffer: Buffer,
    taken_bits: int = 0,
) -> Iterator[Found]:
    """Yield the pairs of ``size`` distinct fingerprints that belong to one table of a design.

    Two aligned arrays at a time, in no order. ``batches()`` starts a pass over the fingerprints:
    there is one to count, and one for as many parts as fit ``memory_bytes``, in ``buffer``. All
    fingerprints may share ``taken_bits`` leading bits of their buckets.
    """
    table = _Table.of(design, number, size, taken_bits)
    counts = np.zeros(1 << table.part.bits, dtype=np.uint64)
    for batch in batches():
        self_join_kernels.count_parts(batch, table.part, counts)
    for begin, end in _runs(counts, memory_bytes // 8):
        ends = np.cumsum(counts[begin:end]) - counts[begin:end]
        begins = ends.copy()
        grouped = buffer.of(int(counts[begin:end].sum()) + 1)
        for batch in batches():
            self_join_kernels.scatter_parts(batch, table.part, np.uint64(begin), ends, grouped)
        yield from table.pairs(_Runs(grouped, begins, ends), memory_bytes)


def _runs(counts: NDArray[np.uint64], limit: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of parts with up to ``limit`` fingerprints, or a single part with more."""
    begin, total = 0, 0
    for part, count in enumerate(counts.tolist()):
        if total and total + count > limit:
            yield begin, part
            begin, total = part, 0
        total += count
    if total:
        yield begin, counts.size


@dataclass(frozen=True)
class _Runs:
    """Runs of an array: parts, or buckets of one."""

    fingerprints: Fingerprints
    begins: NDArray[np.uint64]
    ends: NDArray[np.uint64]

    @property
    def sizes(self) -> NDArray[np.uint64]:
        """How many fingerprints each run has."""
        return self.ends - self.begins

    def __getitem__(self, number: int) -> Fingerprints:
        return self.fingerprints[self.begins[number] : self.ends[number]]

    def chosen(self, which: NDArray[np.bool_]) -> _Runs:
        """Return some of the runs."""
        return _Runs(self.fingerprints, self.begins[which], self.ends[which])


@dataclass(frozen=True)
class _Table:
    """One table of a design, partitioned for a number of fingerprints.

    ``part`` hashes to parts, ``inside`` to the buckets of one. Parts of more fingerprints than
    ``max_part`` are split, and their buckets of more than ``max_bucket`` get a plan of their own.
    """

    design: TableDesign
    number: int
    part: Hashing
    inside: Hashing
    max_part: int
    max_bucket: int

    @classmethod
    def of(cls, design: TableDesign, number: int, size: int, taken_bits: int) -> _Table:
        key_bits = max(1, design.key_widths[number] - taken_bits)
        bits = min(key_bits, directory_bits_for(size, BitOrder.natural()))
        part_bits = max(1, round(math.log2(max(1, size) / _PART_SIZE)))
        part_bits = min(bits, _MAX_PART_BITS, part_bits)
        hashing = design.hashing(number, BITS)
        return cls(
            design,
            number,
            hashing.digits(taken_bits, part_bits),
            hashing.digits(taken_bits + part_bits, max(1, bits - part_bits)),
            # a quarter more than its share
            max_part=max(_OVERSIZED_BUCKET, 5 * size >> part_bits + 2),
            max_bucket=max(_OVERSIZED_BUCKET, _OVERSIZED_RATIO * size >> key_bits),
        )

    def pairs(self, parts: _Runs, memory_bytes: int) -> Iterator[Found]:
        """Yield the pairs of the table in all parts."""
        oversized = parts.sizes > self.max_part
        yield from self._compared(parts.chosen(~oversized))
        for part in np.flatnonzero(oversized).tolist():
            ends = np.empty((1 << self.inside.bits) + 1, dtype=np.uint64)
            grouped = np.empty_like(parts[part])
            kernels.partition(parts[part], self.inside, ends, grouped)
            buckets = _Runs(grouped, np.append(np.uint64(0), ends[:-2]), ends[:-1])
            yield from self._oversized_pairs(buckets, memory_bytes)

    def _oversized_pairs(self, buckets: _Runs, memory_bytes: int) -> Iterator[Found]:
        """Yield the pairs of an oversized part, of oversized buckets by tables of their own."""
        compared = np.ones(buckets.begins.size, dtype=bool)
        for bucket in np.flatnonzero(buckets.sizes > self.max_bucket).tolist():
            members = distinct(buckets[bucket])
            sample = spread_sample(members, min(SAMPLE_SIZE, members.size // _MEMBERS_A_SAMPLE))
            finer = plan_self(members.size, self.design.k, memory_bytes=memory_bytes, sample=sample)
            if finer.chosen.design.masks == (0,):
                continue
            compared[bucket] = False
            for one, other in _join(members, finer):
                yield own_pairs(one, other, self.design, self.number)
        yield from self._compared(buckets.chosen(compared))

    def _compared(self, runs: _Runs) -> Iterator[Found]:
        """Yield the pairs within runs, comparing all fingerprints that share a bucket."""
        largest = int(runs.sizes.max(initial=0))
        width: type[np.uint32 | np.uint64]
        width = np.uint32 if self.design.k < WHOLE_FROM else np.uint64
        table = kernels.Table(
            np.empty((1 << self.inside.bits) + 1, dtype=np.uint32),
            np.zeros(largest + self_join_kernels.PADDING, dtype=width),
            np.empty(largest, dtype=np.uint32),
        )
        left, right = np.empty((2, _CANDIDATES), dtype=np.uint64)
        position = np.zeros(3, dtype=np.uint64)
        while position[0] < runs.begins.size:
            written = self_join_kernels.join_parts(
                runs.fingerprints, runs.begins, runs.ends, self.inside, table,
                np.uint64(self.design.k), position, left, right,
            )  # fmt: skip
            one, other = own_pairs(left[:written], right[:written], self.design, self.number)
            if one.size:
                yield one.copy(), other.copy()


def own_pairs(one: Fingerprints, other: Fingerprints, design: TableDesign, number: int) -> Found:
    """Return those of aligned ``one`` and ``other`` uint64[n] that are pairs of a table.

    A pair within k bits belongs to the first table of the design whose masked bits it shares. The
    arrays are changed in place; their beginnings are returned.
    """
    masks = np.array(design.masks, dtype=np.uint64)
    kept = kernels.keep_own(
        one, other, np.uint64(one.size), masks, np.uint64(number), np.uint64(design.k)
    )
    return one[:kept], other[:kept]
