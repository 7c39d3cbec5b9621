"""The columns of the tables of a result with passages."""

from __future__ import annotations

import pyarrow as pa

from mr_dedup.formats.cut_files import DOCUMENT, OFFSETS, cuts_schema

PASSAGES = pa.schema(
    [
        pa.field("passage", pa.string()),
        pa.field("group", pa.large_string()),
        pa.field("tokens", pa.int64()),
        pa.field("documents", pa.int64()),
        pa.field("occurrences", pa.int64()),
        pa.field("window_documents", pa.int64()),
        *DOCUMENT,
        *OFFSETS,
        pa.field("text", pa.large_string()),
    ]
)
"""A row a passage, and group; document and offsets are those of its first occurrence."""

OCCURRENCES = pa.schema(
    [
        *DOCUMENT,
        *OFFSETS,
        pa.field("tokens", pa.int64()),
        pa.field("passage", pa.string()),
        pa.field("group", pa.large_string()),
    ]
)
"""A row an occurrence, in the order of documents."""

CUTS = cuts_schema(pa.field("passage", pa.string()))
"""A row a cut, with the passage that it is of."""
