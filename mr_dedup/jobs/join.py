"""The join job: all pairs of fingerprints within k bits, of one corpus or of two, over reducers.

A map task reads one chunk and deals its distinct fingerprints to partitions, once for each table
of a design; a reducer joins a partition. A pair comes out of the first table in which it matches
and of no other, so what all reducers find together has each pair once. Other reducers order the
pairs by ranges, and print ``left TAB right``, signed decimals, ascending. Of one corpus left is the
smaller; of two it is of the first, and fingerprints that both have are pairs too.

Every task has to know the same design: it is chosen for --expected fingerprints.

Runs alone, as any MRJob: python -m mr_dedup.jobs.join -r local corpus-*.longs
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from mrjob.step import MRStep

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.fingerprint_files import BYTE_ORDERS, FORMATS
from mr_dedup.hamming.bit_order import BitOrder
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.hamming.planner import DEFAULT_MEMORY_BYTES, Plan, parts_for, plan_self
from mr_dedup.jobs.batches import (
    BatchProtocol,
    Kind,
    LinesProtocol,
    decode_columns,
    encode_columns,
    kind_of,
)
from mr_dedup.jobs.contract import TaskInput
from mr_dedup.jobs.fingerprint_chunks import chunk_of, refuse_stdin
from mr_dedup.jobs.inputs import NUMBER_VARIABLE, input_name, input_number
from mr_dedup.jobs.job import Job, errors_naming

if TYPE_CHECKING:
    from mr_dedup.hamming.partitions import Fingerprints, Partitioning, Sided

BATCH_SIZE = 1 << 21
"""Fingerprints that are made distinct and dealt at a time: 16 MB, and four copies."""

RANGE_BITS = 8
"""Leading bits of left fingerprints by which pairs are ordered: 256 ranges, each a reduce key."""

_HELD_PAIRS = 1 << 20
"""Pairs that a reduce task holds before it sends them on: 16 MB."""

_DEFAULT_SIZE = 100_000_000


class JoinJob(Job):
    """See the module."""

    INTERNAL_PROTOCOL = BatchProtocol

    def configure_args(self) -> None:
        """Declare the job's options beside mrjob's own."""
        super().configure_args()
        self.add_file_arg(
            "--others",
            help="a file that names, one a line, the inputs that are the other of two corpora: "
            "their addresses, or # and their numbers from 0",
        )
        add = self.add_passthru_arg
        add("-k", dest="k", type=int, default=3, help="largest Hamming distance (3)")
        add("--design", default="auto", help="the table design, as mr-dedup plan names it")
        add("--bit-order", default="dealt", help="natural, dealt, or 64 positions")
        add(
            "--expected",
            type=int,
            default=_DEFAULT_SIZE,
            help=f"about how many fingerprints there are ({_DEFAULT_SIZE:,})",
        )
        add("--partitions", type=int, help="of each table (default: by --expected)")
        add("--corpus-format", choices=FORMATS, help="if the names do not say")
        add("--byte-order", choices=BYTE_ORDERS, default="big", help="of longs (big)")
        add("--with-distance", action="store_true", help="print left TAB right:distance")
        add("--as-batches", action="store_true", help="write batches for mr_dedup, in no order")
        add(
            "--table-bytes",
            type=int,
            default=DEFAULT_MEMORY_BYTES,
            help="memory for a partition; one that needs more is split",
        )

    def check_options(self) -> None:
        """Raise ValueError or MrDedupError for options that cannot be."""
        options = self.options
        for name in ("table_bytes", "expected", "partitions"):
            value = getattr(options, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 1, not {value}")
        BitOrder.parse(options.bit_order)
        self._plan()
        if not self.is_task() and options.others and "://" not in options.others:
            self._others()

    def check_inputs(self) -> None:
        """End with a mistake if the corpus is to come from where mrjob would not leave it whole."""
        refuse_stdin(self.options)

    def output_protocol(self) -> BatchProtocol | LinesProtocol:
        """Return the protocol of what the job writes."""
        return BatchProtocol() if self.options.as_batches else LinesProtocol()

    def steps(self) -> list[MRStep]:
        """Return the step that finds pairs, and that which orders them if they are printed."""
        join = MRStep(
            mapper_raw=self.map_fingerprints,
            reducer_init=self.start_joining,
            reducer=self.reduce_partition,
            reducer_final=self.send_the_rest,
        )
        order = MRStep(
            reducer_init=self.start_counting,
            reducer=self.reduce_range,
            reducer_final=self.count_pairs,
        )
        return [join] if self.options.as_batches else [join, order]

    @staticmethod
    def warm_up() -> None:
        """Load what tasks need, compiled: once, before they are forked."""
        from mr_dedup.hamming import search, self_join

        search.warm_up()
        self_join.warm_up()
        format_lines(Pairs.merged([]))

    # the map task

    def map_fingerprints(self, path: str, uri: str) -> Iterator[tuple[int, bytes]]:
        """Yield the fingerprints of one chunk for each partition, as batches."""
        from mr_dedup.hamming.distinct import distinct

        partitioning = self._partitioning()
        kind = Kind.OTHERS if self._is_other(uri) else Kind.FINGERPRINTS
        read = 0
        with errors_naming(input_name(uri), path):
            part, options = TaskInput(Path(path), uri), self.options
            chunk = chunk_of(part, options.corpus_format, options.byte_order)
            for batch in chunk.batches(BATCH_SIZE):
                read += batch.size
                for key, fingerprints in partitioning.partition(distinct(batch)):
                    for encoded in encode_columns(kind, [fingerprints]):
                        yield key, encoded
        counted = "others" if kind == Kind.OTHERS else "fingerprints"
        self.count(chunks=1, **{counted: read})

    def _is_other(self, uri: str) -> bool:
        """Return whether the input of this task is of the other of two corpora."""
        if not self.options.others:
            return False
        others = self._others()
        # where inputs have no numbers, only their addresses count
        numbered = NUMBER_VARIABLE in os.environ and f"#{input_number()}" in others
        return numbered or uri in others

    def _others(self) -> set[str]:
        path = Path(self.options.others)
        try:
            return set(path.read_text("utf-8", "surrogateescape").splitlines())
        except OSError as error:
            raise MrDedupError(f"{path}: cannot be read: {error.strerror}") from error

    # the reducers that find pairs

    def start_joining(self) -> None:
        """Begin a reduce task."""
        from mr_dedup.hamming.partitions import PartitionJoin

        self.partition_join = PartitionJoin(
            self._partitioning(),
            two_corpora=bool(self.options.others),
            memory_bytes=self.options.table_bytes,
        )
        self.held: list[Pairs] = []
        self.held_pairs = self.pairs = 0

    def reduce_partition(self, key: int, batches: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Find the pairs of one partition; yield those held, once they are many."""
        for pairs in self.partition_join.join(key, map(_decoded, batches)):
            self.held.append(pairs)
            self.held_pairs += len(pairs)
            if self.held_pairs >= _HELD_PAIRS:
                yield from self._send()

    def send_the_rest(self) -> Iterator[tuple[int, bytes]]:
        """End a reduce task: a counter costs a flush, so each is told once."""
        yield from self._send()
        found = {"pairs": self.pairs} if self.options.as_batches else {}
        join = self.partition_join
        self.count(partitions_split=join.splits, keys_sliced=join.hot_keys, **found)

    def _send(self) -> Iterator[tuple[int, bytes]]:
        """Yield the pairs that are held as batches, keyed by the range of their left ones."""
        pairs = Pairs.merged(self.held)
        self.pairs += len(pairs)
        self.held, self.held_pairs = [], 0
        ranges = (pairs.left ^ np.uint64(1 << 63)) >> np.uint64(64 - RANGE_BITS)
        edges = np.searchsorted(ranges, np.arange((1 << RANGE_BITS) + 1)).tolist()
        for number, (start, stop) in enumerate(pairwise(edges)):
            if start < stop:
                part = pairs.between(start, stop)
                for batch in encode_columns(Kind.MATCHES, [part.left, part.right]):
                    yield number, batch

    # the reducers that order pairs

    def start_counting(self) -> None:
        """Begin a reduce task."""
        self.pairs = 0

    def reduce_range(self, key: int, batches: Iterable[bytes]) -> Iterator[tuple[None, bytes]]:
        """Yield the result lines of one range."""
        from mr_dedup.hamming.pair_order import in_order

        parts = (Pairs(*decode_columns(Kind.MATCHES, batch, 2)) for batch in batches)
        for pairs in in_order(parts, self.options.table_bytes):
            self.pairs += len(pairs)
            yield None, format_lines(pairs, self.options.with_distance)

    def count_pairs(self) -> None:
        """End a reduce task."""
        self.count(pairs=self.pairs)

    def _partitioning(self) -> Partitioning:
        from mr_dedup.hamming.partitions import Partitioning

        options = self.options
        parts = options.partitions or parts_for(options.expected, options.table_bytes)
        return Partitioning(self._plan().chosen.design, BitOrder.parse(options.bit_order), parts)

    def _plan(self) -> Plan:
        """Return the plan by the options, which is the same in all tasks."""
        options = self.options
        design = None if options.design == "auto" else options.design
        return plan_self(options.expected, options.k, design=design, partitioned=True)


def _decoded(batch: bytes) -> Sided:
    """Return the fingerprints of a batch, and of which corpus they are."""
    from mr_dedup.hamming.partitions import Side

    kind = Kind.OTHERS if kind_of(batch) == Kind.OTHERS else Kind.FINGERPRINTS
    (fingerprints,) = decode_columns(kind, batch, 1)
    return Side.RIGHT if kind == Kind.OTHERS else Side.LEFT, fingerprints


def format_lines(pairs: Pairs, with_distance: bool = False) -> bytes:
    """Return pairs as result lines ``left TAB right``, signed decimals.

    With distances, ``left TAB right:distance``.
    """
    # numba takes half a second to import: the client does without
    from mr_dedup.formats.decimal_kernels import signed_decimals

    columns: list[Fingerprints] = [pairs.left, pairs.right]
    following = b"\t\n"
    if with_distance:
        columns.append(pairs.distances.astype(np.uint64))
        following = b"\t:\n"
    separators = np.tile(np.frombuffer(following, np.uint8), len(pairs))
    return signed_decimals(np.stack(columns, axis=1).ravel(), separators)


if __name__ == "__main__":
    JoinJob.run()
