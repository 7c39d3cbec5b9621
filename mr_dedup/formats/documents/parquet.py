"""Documents in Parquet files: one per row."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.documents.batch import (
    BatchBuilder,
    DocumentBatch,
    LargeStrings,
    are_blank,
)
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
from mr_dedup.formats.tables import one_array
from mr_dedup.formats.value_text import plain_values, value_texts


def read_parquet(
    part: DocumentPart, options: ReadOptions, report: Report, builder: BatchBuilder
) -> Iterator[DocumentBatch]:
    """Yield the documents of the row groups ``part.start`` to ``part.stop``.

    The last ones stay in ``builder``. Texts may be of any string or binary type; of a column of
    null, or of floats that are all NaN, they are null. Ids may be of any type that has a form as
    text, see ``value_texts``. A row is rejected for the same reasons as a JSON line. A document
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

    def __init__(
        self, ids: list[str], texts: list[str], fields: list[str | None], likely_text: str | None
    ) -> None:
        self.ids = ids
        self.likely_text = likely_text
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
    for column in dict.fromkeys([*ids, *texts, *filter(None, fields)]):
        if counts[column] > 1:
            raise FormatError(name, None, f"has {counts[column]} columns {column!r}")
    if options.text_name in texts:
        kind = _value_type(file.schema.field(options.text_name).type)
        if not _may_be_text(kind):
            reason = f"its column {options.text_name!r} is of type {kind}, not text"
            raise FormatError(name, None, reason)
    texts = [text for text in texts if _may_be_text(_value_type(file.schema.field(text).type))]
    return _Columns(ids, texts, fields, likely_text_column(file, [*ids, *texts]))


def _may_be_text(kind: pa.DataType) -> bool:
    """Return whether a column may have texts; pandas stores missing ones as floats."""
    return is_text(kind) or bool(pa.types.is_null(kind) or pa.types.is_floating(kind))


def likely_text_column(file: ParquetRows, ids: Sequence[str]) -> str | None:
    """Return the column that most likely contains the texts: one of strings that is not an id."""
    strings = [field.name for field in file.schema if is_string(_value_type(field.type))]
    return likely_text([name for name in strings if name not in ids])


def _value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary, or the storage of an extension."""
    if isinstance(kind, pa.BaseExtensionType):
        return _value_type(kind.storage_type)
    return _value_type(kind.value_type) if pa.types.is_dictionary(kind) else kind


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
        offsets = np.arange(first, first + len(rows), dtype=np.int64)
        faults: dict[int, str] = {}
        texts, shares, is_known = self._texts(rows, offsets, faults)
        if texts.null_count:
            self._report_nulls(texts, first, faults, is_known)
            valid = texts.is_valid()
            rows, texts = rows.filter(valid), texts.filter(valid)
            offsets = offsets[valid.to_numpy()]
            shares = None if shares is None else shares[valid.to_numpy()]
        records = rows if self._options.keep_records else None
        ids, fields = self._ids(rows, offsets), self._fields(rows)
        self._builder.add_columns(self._report.file, ids, texts, offsets, fields, records, shares)

    def _texts(
        self, rows: pa.Table, offsets: NDArray[np.int64], faults: dict[int, str]
    ) -> tuple[pa.ChunkedArray, NDArray[np.float32] | None, set[int]]:
        """Return the text of each row; null where there is none, or a fault in it.

        And the share of each page of HTML that is cut, and the rows that are known to be no
        documents.
        """
        names, name = self._columns.texts, self._options.text_name
        texts = pa.chunked_array([pa.nulls(len(rows), pa.large_string())])
        if name in names:
            texts = _readable(rows[name], name, self._options.max_record_bytes, faults)
        if self._options.html_name not in names:
            return texts, None, set()
        name = self._options.html_name
        found: dict[int, Page] = {}
        missing = are_blank(texts).fill_null(True).to_numpy()
        pages = plain_values(rows[name])
        for row in np.flatnonzero(missing).tolist():
            if row not in faults and pages[row].is_valid:
                try:
                    found[row] = self._page(pages[row])
                except ValueError as error:
                    faults[row] = _reason(error)
        of_html: dict[int, str | None] = {}
        shares = np.full(len(rows), np.nan, np.float32)
        of_pages = [(int(offsets[row]), page) for row, page in found.items()]
        extracted = self._builder.texts(self._report.file, of_pages)
        for row, each in zip(found, extracted, strict=True):
            if each.text is None and each.reason:
                faults[row] = each.reason
            else:
                of_html[row], shares[row] = each.text, each.cut_share
        rows_read = np.zeros(len(rows), bool)
        # a blank text whose HTML cannot be read is no document
        rows_read[[*of_html, *faults]] = True
        in_place = pa.array(
            [of_html.get(row) for row in np.flatnonzero(rows_read).tolist()], pa.large_string()
        )
        texts = pa.chunked_array([pc.replace_with_mask(one_array(texts), rows_read, in_place)])
        return texts, shares, {row for row, text in of_html.items() if text is None}

    def _page(self, page: pa.Scalar) -> Page:
        """Return a page; raise ValueError if it cannot be read."""
        if isinstance(page, pa.ExtensionScalar):
            page = page.value
        if not is_text(page.type):
            raise ValueError(
                f"its column {self._options.html_name!r} is of type {page.type}, not text"
            )
        data: bytes = page.as_buffer().to_pybytes()
        if len(data) > self._options.max_record_bytes:
            raise ValueError(f"is longer than {self._options.max_record_bytes} bytes")
        is_utf8 = is_string(page.type)
        if is_utf8:
            data.decode()
        return Page(data, self._options.html, "utf-8" if is_utf8 else None)

    def _report_nulls(
        self, texts: pa.ChunkedArray, first: int, faults: Mapping[int, str], is_known: set[int]
    ) -> None:
        """Report faults, and the rows without a text: those that follow one another as one."""
        null = np.flatnonzero(texts.is_null().to_numpy())
        null = null[~np.isin(null, [*faults, *is_known])]
        runs = np.split(null, np.flatnonzero(np.diff(null) != 1) + 1)
        counts = {int(run[0]): len(run) for run in runs if len(run)}
        for row in sorted([*faults, *counts]):
            if row in faults:
                self._report.reject(first + row, faults[row])
            else:
                name = self._columns.texts[0]
                self._report.without_text(
                    first + row, name, text_field=self._columns.likely_text, records=counts[row]
                )

    def _ids(self, rows: pa.Table, offsets: NDArray[np.int64]) -> pa.LargeStringArray:
        """Return the first id of each row that has a form and is not empty, else its position."""
        found = [_not_empty(value_texts(rows[name])) for name in self._columns.ids]
        positions = pa.array(offsets).cast(pa.large_string())
        prefix = pa.scalar(f"{self._report.file}:", pa.large_string())
        if found and not found[0].null_count:
            return found[0]
        made = pc.binary_join_element_wise(prefix, positions, pa.scalar("", pa.large_string()))
        ids = pc.coalesce(*found, made)
        unusable = np.zeros(len(rows), bool)
        for name in self._columns.ids:
            if pa.types.is_nested(_value_type(rows[name].type)):
                unusable |= rows[name].is_valid().to_numpy()
        if unusable.any():
            unusable &= pc.equal(ids, made).to_numpy()
            self._report.unusable_ids(int(unusable.sum()))
        return ids

    def _fields(self, rows: pa.Table) -> list[LargeStrings]:
        return [
            pa.nulls(len(rows), pa.large_string())
            if name is None
            else value_texts(rows[name], as_field=True)
            for name in self._columns.fields
        ]


def _readable(
    column: pa.ChunkedArray, name: str, max_bytes: int, faults: dict[int, str]
) -> pa.ChunkedArray:
    """Return texts as large strings, null where there are none or ``faults``, which are added."""
    kind = _value_type(column.type)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    column = plain_values(column)
    if not is_text(kind):
        for row in np.flatnonzero(~np.isnan(column.to_numpy().astype(float))).tolist():
            faults[row] = f"its column {name!r} is of type {kind}, not text"
        return pa.chunked_array([pa.nulls(len(column), pa.large_string())])
    lengths = pc.binary_length(column).fill_null(0).to_numpy()
    for row in np.flatnonzero(lengths > max_bytes).tolist():
        faults[row] = f"is longer than {max_bytes} bytes"
    try:
        texts = column.cast(pa.large_string())
        texts.validate(full=True)
    except pa.ArrowInvalid:
        for row, value in enumerate(column):
            if value.is_valid and row not in faults:
                try:
                    str(value.as_buffer(), "utf-8")
                except UnicodeDecodeError:
                    faults[row] = "is not UTF-8"
        texts = column.cast(pa.large_binary())
    if faults:
        is_right = np.ones(len(column), bool)
        is_right[list(faults)] = False
        nothing = pa.scalar(None, texts.type)
        texts = pc.if_else(pa.array(is_right), texts, nothing)
    return texts.cast(pa.large_string())


def _not_empty(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts with null in place of empty ones."""
    is_empty = pc.equal(pc.binary_length(texts), 0)
    if not pc.any(is_empty).as_py():
        return texts
    return pc.if_else(is_empty, pa.scalar(None, pa.large_string()), texts)


def _reason(error: ValueError) -> str:
    return "is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
