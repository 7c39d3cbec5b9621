"""The job that adds up what tasks of the decontamination have left, a shard for each chunk."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from mr_dedup.formats.shards import new_files
from mr_dedup.jobs.contamination_counts import added_up
from mr_dedup.jobs.contract import Counters, Job, Keyed, TaskInput
from mr_dedup.jobs.decontaminate import FILES
from mr_dedup.jobs.document_parts import write_rejects
from mr_dedup.jobs.reading import is_rejects

WITH_REJECTS = "chunk_with_rejects"
"""The column of a table with the chunks that have rejected records."""


class ContaminationTotalsJob(Job, frozen=True, kw_only=True):
    """See the module: it yields sums, files as ``FILES``, and chunks with rejects."""

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the totals of some chunks."""
        totals: list[pa.Table] = []
        files: list[pa.Table] = []
        rejects: dict[int, None] = {}
        first = None
        for key, table in part.keyed_tables():
            first = key if first is None else first
            if is_rejects(table):
                rejects[key] = None
            elif table.column_names == FILES.names:
                files.append(table)
            else:
                totals.append(table)
        if first is None:
            return
        for table in (*added_up(totals), pa.concat_tables([FILES.empty_table(), *files])):
            yield first, table
        yield first, pa.table({WITH_REJECTS: pa.array(list(rejects), pa.int64())})


class RejectPartsJob(Job, frozen=True, kw_only=True):
    """Writes the rejected records of shards, a part for each.

    Attributes:
        keys: The keys of the shards, in order: part n is that of key n.
        result: The directory of the result.
    """

    keys: tuple[int, ...]
    result: str

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Write the parts of some shards."""
        tables: dict[int, list[pa.Table]] = {}
        for key, table in part.keyed_tables():
            if is_rejects(table):
                tables.setdefault(key, []).append(table)
        numbers = {key: number for number, key in enumerate(self.keys)}
        for key, of_part in tables.items():
            with new_files(self.result) as folder:
                write_rejects(folder, numbers[key], of_part)
            yield numbers[key], pa.table({"rows": [sum(map(len, of_part))]})
