"""Kept documents as a dataset of parts: JSON lines, or Parquet with the members as columns.

Where parts and row groups end, and which columns there are, follows from the records alone, not
from the batches in which they arrive.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.rejects import bounded
from mr_dedup.formats.parquet_rows import is_text
from mr_dedup.formats.parts import PART_BYTES, LineParts, ParquetParts
from mr_dedup.formats.row_sizes import row_bytes
from mr_dedup.jobs.kept_documents import Written, bytes_of, records_by_file
from mr_dedup.jobs.kept_records import FILE_KEY

_SAMPLE_BYTES = 16 << 20
"""JSON lines at the beginning whose members become the columns."""

_GROUP_BYTES = 32 << 20
"""The size of a row group: so much is in memory twice."""

_ADVICE = "--documents jsonl and same keep records of any members"


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

    The columns are those of the first Parquet file, or the members of the first 16 MB of JSON
    lines. Later documents may lack some; what has others, or values of other types, is a
    MrDedupError, when it is written or at the end of the block. In memory: a row group of 32 MB.

    Attributes:
        on_written: Is called when records have been written, in their order.
    """

    on_written: Written | None = None

    def __init__(
        self,
        folder: Path,
        id_names: Sequence[str] = ("id", "url"),
        *,
        part_bytes: int = PART_BYTES,
        sample_bytes: int = _SAMPLE_BYTES,
        group_bytes: int = _GROUP_BYTES,
        columns: tuple[pa.Schema, str] | None = None,
        first: int = 0,
    ) -> None:
        """Write to ``folder``; errors name documents by the first of ``id_names`` they have.

        ``columns`` are those of other parts, and the file that they were taken from; ``first`` is
        the number of the first part.
        """
        self._folder = folder
        self._first = first
        self._id_names = id_names
        self._part_bytes = part_bytes
        self._sample_bytes = sample_bytes
        self._group_bytes = min(group_bytes, part_bytes)
        self._open = contextlib.ExitStack()
        self._schema: pa.Schema | None = None
        self._first_source = ""
        self._parts: ParquetParts | None = None
        self._counts: list[int] = []
        self._sample: list[tuple[str, pa.LargeBinaryArray]] = []
        self._sample_free = sample_bytes
        self._group: list[pa.Table] = []
        self._group_free = self._group_bytes
        self._part_free = part_bytes
        if columns is not None:
            self._begin(*columns)

    @property
    def columns(self) -> tuple[pa.Schema, str] | None:
        """The columns, and the file that they were taken from; None if nothing was written."""
        return None if self._schema is None else (self._schema, self._first_source)

    def __enter__(self) -> ParquetDocuments:
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
            self._end_sample()
            self._end_group()

    @property
    def files(self) -> list[tuple[str, int]]:
        """The names of the parts, and how many records each has, in order; after the block."""
        names = self._parts.names if self._parts else []
        # columns without records are a part as well
        counts = self._counts or [0] * len(names)
        return list(zip(names, counts, strict=True))

    def write(self, table: pa.Table) -> None:
        """Append a batch of the keep job."""
        source = (table.schema.metadata or {}).get(FILE_KEY)
        if source is None:
            for name, records in records_by_file(table):
                self._write_records(name, records)
            return
        self._end_sample()
        kept = {k: v for k, v in table.schema.metadata.items() if k != FILE_KEY}
        rows = table.replace_schema_metadata(kept or None)
        if self._schema is None:
            self._begin(_columns_of_rows(rows.schema, source.decode()), source.decode())
        self._add(self._fitted(rows, source.decode()))

    def _write_records(self, source: str, records: pa.LargeBinaryArray) -> None:
        if self._schema is None:
            edges, _ = bytes_of(records)
            # up to the record with which the sample is complete
            count = int(np.searchsorted(edges[1:] - edges[0], self._sample_free)) + 1
            self._sample.append((source, records.slice(0, count)))
            self._sample_free -= int(edges[min(count, len(records))] - edges[0])
            if self._sample_free > 0:
                return
            self._end_sample()
            records = records.slice(count)
        if len(records):
            self._add(self._parsed(source, records))

    def _end_sample(self) -> None:
        """Take the columns from the records that were buffered, and write these."""
        if not self._sample:
            return
        sample, self._sample = self._sample, []
        try:
            found = _read_json(b"".join(_content(records) for _, records in sample), None)
        except pa.ArrowException as error:
            count = _first_failing(
                [records for _, records in sample], lambda lines: _read_json(lines, None)
            )
            for source, records in sample:
                if count < len(records):
                    raise self._refused(source, records[count], error) from error
                count -= len(records)
            raise
        source = sample[0][0]
        self._begin(_columns_of_json(found.schema, source), source)
        for source, records in sample:
            self._add(self._parsed(source, records))

    def _parsed(self, source: str, records: pa.LargeBinaryArray) -> pa.Table:
        """Return JSON lines of one file as rows."""
        try:
            rows = _read_json(_content(records), self._schema)
        except pa.ArrowException as error:
            index = _first_failing([records], lambda lines: _read_json(lines, self._schema))
            raise self._refused(source, records[index], error) from error
        return self._fitted(rows, source)

    def _fitted(self, rows: pa.Table, source: str) -> pa.Table:
        """Return rows with the columns of the dataset."""
        assert self._schema is not None
        for name in rows.column_names:
            if name not in self._schema.names:
                raise MrDedupError(
                    f"{source}: has a column {name!r}, which {self._first_source} has not, whose "
                    f"columns the kept documents have in Parquet; {_ADVICE}"
                )
        columns = []
        for field in self._schema:
            if field.name not in rows.column_names:
                columns.append(pa.nulls(len(rows), field.type))
                continue
            column = rows[field.name]
            try:
                if not _is_convertible(column.type, field.type):
                    raise pa.ArrowInvalid("another kind of values")
                # an error where a value would change
                columns.append(column.cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise MrDedupError(
                    f"{source}: its column {field.name!r} is of type {column.type}, not "
                    f"{field.type} as in {self._first_source}; {_ADVICE}"
                ) from error
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _refused(self, source: str, record: pa.LargeBinaryScalar, error: Exception) -> MrDedupError:
        line, reason = record.as_py(), bounded(str(error))
        name = bounded(line[:60].decode(errors="backslashreplace"))
        with contextlib.suppress(ValueError, AttributeError):
            members = msgspec.json.decode(line)
            ids = (members.get(name) for name in self._id_names)
            name = repr(next((id for id in ids if id not in (None, "")), name))
            known = self._schema.names if self._schema else members
            new = [repr(member) for member in members if member not in known]
            reason = f"it has the member {bounded(new[0])}, which those lack" if new else reason
        return MrDedupError(
            f"{source}: document {name} does not fit the columns of the first documents: {reason}; "
            f"{_ADVICE}"
        )

    def _begin(self, schema: pa.Schema, source: str) -> None:
        self._schema, self._first_source = schema, source
        # a part ends by its bytes
        parts = ParquetParts(self._folder, schema, part_rows=sys.maxsize, first=self._first)
        self._parts = self._open.enter_context(parts)

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
        assert self._parts is not None
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


def _read_json(lines: bytes, schema: pa.Schema | None) -> pa.Table:
    """Return JSON lines as a table with ``schema``; raise ArrowException if they do not fit."""
    # one block, as types are found for a block at a time
    read = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    if schema is None:
        parse = pj.ParseOptions()
    return pj.read_json(pa.BufferReader(lines), read, parse)


def _first_failing(arrays: Sequence[pa.LargeBinaryArray], read: Callable[[bytes], pa.Table]) -> int:
    """Return the index of the first record with which ``read`` fails, by bisection."""
    records = pa.concat_arrays(arrays)
    below, failing = 0, len(records)
    while failing - below > 1:
        middle = (below + failing) // 2
        try:
            read(_content(records.slice(0, middle)))
            below = middle
        except pa.ArrowException:
            failing = middle
    return failing - 1


def _columns_of_rows(schema: pa.Schema, source: str) -> pa.Schema:
    """Return the columns of the dataset, given those of the Parquet file ``source``."""
    names = schema.names
    for name in names:
        if names.count(name) > 1:
            raise MrDedupError(f"{source}: has {names.count(name)} columns {name!r}; {_ADVICE}")
    kinds = [
        field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        for field in schema
    ]
    return pa.schema(list(zip(names, kinds, strict=True)), metadata=schema.metadata)


def _is_convertible(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of a type may be converted: not numbers in text, or the reverse."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if kind == wanted or types.is_null(kind) or (is_text(kind) and is_text(wanted)):
        return True
    if types.is_timestamp(kind) and types.is_timestamp(wanted):
        return bool(kind.tz == wanted.tz)
    return all(types.is_integer(each) or types.is_floating(each) for each in (kind, wanted))


def _columns_of_json(schema: pa.Schema, source: str) -> pa.Schema:
    """Return the same, given what Arrow takes the members of JSON lines in ``source`` for."""
    return pa.schema([(field.name, _stored(field.type, field.name, source)) for field in schema])


def _stored(kind: pa.DataType, name: str, source: str) -> pa.DataType:
    """Return the type of the column for members that Arrow takes for ``kind``."""
    types = pa.types
    # a date is text that looks like one; what is null so far may be anything later
    if types.is_null(kind) or types.is_temporal(kind):
        return pa.string()
    if types.is_list(kind):
        return pa.list_(_stored(kind.value_type, name, source))
    if types.is_struct(kind):
        if not kind.num_fields:
            raise MrDedupError(
                f"{source}: {name!r} is an empty object in all of the first documents, for which "
                f"Parquet has no column; {_ADVICE}"
            )
        members = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct(
            [pa.field(each.name, _stored(each.type, each.name, source)) for each in members]
        )
    return kind
