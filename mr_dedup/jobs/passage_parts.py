"""The job that writes the passages of a result: a part for each shard of a partition of ids."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa

from mr_dedup.formats.parts import PARQUET, ParquetParts
from mr_dedup.formats.passage_files import PASSAGES
from mr_dedup.formats.shards import new_files
from mr_dedup.jobs.contract import Counters, Job, Keyed, TaskInput


class PassagePartsJob(Job, frozen=True, kw_only=True):
    """See the module. Inputs are shards of passages.

    Attributes:
        keys: The keys of all shards, in order: part n is that of key n.
        passages: The directory of the result for passages.
    """

    keys: tuple[int, ...]
    passages: str

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Write the parts of some shards."""
        tables: dict[int, list[pa.Table]] = {}
        for key, table in part.keyed_tables():
            tables.setdefault(key, []).append(table)
        for key, of_part in tables.items():
            number = self.keys.index(key)
            write_passages(self.passages, number, pa.concat_tables(of_part))
            yield number, pa.table({"rows": [sum(map(len, of_part))]})


def write_passages(folder: str, number: int, table: pa.Table) -> None:
    """Write a part of the passages of a result."""
    with new_files(folder) as made:
        with ParquetParts(made / "made", PASSAGES, part_rows=sys.maxsize) as parts:
            parts.write_table(table.combine_chunks())
        (name,) = parts.names
        (made / "made" / name).replace(made / f"part-{number:05}{PARQUET}")
