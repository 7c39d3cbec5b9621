"""The job that writes what is dropped for documents of earlier results: a part for each chunk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from mr_dedup.formats.count_tables import EARLIER_COUNTS, EARLIER_REPEATED
from mr_dedup.jobs.contract import Counters, Job, Keyed, TaskInput
from mr_dedup.jobs.order_decisions import is_size
from mr_dedup.jobs.shard_parts import write_part


class CountedChunk(NamedTuple):
    """A chunk of documents of an earlier result, of which some were found again.

    Attributes:
        key: Of the shard with its counts.
        result: What identifies the result.
        file: The file of the documents, below documents/ of the result.
        first: The number of its first document among those of the result.
    """

    key: int
    result: str
    file: str
    first: int


class EarlierCountPartsJob(Job, frozen=True, kw_only=True):
    """See the module. Inputs are the shards that ``order_decisions`` leaves of earlier chunks.

    It leaves ``part`` and ``checksum`` of each.

    Attributes:
        chunks: Those of all shards, in order: part n is that of chunk n.
        folder: The directory of the result for these counts.
    """

    chunks: tuple[CountedChunk, ...]
    folder: str

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Write the parts of some shards."""
        numbers = {chunk.key: number for number, chunk in enumerate(self.chunks)}
        tables: dict[int, list[pa.Table]] = {}
        for key, table in part.keyed_tables():
            if not is_size(table):
                tables.setdefault(key, []).append(table)
        for key, of_chunk in tables.items():
            number = numbers[key]
            table = _described(pa.concat_tables(of_chunk), self.chunks[number])
            checksum = write_part(self.folder, number, table, EARLIER_REPEATED)
            yield number, pa.table({"part": [number], "checksum": [checksum]})


def _described(counted: pa.Table, chunk: CountedChunk) -> pa.Table:
    """Return the counts of documents of a chunk with the columns EARLIER_COUNTS."""
    known = {
        "result": pa.repeat(chunk.result, len(counted)),
        "row": pa.array(counted["row"].to_numpy() + chunk.first),
        "file": pa.repeat(chunk.file, len(counted)),
    }
    columns = [known[name] if name in known else counted[name] for name in EARLIER_COUNTS.names]
    return pa.table(columns, names=EARLIER_COUNTS.names).cast(EARLIER_COUNTS)
