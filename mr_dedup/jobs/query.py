"""The query job: which corpus fingerprints are within k bits of each query (paper 3.3).

A map task reads one chunk of the corpus and all queries, a side file; it builds tables over the
smaller side, or the one that the options name, and probes them with the other. It merges its own
matches, so that a combiner would find nothing left to do. A reduce task merges those of a range of
queries. As lines: ``query TAB near-duplicate TAB near-duplicate…``, signed decimals, ascending.

Runs alone, as any MRJob: python -m mr_dedup.jobs.query -r local --queries Q.longs corpus-*.longs
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, errors_naming
from mr_dedup.formats.decimal_kernels import signed_decimals
from mr_dedup.formats.fingerprint_chunks import FingerprintChunk
from mr_dedup.formats.fingerprint_files import (
    FingerprintFile,
    Format,
)
from mr_dedup.formats.longs import ByteOrder
from mr_dedup.hamming import search
from mr_dedup.hamming.distinct import distinct
from mr_dedup.hamming.pairs import Pairs
from mr_dedup.hamming.planner import (
    DEFAULT_MEMORY_BYTES,
    SAMPLE_SIZE,
    Plan,
    Side,
    plan,
    spread_sample,
)
from mr_dedup.jobs.contract import Counters, Group, Job, Keyed, Reduce, TaskInput
from mr_dedup.jobs.fingerprint_chunks import chunk_of
from mr_dedup.jobs.merging import merged_in_turn

Fingerprints = NDArray[np.uint64]

_SEARCHED_WITH, _OVER = "chunks_searched_with_", "_over_"
"""The counters of the plans that tasks chose: this, the design, this, and the indexed side."""


class QueryJob(Job, frozen=True, kw_only=True):
    """The matches of queries in a corpus: tables with columns query and corpus, uint64.

    The matches ascend by query, then corpus fingerprint, as signed numbers, within a table and
    from key to key; each is there once.

    Attributes:
        queries: The path of the file of query fingerprints.
        k: The largest Hamming distance, 0 to 64.
        index: The side whose tables are built; ``auto`` for the planner's choice.
        design: The table design; ``auto`` for the planner's choice.
        with_distance: Whether lines have the distance after each near-duplicate.
        corpus_format: The format of inputs that are files; by default by their names.
        queries_format: That of ``queries``; by default by the name.
        byte_order: That of longs.
        table_bytes: Memory for a task's tables; larger tables are built and probed in slices.
        queries_per_key: Queries of a reduce key, so that their matches fit in memory.
        max_buffered_pairs: Pairs that a map task has in memory before it merges them, 16 bytes
            each, and emits them if they are still more than half as many.
    """

    side_files = ("queries",)

    queries: str
    k: int = 3
    index: Side | Literal["auto"] = "auto"
    design: str = "auto"
    with_distance: bool = False
    corpus_format: Format | None = None
    queries_format: Format | None = None
    byte_order: ByteOrder = "big"
    table_bytes: int = DEFAULT_MEMORY_BYTES
    queries_per_key: int = 1024
    max_buffered_pairs: int = 1 << 22

    def __post_init__(self) -> None:
        """Raise ValueError for options that contradict each other or are out of range."""
        if self.table_bytes < 1:
            raise ValueError(f"--table-bytes must be at least 1, not {self.table_bytes}")
        self._plan(1, 1)

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the matches of one chunk, each range of queries under its number."""
        with errors_naming(part.name, part.path):
            chunk = chunk_of(part, self.corpus_format, self.byte_order)
            yield from self._matches_of(chunk, counters)

    def _matches_of(self, chunk: FingerprintChunk, counters: Counters) -> Iterator[Keyed]:
        queries = distinct(self._queries_file().read())
        if queries.size == 0:
            raise FormatError(self.queries, None, "contains no queries")
        planned = self._plan(
            chunk.size, queries.size, chunk.sample(SAMPLE_SIZE), spread_sample(queries)
        )
        planned.refuse_explosion()
        edges = np.sort(queries.view(np.int64))[:: self.queries_per_key]
        reading = _Reading(chunk)
        started = time.perf_counter()
        buffered: list[Pairs] = []
        pairs = 0
        for matches in search.search(reading.batches, queries, planned):
            buffered.append(matches)
            pairs += len(matches)
            if pairs >= self.max_buffered_pairs:
                buffered = [Pairs.merged(buffered)]
                pairs = len(buffered[0])
                if pairs >= self.max_buffered_pairs // 2:
                    yield from _by_range(buffered[0], edges)
                    buffered, pairs = [], 0
        searching = time.perf_counter() - started - reading.seconds
        yield from _by_range(Pairs.merged(buffered), edges)
        design = planned.chosen.design.name.replace("-", "_")
        counters["chunks"] += 1
        counters[f"{_SEARCHED_WITH}{design}{_OVER}{planned.chosen.index}"] += 1
        counters["fingerprints"] += reading.fingerprints
        counters["search_milliseconds"] += round(1000 * searching)

    def reduces(self) -> Sequence[Reduce]:
        """Return the one step."""
        return [self.merge_ranges]

    def merge_ranges(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the matches of each range of queries, merged, under its number."""
        for key, tables in groups:
            matches = merged_in_turn(
                map(matches_of, tables), Pairs.merged, 2 * self.max_buffered_pairs
            )
            counters["matches"] += len(matches)
            counters["queries_matched"] += matches.left_starts.size
            yield key, _table(matches)

    def _plan(
        self,
        corpus_size: int,
        query_size: int,
        corpus_sample: Fingerprints | None = None,
        query_sample: Fingerprints | None = None,
    ) -> Plan:
        """Return the plan that the options allow; raises ValueError where they allow none."""
        return plan(
            corpus_size,
            query_size,
            self.k,
            index=None if self.index == "auto" else self.index,
            design=None if self.design == "auto" else self.design,
            memory_bytes=self.table_bytes,
            corpus_sample=corpus_sample,
            query_sample=query_sample,
        )

    def _queries_file(self) -> FingerprintFile:
        return FingerprintFile.detect(
            Path(self.queries), format=self.queries_format, byte_order=self.byte_order
        )

    def lines(self, table: pa.Table) -> bytes:
        """Return the matches as lines, one for each query; see ``format_lines``."""
        return format_lines(matches_of(table), self.with_distance)


class _Reading:
    """Counts and times what a search reads of a chunk, however many passes it makes."""

    def __init__(self, chunk: FingerprintChunk) -> None:
        self.fingerprints = 0
        self.seconds = 0.0
        self._chunk = chunk

    def batches(self) -> Iterator[Fingerprints]:
        """Yield the chunk's fingerprints from its start."""
        self.fingerprints = 0
        started = time.perf_counter()
        for batch in self._chunk.batches(search.BATCH_SIZE):
            self.seconds += time.perf_counter() - started
            self.fingerprints += batch.size
            yield batch
            started = time.perf_counter()
        self.seconds += time.perf_counter() - started


def chunks_by_plan(counters: Mapping[str, int]) -> dict[tuple[str, str], int]:
    """Return how many chunks were searched by each plan: a design, and the side with its tables.

    >>> chunks_by_plan({"chunks": 7, "chunks_searched_with_4_tables_over_queries": 7})
    {('4-tables', 'queries'): 7}
    """
    found = {}
    for name, chunks in counters.items():
        if name.startswith(_SEARCHED_WITH):
            design, _, side = name.removeprefix(_SEARCHED_WITH).partition(_OVER)
            found[design.replace("_", "-"), side] = chunks
    return found


def _by_range(matches: Pairs, edges: NDArray[np.int64]) -> Iterator[Keyed]:
    """Yield ascending matches by the range of their queries; a range begins at each of edges."""
    keys = np.searchsorted(edges, matches.left.view(np.int64), side="right") - 1
    starts = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), keys.size]
    for start, stop in pairwise(starts):
        if start < stop:
            yield int(keys[start]), _table(matches.between(start, stop))


def _table(matches: Pairs) -> pa.Table:
    return pa.table({"query": matches.left, "corpus": matches.right})


def matches_of(table: pa.Table) -> Pairs:
    """Return the matches that a table has, in its order."""
    return Pairs(table["query"].to_numpy(), table["corpus"].to_numpy())


def format_lines(matches: Pairs, with_distance: bool = False) -> bytes:
    """Return ascending matches as result lines: ``query TAB near-duplicate…``, signed decimals.

    With distances, ``near-duplicate:distance``. About 60 ns a pair.
    """
    # two or three numbers a pair, and what follows each; a query is printed with its first pair
    pairs, starts = len(matches), matches.left_starts
    numbers = np.zeros((pairs, 3), dtype=np.uint64)
    numbers[:, 0], numbers[:, 1], numbers[:, 2] = matches.left, matches.right, matches.distances
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
    from mr_dedup.engines.streaming.query_program import main

    main()
