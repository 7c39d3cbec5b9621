"""The records of documents that are kept, as they came or as JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.as_json import rows_as_json, texts_as_json
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.parquet_rows import is_string
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


def with_texts(
    records: pa.Table, rows: NDArray[np.int64], texts: pa.LargeStringArray, name: str
) -> pa.Table:
    """Return records, of which some have other texts.

    Members of a JSON line keep their order. A line whose text is that of HTML gets a text as well,
    which readers take first.

    Args:
        records: n records, as ``records_of`` or ``as_written`` returns them.
        rows: Which of them, int64[c], ascending.
        texts: Their texts, c of them.
        name: The member or column of texts.

    Raises:
        MrDedupError: If rows of Parquet have no such column, or a null there.
    """
    file = (records.schema.metadata or {}).get(FILE_KEY)
    if file is not None:
        return _with_column(records, rows, texts, name, file.decode())
    lines = one_array(records["record"])
    changed = np.zeros(len(records), bool)
    changed[rows] = True
    written = [
        _with_member(lines[row].as_py(), name, text)
        for row, text in zip(rows.tolist(), texts.to_pylist(), strict=True)
    ]
    column = pc.replace_with_mask(lines, pa.array(changed), pa.array(written, pa.large_binary()))
    return records.set_column(1, "record", column)


def _with_member(line: bytes, name: str, text: str) -> bytes:
    members = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    members[name] = msgspec.Raw(msgspec.json.encode(text))
    return msgspec.json.encode(members) + b"\n"


def _with_column(
    records: pa.Table, rows: NDArray[np.int64], texts: pa.LargeStringArray, name: str, file: str
) -> pa.Table:
    index = records.column_names.index(name) if name in records.column_names else -1
    if index < 0 or records[name].take(pa.array(rows)).null_count:
        raise MrDedupError(f"{file}: has texts elsewhere than in its column {name!r}")
    field = records.schema.field(index)
    kind = field.type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    wide = pa.large_string() if is_string(plain) else pa.large_binary()
    column = one_array(records.column(index)).cast(plain).cast(wide)
    changed = np.zeros(len(records), bool)
    changed[rows] = True
    column = pc.replace_with_mask(column, pa.array(changed), texts.cast(wide)).cast(plain)
    if pa.types.is_dictionary(kind):
        column = column.dictionary_encode().cast(kind)
    return records.set_column(index, field, column)
