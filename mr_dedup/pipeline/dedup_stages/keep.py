"""The last stage: the kept documents, and what later runs need of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa

from mr_dedup.formats.kept_fingerprints import write_fingerprints
from mr_dedup.formats.tables import read_table
from mr_dedup.jobs.keep import KeepJob, has_texts
from mr_dedup.jobs.kept_documents import KeptDocuments
from mr_dedup.jobs.kept_parts import JsonDocuments, ParquetDocuments
from mr_dedup.pipeline.dedup_stages.columns import read_columns
from mr_dedup.pipeline.dedup_stages.contract import Completed, DedupOptions, RunJob
from mr_dedup.pipeline.dedup_stages.earlier import read_earlier_texts
from mr_dedup.pipeline.dedup_stages.files import (
    DOCUMENTS,
    FINGERPRINTS,
    KEPT,
    KEPT_SIGNATURES,
    MEMBERS,
    ROWS,
    SAMPLES,
    SHOWN,
    SIGNATURES,
    files_in,
    write_json,
)
from mr_dedup.pipeline.document_rows import Rows
from mr_dedup.pipeline.results import write_signatures


def keep(folder: Path, options: DedupOptions, run_job: RunJob) -> Completed:
    """Write the kept documents, FINGERPRINTS and KEPT_SIGNATURES, and SHOWN for the report."""
    documents = folder / DOCUMENTS
    # of a killed run
    shutil.rmtree(documents, ignore_errors=True)
    rows = Rows.read(folder / ROWS)
    columns = read_columns(folder, options)
    shown: dict[int, str] = {}
    job = KeepJob(
        **options.of_documents,
        kept=str(folder / KEPT),
        documents=options.documents,
        members=str(folder / MEMBERS) if options.counted else None,
    )
    is_kept = read_table(folder / KEPT, columns=["kept"])["kept"].to_numpy()[rows.earlier :]
    with run_job(job, "keep") as output, _writer_of(documents, options, columns) as kept:
        for chunk, table in output:
            if has_texts(table):
                first = rows.ranges[chunk][0]
                numbers = (table["row"].to_numpy() + first).tolist()
                shown.update(zip(numbers, table["text"].to_pylist(), strict=True))
            else:
                kept.write(table)
    documents.mkdir(exist_ok=True)
    files = [*files_in(DOCUMENTS, (name for name, _ in kept.files)), SHOWN]
    if options.methods:
        parts = write_signatures(
            folder / KEPT_SIGNATURES, folder / SIGNATURES, options.methods, rows.earlier, is_kept,
            options.part_rows,
        )  # fmt: skip
        files += files_in(KEPT_SIGNATURES, parts)
    batches = rows.batches(["id", "fingerprint", "length"])
    parts = write_fingerprints(
        folder / FINGERPRINTS, options.made_from, batches, is_kept, kept.files, options.part_rows
    )
    files += files_in(FINGERPRINTS, parts)
    samples = json.loads((folder / SAMPLES).read_bytes())
    shown |= read_earlier_texts(folder, np.array([number for _, number in samples], np.int64))
    write_json(folder / SHOWN, {str(number): text for number, text in sorted(shown.items())})
    return Completed(files, {"files": len(kept.files)})


def _writer_of(
    documents: Path, options: DedupOptions, columns: pa.Schema | None
) -> KeptDocuments | JsonDocuments | ParquetDocuments:
    """Return what writes the kept documents as the options say."""
    if options.documents == "jsonl":
        return JsonDocuments(documents, part_bytes=options.part_bytes)
    if columns is not None:
        names = options.reading.id_names
        return ParquetDocuments(documents, columns, names, part_bytes=options.part_bytes)
    return KeptDocuments(documents)
