"""Members that kept records get."""

from __future__ import annotations

import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.json_members import ClashError, with_members
from mr_dedup.formats.tables import one_array


def with_columns(rows: pa.Table, members: pa.Table, name: str) -> pa.Table:
    """Return rows of Parquet of the chunk ``name`` with members as columns; see ``with_lines``."""
    for column in members.column_names:
        if column in rows.column_names:
            raise _clash(name, column)
        rows = rows.append_column(column, members[column])
    return rows


def with_lines(records: pa.Table, members: pa.Table, name: str, max_record_bytes: int) -> pa.Table:
    """Return lines of JSON of the chunk ``name``, the column ``record``, with members.

    Raises MrDedupError for a record that has one of them, and a line that becomes too long.
    """
    try:
        lines = with_members(one_array(records["record"]), members)
    except ClashError as error:
        raise _clash(name, error.name) from error
    longest = max(map(len, lines.to_pylist()), default=0) - 1
    if longest > max_record_bytes:
        raise MrDedupError(
            f"{name}: with --add-counts a record has {longest:,} bytes, more than the "
            f"{max_record_bytes:,} of --max-record-size"
        )
    return records.set_column(records.column_names.index("record"), "record", lines)


def _clash(name: str, member: str) -> MrDedupError:
    return MrDedupError(f"--add-counts: {name}: a document has a field {member} already")
