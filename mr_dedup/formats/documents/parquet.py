"""Documents in Parquet files: one per row."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.documents.batch import BatchBuilder, DocumentBatch, LargeStrings
from mr_dedup.formats.documents.files import DocumentPart
from mr_dedup.formats.documents.html_process import Page
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.rejects import (
    NoTextColumnError,
    Report,
    likely_text,
    listed_names,
)
from mr_dedup.formats.parquet_rows import ParquetRows, is_string, is_text, open_parquet


def read_parquet(
    part: DocumentPart, options: ReadOptions, report: Report, builder: BatchBuilder
) -> Iterator[DocumentBatch]:
    """Yield the documents of the row groups ``part.start`` to ``part.stop``.

    The last ones stay in ``builder``. Ids may be of any string or integer type, texts of any
    string or binary type. A row is rejected for the same reasons as a JSON line. A document
    without an id, or with an empty one, gets the id ``FILE:ROW``. A damaged row group is read up
    to the damage, and its other rows are one reject; other row groups are read. A file without a
    column of texts is one reject.

    In memory: rows of about a batch, and the pages of their columns that are read. Texts that a
    dictionary repeats are not multiplied beyond that, unless records are kept.

    Raises:
        FormatError: the file as a whole is damaged.
        MrDedupError: it cannot be read, or records are kept and only columns other than those of
            the documents are damaged.
    """
    assert part.file.path is not None
    name = part.file.name
    with open_parquet(part.file.path, name) as file:
        try:
            columns = _columns(file, options, name)
        except FormatError as error:
            # one reject for all rows of the file, in its first part
            if options.strict or not part.start:
                report.damage(error, max(1, sum(file.group_rows)))
            return
        reader = _Reader(columns, options, report, builder)
        wanted = None if options.keep_records else columns.read
        starts = [0, *itertools.accumulate(file.group_rows)]
        for group in range(len(file.group_rows))[part.start : part.stop]:
            first = starts[group]
            try:
                batches = file.rows(group, wanted, columns.texts, options.batch_bytes)
                for rows in _grouped(batches, options.batch_bytes):
                    reader.read(rows, first)
                    first += len(rows)
                    yield from builder.full()
            except FormatError as error:
                if error.offset is not None:
                    # a row, of which strict reading makes an error
                    raise
                if wanted is None and file.count_rows(group, columns.read) > first - starts[group]:
                    raise MrDedupError(
                        f"{name}, row {first}: its text can be read, but not all of its columns: "
                        f"{error.reason}"
                    ) from error
                lost = starts[group + 1] - first
                reason = f"{error.reason}; {lost} rows of row group {group} are lost"
                report.reject_rows(first, reason, max(1, lost))


def _grouped(batches: Iterator[pa.RecordBatch], size_bytes: int) -> Iterator[pa.Table]:
    """Yield tables of several batches, of about ``size_bytes``; up to an error of ``batches``."""
    found: list[pa.RecordBatch] = []
    found_bytes = 0
    try:
        for batch in batches:
            found.append(batch)
            found_bytes += batch.nbytes
            if found_bytes >= size_bytes:
                yield pa.Table.from_batches(found)
                found, found_bytes = [], 0
    except FormatError:
        if found:
            yield pa.Table.from_batches(found)
        raise
    if found:
        yield pa.Table.from_batches(found)


class _Columns:
    """The columns of a file that the options name."""

    def __init__(self, ids: list[str], texts: list[str], fields: list[str | None]) -> None:
        self.ids = ids
        self.texts = texts
        self.fields = fields
        self.read = list(dict.fromkeys([*ids, *texts, *filter(None, fields)]))


def _columns(file: ParquetRows, options: ReadOptions, name: str) -> _Columns:
    """Return the columns; raise FormatError if there are none of texts, or of other types."""
    counts = Counter(file.columns)
    ids = [id for id in options.id_names if id in counts]
    texts = [text for text in (options.text_name, options.html_name) if text in counts]
    fields = [field if field in counts else None for field in options.fields]
    if not texts:
        expected = f"{options.text_name!r} nor {options.html_name!r}"
        reason = f"has neither a column {expected}; its columns are {listed_names(file.columns)}"
        raise NoTextColumnError(name, reason, likely_text_column(file, ids))
    columns = _Columns(ids, texts, fields)
    for column in columns.read:
        if counts[column] > 1:
            raise FormatError(name, None, f"has {counts[column]} columns {column!r}")
    for column in (*ids, *texts):
        kind = _value_type(file.schema.field(column).type)
        if not (is_text(kind) or (column in ids and pa.types.is_integer(kind))):
            raise FormatError(name, None, f"its column {column!r} is of type {kind}, not text")
    return columns


def likely_text_column(file: ParquetRows, ids: Sequence[str]) -> str | None:
    """Return the column that most likely contains the texts: one of strings that is not an id."""
    strings = [field.name for field in file.schema if is_string(_value_type(field.type))]
    return likely_text([name for name in strings if name not in ids])


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


class _Reader:
    """Reads rows of one file."""

    def __init__(
        self, columns: _Columns, options: ReadOptions, report: Report, builder: BatchBuilder
    ) -> None:
        self._columns = columns
        self._options = options
        self._report = report
        self._builder = builder

    def read(self, rows: pa.Table, first: int) -> None:
        """Add ``rows``, the first of which is row ``first`` of the file, to the builder."""
        names = self._columns.read
        columns: dict[str | None, pa.ChunkedArray] = {name: _plain(rows[name]) for name in names}
        # a missing field is null
        columns[None] = pa.chunked_array([pa.nulls(len(rows), pa.large_string())])
        offsets = np.arange(first, first + len(rows), dtype=np.int64)
        found = self._at_once(columns)
        if found is None:
            valid, found = self._by_row(columns, offsets)
            rows, offsets = rows.filter(pa.array(valid)), offsets[valid]
        ids, texts, fields, shares = found
        records = rows if self._options.keep_records else None
        self._builder.add_columns(self._report.file, ids, texts, offsets, fields, records, shares)

    def _at_once(self, columns: Mapping[str | None, pa.ChunkedArray]) -> _Documents | None:
        """Return ids, texts and fields of all rows; None if any is unusual."""
        if not self._columns.ids or self._columns.texts[0] != self._options.text_name:
            return None
        ids = _as_text(columns[self._columns.ids[0]])
        texts = _as_text(columns[self._columns.texts[0]])
        fields = [_as_text(columns[name]) for name in self._columns.fields]
        if ids is None or texts is None or ids.null_count or texts.null_count:
            return None
        if pc.min(pc.binary_length(ids)).as_py() == 0:
            return None
        if pc.max(pc.binary_length(texts)).as_py() > self._options.max_record_bytes:
            return None
        valid = [field for field in fields if field is not None]
        return (ids, texts, valid, None) if len(valid) == len(fields) else None

    def _by_row(
        self, columns: Mapping[str | None, pa.ChunkedArray], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], _Documents]:
        """Return a mask of the valid rows, and their ids, texts and fields."""
        reasons: dict[int, str] = {}
        found: dict[int, tuple[str | None, str | Page, list[str | None]]] = {}
        for number, offset in enumerate(offsets.tolist()):
            try:
                id, text = self._id(columns, number), self._text(columns, number)
                fields = [_value(columns[name][number]) for name in self._columns.fields]
            except (ValueError, OverflowError, pa.ArrowException) as error:
                reasons[offset] = _reason(error)
            else:
                found[offset] = id or f"{self._report.file}:{offset}", text, fields
        pages = [(at, text) for at, (_, text, _) in found.items() if isinstance(text, Page)]
        extracted = self._builder.texts(self._report.file, pages)
        texts = {at: text for at, (_, text, _) in found.items() if isinstance(text, str)}
        shares: dict[int, float] = {}
        for (offset, _), page in zip(pages, extracted, strict=True):
            if page.text is not None:
                texts[offset], shares[offset] = page.text, page.cut_share
            elif page.reason:
                reasons[offset] = page.reason
        for offset, reason in sorted(reasons.items()):
            self._report.reject(offset, reason)
        rows = sorted(texts)
        valid = np.isin(offsets, rows)
        return valid, (
            pa.array([found[row][0] for row in rows], pa.large_string()),
            pa.array([texts[row] for row in rows], pa.large_string()),
            [
                pa.array([found[row][2][column] for row in rows], pa.large_string())
                for column in range(len(self._columns.fields))
            ],
            np.array([shares.get(row, math.nan) for row in rows], np.float32),
        )

    def _id(self, columns: Mapping[str | None, pa.ChunkedArray], number: int) -> str | None:
        """Return the first id that is not null or empty."""
        values = (_value(columns[name][number]) for name in self._columns.ids)
        return next(filter(None, values), None)

    def _text(self, columns: Mapping[str | None, pa.ChunkedArray], number: int) -> str | Page:
        """Return the text or HTML of a row; raise ValueError if it has none that can be read."""
        for name in self._columns.texts:
            value = columns[name][number]
            if not value.is_valid:
                continue
            data: bytes = value.as_buffer().to_pybytes()
            if len(data) > self._options.max_record_bytes:
                raise ValueError(f"is longer than {self._options.max_record_bytes} bytes")
            if name == self._options.text_name:
                return data.decode()
            is_utf8 = is_string(value.type)
            if is_utf8:
                data.decode()
            return Page(data, self._options.html, "utf-8" if is_utf8 else None)
        names = self._options.text_name, self._options.html_name
        raise ValueError("has neither {!r} nor {!r}".format(*names))


_Documents = tuple[LargeStrings, LargeStrings, Sequence[LargeStrings], NDArray[np.float32] | None]


def _reason(error: Exception) -> str:
    """Return what is wrong with a row, without its values, which Arrow's messages quote."""
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8"
    if isinstance(error, pa.ArrowException | OverflowError):
        return "has a value that cannot be shown as text"
    return str(error)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    return column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return a column as text; None if it is nested or not all of it is UTF-8."""
    try:
        texts = column.cast(pa.string()) if not is_text(column.type) else column
        texts = texts.cast(pa.large_string())
        texts.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return texts


def _value(value: pa.Scalar) -> str | None:
    """Return a value as text, nested ones as JSON; raise ValueError if it is not UTF-8."""
    if not value.is_valid:
        return None
    if is_text(value.type):
        return str(value.as_buffer().to_pybytes(), "utf-8")
    if not pa.types.is_nested(value.type):
        with contextlib.suppress(pa.ArrowNotImplementedError):
            return str(value.cast(pa.string()).as_py())
    return msgspec.json.encode(value.as_py(), enc_hook=str).decode()
