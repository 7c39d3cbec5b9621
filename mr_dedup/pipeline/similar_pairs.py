"""All pairs of near-duplicate documents: signatures, groups of documents, their pairs.

Pairs are within the connected components of shared keys and similar fingerprints. Small components
are compared together. A large one is cut into slices, and every two of these are compared by a
task, so that a task has at most two in memory, and no pair is missed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.engines.engine import JobOutput
from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.rejects import ReadCounts
from mr_dedup.formats.id_text import escape_ids
from mr_dedup.formats.shards import Shard, write_shard
from mr_dedup.jobs.contract import Job, Keyed
from mr_dedup.jobs.fingerprint import rare_counts
from mr_dedup.jobs.grouped_rows import WHOLE, GroupedRows
from mr_dedup.jobs.reading import is_rejects, reading_summary, reject_lines
from mr_dedup.jobs.row_shards import Attached
from mr_dedup.jobs.similar_pairs import SimilarPairsJob
from mr_dedup.pipeline.dedup_options import DedupOptions
from mr_dedup.pipeline.dedup_stages import Plan, connected_documents
from mr_dedup.pipeline.sharded_run import Left, ShardedRun

GROUPED = "grouped.parquet"

_SLICE_BYTES = 16 << 20
"""Bytes of text of small clusters that are compared together, and of a slice of a large one."""

_MAX_SENT_BYTES = 10**11
_MAX_SENT_ROWS = 5 * 10**7
"""The most that is sent of a large cluster, each document once for every slice of the cluster.

In memory 90 bytes a row.
"""

_LINES = 1 << 18
"""Pairs written at a time."""

_DECIMALS = 6
"""Of a similarity; fewer where the last ones are 0."""


@dataclass(frozen=True)
class SimilarPairs:
    """Pairs of documents: numbers first[m] < second[m], ascending, and their ``similarities``.

    ``rows`` are those of the documents, with the rejects; ``counts`` are those of the run. 24
    bytes a pair.
    """

    rows: Left
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    similarities: NDArray[np.float64]
    counts: dict[str, Any]

    def __len__(self) -> int:
        return int(self.first.size)

    def rejects(self) -> Iterator[bytes]:
        """Yield the records that could not be read, some lines of JSON at a time."""
        for table in self._tables():
            if is_rejects(table):
                yield reject_lines(table)

    def _tables(self) -> Iterator[pa.Table]:
        for shard in self.rows.shards:
            yield from self.rows.tables(shard.key)

    def lines(self) -> Iterator[bytes]:
        """Yield lines ``id TAB id TAB similarity``; in memory the ids of all documents.

        TAB, CR and LF in an id are written as ``id_text.escape_ids`` does.
        """
        tables = (table for table in self._tables() if not is_rejects(table))
        chunks = [chunk for table in tables for chunk in table["id"].chunks]
        ids = escape_ids(pa.concat_arrays([pa.array([], pa.large_string()), *chunks]))
        tab, end, nothing = (pa.scalar(text, pa.large_string()) for text in ("\t", "\n", ""))
        for start in range(0, len(self), _LINES):
            part = slice(start, start + _LINES)
            one, other = (ids.take(pa.array(side[part])) for side in (self.first, self.second))
            spelled = pa.array(np.round(self.similarities[part], _DECIMALS)).cast(pa.large_string())
            lines = pc.binary_join_element_wise(one, other, spelled, tab)
            _, _, content = pc.binary_join_element_wise(lines, nothing, end).buffers()
            yield content.to_pybytes()


RunJob = Callable[[Job, str], AbstractContextManager[JobOutput]]
"""Runs a job over documents, given a name for its temporary directory."""


def similar_pairs(run: ShardedRun, options: DedupOptions, run_job: RunJob) -> SimilarPairs:
    """Find the pairs of documents.

    Args:
        run: Where rows of documents and their clusters are left, by this process.
        options: How pairs are found; ``keep`` and ``against`` are not used.
        run_job: Runs the jobs over documents, on any engine.

    In memory: 32 bytes a document in clusters, and the pairs. Raises MrDedupError for a cluster
    that is too large.
    """
    rows, read = _rows_of(run, options, run_job)
    with run.open_engine("size") as (engine, _):
        plan = Plan(run, options, engine.tasks)
    documents = ClusteredNumbers.read(rows, connected_documents(plan, rows))
    grouped, sliced = group_rows(documents, _SLICE_BYTES)
    compared = int(documents.numbers.size)
    counts = {**read, "clusters_sliced": sliced, "documents_compared": compared}
    parts: list[pa.Table] = []
    if compared:
        path = run.records / GROUPED
        grouped.write(path)
        job = SimilarPairsJob(
            **options.of_features,
            grouped=str(path),
            methods=tuple(options.method_names),
            keyword_idf=options.keyword_idf,
            verify=None if options.verify is None else options.verify.threshold,
            shingles=options.compared_by,
        )
        with run_job(job, "pairs") as output:
            parts += [table for _, table in output]
    empty = {"first": np.empty(0, np.int64), "second": np.empty(0, np.int64)}
    found = pa.concat_tables([pa.table({**empty, "similarity": np.empty(0)}), *parts])
    first, second = found["first"].to_numpy(), found["second"].to_numpy()
    order = np.lexsort((second, first))
    similarities = found["similarity"].to_numpy()[order]
    return SimilarPairs(rows, first[order], second[order], similarities, counts)


def _rows_of(
    run: ShardedRun, options: DedupOptions, run_job: RunJob
) -> tuple[Left, Mapping[str, Any]]:
    """Leave the rows of documents; return them, and a ReadingSummary.

    Raises NothingReadError if all records were rejected.
    """
    job = options.fingerprint_job()
    shards: list[Shard] = []
    counts = ReadCounts()

    def counted(tables: Iterable[Keyed]) -> Iterator[pa.Table]:
        for _, table in tables:
            if is_rejects(table):
                counts.add_lines(reject_lines(table))
            else:
                counts.documents += len(table)
            yield table

    with run_job(job, "fingerprint") as output:
        for key, tables in itertools.groupby(output, key=itemgetter(0)):
            shards.append(write_shard(run.at("rows"), key, counted(tables)))
    counts.require_documents()
    read = {
        # all are 0, if the logs of a cluster are not read
        **reading_summary(output.counters),
        "documents_read": counts.documents,
        "rejected_records": counts.rejected,
        "incomplete_files": counts.incomplete_files,
        "documents_without_text": counts.without_text,
        **rare_counts(job, output.counters),
    }
    return Left(run.at("rows"), shards, output.counters), read


@dataclass(frozen=True)
class ClusteredNumbers:
    """The n documents that are in clusters of several, by their numbers in the order of all.

    Attributes:
        numbers: int64[n], ascending.
        labels: uint64[n], equal in a cluster.
        lengths: int64[n], of their texts in bytes.
        ranges: By chunk, the number of its first document, and that after its last.
    """

    numbers: NDArray[np.int64]
    labels: NDArray[np.uint64]
    lengths: NDArray[np.int64]
    ranges: dict[int, tuple[int, int]]

    @classmethod
    def read(cls, rows: Left, attached: Left) -> ClusteredNumbers:
        """Return the documents of shards; raises as ``read_shard``."""
        if not rows.shards:
            nothing = np.empty(0, np.int64)
            return cls(nothing, nothing.view(np.uint64), nothing, {})
        chunks = [Attached.read(attached.folder, shard.key) for shard in rows.shards]
        edges = np.cumsum([0, *(chunk.documents for chunk in chunks)])
        firsts = np.repeat(edges[:-1], [chunk.rows.size for chunk in chunks])
        keys = [shard.key for shard in rows.shards]
        return cls(
            np.concatenate([chunk.rows for chunk in chunks]) + firsts,
            np.concatenate([chunk.labels for chunk in chunks]),
            np.concatenate([chunk.lengths for chunk in chunks]),
            dict(zip(keys, itertools.pairwise(edges.tolist()), strict=True)),
        )


def group_rows(
    documents: ClusteredNumbers,
    limit: int,
    max_sent_bytes: int = _MAX_SENT_BYTES,
    max_sent_rows: int = _MAX_SENT_ROWS,
) -> tuple[GroupedRows, int]:
    """Return which clustered documents are compared with which, and how many clusters are sliced.

    The texts of a group have about ``limit`` bytes; of one cluster up to twice that, and two texts.
    Raises MrDedupError if more than ``max_sent_bytes`` or ``max_sent_rows`` would be sent of one
    cluster.
    """
    numbers, lengths = documents.numbers, documents.lengths
    clusters, cluster = np.unique(documents.labels, return_inverse=True)
    sizes = np.bincount(cluster, lengths, clusters.size).astype(np.int64)
    large = sizes > 2 * limit
    # clusters in their order, until a group is full
    small_ends = np.cumsum(np.where(large, 0, sizes))
    group_of = (small_ends - np.where(large, 0, sizes)) // limit
    chosen = ~large[cluster]
    parts = [(numbers[chosen], group_of[cluster[chosen]], np.full(int(chosen.sum()), WHOLE))]
    free = int(group_of.max(initial=-1)) + 1
    for which in np.flatnonzero(large).tolist():
        rows = np.flatnonzero(cluster == which)
        members, sizes_of = numbers[rows], lengths[rows]
        _refuse_explosion(int(sizes[which]), members.size, limit, max_sent_bytes, max_sent_rows)
        before = np.cumsum(sizes_of) - sizes_of
        slices = np.unique(before // limit, return_inverse=True)[1]
        for added in _every_two(members, slices, free):
            parts.append(added)
            free += 1
    all_numbers, keys, sides = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(all_numbers, kind="stable")
    all_numbers = all_numbers[order]
    grouped = GroupedRows(
        all_numbers,
        keys[order],
        sides[order],
        lengths[np.searchsorted(numbers, all_numbers)],
        ranges=documents.ranges,
    )
    return grouped, int(large.sum())


def _refuse_explosion(
    size_bytes: int, count: int, limit: int, max_sent_bytes: int, max_sent_rows: int
) -> None:
    """Raise MrDedupError if a cluster is too large to compare every two slices of it."""
    slices = -(-size_bytes // limit)
    sent_bytes, sent_rows = size_bytes * slices, count * slices
    if sent_bytes > max_sent_bytes or sent_rows > max_sent_rows:
        raise MrDedupError(
            f"a cluster has {count:,} documents, {size_bytes:,} bytes: to compare every two of "
            f"them, {slices:,} copies of each would be sent, {sent_rows:.1e} in all, of "
            f"{sent_bytes:.1e} bytes (limits {max_sent_rows:.0e} and {max_sent_bytes:.0e}); "
            "choose stricter methods or a smaller k"
        )


def _every_two(
    members: NDArray[np.int64], slices: NDArray[np.int64], first_key: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield numbers, keys and sides of every two slices, and of each with itself."""
    count = int(slices.max()) + 1
    of_slice: Sequence[NDArray[np.int64]] = [members[slices == n] for n in range(count)]
    key = first_key
    for n in range(count):
        yield of_slice[n], np.full(of_slice[n].size, key), np.full(of_slice[n].size, WHOLE)
        key += 1
        for m in range(n + 1, count):
            both = np.concatenate([of_slice[n], of_slice[m]])
            sides = np.repeat([0, 1], [of_slice[n].size, of_slice[m].size])
            yield both, np.full(both.size, key), sides
            key += 1
