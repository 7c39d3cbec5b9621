"""The tables of a result with counts: of its kept documents, and of those of earlier results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mr_dedup.formats.parts import part_batches, part_files

COUNTED = ("duplicates", "duplicates_total", "first_seen", "last_seen")
"""The columns with counts that decisions have, and on request kept documents."""

COUNTS = pa.schema(
    [
        pa.field("duplicates", pa.int64()),
        pa.field("first_seen", pa.large_string()),
        pa.field("last_seen", pa.large_string()),
    ]
)
"""A row a kept document."""

EARLIER_COUNTS = pa.schema(
    [
        pa.field("result", pa.string()),
        pa.field("row", pa.int64()),
        pa.field("id", pa.large_string()),
        pa.field("file", pa.large_string()),
        pa.field("position", pa.int64()),
        pa.field("duplicates", pa.int64()),
        pa.field("duplicates_total", pa.int64()),
        pa.field("first_seen", pa.large_string()),
        pa.field("last_seen", pa.large_string()),
    ]
)
"""A row a document of an earlier result for which documents were dropped.

Documents of a result are together, by ``row``, their number among its kept ones.
"""

EARLIER_REPEATED = ["result", "file", "first_seen", "last_seen"]
"""Columns whose values repeat."""


def earlier_count_batches(folder: Path, result: str) -> Iterator[pa.RecordBatch]:
    """Yield ``row`` and COUNTS of the documents of one result in a dataset of EARLIER_COUNTS.

    Row groups of other results are skipped. Raises as ``part_batches``.
    """
    names = ["result", "row", *COUNTS.names]
    for path in part_files(folder):
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            groups = [g for g in range(file.num_row_groups) if _may_have(file, g, result)]
            for batch in file.iter_batches(1 << 16, row_groups=groups, columns=names):
                yield batch.filter(pc.equal(batch.column("result"), result)).select(names[1:])


def results_counted(folder: Path) -> dict[str, int]:
    """Return how many documents of each result a dataset of EARLIER_COUNTS counts."""
    found: dict[str, int] = {}
    for batch in part_batches(folder, ["result"]):
        for each in batch.column(0).value_counts().to_pylist():
            found[each["values"]] = found.get(each["values"], 0) + each["counts"]
    return found


def _may_have(file: pq.ParquetFile, group: int, result: str) -> bool:
    """Return whether a row group may have rows of a result, by its statistics."""
    column = file.metadata.row_group(group).column(file.schema_arrow.get_field_index("result"))
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max:
        return True
    return bool(statistics.min <= result <= statistics.max)
