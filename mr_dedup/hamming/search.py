"""Find all pairs of corpus and query within k bits, in memory, from blocks of any source."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mr_dedup.hamming import kernels
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.design import Key, TableDesign
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.intrinsics import LANES
from mr_dedup.hamming.matches import Matches
from mr_dedup.hamming.planner import (
    DEFAULT_MEMORY_BYTES,
    Plan,
    directory_bits_for,
    plan,
    spread_sample,
)

Fingerprints = NDArray[np.uint64]

BLOCK_SIZE = 1 << 21
"""Corpus fingerprints probed at a time: 16 MB, long enough to amortise a pass over the tables."""

_FLUSH = 1 << 15
"""Candidate groups verified at a time: their matches, at most 32 times as many, take 12 MB."""

_PARTITION_FROM = 1 << 17
"""Indexed fingerprints from which partitioning the stream pays: half a megabyte of signatures."""

_PART_SIZE = 1 << 12
"""Indexed fingerprints a part covers: their signatures take 16 KB of a first-level cache.

More parts scatter faster (256: 1.8 ns a fingerprint, 64: 3.3 ns, as writes to one part wait for
one another). Without partitioning a probe takes half as long again at a million queries.
"""

_HEAVY_BUCKET = 4096
"""Fingerprints from which a bucket gets tables of its own, keyed by what differs inside it."""


@dataclass(frozen=True)
class _Table:
    """One table, and the buckets of it that were too large and are searched by themselves."""

    key: Key
    starts: NDArray[np.uint32]
    signatures: NDArray[np.uint32]
    slots: NDArray[np.uint32]
    largest: int
    heavy: dict[int, Tables]


class Tables:
    """All tables of a design over distinct fingerprints, in memory.

    Takes 8 bytes a fingerprint, and in each table 8 more and half a byte of directory.
    """

    def __init__(self, fingerprints: Fingerprints, design: TableDesign, order: BitOrder) -> None:
        """Build the tables of ``design`` over distinct ``fingerprints`` uint64[n], n < 2**32.

        About 10 ns a fingerprint and table. Raises ValueError for too many fingerprints.
        """
        if fingerprints.size >= 1 << 32:
            raise ValueError(f"a set of tables holds less than 2**32, not {fingerprints.size}")
        self.design = design
        self.order = order
        self._fingerprints = order.apply(np.ascontiguousarray(fingerprints))
        self._masks = np.array(design.masks, dtype=np.uint64)
        bits = directory_bits_for(fingerprints.size, order)
        self._tables = [self._build(table, bits) for table in range(len(design.masks))]

    def _build(self, table: int, directory_bits: int) -> _Table:
        key = self.design.hashing(table, directory_bits).key()
        starts, signatures, slots = _arrays(self._fingerprints, key)
        sizes = np.diff(starts)
        heavy = {}
        for bucket in np.flatnonzero(sizes > _HEAVY_BUCKET):
            members = self._fingerprints[slots[starts[bucket] : starts[bucket + 1]]]
            finer = self._finer_tables(members)
            if finer is not None:
                heavy[int(bucket)] = finer
        if heavy:
            buckets = _buckets(self._fingerprints, key)
            light = np.flatnonzero(~np.isin(buckets, list(heavy))).astype(np.uint32)
            starts, signatures, slots = _arrays(self._fingerprints[light], key)
            slots = light[slots]
        largest = int(np.diff(starts).max())
        return _Table(key, starts, signatures, slots, largest, heavy)

    def _finer_tables(self, members: Fingerprints) -> Tables | None:
        """Return tables over one bucket's members, or None where they would save too little."""
        if members.size == self._fingerprints.size:
            return None  # what does not tell all of them apart will not do so a level down
        sample = spread_sample(members)
        size, k = members.size, self.design.k
        finer = plan(size, size, k, index="queries", corpus_sample=sample, query_sample=sample)
        if finer.chosen.candidates_per_probe > size / 4:
            return None
        return Tables(members, finer.chosen.design, finer.chosen.order)

    @property
    def size(self) -> int:
        """How many fingerprints are indexed."""
        return int(self._fingerprints.size)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._fingerprints.nbytes + sum(
            table.starts.nbytes
            + table.signatures.nbytes
            + table.slots.nbytes
            + sum(tables.nbytes for tables in table.heavy.values())
            for table in self._tables
        )

    def probe(self, stream: Fingerprints) -> Iterator[tuple[Fingerprints, Fingerprints]]:
        """Yield the pairs (from ``stream`` uint64[n], indexed) within k bits, in blocks.

        Each yield is two aligned arrays uint64[m], m at most 2**20. A pair comes out once for
        each time its first member stands in the stream. A copy of the stream is made.
        """
        stream = self.order.apply(np.ascontiguousarray(stream))
        if stream.size == 0 or self.size == 0:
            return
        scratch = np.empty_like(stream) if self.size >= _PARTITION_FROM else None
        for number, table in enumerate(self._tables):
            pairs = self._scan(number, stream, scratch)
            if table.heavy:
                pairs = itertools.chain(pairs, self._probe_heavy(number, stream))
            for found, indexed in pairs:
                yield self.order.undo(found), self.order.undo(indexed)

    def _scan(
        self, number: int, stream: Fingerprints, scratch: Fingerprints | None
    ) -> Iterator[tuple[Fingerprints, Fingerprints]]:
        table = self._tables[number]
        if scratch is not None:
            parts = max(1, round(math.log2(self.size / _PART_SIZE)))
            coarser = max(int(table.key[-1]), 64 - parts)
            ends = np.empty((1 << (64 - coarser)) + 1, dtype=np.uint64)
            kernels.partition(stream, *table.key[:-1], np.uint64(coarser), ends, scratch)
            stream = scratch
        k = self.design.k
        capacity = max(_FLUSH, table.largest // LANES + 1)
        found = np.empty(capacity, dtype=np.uint64)
        bases = np.empty(capacity, dtype=np.uint32)
        lanes = np.empty(capacity, dtype=np.uint32)
        out_stream = np.empty(_FLUSH * LANES, dtype=np.uint64)
        out_slots = np.empty(_FLUSH * LANES, dtype=np.uint32)
        begin = 0
        while begin < stream.size:
            count, begin = kernels.scan_table(
                stream, np.uint64(begin), *table.key, table.starts, table.signatures,
                np.uint32(k), found, bases, lanes,
            )  # fmt: skip
            for start in range(0, count, _FLUSH):
                part = slice(start, min(start + _FLUSH, count))
                written = kernels.verify(
                    found[part], bases[part], lanes[part], self._fingerprints, table.slots,
                    self._masks, np.uint64(number), np.uint64(k), out_stream, out_slots,
                )  # fmt: skip
                if written:
                    yield out_stream[:written].copy(), self._fingerprints[out_slots[:written]]

    def _probe_heavy(
        self, number: int, stream: Fingerprints
    ) -> Iterator[tuple[Fingerprints, Fingerprints]]:
        """Probe the tables of a table's heavy buckets, keeping what belongs to this table."""
        table = self._tables[number]
        buckets = _buckets(stream, table.key)
        touched = np.flatnonzero(np.isin(buckets, list(table.heavy)))
        touched = touched[np.argsort(buckets[touched], kind="stable")]
        edges = np.flatnonzero(np.diff(buckets[touched])) + 1
        for group in np.split(touched, edges):
            if group.size == 0:
                continue
            finer = table.heavy[int(buckets[group[0]])]
            for found, indexed in finer.probe(stream[group]):
                difference = found ^ indexed
                mine = difference & self._masks[number] == 0
                for earlier in range(number):
                    mine &= difference & self._masks[earlier] != 0
                if mine.any():
                    yield found[mine], indexed[mine]


def _arrays(
    fingerprints: Fingerprints, key: Key
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the starts, signatures and slots of a table over ``fingerprints`` uint64[n]."""
    starts = np.empty((1 << (64 - int(key[-1]))) + 1, dtype=np.uint32)
    signatures = np.zeros(fingerprints.size + LANES, dtype=np.uint32)
    slots = np.empty(fingerprints.size, dtype=np.uint32)
    kernels.build_table(fingerprints, *key, starts, signatures, slots)
    return starts, signatures, slots


def _buckets(fingerprints: Fingerprints, key: Key) -> NDArray[np.uint64]:
    mask, first, fold, second, shift = key
    mixed = (fingerprints & mask) * first
    if fold is None:
        return mixed >> shift
    return (mixed ^ mixed >> fold) * second >> shift


def search(
    blocks: Callable[[], Iterator[Fingerprints]], queries: Fingerprints, plan: Plan
) -> Iterator[Matches]:
    """Yield all matches of a corpus that comes in blocks, as ``plan`` says, in parts.

    ``blocks()`` starts a pass over the corpus: there is one for each slice of indexed queries,
    or a single one where the corpus is indexed. ``queries`` uint64[n] are distinct. A pair may
    come out more than once if the corpus repeats a fingerprint. In memory: one slice's tables
    and one block.
    """
    chosen = plan.chosen
    if chosen.index == "queries":
        for start in range(0, queries.size, plan.slice_size):
            slice_of = queries[start : start + plan.slice_size]
            tables = Tables(slice_of, chosen.design, chosen.order)
            for block in blocks():
                for corpus, query in tables.probe(_collapsed(block)):
                    yield Matches(query, corpus)
    else:
        for slice_of in _regrouped(blocks(), plan.slice_size):
            tables = Tables(distinct(slice_of), chosen.design, chosen.order)
            for query, corpus in tables.probe(queries):
                yield Matches(query, corpus)


def _collapsed(block: Fingerprints) -> Fingerprints:
    """Return a block, distinct if a sample of it repeats itself.

    A million copies of an empty page are then one probe. Sorting costs 10 ns a fingerprint,
    half a probe: too much to pay for blocks that hardly repeat.
    """
    sample = spread_sample(block)
    repeats = sample.size - distinct(sample).size
    return distinct(block) if repeats > 0.02 * sample.size else block


def _regrouped(blocks: Iterator[Fingerprints], size: int) -> Iterator[Fingerprints]:
    """Yield the same fingerprints in blocks of exactly ``size``, the last one shorter."""
    waiting: list[Fingerprints] = []
    held = 0
    for block in blocks:
        while held + block.size >= size:
            cut = size - held
            yield np.concatenate([*waiting, block[:cut]])
            waiting, held, block = [], 0, block[cut:]
        if block.size:
            waiting.append(block)
            held += block.size
    if held:
        yield np.concatenate(waiting)


def probe(
    corpus: Fingerprints,
    queries: Fingerprints,
    k: int,
    *,
    index: str | None = None,
    design: str | None = None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> Matches:
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
    step = BLOCK_SIZE
    starts = range(0, corpus.size, step)
    parts = list(search(lambda: (corpus[i : i + step] for i in starts), wanted, planned))
    return Matches.merged(parts)


def warm_up() -> None:
    """Compile every kernel, or load it from numba's cache: once, before processes are forked."""
    values = np.arange(4, dtype=np.uint64)
    ends = np.empty(3, dtype=np.uint64)
    order = BitOrder(tuple(reversed(range(64))))
    for design in (TableDesign.paper_4(), TableDesign.paper_10()):  # keys in one run, in two
        tables = Tables(values, design, order)
        list(tables.probe(values))
        key = tables._tables[0].key
        kernels.partition(values, *key[:-1], np.uint64(63), ends, values.copy())
