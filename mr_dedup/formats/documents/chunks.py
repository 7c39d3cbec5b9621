"""Chunks of documents: what one map task reads, files, parts of one, or several small ones.

On one machine a task is handed a description of them, some JSON, and reads them where they are.
To a cluster files of this machine go as they are, but small ones together, as a zip.
"""

from __future__ import annotations

import itertools
import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mr_dedup.errors import FormatError
from mr_dedup.formats.documents.files import DocumentFile, DocumentPart
from mr_dedup.formats.io_errors import reading

CHUNK_BYTES = 64 << 20
"""Bytes that a chunk has at most, if its files can be split: the paper's chunk (section 3.3)."""

_LEAST_BYTES = 2 << 20
"""Below this a task takes longer to start, 25 ms, than to read."""

_TASKS_A_CORE = 4

_FILE_BYTES = 1 << 14
"""Bytes that are read in the time it takes to open a file, some 60 microseconds."""

_UNPACKED = 6
"""What a page takes for each byte of it packed, about."""

DESCRIPTION_SUFFIX = ".documents.json"
BUNDLE_SUFFIX = ".documents.zip"

_DESCRIPTION = "parts.json"


@dataclass(frozen=True)
class DocumentChunk:
    """Which of the chunks it is, from 0 in the order of the documents, and its parts, in order."""

    number: int
    parts: tuple[DocumentPart, ...]

    @property
    def name(self) -> str:
        """What messages call the chunk: its first file, and how many others there are."""
        others = len(self.parts) - 1
        return self.parts[0].file.name + (f" and {others:,} more" if others else "")

    def describe(self) -> str:
        """Return the description that :func:`read_chunk` understands."""
        parts = [
            {
                "path": str(part.file.path.absolute()) if part.file.path else None,
                "name": part.file.name,
                "format": part.file.format,
                "compression": part.file.compression,
                "start": part.start,
                "stop": part.stop,
            }
            for part in self.parts
        ]
        return json.dumps({"number": self.number, "parts": parts})


def cut_into_chunks(
    files: Sequence[DocumentFile], size_bytes: int, *, split: bool = True
) -> list[DocumentChunk]:
    """Return chunks of all documents of ``files``, in order, each of about ``size_bytes``.

    Larger files are cut, where they can be and ``split``; consecutive ones that have less together
    share a chunk. A damaged file is left whole, for its reader to tell. Raises MrDedupError for a
    file that cannot be read.
    """
    chunks: list[tuple[DocumentPart, ...]] = []
    waiting: list[DocumentPart] = []
    cost = 0
    for file in files:
        parts = _parts_of(file, size_bytes) if split else [file.whole()]
        part_cost = _FILE_BYTES + _size(file) // len(parts)
        for part in parts:
            if waiting and cost + part_cost > size_bytes:
                chunks.append(tuple(waiting))
                waiting, cost = [], 0
            waiting.append(part)
            cost += part_cost
    if waiting:
        chunks.append(tuple(waiting))
    return [DocumentChunk(number, parts) for number, parts in enumerate(chunks)]


def _parts_of(file: DocumentFile, size_bytes: int) -> list[DocumentPart]:
    try:
        return file.parts(size_bytes)
    except FormatError:
        return [file.whole()]


def chunk_bytes(files: Sequence[DocumentFile], cores: int) -> int:
    """Return the size of chunks that keep ``cores`` busy with ``files``, and are worth a task."""
    work = sum(_FILE_BYTES + _size(file) for file in files)
    return min(CHUNK_BYTES, max(_LEAST_BYTES, work // (_TASKS_A_CORE * cores) + 1))


def total_bytes(files: Sequence[DocumentFile]) -> int:
    """Return the size of all files as they are, compressed or not; standard input counts 0."""
    return sum(map(_size, files))


def content_bytes(files: Sequence[DocumentFile]) -> int:
    """Return about how many bytes all files have unpacked; standard input counts 0."""
    return sum(_size(file) * (_UNPACKED if _is_packed(file) else 1) for file in files)


def _is_packed(file: DocumentFile) -> bool:
    return file.compression is not None or file.format == "parquet"


def _size(file: DocumentFile) -> int:
    if file.path is None:
        return 0
    with reading(file.name):
        return file.path.stat().st_size


def read_chunk(path: Path) -> DocumentChunk:
    """Return the chunk described in ``path``.

    Raises FormatError if the description is damaged. It is only ever read from a task's own
    input, which the runner wrote.
    """
    try:
        return _described(path.read_bytes())
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(path, None, f"is no description of a chunk: {error}") from error


def bundle(chunk: DocumentChunk, path: Path) -> None:
    """Write a chunk of whole files with all they hold to ``path``, a zip.

    Raises MrDedupError for a file that cannot be read.
    """
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(_DESCRIPTION, chunk.describe())
        for number, part in enumerate(chunk.parts):
            assert part.file.path is not None
            with reading(part.file.name):
                archive.write(part.file.path, str(number))


def unbundle(path: Path, folder: Path) -> DocumentChunk:
    """Return the chunk in a bundle, its files unpacked into ``folder``.

    Raises FormatError if the bundle is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            chunk = _described(archive.read(_DESCRIPTION))
            parts = tuple(
                replace(part, file=replace(part.file, path=Path(archive.extract(name, folder))))
                for name, part in zip(map(str, itertools.count()), chunk.parts, strict=False)
            )
    except (ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise FormatError(path, None, f"is no bundle of documents: {error}") from error
    return DocumentChunk(chunk.number, parts)


def _described(description: bytes) -> DocumentChunk:
    fields = json.loads(description)
    parts = tuple(_parts(fields["parts"]))
    if not parts:
        raise ValueError("no parts")
    return DocumentChunk(fields["number"], parts)


def _parts(described: Sequence[dict[str, Any]]) -> Iterator[DocumentPart]:
    for part in described:
        path = None if part["path"] is None else Path(part["path"])
        file = DocumentFile(path, part["name"], part["format"], part["compression"])
        yield DocumentPart(file, part["start"], part["stop"])
