"""Files of the documents that are kept: one for each file that was read, in its format."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mr_dedup.files.io_errors import cannot_be_written
from mr_dedup.formats.compression import (
    Compression,
    compressed,
    compressing,
    compression_by_suffix,
    suffix_inside,
)
from mr_dedup.formats.documents.arc_records import version_block
from mr_dedup.formats.documents.files import with_number
from mr_dedup.formats.parquet_rows import parquet_writer
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.kept_records import FILE_KEY

_WARC = b"WARC/"
"""How records of WARC begin, and no lines of JSON. Each is a gzip member or zstd frame of its own,
as WARC 1.1 says in annex D, however the input was: other programs find no others. So are those of
ARC, whose files begin with a version block."""

_ARCHIVES = (".warc", ".wet", ".arc")

Records: TypeAlias = pa.Table | pa.LargeBinaryArray
"""Rows of Parquet, or bytes of other records."""

Written = Callable[[str, int, int], None]
"""Is called with a file, the number of a record in it, and how many were written from there on."""


class KeptDocuments:
    """Writes records below ``folder``, those of one file after the other; a context manager.

    A file is called as ``FileNames`` has it, or as ``names`` returns. ``files`` are those written,
    and how many records each has.

    Attributes:
        on_written: Is called when records have been written, in their order.
    """

    on_written: Written | None = None

    def __init__(self, folder: Path, names: Callable[[str], str] | None = None) -> None:
        self._names = names or FileNames().take
        self._counts: dict[str, int] = {}
        self._folder = folder
        self._open: contextlib.ExitStack = contextlib.ExitStack()
        self._source: str | None = None
        self._name = ""
        self._records: BinaryIO | None = None
        self._members: Compression | None = None
        self._rows: pq.ParquetWriter | None = None

    def __enter__(self) -> KeptDocuments:
        return self

    def __exit__(self, *exception: object) -> None:
        with self._writing():
            self._open.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Raise MrDedupError that names the file, for an OSError of the block."""
        try:
            yield
        except OSError as error:
            raise cannot_be_written(self._folder / self._name, error) from error

    @property
    def files(self) -> list[tuple[str, int]]:
        """The names of the files, and how many records each has, in order."""
        return list(self._counts.items())

    @property
    def name(self) -> str:
        """The name of the file that was written last."""
        return self._name

    def write(self, table: pa.Table) -> None:
        """Append a batch of the keep job; MrDedupError if a file cannot be written."""
        for source, records in by_file(table):
            self.append(source, records)

    def append(self, source: str, records: Records) -> None:
        """Append records of one file; MrDedupError if theirs cannot be written."""
        with self._writing():
            if isinstance(records, pa.Table):
                self._write_rows(source, records)
            else:
                self._write_records(source, records)

    def _write_rows(self, source: str, table: pa.Table) -> None:
        kept = {k: v for k, v in table.schema.metadata.items() if k != FILE_KEY}
        table = table.replace_schema_metadata(kept or None)
        if source != self._source or self._rows is None:
            path = self._begin(source)
            self._rows = self._open.enter_context(parquet_writer(path, table.schema))
        self._rows.write_table(table)
        self._count(len(table))

    def _write_records(self, source: str, records: pa.LargeBinaryArray) -> None:
        edges, content = bytes_of(records)
        if source != self._source or self._records is None:
            path = self._begin(source)
            compression = compression_by_suffix(path)
            first = content[edges[0] : edges[1]].tobytes()
            is_known = suffix_inside(path) in _ARCHIVES
            block = version_block(path.name, first) if is_known else b""
            is_archive = block or first.startswith(_WARC)
            self._members = compression if is_archive else None
            packing = _packing(path, None if is_archive else compression)
            self._records = self._open.enter_context(packing)
            if block:
                packed = compressed(memoryview(block), compression) if compression else block
                self._records.write(packed)
        if self._members is None:
            self._records.write(content[edges[0] : edges[-1]].data)
        else:
            for start, stop in itertools.pairwise(edges.tolist()):
                self._records.write(compressed(content[start:stop].data, self._members))
        self._count(len(records))

    def _count(self, records: int) -> None:
        first = self._counts[self._name]
        self._counts[self._name] += records
        if self.on_written is not None:
            self.on_written(self._name, first, records)

    def _begin(self, source: str) -> Path:
        """End the file before; return the path of the one for ``source``."""
        self._open.close()
        self._open = contextlib.ExitStack()
        self._records = self._rows = None
        self._source = source
        self._name = self._names(source)
        self._counts[self._name] = 0
        path = self._folder / self._name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


class FileNames:
    """Names of files of documents below one directory, of which none is given twice.

    A file is called as the one that its documents are of, if that is a name below a directory, else
    by the last part of that; of two that would be one, the second gets a number. Dots and
    underscores at the beginning are left out: readers of directories skip such files.

    >>> names = FileNames()
    >>> [names.take(source) for source in ("a.jsonl", "/data/a.jsonl", "../a.jsonl", "._a.jsonl")]
    ['a.jsonl', 'a-2.jsonl', 'a-3.jsonl', 'a-4.jsonl']
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._folders: set[str] = set()
        self._last_numbers: dict[PurePosixPath, int] = {}

    def take(self, source: str, parts: int | None = None) -> str:
        """Return a name that is free, and is not from now on.

        Args:
            source: What the documents are of.
            parts: By how many tasks they are written, if by several: then the names of all parts,
                as of ``numbered_name``, are free instead.
        """
        plain = PurePosixPath(source)
        inside = "://" not in source and not plain.is_absolute() and ".." not in plain.parts
        shown = [part.lstrip("._") or "unnamed" for part in plain.parts]
        name = PurePosixPath(*shown) if inside else PurePosixPath(shown[-1])
        if any(str(folder) in self._taken for folder in name.parents):
            # there is a file in place of its directory
            name = PurePosixPath(shown[-1])
        number, free = self._last_numbers.get(name, 1), name
        while not self._are_free(files := _files_of(str(free), parts)):
            number += 1
            free = PurePosixPath(with_number(str(name), number))
        self._last_numbers[name] = number
        self._taken.update(files)
        self._folders.update(map(str, free.parents))
        return str(free)

    def _are_free(self, names: Iterable[str]) -> bool:
        return self._taken.isdisjoint(names) and self._folders.isdisjoint(names)


def _files_of(name: str, parts: int | None) -> list[str]:
    if parts is None:
        return [name]
    return [numbered_name(name, number) for number in range(parts)]


def numbered_name(name: str, number: int) -> str:
    """Return the name of a part of the documents of a file, which tasks have written.

    >>> numbered_name("2024/pages.jsonl.gz", 3)
    '2024/pages-00003.jsonl.gz'
    """
    path = PurePosixPath(name)
    stem, dot, endings = path.name.partition(".")
    return str(path.with_name(f"{stem}-{number:05}{dot}{endings}"))


@contextlib.contextmanager
def _packing(path: Path, compression: Compression | None) -> Iterator[BinaryIO]:
    """Yield a writer to ``path``; equal content gives equal bytes."""
    with path.open("wb") as file, compressing(file, compression) as stream:
        yield stream


def by_file(table: pa.Table) -> Iterator[tuple[str, Records]]:
    """Yield the files of a batch of the keep job, and their records."""
    source = (table.schema.metadata or {}).get(FILE_KEY)
    if source is None:
        yield from records_by_file(table)
    else:
        yield source.decode(), table


def records_by_file(table: pa.Table) -> Iterator[tuple[str, pa.LargeBinaryArray]]:
    """Yield the files of a batch of the keep job that is not of Parquet, and their records."""
    files = one_array(table["file"])
    sources = files.dictionary.to_pylist()
    numbers = files.indices.to_numpy()
    records = one_array(table["record"])
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, stop in itertools.pairwise(edges):
        if start < stop:
            yield sources[numbers[start]], records.slice(start, stop - start)


def bytes_of(records: pa.LargeBinaryArray) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the offsets of records, int64[n + 1], and their bytes, uint8[m]."""
    _, offsets, content = records.buffers()
    edges = np.frombuffer(offsets, np.int64, len(records) + 1, 8 * records.offset)
    return edges, np.frombuffer(content, np.uint8)
