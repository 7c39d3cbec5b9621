"""What documents may come from: files, texts, records, and all that has Arrow's interface."""

from __future__ import annotations

import itertools
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.parquet_rows import as_stored, is_string, parquet_writer, without_views
from mr_dedup.storage.uris import is_uri

if TYPE_CHECKING:
    from mr_dedup.api.options import Texts

    class ArrowStream(Protocol):
        """A table of any library: pandas, polars, DuckDB, PyArrow, datasets."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            """Return a capsule of a stream of Arrow's record batches."""
            ...

    Source: TypeAlias = (
        str
        | os.PathLike[str]
        | Iterable[os.PathLike[str]]
        | Iterable[str]
        | Iterable[Mapping[str, Any]]
        | pa.Array
        | ArrowStream
    )

_ROW_GROUP_BYTES = 32 << 20
_ROW_GROUP_ROWS = 100_000
_DATASET_ROWS = 1000
_ID = "id"
_TABLE, _LINES = "source.parquet", "source.jsonl"


class Documents:
    """The names of a source's files: those that it names, or one that its documents are written to.

    Attributes:
        names: Files, globs, directories and URIs.
        in_memory: Whether the source is not files.
        called: What messages call the written file, by its path.
    """

    def __init__(self, source: Source, folder: Path, id_field: Texts | None = None) -> None:
        """Write the documents of a source in memory to a file in ``folder``.

        Reads a stream or an iterable once, in batches; at most some 32 MB are in memory. Texts get
        their number as ``id``, from 0; so do records, and rows of a table, if the first record, or
        the table, has none of the fields ``id`` and ``url``, unless ``id_field`` names others.

        Raises:
            TypeError: A source of another type.
            ValueError: Texts that are names of files.
            MrDedupError: What cannot be written.
        """
        self.in_memory = False
        self._may_number = id_field is None
        self.called: dict[str, str] = {}
        if isinstance(source, str | os.PathLike):
            self.names = [os.fspath(source)]
        elif isinstance(opened := _opened(source), pa.ChunkedArray):
            self.names = self._of_iterable(_texts(opened), folder)
        elif opened is not None:
            self.in_memory = True
            self.names = [str(_written_table(self._with_ids(opened), folder / _TABLE))]
            self.called = {self.names[0]: _TABLE}
        elif isinstance(source, Iterable) and not isinstance(source, bytes | Mapping):
            self.names = self._of_iterable(iter(source), folder)
        else:
            raise TypeError(
                f"source: expected a path, texts, records or a table, not {type(source).__name__}"
            )

    def _of_iterable(self, elements: Iterator[Any], folder: Path) -> list[str]:
        try:
            first = next(elements)
        except StopIteration:
            raise MrDedupError("source: there are no documents") from None
        elements = itertools.chain([first], elements)
        if isinstance(first, os.PathLike):
            return [os.fspath(each) for each in elements]
        self.in_memory = True
        # a column may begin with a null, which is rejected as a record without a text
        if isinstance(first, str) or first is None:
            if first and (is_uri(first) or (len(first) < 1024 and os.path.exists(first))):  # noqa: PTH110 (any text)
                raise ValueError(
                    f"source: {first!r} is the name of a file; pass pathlib.Path objects for files,"
                    " a single text for one file or directory"
                )
            records: Iterator[Any] = (
                {_ID: str(number), "text": text} for number, text in enumerate(elements)
            )
        elif isinstance(first, Mapping):
            records = _numbered(elements) if self._lacks_ids(first) else elements
        else:
            raise TypeError(f"source: expected texts, records or paths, not {type(first).__name__}")
        path = str(_written_lines(records, folder / _LINES))
        self.called = {path: _LINES}
        return [path]

    def _lacks_ids(self, names: Container[str]) -> bool:
        """Return whether documents with these fields are numbered."""
        return self._may_number and not any(name in names for name in ReadOptions.id_names)

    def _with_ids(self, table: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """Return a table, with the numbers of rows as ``id`` if it has no ids."""
        schema = table.schema
        if not schema.names or not self._lacks_ids(schema.names):
            return table
        schema = schema.insert(0, pa.field(_ID, pa.large_string()))

        def batches() -> Iterator[pa.RecordBatch]:
            start = 0
            with table:
                for batch in table:
                    ids = pa.array(map(str, range(start, start + len(batch))), pa.large_string())
                    start += len(batch)
                    yield pa.RecordBatch.from_arrays([ids, *batch.columns], schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())


def _numbered(records: Iterator[Any]) -> Iterator[Any]:
    """Yield records, those without an id with their number."""
    for number, record in enumerate(records):
        has_id = not isinstance(record, Mapping) or any(
            record.get(name) not in (None, "") for name in ReadOptions.id_names
        )
        yield record if has_id else {**record, _ID: str(number)}


def _opened(source: Any) -> pa.RecordBatchReader | pa.ChunkedArray | None:
    """Return a table, or a dataset of Hugging Face, as a stream; None for what is neither.

    A column, as a Series of pandas or polars or an array of Arrow, is returned as such.
    """
    if isinstance(source, pa.Array):
        return pa.chunked_array([source])
    if hasattr(source, "__arrow_c_stream__"):
        try:
            return pa.RecordBatchReader.from_stream(source)
        except pa.ArrowInvalid as error:
            # the stream is not of records
            try:
                return pa.chunked_array(source)
            except (pa.ArrowException, TypeError):
                raise MrDedupError(f"source: Arrow cannot read it: {error}") from error
    if type(source).__module__.partition(".")[0] != "datasets":
        return None
    if isinstance(source, Mapping):
        raise TypeError(f"source: has the splits {', '.join(source)}; pass one of them")
    if not hasattr(source, "with_format"):
        # a column, which is iterable
        return None
    tables = source.with_format("arrow").iter(batch_size=_DATASET_ROWS)
    first = next(tables, None)
    if first is None:
        raise MrDedupError("source: there are no documents")
    batches = (batch for table in itertools.chain([first], tables) for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(first.schema, batches)


def _texts(column: pa.ChunkedArray) -> Iterator[Any]:
    """Return the texts of a column, None for nulls; TypeError for a column of another type."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (is_string(kind) or pa.types.is_null(kind)):
        raise TypeError(f"source: expected a column of texts, not of {column.type}")
    return (text for chunk in column.chunks for text in chunk.to_pylist())


def _written_table(source: pa.RecordBatchReader, path: Path) -> Path:
    """Write a stream of record batches to a Parquet file, in row groups of bounded size."""
    with source as reader:
        if not reader.schema.names:
            raise MrDedupError("source: the table has no columns")
        try:
            with parquet_writer(path, without_views(reader.schema)) as writer:
                for batch in reader:
                    table = pa.Table.from_batches([as_stored(batch)])
                    rows = max(
                        1,
                        table.num_rows * _ROW_GROUP_BYTES // max(1, table.get_total_buffer_size()),
                    )
                    writer.write_table(table, row_group_size=min(rows, _ROW_GROUP_ROWS))
        except pa.ArrowNotImplementedError as error:
            raise MrDedupError(f"source: a column cannot be stored: {error}") from error
    return path


def _written_lines(records: Iterator[Any], path: Path) -> Path:
    """Write records as lines of JSON."""
    encode = msgspec.json.Encoder(enc_hook=_plain).encode
    with path.open("wb") as file:
        for number, record in enumerate(records):
            if not isinstance(record, Mapping):
                raise TypeError(
                    f"source: element {number} is not a record, but {type(record).__name__}"
                )
            try:
                line = encode(dict(record))
            except (TypeError, ValueError, UnicodeEncodeError) as error:
                raise MrDedupError(f"source: record {number}: {error}") from error
            file.write(line + b"\n")
    return path


def _plain(value: Any) -> Any:
    """Return NumPy's numbers and arrays as Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")
