"""Kept documents as a dataset of parts: JSON lines, or Parquet with the members as columns.

Where parts and row groups end follows from the records alone, not from the batches in which they
arrive.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec
import numpy as np
import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.rejects import bounded
from mr_dedup.formats.json_columns import as_columns, members_of, members_of_lines
from mr_dedup.formats.parts import PART_BYTES, LineParts, ParquetParts
from mr_dedup.formats.row_sizes import row_bytes
from mr_dedup.jobs.columns import ADVICE
from mr_dedup.jobs.kept_documents import Written, bytes_of, records_by_file
from mr_dedup.jobs.kept_records import FILE_KEY

_GROUP_BYTES = 32 << 20
"""The size of a row group: so much is in memory twice."""

_LINES_BYTES = 4 << 20
"""JSON lines that are converted at once: of wide ones each column takes some microseconds."""


class JsonDocuments:
    """Writes records as JSON lines to parts; a context manager.

    Attributes:
        on_written: Is called when records have been written, in their order.
    """

    on_written: Written | None = None

    def __init__(self, folder: Path, *, part_bytes: int = PART_BYTES, first: int = 0) -> None:
        self._parts = LineParts(folder, part_bytes=part_bytes, first=first)

    def __enter__(self) -> JsonDocuments:
        self._parts.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._parts.__exit__(kind, error, trace)

    @property
    def files(self) -> list[tuple[str, int]]:
        """The names of the parts, and how many records each has, in order."""
        return list(zip(self._parts.names, self._parts.counts, strict=True))

    def write(self, table: pa.Table) -> None:
        """Append a batch of the keep job."""
        for _, records in records_by_file(table):
            counts = self._parts.counts
            part, first = max(len(counts) - 1, 0), counts[-1] if counts else 0
            self._parts.write(_content(records))
            if self.on_written is not None:
                for name, count in zip(self._parts.names[part:], counts[part:], strict=True):
                    if count > first:
                        self.on_written(name, first, count - first)
                    first = 0


class ParquetDocuments:
    """Writes records as rows to Parquet parts; a context manager.

    Columns that records lack are null. One that is not there, or a value that another type would
    change, is a MrDedupError. In memory: a row group of 32 MB.

    Attributes:
        on_written: Is called when records have been written, in their order.
    """

    on_written: Written | None = None

    def __init__(
        self,
        folder: Path,
        columns: pa.Schema,
        id_names: Sequence[str] = ("id", "url"),
        *,
        part_bytes: int = PART_BYTES,
        group_bytes: int = _GROUP_BYTES,
        first: int = 0,
    ) -> None:
        """Write ``columns`` to ``folder``, from the part of the number ``first`` on.

        Errors name documents by the first of ``id_names`` that they have.
        """
        self._columns = columns
        self._id_names = id_names
        self._open = contextlib.ExitStack()
        self._part_bytes = part_bytes
        self._group_bytes = min(group_bytes, part_bytes)
        # a part ends by its bytes
        self._parts = ParquetParts(folder, columns, part_rows=sys.maxsize, first=first)
        self._counts: list[int] = []
        self._lines: list[tuple[str, pa.LargeBinaryArray]] = []
        self._lines_bytes = 0
        self._group: list[pa.Table] = []
        self._group_free = self._group_bytes
        self._part_free = part_bytes

    def __enter__(self) -> ParquetDocuments:
        self._open.enter_context(self._parts)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._open.__exit__(kind, error, trace)
            return
        with self._open:
            self._end_lines()
            self._end_group()

    @property
    def files(self) -> list[tuple[str, int]]:
        """The names of the parts, and how many records each has, in order; after the block."""
        # columns without records are a part as well
        return list(zip(self._parts.names, self._counts or [0], strict=True))

    def write(self, table: pa.Table) -> None:
        """Append a batch of the keep job."""
        source = (table.schema.metadata or {}).get(FILE_KEY)
        if source is not None:
            self._end_lines()
            self._add(self._fitted(table, source.decode()))
            return
        for name, records in records_by_file(table):
            self._lines.append((name, records))
            self._lines_bytes += records.nbytes
            if self._lines_bytes >= _LINES_BYTES:
                self._end_lines()

    def _end_lines(self) -> None:
        """Add the JSON lines that were buffered."""
        if not self._lines:
            return
        lines, self._lines, self._lines_bytes = self._lines, [], 0
        content = b"".join(_content(records) for _, records in lines)
        count = sum(len(records) for _, records in lines)
        try:
            self._add(as_columns(members_of_lines(content, count), self._columns))
        except ValueError:
            for source, records in lines:
                for line in records.to_pylist():
                    try:
                        as_columns([members_of(line)], self._columns)
                    except ValueError as error:
                        raise self._refused(source, line, error) from error
            raise

    def _fitted(self, rows: pa.Table, source: str) -> pa.Table:
        """Return rows of Parquet with the columns of the dataset."""
        names = set(rows.column_names)
        if unknown := names.difference(self._columns.names):
            raise MrDedupError(f"{source}: has a column {min(unknown)!r} that it had not at first")
        columns = []
        for field in self._columns:
            if field.name not in names:
                columns.append(pa.nulls(len(rows), field.type))
                continue
            column = rows[field.name]
            try:
                # an error where a value would change
                is_same = column.type == field.type
                columns.append(column if is_same else column.cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                reason = bounded(" ".join(str(error).split()))
                raise MrDedupError(
                    f"{source}: values of its column {field.name!r}, of type {column.type}, do not "
                    f"fit in {field.type}, of which documents of other files are: {reason}; "
                    f"{ADVICE}"
                ) from error
        return pa.Table.from_arrays(columns, schema=self._columns)

    def _refused(self, source: str, line: bytes, error: Exception) -> MrDedupError:
        name = bounded(line[:60].decode(errors="backslashreplace"))
        with contextlib.suppress(ValueError, AttributeError):
            members = msgspec.json.decode(line)
            ids = (members.get(name) for name in self._id_names)
            name = repr(next((id for id in ids if id not in (None, "")), name))
        reason = bounded(" ".join(str(error).split()))
        return MrDedupError(
            f"{source}: document {name} does not fit the columns: {reason}; {ADVICE}"
        )

    def _add(self, rows: pa.Table) -> None:
        """Append rows to the row group, which ends with the row that fills it."""
        stops = np.cumsum(row_bytes(rows))
        start = done = 0
        while start < len(rows):
            stop = int(np.searchsorted(stops, done + self._group_free)) + 1
            piece = rows.slice(start, stop - start)
            self._group.append(piece)
            start += len(piece)
            self._group_free -= int(stops[start - 1]) - done
            done = int(stops[start - 1])
            if self._group_free <= 0:
                self._end_group()

    def _end_group(self) -> None:
        if not self._group:
            return
        rows = pa.concat_tables(self._group).combine_chunks()
        self._parts.write_table(rows, len(rows))
        self._counts += [0] * (len(self._parts.names) - len(self._counts))
        first = self._counts[-1]
        self._counts[-1] += len(rows)
        if self.on_written is not None:
            self.on_written(self._parts.names[-1], first, len(rows))
        self._part_free -= self._group_bytes - self._group_free
        self._group, self._group_free = [], self._group_bytes
        if self._part_free <= 0:
            self._parts.end_part()
            self._part_free = self._part_bytes


def _content(records: pa.LargeBinaryArray) -> bytes:
    """Return JSON lines, each with its end."""
    edges, content = bytes_of(records)
    lines = content[edges[0] : edges[-1]].tobytes()
    return lines if lines.endswith(b"\n") or not lines else lines + b"\n"
