"""The job that writes a table of a result from shards: a part for each shard."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from mr_dedup.formats.parts import ParquetParts
from mr_dedup.formats.shards import new_files
from mr_dedup.jobs.contract import Counters, Job, Keyed, TaskInput


class ShardPartsJob(Job, frozen=True, kw_only=True):
    """See the module. Inputs are shards whose tables have the columns of the result.

    Attributes:
        keys: The keys of all shards, in order: part n is that of key n.
        folder: The directory of the result for the table.
    """

    keys: tuple[int, ...]
    folder: str

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Write the parts of some shards."""
        tables: dict[int, list[pa.Table]] = {}
        for key, table in part.keyed_tables():
            tables.setdefault(key, []).append(table)
        numbers = {key: number for number, key in enumerate(self.keys)}
        for key, of_part in tables.items():
            number = numbers[key]
            write_part(self.folder, number, pa.concat_tables(of_part))
            yield number, pa.table({"rows": [sum(map(len, of_part))]})


def write_part(
    folder: str, number: int, table: pa.Table, use_dictionary: Sequence[str] | None = None
) -> str:
    """Write a part of a table of a result, with the columns that ``table`` has.

    Args:
        folder: The directory of the result for the table.
        number: Of the part.
        table: Its rows.
        use_dictionary: The columns of repeated values, as ``ParquetParts`` takes them.

    Returns:
        The checksum of the file, XXH3-128 in hex.
    """
    with new_files(folder) as made:
        part = made / "part"
        with one_part(part, number, table.schema, use_dictionary=use_dictionary) as parts:
            parts.write_table(table.combine_chunks())
        (name,) = parts.names
        path = (part / name).replace(made / name)
        return xxhash.xxh3_128(path.read_bytes()).hexdigest()


def one_part(folder: Path, number: int, schema: pa.Schema, **settings: Any) -> ParquetParts:
    """Return the writer of one part of a table, with ``settings`` as ``ParquetParts``."""
    return ParquetParts(folder, schema, part_rows=sys.maxsize, first=number, **settings)
