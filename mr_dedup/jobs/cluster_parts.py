"""The job that writes the clusters of a result: a part for each shard of a range of labels."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa

from mr_dedup.formats.parts import PARQUET, ParquetParts
from mr_dedup.formats.shards import new_files
from mr_dedup.jobs.contract import Counters, Job, Keyed, TaskInput

CLUSTERS = pa.schema(
    [
        pa.field("cluster", pa.int64()),
        pa.field("documents", pa.int64()),
        pa.field("documents_kept", pa.int64()),
        pa.field("earlier_documents", pa.int64()),
    ]
)


class ClusterPartsJob(Job, frozen=True, kw_only=True):
    """See the module. Inputs are shards of clusters.

    Attributes:
        keys: The keys of all shards, in order: part n is that of key n.
        clusters: The directory of the result for clusters.
    """

    keys: tuple[int, ...]
    clusters: str

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Write the parts of some shards."""
        tables: dict[int, list[pa.Table]] = {}
        for key, table in part.keyed_tables():
            tables.setdefault(key, []).append(table)
        for key, of_part in tables.items():
            number = self.keys.index(key)
            write_clusters(self.clusters, number, pa.concat_tables(of_part))
            yield number, pa.table({"rows": [sum(map(len, of_part))]})


def write_clusters(folder: str, number: int, table: pa.Table) -> None:
    """Write a part of the clusters of a result."""
    with new_files(folder) as made:
        with ParquetParts(made / "made", CLUSTERS, part_rows=sys.maxsize) as parts:
            parts.write_table(table.combine_chunks())
        (name,) = parts.names
        (made / "made" / name).replace(made / f"part-{number:05}{PARQUET}")
