"""Parts and chunks of document files, and bundles of whole files for tasks of a cluster."""

from __future__ import annotations

import itertools
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mr_dedup.errors import FormatError, UnreadableError
from mr_dedup.files.io_errors import reading, writing
from mr_dedup.formats.chunks import Chunk, grouped
from mr_dedup.formats.documents.files import DocumentFile, DocumentPart
from mr_dedup.formats.parquet_rows import open_parquet
from mr_dedup.storage.ranges import RangeSource

CHUNK_BYTES = 64 << 20
"""The largest chunk of files that can be split: the paper's chunk (section 3.3)."""

_MIN_BYTES = 2 << 20
"""Below this a task takes longer to start, 25 ms, than to read."""

_TASKS_PER_CORE = 4

_FILE_BYTES = 1 << 14
"""Bytes that are read in the time that opening a file takes, some 60 microseconds."""

_COMPRESSION_RATIO = 6
"""About how much smaller pages are compressed."""

_COPIED_BYTES = 1 << 20
"""Bytes of a file that are copied to a bundle at a time."""

BUNDLE_SUFFIX = ".documents.zip"

_DESCRIPTION = "parts.json"


@dataclass(frozen=True)
class DocumentChunk(Chunk[DocumentPart]):
    """What one map task reads of document files; ``number`` is in the order of the documents."""

    file_type = DocumentFile
    part_type = DocumentPart


def cut_into_chunks(
    files: Sequence[DocumentFile], size_bytes: int, *, split: bool = True
) -> list[DocumentChunk]:
    """Return chunks of all documents of ``files``, in order, each of about ``size_bytes``.

    Larger files are cut if they are splittable and ``split``; consecutive smaller ones share a
    chunk. A file that is damaged, or cannot be read, is one part, for its reader to report.
    """
    groups = grouped(_parts_and_costs(files, size_bytes, split), size_bytes)
    return [DocumentChunk(number, parts) for number, parts in enumerate(groups)]


def _parts_and_costs(
    files: Sequence[DocumentFile], size_bytes: int, split: bool
) -> Iterator[tuple[DocumentPart, int]]:
    for file in files:
        try:
            parts = document_parts(file, size_bytes) if split else [file.whole()]
        except (FormatError, UnreadableError):
            parts = [file.whole()]
        cost = _FILE_BYTES + _size(file) // len(parts)
        yield from ((part, cost) for part in parts)


def document_parts(file: DocumentFile, size_bytes: int) -> list[DocumentPart]:
    """Return consecutive parts of a file of about ``size_bytes``; one if it is not splittable.

    Parts of JSONL and WARC are ranges of bytes, of Parquet ranges of row groups. Raises ValueError
    for a size below 1, MrDedupError if the file cannot be read, FormatError for damaged Parquet.
    """
    if size_bytes < 1:
        raise ValueError(f"size_bytes: expected at least 1, got {size_bytes}")
    if not file.splittable:
        return [file.whole()]
    size = _size(file)
    if file.format == "parquet" and file.remote is not None and size <= size_bytes:
        # its footer need not be fetched
        return [file.whole()]
    if file.format == "parquet":
        edges = _row_group_edges(file, size_bytes)
    else:
        count = max(1, -(-size // size_bytes))
        edges = [size * number // count for number in range(count + 1)]
        if count > 1 and is_no_json_lines(file):
            return [file.whole()]
    # the last one is open: the file may have grown
    stops = [*edges[1:-1], None]
    return [DocumentPart(file, *edge) for edge in zip(edges, stops, strict=False)]


def is_no_json_lines(file: DocumentFile) -> bool:
    """Return whether a file is not JSON lines by its beginning: its reader rejects it as one."""
    from mr_dedup.formats.documents.jsonl import HEAD_BYTES, file_reason

    is_named_so = file.remote is None or file.name.lower().endswith(".json")
    if file.format != "jsonl" or file.is_standard_input or not is_named_so:
        # lines by their ending: no request to a store for each
        return False
    with reading(file.name), _source(file).open("rb", buffering=0) as content:
        return file_reason(content.read(HEAD_BYTES) or b"") is not None


def _source(file: DocumentFile) -> Path | RangeSource:
    if file.path is None and file.remote is not None:
        return RangeSource(file.remote, Path(tempfile.gettempdir()))
    assert file.path is not None
    return file.path


def _row_group_edges(file: DocumentFile, size_bytes: int) -> list[int]:
    """Return the row groups at which to cut a file into parts of about ``size_bytes``."""
    with open_parquet(_source(file), file.name) as rows:
        sizes = rows.group_bytes
    edges = [0]
    total = 0
    for number, size in enumerate(sizes):
        if total and total + size > size_bytes:
            edges.append(number)
            total = 0
        total += size
    return [*edges, len(sizes)]


def chunk_bytes(files: Sequence[DocumentFile], cores: int) -> int:
    """Return the size of chunks that use all ``cores`` and are worth a task."""
    work = sum(_FILE_BYTES + _size(file) for file in files)
    return min(CHUNK_BYTES, max(_MIN_BYTES, work // (_TASKS_PER_CORE * cores) + 1))


def total_bytes(files: Sequence[DocumentFile]) -> int:
    """Return the size of all files on disk, compressed or not; standard input counts 0."""
    return sum(map(_size, files))


def cost_bytes(chunk: DocumentChunk) -> int:
    """Return about how many bytes of files a chunk has, and what opening them takes, as bytes."""
    return sum(_FILE_BYTES + _part_bytes(part) for part in chunk.parts)


def _part_bytes(part: DocumentPart) -> int:
    size = _size(part.file)
    if part.file.format == "parquet":
        # a range of row groups, which is cut to this size
        return min(size, CHUNK_BYTES)
    return (size if part.stop is None else part.stop) - part.start


def content_bytes(files: Sequence[DocumentFile]) -> int:
    """Return about how large all files are decompressed; standard input counts 0."""
    return sum(
        _size(file) * (_COMPRESSION_RATIO if file.compression or file.format == "parquet" else 1)
        for file in files
    )


def _size(file: DocumentFile) -> int:
    if file.remote is not None:
        return file.remote.size_bytes or 0
    if file.path is None or file.unreadable:
        return 0
    assert isinstance(file.path, Path)
    try:
        return file.path.stat().st_size
    except OSError:  # its reader reports it
        return 0


def bundle(chunk: DocumentChunk, path: Path) -> None:
    """Write a chunk of whole files, with their contents, to the zip file ``path``.

    Files that cannot be read are in its description alone. Raises MrDedupError if the bundle cannot
    be written.
    """
    parts = []
    with writing(path), zipfile.ZipFile(path, "w") as archive:
        for number, part in enumerate(chunk.parts):
            unreadable = part.file.unreadable
            if unreadable is None:
                try:
                    _add(part.file, archive, str(number))
                except UnreadableError as error:
                    unreadable = error.reason
            parts.append(replace(part, file=replace(part.file, unreadable=unreadable)))
        archive.writestr(_DESCRIPTION, replace(chunk, parts=tuple(parts)).describe())


def _add(file: DocumentFile, archive: zipfile.ZipFile, name: str) -> None:
    """Add the content of a file to a bundle; UnreadableError if it cannot be read."""
    assert isinstance(file.path, Path)
    with reading(file.name):
        entry = zipfile.ZipInfo.from_file(file.path, name)
        content = file.path.open("rb")
    with content, archive.open(entry, "w") as copy:
        while True:
            with reading(file.name):
                block = content.read(_COPIED_BYTES)
            if not block:
                break
            copy.write(block)


def unbundle(path: Path, folder: Path) -> DocumentChunk:
    """Return the chunk of a bundle, its files extracted to ``folder``.

    Raises FormatError if the bundle is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            chunk = DocumentChunk.from_description(archive.read(_DESCRIPTION))
            parts = tuple(
                part
                if part.file.unreadable
                else replace(
                    part, file=replace(part.file, path=Path(archive.extract(name, folder)))
                )
                for name, part in zip(map(str, itertools.count()), chunk.parts, strict=False)
            )
    except (ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise FormatError(path, None, f"not a bundle of documents: {error}") from error
    return DocumentChunk(chunk.number, parts)
