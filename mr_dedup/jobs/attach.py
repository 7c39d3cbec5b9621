"""The attach job: which documents of each chunk are in clusters of several.

Inputs are shards of rows of documents, and shards of labels. Three shuffles bring together the rows
and the label of a node, then the documents of a cluster, then those of a chunk. What it leaves is a
shard for each chunk, also for one without clustered documents: their row, node and label, ascending
by row, after a table with the number of all documents of the chunk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.partitioned_components import partition_of
from mr_dedup.clusters.splitting import ClusterLimit
from mr_dedup.formats.tables import divided, one_array
from mr_dedup.jobs.contract import Counters, Group, Job, Keyed, Reduce, TaskInput
from mr_dedup.jobs.report_counts import LEADING, LEADING_BITS

LARGE = "clusters_too_large"
"""The counter of clusters that may be above the limit: equal texts are counted repeatedly."""


class AttachJob(Job, frozen=True, kw_only=True):
    """See the module.

    Counts the ``distinct_fingerprints``, the ``fingerprint_clusters``, ``documents_in_clusters``
    and ``clustered_bytes`` of their texts, ``clusters_too_large``, and fingerprints of new
    documents by their leading bits.

    Attributes:
        partitions: Of nodes, and of labels.
        chunks_per_group: Consecutive chunks whose documents are brought together.
        earlier_chunks: The first so many chunks are documents that earlier runs kept; clusters of
            these only are left out.
        limit: The size above which a cluster is counted as too large.
    """

    partitions: int = 1
    chunks_per_group: int = 1
    earlier_chunks: int = 0
    limit: ClusterLimit = ClusterLimit(4 << 30, 4 << 10)

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield rows by the partition of their nodes, labels too, and the size of each chunk."""
        counts: dict[int, int] = defaultdict(int)
        for shard, table in part.keyed_tables():
            if "label" in table.column_names:
                nodes, labels = table["node"].to_numpy(), table["label"].to_numpy()
                yield from self._by(nodes, pa.table({"node": nodes, "label": labels}))
            elif "fingerprint" in table.column_names:
                first = counts[shard]
                counts[shard] += len(table)
                column = one_array(table["fingerprint"])
                known = np.flatnonzero(column.is_valid())
                nodes = np.asarray(column.drop_null()).view(np.uint64)
                if shard >= self.earlier_chunks:
                    _count_leading(nodes, counters)
                columns = {
                    "node": nodes,
                    "chunk": np.full(known.size, shard, np.int64),
                    "row": known + first,
                    "length": table["length"].to_numpy()[known],
                }
                yield from self._by(nodes, pa.table(columns))
            else:
                # a chunk of which all records were rejected
                counts[shard] += 0
        for shard, count in counts.items():
            yield 0, pa.table({"chunk": [shard], "documents": [count]})

    def _by(self, values: NDArray[np.uint64], table: pa.Table) -> Iterator[Keyed]:
        """Yield the rows of a table by the partitions of ``values``."""
        yield from divided(table, partition_of(values, self.partitions))

    def max_keys(self) -> Sequence[int | None]:
        """Return the number of keys of each reduce step."""
        return [self.partitions, self.partitions, None]

    def reduces(self) -> Sequence[Reduce]:
        """Return the steps by node, by label, and by chunk."""
        return [self.label_nodes, self.take_clusters, self.order_chunks]

    def label_nodes(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the rows of nodes that have a label or several documents, by label."""
        for _, tables in groups:
            labelled, rows = [], []
            for table in tables:
                if "documents" in table.column_names:
                    yield 0, table
                elif "label" in table.column_names:
                    labelled.append(table)
                else:
                    rows.append(table)
            if not rows:
                continue
            table = pa.concat_tables(rows).combine_chunks()
            nodes, inverse, sizes = np.unique(
                table["node"].to_numpy(), return_inverse=True, return_counts=True
            )
            counters["distinct_fingerprints"] += nodes.size
            labels, known = nodes.copy(), sizes > 1
            if labelled:
                found = pa.concat_tables(labelled)
                positions = np.searchsorted(nodes, found["node"].to_numpy())
                labels[positions] = found["label"].to_numpy()
                known[positions] = True
            chosen = np.flatnonzero(known[inverse])
            if chosen.size:
                label = labels[inverse[chosen]]
                some = table.take(pa.array(chosen)).append_column("label", pa.array(label))
                yield from self._by(label, some)

    def take_clusters(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the documents of clusters by groups of chunks."""
        for _, tables in groups:
            rows = []
            for table in tables:
                if "documents" in table.column_names:
                    yield int(table["chunk"][0].as_py()) // self.chunks_per_group, table
                else:
                    rows.append(table)
            if not rows:
                continue
            table = pa.concat_tables(rows).combine_chunks()
            table = self._checked(table, counters)
            table = table.select(["chunk", "row", "node", "label", "length"])
            yield from divided(table, table["chunk"].to_numpy() // self.chunks_per_group)

    def _checked(self, table: pa.Table, counters: Counters) -> pa.Table:
        """Count clusters and those that are too large; leave out those of earlier documents."""
        labels, inverse = np.unique(table["label"].to_numpy(), return_inverse=True)
        lengths = table["length"].to_numpy()
        counters["fingerprint_clusters"] += labels.size
        if self.earlier_chunks:
            new = np.zeros(labels.size, bool)
            new[inverse[table["chunk"].to_numpy() >= self.earlier_chunks]] = True
            wanted = new[inverse]
            table, inverse = table.filter(pa.array(wanted)), inverse[wanted]
            lengths = lengths[wanted]
        sizes = np.bincount(inverse, np.maximum(lengths, self.limit.text_bytes), labels.size)
        counters[LARGE] += int(np.count_nonzero(sizes > self.limit.bytes))
        counters["documents_in_clusters"] += len(table)
        counters["clustered_bytes"] += int(lengths.sum())
        return table

    def order_chunks(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the clustered documents of each chunk, after the number of all its documents."""
        for _, tables in groups:
            counts: dict[int, pa.Table] = {}
            rows = []
            for table in tables:
                if "documents" in table.column_names:
                    chunk = int(table["chunk"][0].as_py())
                    counts[chunk] = table
                else:
                    rows.append(table)
            clustered = pa.concat_tables(rows).combine_chunks() if rows else None
            edges = None
            if clustered is not None:
                chunks = clustered["chunk"].to_numpy()
                order = np.lexsort((clustered["row"].to_numpy(), chunks))
                clustered, chunks = clustered.take(pa.array(order)), chunks[order]
            for chunk in sorted(counts):
                yield chunk, counts[chunk]
                if clustered is not None:
                    edges = np.searchsorted(chunks, [chunk, chunk + 1])
                    if edges[0] < edges[1]:
                        yield chunk, clustered.slice(edges[0], edges[1] - edges[0])


def _count_leading(nodes: NDArray[np.uint64], counters: Counters) -> None:
    counts = np.bincount(
        (nodes >> np.uint64(64 - LEADING_BITS)).astype(np.int64), minlength=1 << LEADING_BITS
    )
    for bucket in np.flatnonzero(counts).tolist():
        counters[f"{LEADING}{bucket}"] += int(counts[bucket])
