"""Datasets: directories of files ``part-00000.parquet``, ``part-00001.parquet``, …, in this order.

pandas, DuckDB, Spark and Arrow read such a directory of Parquet files as one table. A part ends
after a fixed number of rows or bytes, so the same rows make the same files, however they arrive.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from mr_dedup.errors import FormatError
from mr_dedup.files.inputs import expand
from mr_dedup.files.outputs import whole_file
from mr_dedup.formats.compression import (
    compressing,
    compression_by_suffix,
    decompressed_file,
)
from mr_dedup.formats.tables import read_table

PART_ROWS = 1 << 20
"""Rows of a part, by default. A multiple of the row groups of all our tables."""

PART_BYTES = 256 << 20
"""Bytes of a part of lines, before compression, by default."""

PARQUET = ".parquet"
LINES = ".jsonl.zst"

_LINES_BYTES = 4 << 20
File = TypeVar("File")

_NAME = re.compile(r"part-(\d{5,})\.")

_Entered = TypeVar("_Entered")
_Self = TypeVar("_Self", bound="PartFiles")


class PartFiles:
    """The files of a dataset, written one after the other; a context manager.

    A part is complete or absent, as by ``whole_file``. An earlier dataset in ``folder`` is removed
    first; the directory is made with the first part. If the block ends with an error, the part that
    is open is not kept.

    Attributes:
        names: The names of the parts, in order.
    """

    def __init__(self, folder: Path, suffix: str, first: int = 0) -> None:
        """Write to ``folder`` from the part of the number ``first``."""
        self.names: list[str] = []
        self._first = first
        self._folder = folder
        self._suffix = suffix
        self._part = contextlib.ExitStack()
        if folder.is_dir():
            shutil.rmtree(folder)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._part.__exit__(kind, error, trace)

    def begin(self) -> BinaryIO:
        """End the part before; return the file of the next one."""
        self.end()
        self._folder.mkdir(parents=True, exist_ok=True)
        self.names.append(part_name(self._first + len(self.names), self._suffix))
        return self.enter(whole_file(self._folder / self.names[-1], overwrite=True))

    def enter(self, context: contextlib.AbstractContextManager[_Entered]) -> _Entered:
        """Enter a context that ends with the part."""
        return self._part.enter_context(context)

    def end(self) -> None:
        """End the part that is open, if there is one."""
        part, self._part = self._part, contextlib.ExitStack()
        part.close()


class ParquetParts(PartFiles):
    """Writes a table to Parquet files of ``part_rows`` rows; one at least, which may be empty.

    Pages have checksums. Row groups are the tables that are written, divided where a part ends.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp(), "squares")
    >>> with ParquetParts(folder, pa.schema([("n", pa.int64())]), part_rows=2) as parts:
    ...     parts.write_table(pa.table({"n": [0, 1, 4]}))
    >>> parts.names, read_parts(folder)["n"].to_pylist()
    (['part-00000.parquet', 'part-00001.parquet'], [0, 1, 4])
    """

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        *,
        part_rows: int = PART_ROWS,
        first: int = 0,
        **settings: Any,
    ) -> None:
        """Write to ``folder`` from the part ``first``, with ``settings`` of ``pq.ParquetWriter``.

        Raises ValueError unless a part has rows.
        """
        if part_rows < 1:
            raise ValueError(f"part_rows: expected 1 or more, got {part_rows}")
        super().__init__(folder, PARQUET, first)
        self.schema = schema
        self._settings = {"compression": "zstd", "write_page_checksum": True, **settings}
        self._part_rows = part_rows
        self._rows = part_rows
        """Of the part that is open; as if the one before the first were full."""
        self._writer: pq.ParquetWriter | None = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and self._writer is None:
            self._begin_table()
        super().__exit__(kind, error, trace)

    def write_table(self, table: pa.Table, row_group_size: int | None = None) -> None:
        """Append a table; its parameters are those of ``ParquetWriter.write_table``."""
        while len(table):
            if self._rows == self._part_rows:
                self._begin_table()
            assert self._writer is not None
            rows = table.slice(0, self._part_rows - self._rows)
            self._writer.write_table(rows, row_group_size)
            self._rows += len(rows)
            table = table.slice(len(rows))

    def end_part(self) -> None:
        """Begin a new part with the next row, although the open one has fewer rows."""
        self._rows = self._part_rows

    def _begin_table(self) -> None:
        file = self.begin()
        self._writer = self.enter(pq.ParquetWriter(file, self.schema, **self._settings))
        self._rows = 0


class LineParts(PartFiles):
    """Writes lines to files compressed by zstd, of which each ends with the line that fills it.

    Without lines there is no directory.

    Attributes:
        counts: How many lines each part has.
    """

    def __init__(self, folder: Path, *, part_bytes: int = PART_BYTES, first: int = 0) -> None:
        """Begin a part when the one before has ``part_bytes``; ValueError unless positive.

        ``first`` is the number of the first part.
        """
        if part_bytes < 1:
            raise ValueError(f"part_bytes: expected 1 or more, got {part_bytes}")
        super().__init__(folder, LINES, first)
        self.counts: list[int] = []
        self._part_bytes = part_bytes
        self._free = 0
        self._stream: BinaryIO | None = None

    def write(self, lines: bytes) -> None:
        """Append whole lines."""
        start = 0
        while start < len(lines):
            if self._free <= 0:
                file = self.begin()
                self._stream = self.enter(compressing(file, "zstd"))
                self._free = self._part_bytes
                self.counts.append(0)
            assert self._stream is not None
            # the end of the line with which the part is full
            end = lines.find(b"\n", start + self._free - 1)
            end = len(lines) if end < 0 else end + 1
            self._stream.write(memoryview(lines)[start:end])
            self.counts[-1] += lines.count(b"\n", start, end)
            self._free -= end - start
            start = end


def part_name(number: int, suffix: str) -> str:
    """Return the name of a part of a dataset.

    >>> part_name(7, PARQUET)
    'part-00007.parquet'
    """
    return f"part-{number:05}{suffix}"


def part_files(folder: Path) -> list[Path]:
    """Return the files of a dataset in their order; of other programs' too, as ``inputs.expand``.

    Raises MrDedupError if there is none, and FormatError if a part of ours is missing between
    others.
    """
    files = expand([str(folder)])
    return in_order(folder, files, [file.name for file in files])


def in_order(folder: str | Path, files: Sequence[File], names: Sequence[str]) -> list[File]:
    """Return the files of a dataset in their order: parts of ours by number, others as they are.

    Raises FormatError if a part of ours is missing between others of ``folder``.

    >>> in_order("out", [1, 0], ["part-100000.parquet", "part-99999.parquet"])
    Traceback (most recent call last):
    mr_dedup.errors.FormatError: out: its part 0 is missing
    """
    found = [_NAME.match(name) for name in names]
    if not all(found):
        return list(files)
    # names of 100,000 parts and more have another order
    numbers = [int(match[1]) for match in found if match]
    ordered = sorted(range(len(files)), key=numbers.__getitem__)
    missing = next((n for n, index in enumerate(ordered) if n != numbers[index]), None)
    if missing is not None:
        raise FormatError(folder, None, f"its part {missing} is missing")
    return [files[index] for index in ordered]


def part_batches(
    folder: Path, columns: Sequence[str] | None = None, rows_at_once: int = 1 << 16
) -> Iterator[pa.RecordBatch]:
    """Yield ``columns``, or all, of a dataset in Parquet, in order, ``rows_at_once`` at most.

    Raises as ``part_files``, and OSError and ArrowException where a part cannot be read.
    """
    for path in part_files(folder):
        yield from file_batches(path, columns, rows_at_once)


def file_batches(
    path: Path, columns: Sequence[str] | None = None, rows_at_once: int = 1 << 16
) -> Iterator[pa.RecordBatch]:
    """Yield the same of one part."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        yield from file.iter_batches(rows_at_once, columns=columns and list(columns))


def read_parts(
    folder: Path, columns: Sequence[str] | None = None, dictionaries: Sequence[str] = ()
) -> pa.Table:
    """Return a dataset in Parquet as one table; parameters and errors as of ``read_table``."""
    return pa.concat_tables(read_table(path, columns, dictionaries) for path in part_files(folder))


def read_lines(folder: Path) -> Iterator[bytes]:
    """Yield the lines of a dataset, about 4 MB at a time; none if there is no such directory.

    Raises FormatError for damage.
    """
    if not folder.is_dir():
        return
    for path in part_files(folder):
        compression = compression_by_suffix(path)
        opened = path.open("rb", buffering=0)
        with decompressed_file(opened, str(path), compression) as file:
            while lines := file.readlines(_LINES_BYTES):
                yield b"".join(lines)
