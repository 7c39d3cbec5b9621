"""The first stage: fingerprints and signatures of all documents, and the rejected records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mr_dedup.files.outputs import whole_file
from mr_dedup.formats.documents.rejects import ReadCounts
from mr_dedup.formats.parts import LineParts
from mr_dedup.jobs.fingerprint import rare_counts, refuse_fields
from mr_dedup.jobs.reading import is_rejects, reading_summary, reject_lines
from mr_dedup.pipeline.dedup_stages.contract import Completed, DedupOptions, RunJob
from mr_dedup.pipeline.dedup_stages.files import REJECTS, ROWS, SIGNATURES, files_in
from mr_dedup.pipeline.document_rows import rows_schema
from mr_dedup.pipeline.signature_rows import read_signatures, signature_writer
from mr_dedup.signatures.linking import MethodSignatures
from mr_dedup.signatures.protocol import SignatureMethod


def fingerprint_documents(folder: Path, options: DedupOptions, run_job: RunJob) -> Completed:
    """Write ROWS, REJECTS and, if there are methods by keys, SIGNATURES.

    There are no REJECTS if every record was read. Counts are a ReadingSummary. Raises
    NothingReadError if all records were rejected, FieldError if fields of documents do not fit the
    options.
    """
    schema = rows_schema(options.row_fields)
    job = options.fingerprint_job()
    counts = ReadCounts()
    with (
        run_job(job, "fingerprint") as output,
        whole_file(folder / ROWS, overwrite=True) as file,
        LineParts(folder / REJECTS, part_bytes=options.part_bytes) as rejects,
        pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            write_page_checksum=True,
            use_dictionary=["chunk", *options.row_fields],
        ) as writer,
        signature_writer(folder / SIGNATURES, options.methods) as write_signatures,
    ):
        for key, table in output:
            if is_rejects(table):
                lines = reject_lines(table)
                rejects.write(lines)
                counts.add_lines(lines)
                continue
            counts.documents += len(table)
            chunk = pa.array(np.full(len(table), key, np.int64))
            columns = [table[name].cast(schema.field(name).type) for name in schema.names[1:]]
            writer.write_table(pa.Table.from_arrays([chunk, *columns], schema=schema))
            write_signatures(table)
    counts.require_documents()
    refuse_fields(job, output.counters, counts.documents)
    read: dict[str, Any] = {
        # all are 0, if the logs of a cluster are not read
        **reading_summary(output.counters),
        "documents_read": counts.documents,
        "rejected_records": counts.rejected,
        "incomplete_files": counts.incomplete_files,
        "documents_without_text": counts.without_text,
        **rare_counts(job, output.counters),
    }
    signatures = [SIGNATURES] if options.methods else []
    return Completed([ROWS, *files_in(REJECTS, rejects.names), *signatures], read)


def signed_documents(
    folder: Path, methods: Sequence[SignatureMethod]
) -> Iterator[MethodSignatures]:
    """Yield the signatures of all documents, one method after the other."""
    yield from (MethodSignatures(*each) for each in read_signatures(folder / SIGNATURES, methods))
