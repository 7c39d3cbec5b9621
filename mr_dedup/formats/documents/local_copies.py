"""Copies on this machine of the remote files of a chunk, for as long as it is read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mr_dedup.errors import UnreadableError
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.documents.files import DocumentPart
from mr_dedup.storage.listing import RemoteFile
from mr_dedup.storage.ranges import RangeSource
from mr_dedup.storage.scratch import OpenScratch, Wanted


@contextlib.contextmanager
def on_this_machine(
    chunk: DocumentChunk,
    scratch: OpenScratch | None,
    next_path: Path | None = None,
    is_read_again: bool = True,
) -> Iterator[DocumentChunk]:
    """Yield a chunk whose files are all on this machine, until the block ends.

    Remote files are copied whole, of JSON lines the range of the part. Of a range of row groups of
    Parquet what is read is fetched as it is read. Files that are there no more, or forbidden, are
    without copies, for the reader to reject.

    Args:
        chunk: What a task reads.
        scratch: Where copies go; needed for remote files alone.
        next_path: The description of the chunk that is read next, which is fetched meanwhile.
        is_read_again: Whether copies are kept for another job, while there is room.

    Raises:
        MrDedupError: As ``Scratch.copies``.
    """
    wanted = [_wanted(part) for part in chunk.parts]
    if not any(wanted):
        yield chunk
        return
    assert scratch is not None
    copied = [each for each in wanted if isinstance(each, Wanted)]
    with scratch().copies_or_errors(copied, is_read_again) as copies:
        if next_path is not None:
            following = map(_wanted, DocumentChunk.read(next_path).parts)
            scratch().fetch_ahead([each for each in following if isinstance(each, Wanted)])
        paths = iter(copies)
        parts = []
        for part, each in zip(chunk.parts, wanted, strict=True):
            if each is None:
                parts.append(part)
                continue
            path: Path | RangeSource | UnreadableError
            path = next(paths) if isinstance(each, Wanted) else RangeSource(each, scratch().folder)
            if isinstance(path, UnreadableError):
                unreadable = replace(
                    part.file, path=Path(part.file.name), remote=None, unreadable=path.reason
                )
                parts.append(DocumentPart(unreadable))
                continue
            # of a copy the ends of lines are those of the whole file
            parts.append(replace(part, file=replace(part.file, path=path, remote=None)))
        yield DocumentChunk(chunk.number, tuple(parts))


def _wanted(part: DocumentPart) -> Wanted | RemoteFile | None:
    """Return what is to be copied of the file of a part; a file of which ranges are read."""
    remote = part.file.remote
    if remote is None:
        return None
    if part.start == 0 and part.stop is None:
        return Wanted(remote)
    if part.file.format == "parquet":
        return remote
    # a line begins at start if the byte before it ends one
    return Wanted(remote, max(0, part.start - 1), part.stop, b"\n")
