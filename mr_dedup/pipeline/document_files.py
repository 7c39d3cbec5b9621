"""How the files of documents are called that the tasks of a run write."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from mr_dedup.formats.documents.files import DocumentFormat
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.jobs.columns import ColumnsJob, united_columns
from mr_dedup.jobs.document_parts import DocumentParts
from mr_dedup.jobs.kept_documents import FileNames
from mr_dedup.jobs.kept_records import KeptFormat
from mr_dedup.pipeline.sharded_run import ShardedRun

_CONVERTED = ".jsonl.zst"
"""The ending of files of documents that become lines of JSON."""


def document_parts(
    run: ShardedRun,
    format: KeptFormat,
    id_names: Sequence[str],
    *,
    as_lines: bool = False,
    columns: pa.Schema | None = None,
    joined: bool = False,
) -> DocumentParts:
    """Return how the tasks of a run write documents.

    Args:
        run: With the chunks that are read.
        format: How documents are written.
        id_names: The fields of ids, by which errors name documents.
        as_lines: Whether documents that are neither JSON lines nor rows of Parquet become lines.
        columns: Of Parquet.
        joined: Whether files that several tasks write are joined, and keep their names.
    """
    chunks: dict[str, tuple[int, int]] = {}
    wanted: dict[str, str] = {}
    for chunk in run.chunks:
        for part in chunk.parts:
            name = part.file.name
            is_kept = not as_lines or part.file.format in ("jsonl", "parquet")
            wanted[name] = name if is_kept else name + _CONVERTED
            first, _ = chunks.get(name, (chunk.number, chunk.number))
            chunks[name] = (first, chunk.number)
    divided = {source: first for source, (first, last) in chunks.items() if first < last}
    numbered = {} if joined else divided
    taken = FileNames()
    names = {source: taken.take(wanted[source]) for source in wanted if source not in numbered}
    for source, first in numbered.items():
        names[source] = taken.take(wanted[source], chunks[source][1] - first + 1)
    return DocumentParts(
        format=format,
        id_names=id_names,
        renamed={source: name for source, name in names.items() if source != name},
        divided=divided,
        columns=None if columns is None else columns.serialize().to_pybytes(),
    )


def columns_of_documents(
    run: ShardedRun, reading: ReadOptions, format: DocumentFormat | None
) -> pa.Schema:
    """Return the columns of all documents of a run; raises as ``united_columns``."""
    job = ColumnsJob(reading=reading, format=format)
    _, found = run.over_documents(job, "columns", run.chunks, None)
    return united_columns(table for _, table in found)
