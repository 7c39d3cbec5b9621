"""The records of documents that are kept, as they came or as JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.formats.documents.as_json import rows_as_json, texts_as_json
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.tables import one_array

KeptFormat = Literal["same", "jsonl", "parquet"]
"""How kept documents are written: as they came, as JSON lines, or as rows of Parquet."""

FILE_KEY = b"mr_dedup.file"
"""The metadata of Parquet rows with their file; other records have a column for it."""


def records_of(batch: DocumentBatch, mask: Sequence[bool] | NDArray[np.bool_]) -> pa.Table:
    """Return the records of a batch that ``mask`` chooses."""
    chosen = pa.array(mask)
    if isinstance(batch.records, pa.Table):
        # of Parquet a batch has one file
        rows = batch.records.filter(chosen)
        name = batch.files.dictionary[batch.files.indices[0].as_py()].as_py()
        metadata = {**(rows.schema.metadata or {}), FILE_KEY: name.encode()}
        return rows.replace_schema_metadata(metadata)
    assert batch.records is not None
    return pa.table({"file": batch.files.filter(chosen), "record": batch.records.filter(chosen)})


def as_written(
    records: pa.Table,
    batch: DocumentBatch,
    mask: NDArray[np.bool_],
    chunk: DocumentChunk,
    reading: ReadOptions,
    documents: KeptFormat,
) -> pa.Table:
    """Return records that ``mask`` chooses of a batch in another format than they came in.

    Rows of Parquet stay such if ``documents`` is ``parquet``; all else becomes JSON lines.
    """
    file = (records.schema.metadata or {}).get(FILE_KEY)
    if file is not None:
        if documents == "parquet":
            return records
        lines = rows_as_json(records, file.decode(), reading)
        files = np.zeros(len(lines), np.int32)
        named = pa.DictionaryArray.from_arrays(files, pa.array([file.decode()], pa.string()))
        return pa.table({"file": named, "record": lines})
    formats = {part.file.name: part.file.format for part in chunk.parts}
    files = batch.files.dictionary.to_pylist()
    of_file = np.array([formats[name] != "jsonl" for name in files], bool)
    converted = of_file[batch.files.indices.to_numpy()] & mask
    if not converted.any():
        return records
    chosen = pa.array(converted)
    lines = texts_as_json(batch.ids.filter(chosen), batch.texts.filter(chosen), reading)
    column = pc.replace_with_mask(one_array(records["record"]), pa.array(converted[mask]), lines)
    return records.set_column(1, "record", column)
