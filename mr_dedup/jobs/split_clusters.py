"""The job that splits clusters which are too large for one task, by stricter rules for pairs.

Run only where there are such. A map task reads the rows of chunks and which of them are in
clusters, and sends both with the signatures by label; a reduce task has the clusters of a
partition in memory, without texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from mr_dedup.clusters.components import Labels
from mr_dedup.clusters.partitioned_components import partition_of, partitioned
from mr_dedup.clusters.splitting import ClusterLimit, split_large
from mr_dedup.jobs.contract import Counters, Group, Job, Keyed, Reduce, TaskInput
from mr_dedup.jobs.frequencies import read_frequencies
from mr_dedup.jobs.row_shards import Attached, document_rows
from mr_dedup.signatures.columns import schema_of, signatures_in
from mr_dedup.signatures.linking import MethodSignatures, StricterRules
from mr_dedup.signatures.methods import parse_methods
from mr_dedup.signatures.protocol import SignatureMethod


class SplitClustersJob(Job, frozen=True, kw_only=True):
    """Labels of all clusters: tables with columns node and label, uint64.

    Counts the ``clusters_split`` and the ``documents_in_split_clusters``. Inputs are shards of
    rows.

    Attributes:
        rows: The directory of the shards of rows.
        attached: That of the clustered documents.
        k: The largest distance of candidates; None without simhash.
        methods: The names of the other methods.
        keyword_idf: The file of document frequencies by which keywords are weighted.
        partitions: Of labels.
        limit: The largest size of a cluster.
    """

    side_files = ("keyword_idf",)

    rows: str
    attached: str
    limit: ClusterLimit
    k: int | None = None
    methods: tuple[str, ...] = ()
    keyword_idf: str | None = None
    partitions: int = 1

    @cached_property
    def _methods(self) -> list[SignatureMethod]:
        if not self.methods:
            return []
        return parse_methods(self.methods, read_frequencies(self.keyword_idf))

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the clustered documents by the partition of their labels."""
        for chunk in dict.fromkeys(shard for shard, _ in part.keyed_tables()):
            of_chunk = Attached.read(self.attached, chunk)
            table = document_rows(self.rows, chunk)
            if table is None or not of_chunk.rows.size:
                continue
            names = [field.name for field in schema_of(self._methods)]
            some = table.select([*names, "length"]).take(pa.array(of_chunk.rows))
            some = some.append_column("node", pa.array(of_chunk.nodes))
            some = some.append_column("label", pa.array(of_chunk.labels))
            to = partition_of(of_chunk.labels, self.partitions)
            for partition, (indices,) in partitioned(to, np.arange(to.size, dtype=np.uint64)):
                yield partition, some.take(pa.array(indices))

    def max_keys(self) -> Sequence[int | None]:
        """Return the number of keys of each reduce step."""
        return [self.partitions]

    def reduces(self) -> Sequence[Reduce]:
        """Return the one step."""
        return [self.split]

    def split(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the labels of the clusters of each partition."""
        for key, tables in groups:
            table = pa.concat_tables(tables).combine_chunks()
            nodes, firsts = np.unique(table["node"].to_numpy().view(np.int64), return_index=True)
            labels = Labels(nodes.view(np.uint64), table["label"].to_numpy()[firsts])
            values = np.array(table["node"])
            stricter = StricterRules(values, self.k, partial(self._signed, table), 1)
            lengths = np.array(table["length"])
            found, split = split_large(labels, values, lengths, stricter, self.limit)
            counters["clusters_split"] += split.clusters
            counters["documents_in_split_clusters"] += split.documents
            yield key, pa.table({"node": found.nodes, "label": found.labels})

    def _signed(self, table: pa.Table) -> Iterator[MethodSignatures]:
        for number, method in enumerate(self._methods):
            yield MethodSignatures(method, [signatures_in(table, self._methods, number)])
