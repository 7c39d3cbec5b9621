"""The columns of tables of cuts, from which documents are restored."""

from __future__ import annotations

import pyarrow as pa

DOCUMENT = (
    pa.field("id", pa.large_string()),
    pa.field("file", pa.large_string()),
    pa.field("position", pa.int64()),
)
"""What names a document: its id; its file, and where in it the record begins."""

OFFSETS = (pa.field("start", pa.int64()), pa.field("end", pa.int64()))
"""In code points of the text: in Python ``text[start:end]``."""

CUT = (
    *OFFSETS,
    pa.field("text", pa.large_string()),
    pa.field("space", pa.bool_()),
    pa.field("json_start", pa.int64()),
    pa.field("json_removed", pa.large_binary()),
    pa.field("json_written", pa.int32()),
    pa.field("checksum", pa.uint64()),
)
"""What was cut, and what is in its place; docs/formats.md describes the columns."""

WRITTEN = (pa.field("written_file", pa.string()), pa.field("written_row", pa.int64()))
"""The file of the cut document, below ``documents/``, and the number of its record there."""

RESTORED_FROM = pa.schema([*WRITTEN, *CUT])
"""The columns that restoring needs, whatever else a table has."""


def cuts_schema(*reasons: pa.Field) -> pa.Schema:
    """Return the columns of a table of cuts: a row a cut, in the order of documents.

    Args:
        reasons: The columns that name what was cut.
    """
    return pa.schema([*DOCUMENT, *reasons, *CUT, *WRITTEN])
