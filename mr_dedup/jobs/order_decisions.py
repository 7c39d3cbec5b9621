"""The job that brings together the decisions on the documents of each chunk.

Inputs are the shards that the resolve job over shards leaves, in each of which are the decisions
on some clusters, these clusters, and what a report shows of them. It leaves a shard for each chunk,
shards with the clusters of ranges of labels, and one with what a report shows: the largest
clusters, and a sample of dropped documents that is the same however documents are divided among
tasks. Shards of chunks of earlier results have counts of their documents instead of decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.clusters.decisions import Reason
from mr_dedup.clusters.suspects import LISTED, TEMPLATES, largest
from mr_dedup.formats.tables import divided
from mr_dedup.jobs.contract import Counters, Group, Job, Keyed, Reduce, TaskInput
from mr_dedup.jobs.report_counts import LARGEST

_SAMPLES = 48

DECISION = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("cluster", pa.uint64()),
        pa.field("reason", pa.uint8()),
        pa.field("kept_id", pa.large_string()),
        pa.field("kept_file", pa.large_string()),
        pa.field("kept_position", pa.int64()),
        pa.field("kept_chunk", pa.int64()),
        pa.field("distance_bits", pa.uint8()),
        pa.field("similarity", pa.float64()),
        pa.field("methods", pa.string()),
        pa.field("duplicates", pa.int64()),
        pa.field("duplicates_total", pa.int64()),
        pa.field("first_seen", pa.large_string()),
        pa.field("last_seen", pa.large_string()),
    ]
)
"""The columns of decisions; from ``kept_id`` to ``methods`` they are null for kept documents."""

EARLIER_COUNT = ["row", "id", "position", *DECISION.names[-4:]]
"""Columns of counts of documents of earlier results."""


class OrderDecisionsJob(Job, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        chunks: The number of chunks.
        chunks_per_group: Consecutive chunks whose decisions are brought together.
        cluster_ranges: Ranges of labels, a power of two; of each there is a shard with its
            clusters, whose keys follow those of the chunks; the last shard is for the report.
    """

    chunks: int
    chunks_per_group: int = 1
    cluster_ranges: int = 1

    @property
    def _groups(self) -> int:
        return -(-self.chunks // self.chunks_per_group)

    @property
    def _report(self) -> int:
        return self._groups + self.cluster_ranges

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield decisions and counts by groups of chunks, clusters by ranges, and the report's."""
        for _, table in part.keyed_tables():
            names = table.column_names
            if is_size(table):
                yield int(table["chunk"][0].as_py()) // self.chunks_per_group, table
            elif "examples" in names or "order" in names or "mean_similarity" in names:
                yield self._report, table
            elif "reason" in names or "duplicates" in names:
                yield from divided(table, table["chunk"].to_numpy() // self.chunks_per_group)
            else:
                ranges = _range_of(table["cluster"].to_numpy(), self.cluster_ranges)
                yield from divided(table, self._groups + ranges)

    def max_keys(self) -> Sequence[int | None]:
        """Return the number of keys of the reduce step."""
        return [self._report + 1]

    def reduces(self) -> Sequence[Reduce]:
        """Return the one step."""
        return [self.order]

    def order(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the decisions of each chunk by row, the clusters by label, and the report's."""
        for key, tables in groups:
            if key == self._report:
                report = self.chunks + self.cluster_ranges
                yield from ((report, table) for table in _for_report(tables))
            elif key >= self._groups:
                clusters = pa.concat_tables(tables).sort_by("cluster")
                yield self.chunks + key - self._groups, clusters
            else:
                yield from _by_chunk(tables)


def is_size(table: pa.Table) -> bool:
    """Return whether a table has the number of documents of a chunk."""
    names: list[str] = table.column_names
    return names == ["chunk", "documents"]


def smallest_hashes(table: pa.Table) -> pa.Table:
    """Return up to _SAMPLES near-duplicates, or if there are none, other dropped documents."""
    compared = [int(reason) for reason in Reason if reason.is_compared]
    near = table.filter(pc.field("reason").isin(compared))
    table = near if len(near) else table
    keys = [("order", "ascending"), ("id", "ascending"), ("kept_id", "ascending")]
    return table.take(pc.sort_indices(table, sort_keys=keys)[:_SAMPLES])


def _range_of(labels: NDArray[np.int64], ranges: int) -> NDArray[np.int64]:
    """Return which of ``ranges``, a power of two, labels int64[n] are in."""
    if ranges == 1:
        return np.zeros(labels.size, np.int64)
    shift = 64 - (ranges.bit_length() - 1)
    found: NDArray[np.int64] = (labels >> shift) + ranges // 2
    return found


def _by_chunk(tables: Iterable[pa.Table]) -> Iterator[Keyed]:
    """Yield for each chunk the number of its documents, and the decisions by row."""
    sizes: list[pa.Table] = []
    decided: list[pa.Table] = []
    counted: list[pa.Table] = []
    for table in tables:
        if is_size(table):
            sizes.append(table)
        else:
            (decided if "reason" in table.column_names else counted).append(table)
    decisions, counts = _ordered(decided), _ordered(counted)
    for chunk, size in sorted((each["chunk"][0].as_py(), each) for each in sizes):
        yield chunk, size
        for ordered, names in ((decisions, DECISION.names), (counts, EARLIER_COUNT)):
            if ordered is not None:
                edges = np.searchsorted(ordered["chunk"].to_numpy(), [chunk, chunk + 1])
                if edges[0] < edges[1]:
                    yield chunk, ordered.slice(edges[0], edges[1] - edges[0]).select(names)


def _ordered(tables: Sequence[pa.Table]) -> pa.Table | None:
    """Return tables as one, by chunk and row; None if there are none."""
    if not tables:
        return None
    table = pa.concat_tables(tables).combine_chunks()
    order = np.lexsort((table["row"].to_numpy(), table["chunk"].to_numpy()))
    return table.take(pa.array(order))


def _for_report(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the largest clusters of all and those of the sample of all, and this sample.

    And the largest ones that look like templates.
    """
    found = list(tables)
    templates = [table for table in found if "mean_similarity" in table.column_names]
    clusters = pa.concat_tables(table for table in found if "examples" in table.column_names)
    sample = smallest_hashes(
        pa.concat_tables(table for table in found if "order" in table.column_names)
    )
    keys = [("size", "descending"), ("cluster", "ascending")]
    clusters = clusters.take(pc.sort_indices(clusters, sort_keys=keys))
    labels = sample["cluster"].to_numpy().view(np.int64)
    is_listed = pc.is_in(clusters["cluster"], pa.array(labels)).to_numpy()
    is_listed[:LARGEST] = True
    yield clusters.filter(pa.array(is_listed))
    yield sample
    yield largest(pa.concat_tables([TEMPLATES.empty_table(), *templates])).slice(0, LISTED)
