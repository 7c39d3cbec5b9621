"""The join job: all pairs of fingerprints within k bits, of one corpus or of two.

A map task reads one chunk and scatters its distinct fingerprints to partitions, once for each table
of a design; a reduce task joins a partition. A pair comes out of the first table in which it
matches and of no other, so that all partitions together find each pair once. A second reduce step
orders the pairs by ranges. As lines: ``left TAB right``, signed decimals, ascending. Of one corpus
left is the smaller; of two it is of the first, and fingerprints that both have are pairs too.

All tasks need the same design: it is chosen for ``expected`` fingerprints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from mr_dedup.errors import errors_naming
from mr_dedup.formats.decimal_kernels import signed_decimals
from mr_dedup.formats.fingerprint_files import Format
from mr_dedup.formats.longs import ByteOrder
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.pair_order import in_order
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.hamming.partitions import Fingerprints, Partitioning, PartitionJoin, Side, Sided
from mr_dedup.hamming.planner import DEFAULT_MEMORY_BYTES, parts_for, plan_self
from mr_dedup.jobs.contract import Counters, Group, Job, Keyed, Reduce, TaskInput
from mr_dedup.jobs.fingerprint_chunks import chunk_of
from mr_dedup.jobs.row_columns import fingerprints_in

BATCH_SIZE = 1 << 21
"""Fingerprints that are made distinct and scattered at a time: 16 MB, and four copies."""

RANGE_BITS = 8
"""Leading bits of left fingerprints by which pairs are ordered: 256 ranges, each a reduce key."""

DEFAULT_EXPECTED = 100_000_000

_COLUMN_OF_SIDE = {Side.LEFT: "fingerprint", Side.RIGHT: "other_fingerprint"}
"""The columns of fingerprints between map and reduce."""


class JoinJob(Job, frozen=True, kw_only=True):
    """The pairs of a corpus, or of two: tables with columns left and right, uint64.

    The pairs ascend by left, then right, as signed numbers, within a table and from key to key;
    each is there once.

    Attributes:
        k: The largest Hamming distance, 0 to 64.
        others: The numbers of the inputs that are of the second of two corpora; None if there is
            one corpus.
        design: The table design; ``auto`` for the planner's choice.
        bit_order: ``natural``, ``interleaved``, or 64 positions.
        expected: About how many fingerprints there are.
        partitions: Partitions of each table; by default chosen by ``expected``.
        ordered: Whether there is a step that orders the pairs; without it they are in no order.
        with_distance: Whether lines have the distance after each pair.
        corpus_format: The format of inputs that are files; by default by their names.
        byte_order: That of longs.
        table_bytes: Memory for a partition, and for the pairs of a range; what needs more goes
            through temporary files.
        max_buffered_pairs: Pairs that a task has in memory before it emits them, 16 bytes each.
    """

    k: int = 3
    others: tuple[int, ...] | None = None
    design: str = "auto"
    bit_order: str = "interleaved"
    expected: int = DEFAULT_EXPECTED
    partitions: int | None = None
    ordered: bool = True
    with_distance: bool = False
    corpus_format: Format | None = None
    byte_order: ByteOrder = "big"
    table_bytes: int = DEFAULT_MEMORY_BYTES
    max_buffered_pairs: int = 1 << 20

    def __post_init__(self) -> None:
        """Raise ValueError for options that contradict each other or are out of range."""
        for name in ("table_bytes", "expected", "partitions"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 1, not {value}")
        self._partitioning()

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the fingerprints of one chunk, under the number of each of their partitions."""
        side = self._side(part)
        partitioning = self._partitioning()
        with errors_naming(part.name, part.path):
            for batch in self._batches(part):
                counters["fingerprints" if side is Side.LEFT else "others"] += batch.size
                for key, fingerprints in partitioning.partition(distinct(batch)):
                    yield key, pa.table({_COLUMN_OF_SIDE[side]: fingerprints})
        counters["chunks"] += 1

    def _batches(self, part: TaskInput) -> Iterator[Fingerprints]:
        if part.has_tables:
            tables = (table for _, table in part.keyed_tables())
            # shards of rows have tables of rejected records as well
            return (fingerprints_in(each) for each in tables if "fingerprint" in each.column_names)
        return chunk_of(part, self.corpus_format, self.byte_order).batches(BATCH_SIZE)

    def reduces(self) -> Sequence[Reduce]:
        """Return the step that finds pairs, and that which orders them."""
        return [self.join_partitions, self.order_ranges] if self.ordered else [self.join_partitions]

    def join_partitions(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the pairs of each partition, under the number of the range of their left ones."""
        join = PartitionJoin(
            self._partitioning(),
            two_corpora=self._two_corpora,
            memory_bytes=self.table_bytes,
        )
        buffered: list[Pairs] = []
        size = 0
        for key, tables in groups:
            for pairs in join.join(key, map(_sided, tables)):
                counters["pairs"] += 0 if self.ordered else len(pairs)
                buffered.append(pairs)
                size += len(pairs)
                if size >= self.max_buffered_pairs:
                    yield from _by_range(Pairs.merged(buffered))
                    buffered, size = [], 0
        yield from _by_range(Pairs.merged(buffered))
        counters["partitions_split"] += join.splits
        counters["keys_sliced"] += join.oversized_keys

    def order_ranges(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the pairs of each range, ascending, under its number."""
        for key, tables in groups:
            for pairs in in_order(map(pairs_of, tables), self.table_bytes):
                counters["pairs"] += len(pairs)
                yield key, _table(pairs)

    @property
    def _two_corpora(self) -> bool:
        return self.others is not None

    def _side(self, part: TaskInput) -> Side:
        return Side.RIGHT if part.number in (self.others or ()) else Side.LEFT

    @property
    def partition_count(self) -> int:
        """How many partitions all tables have together."""
        partitioning = self._partitioning()
        return partitioning.parts * len(partitioning.design.masks)

    def _partitioning(self) -> Partitioning:
        """Return how fingerprints are partitioned, which is the same in all tasks."""
        design = None if self.design == "auto" else self.design
        planned = plan_self(self.expected, self.k, design=design, partitioned=True)
        parts = self.partitions or parts_for(self.expected, self.table_bytes)
        return Partitioning(planned.chosen.design, BitOrder.parse(self.bit_order), parts)

    def lines(self, table: pa.Table) -> bytes:
        """Return the pairs as lines, one for each; see ``format_lines``."""
        return format_lines(pairs_of(table), self.with_distance)


def _sided(table: pa.Table) -> Sided:
    """Return the fingerprints of a table, as an array that may be written to, and their side."""
    (name,) = table.column_names
    side = next(side for side, column in _COLUMN_OF_SIDE.items() if column == name)
    return side, np.array(table[name], dtype=np.uint64)


def _by_range(pairs: Pairs) -> Iterator[Keyed]:
    """Yield ascending pairs by the range of their left ones."""
    ranges = (pairs.left ^ np.uint64(1 << 63)) >> np.uint64(64 - RANGE_BITS)
    edges = np.searchsorted(ranges, np.arange((1 << RANGE_BITS) + 1)).tolist()
    for number, (start, stop) in enumerate(pairwise(edges)):
        if start < stop:
            yield number, _table(pairs.between(start, stop))


def _table(pairs: Pairs) -> pa.Table:
    return pa.table({"left": pairs.left, "right": pairs.right})


def pairs_of(table: pa.Table) -> Pairs:
    """Return the pairs that a table has, in its order."""
    return Pairs(table["left"].to_numpy(), table["right"].to_numpy())


def format_lines(pairs: Pairs, with_distance: bool = False) -> bytes:
    """Return pairs as result lines ``left TAB right``, signed decimals.

    With distances, ``left TAB right:distance``.
    """
    columns: list[Fingerprints] = [pairs.left, pairs.right]
    following = b"\t\n"
    if with_distance:
        columns.append(pairs.distances.astype(np.uint64))
        following = b"\t:\n"
    separators = np.tile(np.frombuffer(following, np.uint8), len(pairs))
    return signed_decimals(np.stack(columns, axis=1).ravel(), separators)
