"""Read rows of Parquet files as Arrow batches: by row group, in bounded memory, up to damage.

Of the footer only row groups are looked up: pyarrow aborts the process when a column chunk is
looked up whose metadata is damaged.

Views of strings and bytes are read as large strings and bytes, at any depth: Arrow cannot select
rows of views. Where a schema says of which types they were, ``parquet_writer`` writes these.

INT96, the times of older writers (Spark, Hive, Impala), are read as nanoseconds, or as microseconds
if the file has times outside of the years 1677 to 2262, which Arrow would wrap around; they are
written as INT96 if all times of the file were.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mr_dedup.errors import FormatError
from mr_dedup.files.io_errors import reading
from mr_dedup.storage.ranges import RangeSource

_BUFFER_BYTES = 1 << 20
_MAX_ROWS = 1 << 14

_FEW_ROWS = 8
_SOME_ROWS = 256
"""Rows with texts that are decoded at a time: a text may be stored once for all of them.

Some if dictionaries are read as such, since each batch gets all of them, or all columns.
"""

_MAX_DECODED_BYTES = 64 << 20
"""If so many rows take more, rows are decoded one by one from there on."""

STORED_AS = b"mr_dedup.stored_as"
"""The metadata of a schema with the columns as their file has them, if their types are others."""


_INT96 = b"mr_dedup.int96"
"""In the metadata of a schema: the times of its file are INT96."""

_SCANNED_ROWS = 1 << 16


class ParquetRows:
    """An open Parquet file; damage raises FormatError with its name."""

    def __init__(self, source: pa.NativeFile, name: str) -> None:
        self._name = name
        with _decoding(name):
            self._file, schema = parquet_file(source)
            self.schema: pa.Schema = without_views(schema)
            metadata = self.schema.metadata or {}
            self._marks = {key: metadata[key] for key in (STORED_AS, _INT96) if key in metadata}
            self.columns: list[str] = self.schema.names
        footer = self._file.metadata
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        self.group_rows: list[int] = [group.num_rows for group in groups]
        self.group_bytes: list[int] = [group.total_byte_size for group in groups]

    def rows(
        self, group: int, columns: Sequence[str] | None, texts: Sequence[str], size_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group, at most about ``size_bytes`` at a time.

        Args:
            group: the number of the row group.
            columns: the columns to read; None for all.
            texts: those of them that contain texts, which may be stored once for many rows: 8 rows
                are decoded at a time, or 256 of all columns or with columns that are
                dictionaries; once they took more than 64 MB, without the latter, single rows.
            size_bytes: the size of batches.

        Raises:
            FormatError: these columns are damaged; all rows before the damage are yielded first.
        """
        total = self.group_rows[group]
        at_once = max(1, size_bytes * total // max(1, self.group_bytes[group]))
        has_dictionaries = self._has_dictionaries(columns)
        if texts:
            is_costly = columns is None or has_dictionaries
            at_once = min(at_once, _SOME_ROWS if is_costly else _FEW_ROWS)
        taken = 0
        for batch in self._up_to_damage(group, min(at_once, _MAX_ROWS), columns):
            missing = total - taken
            taken += min(missing, len(batch))
            batch = batch if len(batch) <= missing else batch[:missing]
            if texts and (has_dictionaries or batch.nbytes > size_bytes):
                yield from _pieces(batch, texts, size_bytes)
            else:
                yield batch
        if taken != total:
            reason = f"row group {group} has {taken} rows, expected {total}"
            raise FormatError(self._name, None, reason)

    def _has_dictionaries(self, columns: Sequence[str] | None) -> bool:
        read = (field for field in self.schema if columns is None or field.name in columns)
        return any(pa.types.is_dictionary(field.type) for field in read)

    def count_rows(self, group: int, columns: Sequence[str]) -> int:
        """Return how many rows of ``columns`` of a row group can be read before damage."""
        rows = 0
        with contextlib.suppress(FormatError):
            for batch in self._batches(group, 1, columns):
                rows += len(batch)
        return rows

    def _up_to_damage(
        self, group: int, at_once: int, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        taken = 0
        # with dictionaries single rows are slow: each comes with all of them
        max_bytes = math.inf if self._has_dictionaries(columns) else _MAX_DECODED_BYTES
        try:
            for batch in self._batches(group, at_once, columns):
                taken += len(batch)
                yield batch
                if len(batch) > 1 and batch.nbytes > max_bytes:
                    break
            else:
                return
        except FormatError:
            # rows are decoded in batches: read one by one up to the damage
            pass
        for row, batch in enumerate(self._batches(group, 1, columns)):
            if row >= taken:
                yield batch

    def _batches(
        self, group: int, rows: int, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        has_dictionaries = self._has_dictionaries(columns)
        with _decoding(self._name):
            batches = self._file.iter_batches(rows, [group], columns=columns, use_threads=False)
            for batch in batches:
                for column in batch if has_dictionaries else ():
                    if pa.types.is_dictionary(column.type):
                        # the decoder does not check the bounds of indices; this does
                        pa.DictionaryArray.from_arrays(column.indices, column.dictionary)
                if _INT96 in self._marks:
                    marked = {**(batch.schema.metadata or {}), _INT96: self._marks[_INT96]}
                    batch = batch.replace_schema_metadata(marked)
                yield as_stored(batch) if STORED_AS in self._marks else batch


@contextlib.contextmanager
def open_parquet(path: Path | RangeSource, name: str) -> Iterator[ParquetRows]:
    """Open a Parquet file; MrDedupError if it cannot be read, FormatError if it is damaged."""
    with reading(name):
        # not Arrow's own file: it needs a name in UTF-8, and is no faster
        file = path.open("rb", buffering=0)
    with file, pa.PythonFile(file, mode="r") as source:
        yield ParquetRows(source, name)


def parquet_file(source: Path | pa.NativeFile) -> tuple[pq.ParquetFile, pa.Schema]:
    """Return an open file, and its schema, which says whether its times are INT96.

    Columns of INT96 are read once, for the unit that has all of their times.
    """
    options = {"buffer_size": _BUFFER_BYTES, "page_checksum_verification": True}
    file = pq.ParquetFile(source, **options)
    columns = [file.schema.column(number) for number in range(len(file.schema))]
    dated = [column.path for column in columns if column.physical_type == "INT96"]
    if not dated:
        return file, file.schema_arrow
    in_us = pq.ParquetFile(source, **options, coerce_int96_timestamp_unit="us")
    if not _fit_ns(in_us, dated):
        file = in_us
    schema: pa.Schema = file.schema_arrow
    if not any(column.logical_type.type == "TIMESTAMP" for column in columns):
        schema = schema.with_metadata({**(schema.metadata or {}), _INT96: b"all"})
    return file, schema


def _fit_ns(file: pq.ParquetFile, columns: Sequence[str]) -> bool:
    """Return whether times, read as microseconds, fit 64 bits of nanoseconds, up to damage."""
    try:
        for batch in file.iter_batches(_SCANNED_ROWS, columns=columns, use_threads=False):
            for times in itertools.chain(*map(_leaves, batch.columns)):
                times.cast(pa.timestamp("ns", times.type.tz))
    except pa.ArrowInvalid:
        return False
    except (pa.ArrowException, OSError):
        # which its reader reports
        pass
    return True


def _leaves(values: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays inside of a nested one that are not nested."""
    if pa.types.is_map(values.type):
        yield from _leaves(values.keys)
        yield from _leaves(values.items)
    elif pa.types.is_struct(values.type):
        for number in range(values.type.num_fields):
            yield from _leaves(values.field(number))
    elif pa.types.is_nested(values.type):
        yield from _leaves(values.values)
    else:
        yield values


@contextlib.contextmanager
def _decoding(name: str) -> Iterator[None]:
    """Turn errors of decoding into a FormatError of one line."""
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        reason = " ".join(str(error).split())
        raise FormatError(name, None, f"Arrow cannot read its columns: {reason}") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise FormatError(name, None, f"the Parquet data is damaged: {reason}") from error


def without_views(schema: pa.Schema) -> pa.Schema:
    """Return a schema with usual layouts in place of views, and what it was in its metadata.

    >>> without_views(pa.schema([("a", pa.list_(pa.string_view()))])).types
    [ListType(list<item: large_string>)]
    """
    before = list(schema)
    fields = list(map(_without_views, before))
    if all(map(operator.is_, fields, before)):
        return schema
    stored = schema.remove_metadata().serialize().to_pybytes()
    return pa.schema(fields, {**(schema.metadata or {}), STORED_AS: stored})


def without_marks(schema: pa.Schema) -> pa.Schema:
    """Return a schema without what its metadata says to ``parquet_writer``."""
    metadata = schema.metadata or {}
    kept = {key: value for key, value in metadata.items() if key not in (STORED_AS, _INT96)}
    return schema.with_metadata(kept or None)


def _without_views(field: pa.Field) -> pa.Field:
    """Return a field, itself if it has no views."""
    types, kind = pa.types, field.type
    if types.is_string_view(kind):
        return field.with_type(pa.large_string())
    if types.is_binary_view(kind):
        return field.with_type(pa.large_binary())
    if isinstance(kind, pa.BaseExtensionType):
        storage = pa.field("", kind.storage_type)
        plain = _without_views(storage)
        return field if plain is storage else field.with_type(plain.type)
    if types.is_dictionary(kind):
        values = pa.field("", kind.value_type)
        plain = _without_views(values)
        if plain is values:
            return field
        return field.with_type(pa.dictionary(kind.index_type, plain.type, kind.ordered))
    before = [kind.field(number) for number in range(kind.num_fields)]
    inside = list(map(_without_views, before))
    if all(map(operator.is_, inside, before)):
        return field
    return field.with_type(with_children(kind, inside))


def with_children(kind: pa.DataType, fields: Sequence[pa.Field]) -> pa.DataType:
    """Return a nested type with other fields; lists in place of views of lists."""
    types = pa.types
    if types.is_struct(kind):
        return pa.struct(fields)
    if types.is_map(kind):
        key, item = (fields[0].type.field(number) for number in (0, 1))
        return pa.map_(key, item, keys_sorted=kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    is_large = types.is_large_list(kind) or types.is_large_list_view(kind)
    return (pa.large_list if is_large else pa.list_)(fields[0])


def as_stored(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with the types of ``without_views``."""
    schema = without_views(batch.schema)
    columns = map(_as_type, batch.columns, schema.types)
    return pa.RecordBatch.from_arrays(list(columns), schema=schema)


def _as_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    if isinstance(values, pa.ExtensionArray):
        return _as_type(values.storage, kind)
    if pa.types.is_dictionary(kind):
        dictionary = _as_type(values.dictionary, kind.value_type)
        return pa.DictionaryArray.from_arrays(values.indices, dictionary, ordered=kind.ordered)
    if pa.types.is_list_view(values.type) or pa.types.is_large_list_view(values.type):
        # Arrow's own conversion of slices may fail
        lengths = values.value_lengths().fill_null(0).to_numpy().astype(np.int64)
        edges = pa.array(np.append(0, np.cumsum(lengths))).cast(
            pa.int64() if pa.types.is_large_list(kind) else pa.int32()
        )
        inside = _as_type(values.flatten(), kind.value_type)
        lists = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        return lists.from_arrays(edges, inside, type=kind, mask=values.is_null())
    try:
        return values.cast(kind)
    except pa.ArrowNotImplementedError:
        # there are dictionaries of views inside
        if not pa.types.is_nested(kind) or values.offset:
            raise
    if pa.types.is_struct(kind):
        inside = [values.field(number) for number in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        members = [values.type.key_field, values.type.item_field]
        inside = [pa.StructArray.from_arrays([values.keys, values.items], fields=members)]
    else:
        inside = [values.values]
    types = [kind.field(number).type for number in range(kind.num_fields)]
    children = list(map(_as_type, inside, types))
    own = values.buffers()[: kind.num_buffers]
    return pa.Array.from_buffers(kind, len(values), own, values.null_count, 0, children)


@contextlib.contextmanager
def parquet_writer(file: Path | BinaryIO, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Yield a writer of rows compressed by zstd, with checksums of pages.

    Columns that were views become so again: Arrow's readers take the types from the metadata.
    Items of lists keep their names.
    """
    marks = schema.metadata or {}
    stored = marks.get(STORED_AS)
    schema = without_marks(schema)
    with pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        write_page_checksum=True,
        store_schema=stored is None,
        use_deprecated_int96_timestamps=_INT96 in marks,
        use_compliant_nested_type=False,
    ) as writer:
        yield writer
        if stored is not None:
            original = pa.ipc.read_schema(pa.py_buffer(stored))
            known = {field.name: field for field in original}
            fields = [known.get(field.name, field) for field in schema]
            types = pa.schema(fields, schema.metadata)
            arrow = base64.b64encode(types.serialize().to_pybytes())
            # as the writer does, which would store those of the rows
            writer.add_key_value_metadata({**(schema.metadata or {}), b"ARROW:schema": arrow})


def is_string(kind: pa.DataType) -> bool:
    """Return whether values of a type are strings."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of a type are strings or bytes."""
    types = pa.types
    is_binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(is_binary or is_string(kind))


def _pieces(
    batch: pa.RecordBatch, texts: Sequence[str], size_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield slices of ``batch`` whose ``texts`` have ``size_bytes`` when they are decoded."""
    import pyarrow.compute as pc

    sizes = np.zeros(len(batch), dtype=np.int64)
    for name in texts:
        column = batch.column(name)
        if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):
            lengths = pc.binary_length(column.dictionary).take(column.indices)
        elif is_text(column.type):
            lengths = pc.binary_length(column)
        else:
            continue
        sizes += lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = sizes.cumsum()
    start = 0
    while start < len(batch):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(ends.searchsorted(before + size_bytes, side="right")))
        yield batch.slice(start, stop - start)
        start = stop
