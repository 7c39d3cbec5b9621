"""Verification: all bytes of an index against checksums, and tables against each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.files.folders import Folder, FolderFile
from mr_dedup.index.folder import MANIFEST_NAME
from mr_dedup.index.loading import require_kind
from mr_dedup.index.log import open_log
from mr_dedup.index.manifest import Manifest, SegmentEntry, read_dead, read_manifest
from mr_dedup.index.segment import Segment

_TRIES = 20


def verify(folder: str | Path) -> Iterator[FormatError]:
    """Yield the damage of an index: file, position and reason; nothing if it is intact.

    Reads everything, also of an index that cannot be opened, or that another process writes to:
    then its state at one moment. Some 10 ns a fingerprint and table.

    Args:
        folder: the directory of the index.

    Raises:
        MrDedupError: there is no index.

    >>> import tempfile
    >>> from mr_dedup.index.hamming_index import HammingIndex
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     HammingIndex.create(folder).close()
    ...     list(verify(folder))
    []
    """
    with Folder(Path(folder)) as opened:
        yield from _damage(opened)


def _damage(folder: Folder) -> Iterator[FormatError]:
    for attempt in range(_TRIES):
        try:
            manifest = read_manifest(folder)
        except FormatError as error:
            yield error
            return
        found: list[FormatError] = []
        try:
            for entry in manifest.segments:
                found += _segment_damage(folder, entry, manifest)
            found += _log_damage(folder / manifest.log, manifest.named)
        except FileNotFoundError as error:
            if attempt < _TRIES - 1 and _was_replaced(folder, manifest):
                continue
            found.append(FormatError(error.filename, None, "is missing"))
        yield from found
        return


def _was_replaced(folder: Folder, manifest: Manifest) -> bool:
    try:
        return read_manifest(folder) != manifest
    except FormatError:
        return False


def _segment_damage(
    folder: Folder, entry: SegmentEntry, manifest: Manifest
) -> Iterator[FormatError]:
    try:
        segment = Segment(folder / entry.file, check=False)
        require_kind(segment, manifest)
    except FormatError as error:
        yield error
        return
    damaged = list(segment.damaged_blocks())
    yield from damaged or _contradictions(segment)
    if segment.bytes != entry.bytes:
        reason = f"is of {segment.bytes} bytes, {entry.bytes} by the {MANIFEST_NAME}"
        yield FormatError(segment.path, None, reason)
    if entry.dead is not None:
        try:
            read_dead(folder / entry.dead, segment.documents)
        except FormatError as error:
            yield error


def _contradictions(segment: Segment) -> Iterator[FormatError]:
    """Yield the contradictions of a segment whose checksums are right."""
    first = np.sort(segment.distinct())
    for table in range(1, len(segment.design.masks)):
        if not np.array_equal(np.sort(segment.distinct(table)), first):
            yield FormatError(segment.path, f"table {table}", "has other fingerprints than table 0")
    if (first[1:] == first[:-1]).any() or len(first) != segment.fingerprints:
        yield FormatError(segment.path, "table 0", "has a fingerprint twice")
    starts = segment.document_starts()
    if (starts[1:] <= starts[:-1]).any() or int(starts[-1]) != segment.documents:
        yield FormatError(segment.path, None, "has fingerprints without a document")
    if segment.description.ids is not None:
        ids = segment.ids()
        if not ids.are_text():
            yield FormatError(segment.path, "ids", "some are not UTF-8")
        found = segment.find_ids(ids, ids.hashes())
        if not np.array_equal(found, np.arange(segment.documents, dtype=np.uint64)):
            yield FormatError(segment.path, "ids", "some are not found, or twice")


def _log_damage(file: FolderFile, named: bool) -> Iterator[FormatError]:
    try:
        with open_log(file) as log:
            for _ in log.records(named):
                pass
    except FormatError as error:
        yield error
    except FileNotFoundError:
        raise
    except MrDedupError as error:
        yield FormatError(file.path, None, str(error))
