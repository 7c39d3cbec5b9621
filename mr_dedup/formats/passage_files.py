"""The columns of the tables of a result with passages."""

from __future__ import annotations

import pyarrow as pa

_DOCUMENT = [
    pa.field("id", pa.large_string()),
    pa.field("file", pa.large_string()),
    pa.field("position", pa.int64()),
]
"""What names a document: its id; its file, and where in it the record begins."""

_OFFSETS = [pa.field("start", pa.int64()), pa.field("end", pa.int64())]
"""In code points of the text: in Python ``text[start:end]``."""

PASSAGES = pa.schema(
    [
        pa.field("passage", pa.string()),
        pa.field("group", pa.large_string()),
        pa.field("tokens", pa.int64()),
        pa.field("documents", pa.int64()),
        pa.field("occurrences", pa.int64()),
        pa.field("window_documents", pa.int64()),
        *_DOCUMENT,
        *_OFFSETS,
        pa.field("text", pa.large_string()),
    ]
)
"""A row a passage, and group; document and offsets are those of its first occurrence."""

OCCURRENCES = pa.schema(
    [
        *_DOCUMENT,
        *_OFFSETS,
        pa.field("tokens", pa.int64()),
        pa.field("passage", pa.string()),
        pa.field("group", pa.large_string()),
    ]
)
"""A row an occurrence, in the order of documents."""

CUTS = pa.schema(
    [
        *_DOCUMENT,
        *_OFFSETS,
        pa.field("passage", pa.string()),
        pa.field("text", pa.large_string()),
        pa.field("space", pa.bool_()),
        pa.field("written_file", pa.string()),
        pa.field("written_row", pa.int64()),
        pa.field("json_start", pa.int64()),
        pa.field("json_removed", pa.large_binary()),
        pa.field("json_written", pa.int32()),
        pa.field("checksum", pa.uint64()),
    ]
)
"""A row a cut, in the order of documents; docs/formats.md describes the columns."""
