"""What an index holds, and what it takes."""

from __future__ import annotations

from dataclasses import dataclass

from mr_dedup.formats.folders import Folder
from mr_dedup.index.manifest import Manifest
from mr_dedup.index.state import State


@dataclass(frozen=True)
class SegmentStats:
    """One segment: its documents, how many of them are dead, its bytes, and its tables."""

    file: str
    documents: int
    dead: int
    bytes: int
    design: str
    tables: int


@dataclass(frozen=True)
class IndexStats:
    """What an index holds and takes; ``merge_failure`` says why the last merge failed, if so."""

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
    """Return what an index of so many ``documents`` contains, and what its files take now."""
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
    """Return the bytes of a file, 0 if it was removed meanwhile."""
    status = (folder / name).stat()
    return 0 if status is None else status.st_size
