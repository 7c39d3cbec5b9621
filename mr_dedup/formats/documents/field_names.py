"""The names of the fields of documents, for messages on a field that they lack."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pyarrow as pa

from mr_dedup.formats.documents.files import DocumentFile
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.read import read_documents
from mr_dedup.formats.documents.rejects import Rejects


def field_names(file: DocumentFile, options: ReadOptions) -> list[str]:
    """Return the fields of the first document of JSON lines or Parquet; none of other formats.

    Raises as ``read_documents``. Reads one batch of the smallest size.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
    ...     _ = file.write(b'{"id": "a", "text": "A text.", "date": "2024-05-31"}')
    ...     file.flush()
    ...     field_names(DocumentFile.detect(file.name), ReadOptions())
    ['id', 'text', 'date']
    """
    if file.format not in ("jsonl", "parquet"):
        return []
    options = replace(options, keep_records=True, batch_bytes=1, fields=(), strict=False)
    for batch in read_documents([file], Rejects(), options):
        records = batch.records
        if isinstance(records, pa.Table):
            return list(records.column_names)
        assert records is not None
        return list(msgspec.json.decode(records[0].as_py(), type=dict[str, msgspec.Raw]))
    return []
