"""How the files of documents are called that the tasks of a run write."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mr_dedup.jobs.contract import Job
from mr_dedup.jobs.document_parts import DocumentParts
from mr_dedup.jobs.kept_documents import FileNames
from mr_dedup.jobs.kept_records import KeptFormat
from mr_dedup.pipeline.sharded.run import ShardedRun

_CONVERTED = ".jsonl.zst"
"""The ending of files of documents that become lines of JSON."""


def document_parts(
    run: ShardedRun,
    format: KeptFormat,
    id_names: Sequence[str],
    *,
    as_lines: bool = False,
) -> DocumentParts:
    """Return how the tasks of a run write documents.

    Args:
        run: With the chunks that are read.
        format: How documents are written.
        id_names: The fields of ids, by which errors name documents.
        as_lines: Whether documents that are neither JSON lines nor rows of Parquet become lines.
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
    taken = FileNames()
    names = {source: taken.take(wanted[source]) for source in wanted if source not in divided}
    for source, first in divided.items():
        names[source] = taken.take(wanted[source], chunks[source][1] - first + 1)
    return DocumentParts(
        format=format,
        id_names=id_names,
        renamed={source: name for source, name in names.items() if source != name},
        divided=divided,
    )


def with_columns(run: ShardedRun, job: Job, parts: DocumentParts) -> DocumentParts:
    """Return ``parts`` with the columns of Parquet, from the first documents that a job writes.

    The job is run over one chunk after the other until a table that it yields has the ``columns``
    and their ``source``. It is to be run over all chunks then.
    """
    for chunk in run.chunks:
        _, found = run.over_documents(job, "columns", [chunk], None)
        for _, table in found:
            if "columns" in table.column_names and table["columns"][0].is_valid:
                columns = (table["columns"][0].as_py(), table["source"][0].as_py())
                return msgspec.structs.replace(parts, columns=columns)
    return parts
