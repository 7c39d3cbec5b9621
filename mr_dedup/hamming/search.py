"""Find all pairs of a corpus and a query fingerprint within k bits, in memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mr_dedup.formats.batches import regrouped
from mr_dedup.hamming import kernels
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import Hashing, TableDesign
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.hamming.planner import (
    DEFAULT_MEMORY_BYTES,
    Plan,
    directory_bits_for,
    plan,
    spread_sample,
)
from mr_dedup.hamming.self_join import own_pairs
from mr_dedup.kernels.distances import LANES

Fingerprints = NDArray[np.uint64]

BATCH_SIZE = 1 << 21
"""Corpus fingerprints probed at a time: 16 MB, which amortise a pass over the tables."""

_FLUSH = 1 << 13
"""Candidate groups verified at a time: their candidates, at most 32 times as many, take 5 MB."""

_PARTITION_FROM = 1 << 17
"""Indexed fingerprints from which partitioning the stream pays: half a megabyte of signatures."""

_PART_SIZE = 1 << 11
"""Indexed fingerprints for each part of the stream: their signatures take 8 KB of a cache.

More parts scatter faster (512: 1.6 ns a fingerprint, 256: 1.8, 64: 3.3, as writes to one part wait
for one another). Without partitioning a probe takes half as long again at a million queries.
"""

_OVERSIZED_BUCKET = 4096
"""Fingerprints from which a bucket may get tables of its own, keyed by bits that differ in it."""

_OVERSIZED_PROBES = 1024
"""Probes of an oversized bucket from which its own tables may pay.

To scan a bucket costs a probe 0.04 ns for each fingerprint in it, to build four tables 40 ns.
"""


@dataclass(frozen=True)
class _Table:
    """One table, and the tables of its oversized buckets, None where to scan one is cheaper."""

    hashing: Hashing
    arrays: kernels.Table
    largest: int
    finer: dict[int, Tables | None]


@dataclass(frozen=True)
class _Buffers:
    """What scanning and verifying write to."""

    groups: kernels.Groups
    candidates: kernels.Candidates

    @classmethod
    def for_groups(cls, groups: int) -> _Buffers:
        """Return buffers for so many candidate groups, of which _FLUSH are verified at a time."""
        bases, lanes = np.empty((2, groups), np.uint32)
        left, right = np.empty((2, _FLUSH * LANES), np.uint64)
        return cls(
            kernels.Groups(np.empty(groups, np.uint64), bases, lanes),
            kernels.Candidates(left, right, np.empty(left.size, np.uint32)),
        )


class Tables:
    """All tables of a design over distinct fingerprints, in memory.

    Takes 8 bytes a fingerprint, and in each table 8 more and half a byte of directory. An oversized
    bucket that is probed often gets tables of its own, within ``memory_bytes``.
    """

    def __init__(
        self,
        fingerprints: Fingerprints,
        design: TableDesign,
        order: BitOrder,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
    ) -> None:
        """Build the tables of ``design`` over distinct ``fingerprints`` uint64[n], n < 2**32.

        ``memory_bytes`` bounds all tables, but not below what ``design`` takes. About 8 ns a
        fingerprint and table. Raises ValueError for too many fingerprints.
        """
        if fingerprints.size >= 1 << 32:
            raise ValueError(f"fingerprints: expected fewer than 2**32, got {fingerprints.size}")
        self.design = design
        self.order = order
        self._fingerprints = order.apply(np.ascontiguousarray(fingerprints))
        self._masks = np.array(design.masks, dtype=np.uint64)
        bits = directory_bits_for(fingerprints.size, order)
        self._tables = [self._build(table, bits) for table in range(len(design.masks))]
        self._memory_bytes = memory_bytes
        self.nbytes = self._fingerprints.nbytes + sum(
            array.nbytes for table in self._tables for array in table.arrays
        )
        """Bytes of all arrays, and what tables of oversized buckets may take, once built."""

    def _build(self, table: int, directory_bits: int) -> _Table:
        hashing = self.design.hashing(table, directory_bits)
        starts = np.empty((1 << hashing.bits) + 1, dtype=np.uint32)
        signatures = np.zeros(self.size + LANES, dtype=np.uint32)
        arrays = kernels.Table(starts, signatures, np.empty(self.size, dtype=np.uint32))
        kernels.build_table(self._fingerprints, hashing, arrays)
        return _Table(hashing, arrays, int(np.diff(starts).max()), {})

    @property
    def size(self) -> int:
        """How many fingerprints are indexed."""
        return int(self._fingerprints.size)

    def probe(self, stream: Fingerprints) -> Iterator[tuple[Fingerprints, Fingerprints]]:
        """Yield the pairs (from ``stream`` uint64[n], indexed) within k bits, in batches.

        Each yield is two aligned arrays uint64[m], m at most 2**20. A pair comes out once for
        each time its first member occurs in the stream. A copy of the stream is made.
        """
        stream = self.order.apply(np.ascontiguousarray(stream))
        if stream.size == 0 or self.size == 0:
            return
        scratch = np.empty_like(stream) if self.size >= _PARTITION_FROM else None
        groups = max(table.largest for table in self._tables) // LANES + 2
        buffers = _Buffers.for_groups(max(_FLUSH, groups))
        for number in range(len(self._tables)):
            for found, indexed in self._probe_table(number, stream, scratch, buffers):
                yield self.order.undo(found), self.order.undo(indexed)

    def _probe_table(
        self, number: int, stream: Fingerprints, scratch: Fingerprints | None, buffers: _Buffers
    ) -> Iterator[tuple[Fingerprints, Fingerprints]]:
        """Yield the pairs that belong to one table, in the tables' order of bits."""
        table = self._tables[number]
        if table.largest > _OVERSIZED_BUCKET:
            buckets, starts = table.hashing.buckets(stream), table.arrays.starts
            oversized = starts[buckets + 1] - starts[buckets] > _OVERSIZED_BUCKET
            rest = [stream[~oversized]]
            for bucket, probes in _grouped(buckets[oversized], stream[oversized]):
                finer = self._finer_tables(table, bucket, probes.size)
                if finer is None:
                    rest.append(probes)
                else:
                    yield from self._probe_finer(number, finer, probes)
            stream = np.concatenate(rest)
        yield from self._scan(number, stream, scratch, buffers)

    def _scan(
        self, number: int, stream: Fingerprints, scratch: Fingerprints | None, buffers: _Buffers
    ) -> Iterator[tuple[Fingerprints, Fingerprints]]:
        table = self._tables[number]
        if scratch is not None:
            part_bits = max(1, round(math.log2(self.size / _PART_SIZE)))
            coarser = max(int(table.hashing.shift), 64 - part_bits)
            ends = np.empty((1 << (64 - coarser)) + 1, dtype=np.uint64)
            out = scratch[: stream.size]
            by_part = table.hashing._replace(shift=np.uint64(coarser))
            kernels.partition(stream, by_part, ends, out)
            stream = out
        k, candidates = self.design.k, buffers.candidates
        begin = 0
        while begin < stream.size:
            count, begin = kernels.scan_table(
                stream, np.uint64(begin), table.hashing, table.arrays, np.uint32(k), buffers.groups
            )
            for start in range(0, count, _FLUSH):
                some = slice(start, min(start + _FLUSH, count))
                written = kernels.verify(
                    buffers.groups.between(some), self._fingerprints, table.arrays.slots,
                    self._masks, np.uint64(number), np.uint64(k), candidates,
                )  # fmt: skip
                if written:
                    yield candidates.left[:written].copy(), candidates.right[:written].copy()

    def _finer_tables(self, table: _Table, bucket: int, probes: int) -> Tables | None:
        """Return tables over an oversized bucket, None if to scan it is cheaper or they do not fit.

        They may take all free memory; those that take up to half of it are kept.
        """
        if bucket in table.finer:
            return table.finer[bucket]
        starts, slots = table.arrays.starts, table.arrays.slots
        members = slots[starts[bucket] : starts[bucket + 1]]
        if probes < _OVERSIZED_PROBES or members.size == self.size:
            return None  # planning the same fingerprints again would give one bucket again
        fingerprints = self._fingerprints[members]
        sample = spread_sample(fingerprints)
        free = self._memory_bytes - self.nbytes
        planned = plan(
            probes, members.size, self.design.k, index="queries", memory_bytes=max(1, free // 2),
            corpus_sample=sample, query_sample=sample,
        )  # fmt: skip
        chosen = planned.chosen
        if chosen.slices > 1 or chosen.candidates_per_probe > members.size / 4:
            table.finer[bucket] = None
            return None
        # as much again for its own oversized buckets
        budget = 2 * chosen.memory_bytes
        finer = Tables(fingerprints, chosen.design, chosen.order, budget)
        if budget <= free // 2:
            table.finer[bucket] = finer
            self.nbytes += budget
        return finer

    def _probe_finer(
        self, number: int, finer: Tables, probes: Fingerprints
    ) -> Iterator[tuple[Fingerprints, Fingerprints]]:
        """Yield the pairs of an oversized bucket's tables that belong to table ``number``."""
        for found, indexed in finer.probe(probes):
            own = own_pairs(found, indexed, self.design, number)
            if own[0].size:
                yield own


def _grouped(
    buckets: NDArray[np.uint64], probes: Fingerprints
) -> Iterator[tuple[int, Fingerprints]]:
    """Yield each bucket with the probes that fall into it."""
    if buckets.size == 0:
        return
    order = np.argsort(buckets)
    buckets, probes = buckets[order], probes[order]
    edges = np.flatnonzero(buckets[1:] != buckets[:-1]) + 1
    for start, stop in itertools.pairwise([0, *edges.tolist(), buckets.size]):
        yield int(buckets[start]), probes[start:stop]


def search(
    batches: Callable[[], Iterator[Fingerprints]], queries: Fingerprints, plan: Plan
) -> Iterator[Pairs]:
    """Yield all matches of a corpus that is read in batches, by ``plan``, in parts.

    ``batches()`` starts a pass over the corpus: there is one for each slice of indexed queries,
    or a single one where the corpus is indexed. ``queries`` uint64[n] are distinct. A pair may
    come out more than once if the corpus repeats a fingerprint. In memory: the tables of one
    slice, and one batch.
    """
    chosen = plan.chosen
    if chosen.index == "queries":
        for start in range(0, queries.size, plan.slice_size):
            slice_of = queries[start : start + plan.slice_size]
            tables = Tables(slice_of, chosen.design, chosen.order, plan.memory_bytes)
            for batch in batches():
                for corpus, query in tables.probe(_collapsed(batch)):
                    yield Pairs(query, corpus)
            del tables  # before the next are built
    else:
        for slice_of in regrouped(batches(), plan.slice_size):
            tables = Tables(distinct(slice_of), chosen.design, chosen.order, plan.memory_bytes)
            for query, corpus in tables.probe(queries):
                yield Pairs(query, corpus)
            del tables  # before the next are built


def _collapsed(batch: Fingerprints) -> Fingerprints:
    """Return a batch, without its repeats if a sample of it has some.

    A million copies of an empty page are then one probe. Sorting costs 10 ns a fingerprint,
    half a probe: too much for batches with few repeats.
    """
    sample = spread_sample(batch)
    repeats = sample.size - distinct(sample).size
    return distinct(batch) if repeats > 0.02 * sample.size else batch


def probe(
    corpus: Fingerprints,
    queries: Fingerprints,
    k: int,
    *,
    index: str | None = None,
    design: str | None = None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> Pairs:
    """Return every pair of ``corpus`` and ``queries``, uint64[n] each, within ``k`` bits.

    Each pair once, ascending by query, then corpus, as signed numbers. ``index``,
    ``design`` and ``memory_bytes`` narrow the planner's choice. Raises ValueError for arrays of
    another type and as planner.plan does, MrDedupError where the work explodes. Exact: no pair
    is missed, none is extra.
    """
    for name, values in (("corpus", corpus), ("queries", queries)):
        if values.ndim != 1 or values.dtype != np.uint64:
            raise ValueError(f"{name} must be uint64[n], not {values.dtype}{list(values.shape)}")
    wanted = distinct(queries)
    planned = plan(
        corpus.size, wanted.size, k, index=index, design=design, memory_bytes=memory_bytes,
        corpus_sample=spread_sample(corpus), query_sample=spread_sample(wanted),
    )  # fmt: skip
    planned.refuse_explosion()
    step = BATCH_SIZE
    starts = range(0, corpus.size, step)
    parts = list(search(lambda: (corpus[i : i + step] for i in starts), wanted, planned))
    return Pairs.merged(parts)
