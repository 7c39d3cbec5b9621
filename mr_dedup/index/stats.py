"""Counts and sizes of an index."""

from __future__ import annotations

from dataclasses import dataclass

from mr_dedup.files.folders import Folder
from mr_dedup.index.manifest import Manifest
from mr_dedup.index.state import State


@dataclass(frozen=True)
class SegmentStats:
    """A segment.

    Args:
        file: its name.
        documents: the number of documents, including the dead.
        dead: the number of dead documents.
        bytes: the length of the file.
        design: the name of its table design.
        tables: the number of tables.
    """

    file: str
    documents: int
    dead: int
    bytes: int
    design: str
    tables: int


@dataclass(frozen=True)
class IndexStats:
    """An index.

    Args:
        documents: the number of documents.
        k: the largest distance of a query.
        named: whether documents have ids of their own.
        features: what the fingerprints are made from, in print, if that is known.
        segments: oldest first.
        memory_documents: the number of documents in the memory table.
        log_bytes: the length of the log.
        disk_bytes: the length of all files.
        merge_failure: why the last merge in the background failed, None if it did not.
    """

    documents: int
    k: int
    named: bool
    features: str | None
    segments: tuple[SegmentStats, ...]
    memory_documents: int
    log_bytes: int
    disk_bytes: int
    merge_failure: str | None = None


def stats_of(
    folder: Folder, manifest: Manifest, state: State, documents: int, failure: str | None
) -> IndexStats:
    """Return counts and sizes of an index of ``documents`` documents."""
    segments = tuple(
        SegmentStats(
            view.segment.path.name, view.segment.documents, view.dead_count, view.segment.bytes,
            view.segment.design.name, len(view.segment.design.masks),
        )
        for view in state.views
    )  # fmt: skip
    log_bytes = _size(folder, manifest.log)
    dead_bytes = sum(_size(folder, entry.dead) for entry in manifest.segments if entry.dead)
    disk_bytes = sum(each.bytes for each in segments) + log_bytes + dead_bytes
    return IndexStats(
        documents, manifest.k, manifest.named, manifest.features, segments,
        len(state.memory.slots), log_bytes, disk_bytes, failure,
    )  # fmt: skip


def _size(folder: Folder, name: str) -> int:
    """Return the length of a file, 0 if it was removed meanwhile."""
    status = (folder / name).stat()
    return 0 if status is None else status.st_size
