"""Files of the documents that are kept: one for each file that was read, in its format."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mr_dedup.formats.compression import compressing, compression_by_suffix
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.keep import FILE_KEY


class KeptDocuments:
    """Writes records below ``folder``, those of one file after the other; a context manager.

    A file is called as the one it was read from, if that is a name below a directory, else by the
    last part of that; of two that would be one, the second gets a number. ``files`` are those
    written, and how many records each has.
    """

    def __init__(self, folder: Path) -> None:
        self._counts: dict[str, int] = {}
        self._last_numbers: dict[PurePosixPath, int] = {}
        self._folder = folder
        self._open: contextlib.ExitStack = contextlib.ExitStack()
        self._source: str | None = None
        self._name = ""
        self._records: BinaryIO | None = None
        self._rows: pq.ParquetWriter | None = None

    def __enter__(self) -> KeptDocuments:
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    @property
    def files(self) -> list[tuple[str, int]]:
        """The names of the files, and how many records each has, in order."""
        return list(self._counts.items())

    def write(self, table: pa.Table) -> None:
        """Append a batch of the keep job."""
        metadata = table.schema.metadata or {}
        if FILE_KEY in metadata:
            self._write_rows(table, metadata[FILE_KEY].decode())
            return
        for source, records in records_by_file(table):
            self._write_records(source, records)

    def _write_rows(self, table: pa.Table, source: str) -> None:
        kept = {k: v for k, v in table.schema.metadata.items() if k != FILE_KEY}
        table = table.replace_schema_metadata(kept or None)
        if source != self._source or self._rows is None:
            path = self._begin(source)
            self._rows = self._open.enter_context(
                pq.ParquetWriter(path, table.schema, compression="zstd")
            )
        self._rows.write_table(table)
        self._counts[self._name] += len(table)

    def _write_records(self, source: str, records: pa.LargeBinaryArray) -> None:
        if source != self._source or self._records is None:
            path = self._begin(source)
            self._records = self._open.enter_context(_packing(path))
        self._counts[self._name] += len(records)
        edges, content = bytes_of(records)
        self._records.write(content[edges[0] : edges[-1]].data)

    def _begin(self, source: str) -> Path:
        """End the file before; return the path of the one for ``source``."""
        self._open.close()
        self._open = contextlib.ExitStack()
        self._records = self._rows = None
        self._source = source
        self._name = self._free_name(source)
        self._counts[self._name] = 0
        path = self._folder / self._name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _free_name(self, source: str) -> str:
        plain = PurePosixPath(source)
        inside = "://" not in source and not plain.is_absolute() and ".." not in plain.parts
        name = plain if inside else PurePosixPath(plain.name)
        number, free = self._last_numbers.get(name, 1), name
        while str(free) in self._counts:
            number += 1
            stem, dot, endings = name.name.partition(".")
            free = name.with_name(f"{stem}-{number}{dot}{endings}")
        self._last_numbers[name] = number
        return str(free)


@contextlib.contextmanager
def _packing(path: Path) -> Iterator[BinaryIO]:
    """Yield a writer to ``path``, compressed by its ending; equal content gives equal bytes."""
    with path.open("wb") as file, compressing(file, compression_by_suffix(path)) as stream:
        yield stream


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
