"""Documents of this machine that are copied to where the tasks of a cluster read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from mr_dedup.engines.reporting import transferring
from mr_dedup.files.io_errors import reading
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.documents.files import DocumentFile
from mr_dedup.storage import writing
from mr_dedup.storage.listing import RemoteFile, files_below
from mr_dedup.storage.uris import endings_of, joined

_TRANSFERS = 8


def addressed(files: Iterable[DocumentFile], folder: str) -> list[DocumentFile]:
    """Return files, those of this machine with the URIs in ``folder`` that ``uploaded`` copies to.

    Of its name a copy has the endings.
    """
    return [
        file
        if file.remote is not None or file.unreadable
        else _addressed(file, joined(folder, f"{number:06}"))
        for number, file in enumerate(files)
    ]


def _addressed(file: DocumentFile, uri: str) -> DocumentFile:
    assert isinstance(file.path, Path), file.name
    with reading(file.name):
        size_bytes = file.path.stat().st_size
    return replace(file, remote=RemoteFile(uri + endings_of(file.path.name), size_bytes, ""))


def uploaded(chunks: Sequence[DocumentChunk], folder: str) -> list[DocumentChunk]:
    """Copy the files of chunks to their addresses in ``folder``; return chunks of the copies.

    Files that are there, with their sizes, are not copied again.

    Raises:
        MrDedupError: If a file cannot be read, or the store refuses.
    """
    files = {part.file.name: part.file for chunk in chunks for part in chunk.parts}
    copied = [
        file for file in files.values() if isinstance(file.path, Path) and not file.unreadable
    ]
    if copied:
        there = {file.uri: file.size_bytes for file in files_below(folder)}
        _copy([file for file in copied if there.get(_uri(file)) != _size(file)])
    return [
        replace(
            chunk,
            parts=tuple(
                part if part.file.unreadable else replace(part, file=replace(part.file, path=None))
                for part in chunk.parts
            ),
        )
        for chunk in chunks
    ]


def _copy(files: Sequence[DocumentFile]) -> None:
    def copy(file: DocumentFile) -> None:
        assert isinstance(file.path, Path)
        writing.put(file.path, _uri(file), overwrite=True)

    total_bytes = sum(map(_size, files))
    with transferring("copying", total_bytes), ThreadPoolExecutor(_TRANSFERS) as pool:
        for _ in pool.map(copy, files):
            pass


def _uri(file: DocumentFile) -> str:
    assert file.remote is not None
    return file.remote.uri


def _size(file: DocumentFile) -> int:
    assert file.remote is not None
    return file.remote.size_bytes or 0
