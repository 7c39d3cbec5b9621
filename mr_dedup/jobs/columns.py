"""The columns job: which columns kept documents have as rows of Parquet.

A map task finds the members of the JSON lines of a chunk, and the columns of its Parquet files by
their footers; documents of other formats have an id and a text. It has no reduce step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec
import pyarrow as pa

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.documents.files import DocumentPart
from mr_dedup.formats.documents.read import part_line_blocks
from mr_dedup.formats.documents.rejects import bounded
from mr_dedup.formats.json_columns import (
    Kind,
    Members,
    count_keys,
    kinds_of,
    members_of,
    members_of_lines,
    merge_kinds,
    repeated_member,
)
from mr_dedup.formats.lines import LineBlock
from mr_dedup.formats.parquet_rows import open_parquet, without_marks
from mr_dedup.formats.united_schemas import NamedSchema, refuse_too_many, united_schema
from mr_dedup.jobs.contract import Counters, Keyed, TaskInput
from mr_dedup.jobs.document_job import DocumentJob
from mr_dedup.jobs.reading import chunk_of, local_chunk

ADVICE = "--documents jsonl and same keep records of any members"
"""What to do with documents that have no columns in common."""

_FOUND = pa.schema([("file", pa.string()), ("members", pa.binary()), ("columns", pa.binary())])
"""What a task finds: ``members`` of lines from ``file`` on, ``columns`` of a Parquet file."""


_LINES_BYTES = 4 << 20


class ColumnsJob(DocumentJob, frozen=True, kw_only=True):
    """See the module; ``united_columns`` takes what it yields."""

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield what a chunk has."""
        chunk = chunk_of(part, self.format)
        # pages are not read, nor rows of Parquet: the first part of a file has all its columns
        parts = [each for each in chunk.parts if each.file.format == "jsonl" or _is_first(each)]
        kinds: dict[str, Kind] = {}
        found: list[dict[str, object]] = []
        with local_chunk(replace(chunk, parts=tuple(parts)), part) as local:
            read = iter(local.parts)
            for each in chunk.parts:
                if each.file.format == "jsonl":
                    self._add_lines(next(read), kinds)
                elif _is_first(each):
                    found += self._columns(next(read))
                elif each.file.format != "parquet":
                    names = (*self.reading.id_names[:1], self.reading.text_name)
                    merge_kinds(kinds, kinds_of([dict.fromkeys(names, b'""')])[0])
        if kinds:
            file = next(each.file for each in chunk.parts if each.file.format != "parquet")
            found.insert(0, {"file": file.name, "members": msgspec.json.encode(kinds)})
        yield chunk.number, pa.Table.from_pylist(found, _FOUND)

    def _add_lines(self, part: DocumentPart, kinds: dict[str, Kind]) -> None:
        name = part.file.name
        with part_line_blocks(part, self.reading.max_record_bytes, self.reading.encoding) as blocks:
            for lines in _joined(blocks):
                rows = list(filter(self._has_text, members_of_lines(lines)))
                try:
                    of_lines, keys = kinds_of(rows)
                    is_simple = keys == count_keys(lines)
                except UnicodeDecodeError:
                    is_simple = False
                if not is_simple:
                    of_lines = self._checked(lines.split(b"\n"), name)
                merge_kinds(kinds, of_lines)
                refuse_too_many(len(kinds), name, ADVICE)

    def _checked(self, lines: Iterable[bytes], file: str) -> dict[str, Kind]:
        """Return the same one line after the other; MrDedupError for one that has no columns."""
        kinds: dict[str, Kind] = {}
        for line in lines:
            try:
                row = members_of(line)
            except (ValueError, RecursionError):
                continue
            if not self._has_text(row):
                continue
            reason = None
            try:
                of_line, _ = kinds_of([row])
                merge_kinds(kinds, of_line)
                if (repeated := repeated_member(line)) is not None:
                    reason = f"two members {repeated!r}, for which Parquet has one column"
            except UnicodeDecodeError:
                with contextlib.suppress(UnicodeDecodeError):
                    # a record whose text it is in is rejected
                    bytes(row.get(self.reading.text_name, b"")).decode()
                    reason = "a member that is not UTF-8, as columns of Parquet must be"
            if reason is not None:
                name = bounded(line[:60].decode(errors="backslashreplace"))
                raise MrDedupError(f"{file}: {name}: has {reason}; {ADVICE}")
        return kinds

    def _has_text(self, row: Members) -> bool:
        """Return whether a record is a document: others are rejected."""
        found = (row.get(name, b"") for name in (self.reading.text_name, self.reading.html_name))
        return any(bytes(value).startswith(b'"') for value in found)

    def _columns(self, part: DocumentPart) -> Iterator[dict[str, object]]:
        assert part.file.path is not None
        # a damaged file, or one without texts, is rejected when it is read
        with contextlib.suppress(FormatError):
            with open_parquet(part.file.path, part.file.name) as file:
                schema = file.schema
            if {self.reading.text_name, self.reading.html_name} & set(schema.names):
                yield {"file": part.file.name, "columns": schema.serialize().to_pybytes()}


def _joined(blocks: Iterable[LineBlock]) -> Iterator[bytes]:
    """Yield the lines of several blocks at a time: of wide ones each column takes some time."""
    lines = bytearray()
    for block in blocks:
        lines += memoryview(block.buffer)[: block.size]
        if len(lines) >= _LINES_BYTES or not lines.endswith(b"\n"):
            yield bytes(lines)
            lines.clear()
    yield bytes(lines)


def _is_first(part: DocumentPart) -> bool:
    """Return whether a part is the first one of a Parquet file."""
    return part.file.format == "parquet" and not part.start


def united_columns(tables: Iterable[pa.Table]) -> pa.Schema:
    """Return the columns of all documents, given what the job yields, in its order.

    Members of JSON lines are before columns of Parquet; what is null in all lines is text.

    Raises:
        MrDedupError: As ``united_schema``.
    """
    kinds: dict[str, Kind] = {}
    first = ""
    schemas: dict[pa.Schema, str] = {}
    for table in tables:
        for row in table.to_pylist():
            if row["members"] is not None:
                first = first or row["file"]
                merge_kinds(kinds, msgspec.json.decode(row["members"], type=dict[str, Kind]))
            else:
                schema = pa.ipc.read_schema(pa.py_buffer(row["columns"]))
                schemas.setdefault(schema, row["file"])
    members = pa.schema([(name, kind.arrow_type()) for name, kind in kinds.items()])
    named = [NamedSchema(members, first)] if kinds else []
    named += [NamedSchema(schema, file) for schema, file in schemas.items()]
    united = united_schema(named, ADVICE)
    columns = [
        (each.name, _without_null(each.type) if each.name in kinds else each.type)
        for each in united
    ]
    return without_marks(pa.schema(columns, metadata=united.metadata))


def _without_null(kind: pa.DataType) -> pa.DataType:
    """Return a type with text where nothing is known of values, as other programs need a type."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_without_null(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _without_null(each.type)) for each in kind])
    return kind
