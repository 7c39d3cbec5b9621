"""The query job: which corpus fingerprints are within k bits of each query (paper 3.3).

A map task reads one chunk of the corpus and all queries, a side file; it indexes the smaller
side (or the one it is told to) and probes it with the other. It merges its own matches, so that
a combiner would find nothing left to do. A reducer merges what the tasks found for a range of
queries and writes ``query TAB near-duplicate TAB near-duplicate…``, signed decimals, ascending.

Runs alone, as any MRJob: python -m mr_dedup.jobs.query -r local --queries Q.longs corpus-*.longs
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from mrjob.step import MRStep
from numpy.typing import NDArray

from mr_dedup.errors import FormatError
from mr_dedup.formats.fingerprint_chunks import FingerprintChunk
from mr_dedup.formats.fingerprint_files import (
    BYTE_ORDERS,
    FORMATS,
    FingerprintFile,
    format_by_ending,
)
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.matches import Matches
from mr_dedup.hamming.planner import (
    DEFAULT_MEMORY_BYTES,
    SAMPLE_SIZE,
    SIDES,
    Plan,
    plan,
    spread_sample,
)
from mr_dedup.jobs.batches import BatchProtocol, LinesProtocol, decode_matches, encode_matches
from mr_dedup.jobs.fingerprint_chunks import chunk_of, refuse_stdin
from mr_dedup.jobs.job import COUNTERS, Job, errors_naming

Fingerprints = NDArray[np.uint64]

SEARCHED_WITH = "chunks searched with "
"""How the counters of the plans that tasks chose begin; the design and the side follow."""

QUERIES_A_KEY = 1024
"""Queries a reduce key covers, so that their matches fit in memory however many there are."""

_HELD_PAIRS = 1 << 22
"""Pairs held before they are merged, and sent on if that does not shrink them: 64 MB."""


class QueryJob(Job):
    """See the module."""

    INTERNAL_PROTOCOL = BatchProtocol
    OUTPUT_PROTOCOL = LinesProtocol

    def configure_args(self) -> None:
        """Declare the job's options beside mrjob's own."""
        super().configure_args()
        self.add_file_arg("--queries", help="the file of query fingerprints (required)")
        add = self.add_passthru_arg
        add("-k", dest="k", type=int, default=3, help="largest Hamming distance (3)")
        add("--index", choices=["auto", *SIDES], default="auto", help="the side to index")
        add("--design", default="auto", help="the table design, as mr-dedup plan names it")
        add("--with-distance", action="store_true", help="print near-duplicate:distance")
        add("--corpus-format", choices=FORMATS, help="if the names do not say")
        add("--queries-format", choices=FORMATS, help="if the name does not say")
        add("--byte-order", choices=BYTE_ORDERS, default="big", help="of longs (big)")
        add(
            "--table-bytes",
            type=int,
            default=DEFAULT_MEMORY_BYTES,
            help="memory for a task's tables; queries that need more are probed in slices",
        )

    def check_options(self) -> None:
        """Raise ValueError or MrDedupError for options that cannot be."""
        options = self.options
        if not options.queries:
            raise ValueError("--queries is required")
        if options.table_bytes < 1:
            raise ValueError(f"--table-bytes must be at least 1, not {options.table_bytes}")
        self._plan(1, 1)
        if not self.is_task():
            self._check_queries()

    def steps(self) -> list[MRStep]:
        """Return the one step."""
        return [
            MRStep(
                mapper_raw=self.map_corpus_chunk,
                reducer_init=self.start_counting,
                reducer=self.reduce_matches,
                reducer_final=self.count_matches,
            )
        ]

    @staticmethod
    def warm_up() -> None:
        """Load what tasks need, compiled: once, before they are forked."""
        from mr_dedup.hamming.search import warm_up

        warm_up()
        format_lines(Matches.merged([]))

    def map_corpus_chunk(self, path: str, uri: str) -> Iterator[tuple[int, bytes]]:
        """Yield the matches of one chunk: a range of queries each, as batches."""
        with errors_naming(uri, path):
            yield from self._matches_of(chunk_of(self.options, path, uri))

    def _matches_of(self, chunk: FingerprintChunk) -> Iterator[tuple[int, bytes]]:
        from mr_dedup.hamming.search import search

        queries = distinct(self._queries_file().read())
        if queries.size == 0:
            raise FormatError(self.options.queries, None, "holds no queries")
        planned = self._plan(
            chunk.size, queries.size, chunk.sample(SAMPLE_SIZE), spread_sample(queries)
        )
        planned.refuse_explosion()
        edges = np.sort(queries.view(np.int64))[::QUERIES_A_KEY]
        reading = _Reading(chunk)
        started = time.perf_counter()
        held: list[Matches] = []
        pairs = 0
        for matches in search(reading.batches, queries, planned):
            held.append(matches)
            pairs += len(matches)
            if pairs >= _HELD_PAIRS:
                held = [Matches.merged(held)]
                pairs = len(held[0])
                if pairs >= _HELD_PAIRS // 2:
                    yield from _keyed_batches(held[0], edges)
                    held, pairs = [], 0
        searching = time.perf_counter() - started - reading.seconds
        yield from _keyed_batches(Matches.merged(held), edges)
        used = f"{planned.chosen.design.name} over the {planned.chosen.index}"
        self.increment_counter(COUNTERS, "chunks", 1)
        self.increment_counter(COUNTERS, SEARCHED_WITH + used, 1)
        self.increment_counter(COUNTERS, "fingerprints", reading.fingerprints)
        self.increment_counter(COUNTERS, "search milliseconds", round(1000 * searching))

    def _plan(
        self,
        corpus_size: int,
        query_size: int,
        corpus_sample: Fingerprints | None = None,
        query_sample: Fingerprints | None = None,
    ) -> Plan:
        """Return the plan that the options allow; raises ValueError where they allow none."""
        options = self.options
        return plan(
            corpus_size,
            query_size,
            options.k,
            index=None if options.index == "auto" else options.index,
            design=None if options.design == "auto" else options.design,
            memory_bytes=options.table_bytes,
            corpus_sample=corpus_sample,
            query_sample=query_sample,
        )

    def start_counting(self) -> None:
        """Begin a reduce task."""
        self.matches = self.queries_matched = 0

    def count_matches(self) -> None:
        """End a reduce task: a counter costs a flush, so each is told once."""
        self.increment_counter(COUNTERS, "matches", self.matches)
        self.increment_counter(COUNTERS, "queries matched", self.queries_matched)

    def reduce_matches(self, key: int, batches: Iterable[bytes]) -> Iterator[tuple[None, bytes]]:
        """Yield the result lines of one range of queries."""
        held: list[Matches] = []
        pairs, limit = 0, 2 * _HELD_PAIRS
        for batch in batches:
            held.append(decode_matches(batch))
            pairs += len(held[-1])
            if pairs >= limit:
                held = [Matches.merged(held)]
                pairs = len(held[0])
                # what is left are distinct pairs: merging again before they doubled gains nothing
                limit = max(limit, 2 * pairs)
        matches = Matches.merged(held)
        self.matches += len(matches)
        self.queries_matched += matches.query_starts.size
        yield None, format_lines(matches, self.options.with_distance)

    def check_inputs(self) -> None:
        """End with a mistake if the corpus is to come from where mrjob would not leave it whole."""
        refuse_stdin(self)

    def _check_queries(self) -> None:
        """Raise MrDedupError if there is no file of queries, or nothing says its format."""
        if "://" not in self.options.queries:
            self._queries_file()
        elif not self.options.queries_format:
            format_by_ending(self.options.queries)

    def _queries_file(self) -> FingerprintFile:
        return FingerprintFile.detect(
            Path(self.options.queries),
            format=self.options.queries_format,
            byte_order=self.options.byte_order,
        )


class _Reading:
    """Counts and times what a search reads of a chunk, however often it passes over it."""

    def __init__(self, chunk: FingerprintChunk) -> None:
        self.fingerprints = 0
        self.seconds = 0.0
        self._chunk = chunk

    def batches(self) -> Iterator[Fingerprints]:
        """Yield the chunk's fingerprints from its start."""
        from mr_dedup.hamming.search import BATCH_SIZE

        self.fingerprints = 0
        started = time.perf_counter()
        for batch in self._chunk.batches(BATCH_SIZE):
            self.seconds += time.perf_counter() - started
            self.fingerprints += batch.size
            yield batch
            started = time.perf_counter()
        self.seconds += time.perf_counter() - started


def _keyed_batches(matches: Matches, edges: NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
    """Yield ascending matches as batches, keyed by the range of queries, from ``edges`` on."""
    keys = np.searchsorted(edges, matches.queries.view(np.int64), side="right") - 1
    starts = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), keys.size]
    for start, stop in pairwise(starts):
        for batch in encode_matches(matches.between(start, stop)):
            yield int(keys[start]), batch


def format_lines(matches: Matches, with_distance: bool = False) -> bytes:
    """Return ascending matches as result lines: ``query TAB near-duplicate…``, signed decimals.

    With distances, ``near-duplicate:distance``. About 60 ns a pair.
    """
    # numba takes half a second to import: the client does without
    from mr_dedup.formats.decimal_kernels import signed_decimals

    # two or three numbers a pair, and what follows each; a query is printed with its first pair
    pairs, starts = len(matches), matches.query_starts
    numbers = np.zeros((pairs, 3), dtype=np.uint64)
    numbers[:, 0], numbers[:, 1], numbers[:, 2] = matches.queries, matches.corpus, matches.distances
    following = np.full((pairs, 3), ord("\t"), dtype=np.uint8)
    following[:, 1] = ord(":") if with_distance else ord("\t")
    last = np.append(starts[1:], pairs)[: starts.size] - 1
    following[last, 2 if with_distance else 1] = ord("\n")
    printed = np.zeros((pairs, 3), dtype=bool)
    printed[starts, 0] = True
    printed[:, 1] = True
    printed[:, 2] = with_distance
    return signed_decimals(numbers[printed], following[printed])


if __name__ == "__main__":
    QueryJob.run()
