"""Kept documents of files that several tasks read: each leaves a piece, of which files are made.

So a result has the files that were read, however these were divided, and each is compressed as one.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from mr_dedup.files.io_errors import cannot_be_written
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.kept_documents import KeptDocuments, Records, by_file
from mr_dedup.jobs.kept_records import FILE_KEY

PIECES_FOLDER = "pieces"
"""The directory of pieces, beside that of documents: Arrow streams."""

_RECORD = "record"

_OF_ROWS = pa.ipc.IpcWriteOptions(compression="zstd")
"""Rows of Parquet take several times the bytes of their file; other files are divided if plain."""


class PieceDocuments:
    """Writes records of files that one task reads to ``documents``, of others to pieces.

    A context manager. ``files`` are those of which there are records, whole, and how many each has.

    Args:
        documents: Writes files.
        folder: That of pieces.
        names: What the files of pieces are called, by those that were read.
        chunk: The number of the chunk.
    """

    def __init__(
        self, documents: KeptDocuments, folder: Path, names: Mapping[str, str], chunk: int
    ) -> None:
        self._documents = documents
        self._folder = folder
        self._names = names
        self._numbers = {source: number for number, source in enumerate(names)}
        self._chunk = chunk
        self._open = contextlib.ExitStack()
        self._writers: dict[str, pa.RecordBatchStreamWriter] = {}
        self._counts: dict[str, int] = {}

    def __enter__(self) -> PieceDocuments:
        self._open.enter_context(self._documents)
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    @property
    def files(self) -> list[tuple[str, int]]:
        """The names of the files, and how many records each has here, in order."""
        return list(self._counts.items())

    def write(self, table: pa.Table) -> None:
        """Append a batch of the keep job; MrDedupError if a file cannot be written."""
        for source, records in by_file(table):
            if source in self._names:
                self._write_piece(source, records)
                self._count(self._names[source], len(records))
                continue
            self._documents.append(source, records)
            self._count(self._documents.name, len(records))

    def _count(self, name: str, records: int) -> None:
        self._counts[name] = self._counts.get(name, 0) + records

    def _write_piece(self, source: str, records: Records) -> None:
        rows = records if isinstance(records, pa.Table) else pa.table({_RECORD: records})
        path = self._folder / f"{self._numbers[source]:08}-{self._chunk:08}"
        try:
            writer = self._writers.get(source)
            if writer is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                file = self._open.enter_context(path.open("wb"))
                options = _OF_ROWS if rows is records else None
                writer = pa.ipc.new_stream(file, rows.schema, options=options)
                self._writers[source] = self._open.enter_context(writer)
            # a batch, which becomes a row group
            for batch in rows.combine_chunks().to_batches():
                writer.write_batch(batch)
        except OSError as error:
            raise cannot_be_written(path, error) from error


def join_pieces(folder: Path, documents: Path, names: Mapping[str, str], threads: int) -> int:
    """Make files of pieces, which are removed; return how many.

    Args:
        folder: That of the pieces.
        documents: The directory of the files.
        names: What the files are called, by those that were read, as of ``PieceDocuments``.
        threads: Files that are written at a time.

    Raises:
        MrDedupError: If a file cannot be written.
    """
    sources = list(names)
    pieces = sorted(folder.iterdir()) if folder.is_dir() else []
    by_source = [
        (sources[int(number)], list(paths))
        for number, paths in itertools.groupby(pieces, lambda path: path.name.partition("-")[0])
    ]

    def join(source: str, paths: list[Path]) -> None:
        with KeptDocuments(documents, names.__getitem__) as file:
            for path in paths:
                _append_piece(file.append, source, path)
                path.unlink()

    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(join, *zip(*by_source, strict=True)) if by_source else ():
            pass
    if folder.is_dir():
        folder.rmdir()
    return len(by_source)


def _append_piece(append: Callable[[str, Records], None], source: str, path: Path) -> None:
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as batches:
        is_of_rows = FILE_KEY in (batches.schema.metadata or {})
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            append(source, rows if is_of_rows else one_array(rows[_RECORD]))
